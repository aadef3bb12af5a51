"""Number a receipt by its place in the ledger: `R1-1-42` is entry 42 of epoch 1 of till R1.

People type it, so it is short; it only finds an order, whose id stays the key of everything (PROTOCOL 3.4).
"""

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"(\S{1,64})-([0-9]{1,9})-([0-9]{1,15})(?:\s+[0-9a-fA-F]{1,64})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReceiptNumber:
    """Name the entry of a sale: the till, the epoch of its ledger, the number in it (from 1)."""

    till_id: str
    epoch: int
    seq: int

    def __str__(self) -> str:
        """Write the number as it stands on the receipt."""
        return f"{self.till_id}-{self.epoch}-{self.seq}"

    @classmethod
    def read(cls, text: str) -> "ReceiptNumber | None":
        """Read a typed number, with or without the mark behind it; None where it is something else."""
        found = _NUMBER.fullmatch(text.strip())
        return cls(found.group(1), int(found.group(2)), int(found.group(3))) if found else None

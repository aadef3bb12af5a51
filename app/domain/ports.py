"""Name what the outside must give to till and server alike: a clock, a source of ids, and who watches long work.

Definitions only. The real ones are in `app/services/system.py` and `server/services/system.py`; scenarios and tests
bring their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

Probe = Callable[[str], None]
"""Pass a named point at which a test may let the process die; does nothing in daily use."""


class Step(StrEnum):
    """List the work at a till that may take minutes."""

    READ = "read"
    """Entries of a damaged ledger and its second copy."""
    FETCH = "fetch"
    """What the server published since, by its places in the feed."""
    COMPARE = "compare"
    """Entries of which the server is asked whether it has them."""
    CARRY = "carry"
    """Entries that the server lacks, into a new epoch."""
    SEND = "send"
    """Entries that the server has not acknowledged."""


Progress = Callable[[Step, int, int], None]
"""Tell how much of a step is done, and of how much: 0 = nobody knows. It shows, and decides nothing."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Name a step that is under way: `done` of `total`, and more to come."""

    step: Step
    done: int
    total: int


def no_progress(step: Step, done: int, total: int) -> None:
    """Show nothing."""


class Clock(Protocol):
    """Tell the time."""

    def now(self) -> datetime:
        """Return the instant in UTC, aware."""
        ...


class Ids(Protocol):
    """Make what must never come twice."""

    def new(self) -> str:
        """Return an id of 32 hex digits that sorts by the time of its making (UUIDv7, RFC 9562 section 5.7)."""
        ...

    def digits(self, count: int) -> str:
        """Return `count` decimal digits, each equally likely, from a cryptographic source."""
        ...

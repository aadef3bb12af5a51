"""Say how an entry was judged: a fact is never refused, but it may be in conflict, and that a person sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from server.services import findings
from server.services.rights import Attempt
from sync import protocol


@dataclass(frozen=True, slots=True)
class Told:
    """Say who told an entry, and where it stands in the ledger of that till; `carried`: it is of an earlier epoch.

    `restoring`: the server came back from a backup, and takes its tills' word for what that lacks.
    """

    till_id: str
    epoch: int
    seq: int
    entry_id: str
    kind: str
    now: datetime
    carried: bool = False
    restoring: bool = False

    def attempt(self, body: Any) -> Attempt:
        """Return the attempt that the entry's body speaks of."""
        return Attempt(
            body["order"],
            body["attempt"],
            self.now,
            till_id=self.till_id,
            till_at=body["at"],
            operator=body["operator"] or None,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judge one entry; `code` and `finding` ("kind key") are "" where it is in order."""

    result: str = protocol.OK
    code: str = ""
    finding: str = ""


IN_ORDER = Verdict()
UNJUDGED = "quarantined"
"""The finding of an entry that could not be read or judged; its key is the entry's place."""

NOT_BOOKED = frozenset({"late_payment", "duplicate_order", "duplicate_entry", "refund_mismatch"})
"""Codes of entries that tell of money which is not in the books: a person decides what becomes of it."""

MENDED_BY_OTHERS = frozenset({"refund_mismatch", "unknown_claim", "home_mismatch", "lease_mismatch", "unknown_sku"})
MENDED_BY_OTHERS |= {"late_use", "overdraft", "double_redemption", "invalid_redemption"}
"""Codes of entries that lack what another entry, or headquarters, may tell: an order, a coupon, a home, an amount."""


def detail_of(verdict: Verdict) -> str:
    """Return what is kept of a verdict beside its result, "" where it is in order."""
    return f"{verdict.code} {verdict.finding}".strip()


def conflict(
    conn: Connection, told: Told, code: str, *, key: str, amount_minor: int = 0, detail: Mapping[str, Any]
) -> Verdict:
    """Open the finding `code` about this entry and return the verdict that names it."""
    return _found(conn, told, protocol.CONFLICT, code=code, key=key, amount_minor=amount_minor, detail=detail)


def quarantine(conn: Connection, told: Told, reason: str) -> Verdict:
    """Park an entry that cannot be judged: it is kept, and judged again later (`services/quarantine.py`)."""
    key = f"{told.till_id}/{told.epoch}/{told.seq}"
    detail = {"reason": reason[:500]}
    return _found(conn, told, protocol.QUARANTINED, code=UNJUDGED, key=key, amount_minor=0, detail=detail)


def _found(
    conn: Connection, told: Told, result: str, *, code: str, key: str, amount_minor: int, detail: Mapping[str, Any]
) -> Verdict:
    source = {
        "till": told.till_id,
        "epoch": told.epoch,
        "seq": told.seq,
        "entry": told.entry_id,
        "entry_kind": told.kind,
    }
    findings.open_finding(
        conn, kind=code, key=key, amount_minor=amount_minor, detail={**source, **detail}, now=told.now
    )
    return Verdict(result, code, f"{code} {key}")

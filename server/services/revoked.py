"""Keep what a revoked till tells: it is taken whole and booked by a person's word alone (PROTOCOL 7.1).

Entries carry no signature of their own, so nobody can tell what was sold before the revocation from what somebody made
up who has the machine: all of it waits, in one finding, with what it says to have sold and paid back. Such a till gets
no right, no record and no answer but where its ledger stands. Whoever has its key can fill `ENTRIES_MAX` and
`BYTES_MAX` a revocation; what is beyond is refused like all else, and stays at the till until that enrols anew.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from app.domain.ledger import Entry
from app.domain.money import MAX_MINOR
from app.domain.states import FindingState
from server.db.schema import finding, ledger_entry, shut_till
from server.services import devices, findings
from server.services.context import Context
from server.services.entries import paid_minor
from server.services.verdicts import Told, Verdict, detail_of
from sync import protocol

KIND = "revoked_till"
ENTRIES_MAX = 50_000
"""More than a hundred days of 400 sales."""
BYTES_MAX = 128 * 1024 * 1024
"""Of bodies; an ordinary sale has some 2 KiB."""


def is_held(context: Context) -> bool:
    """Tell whether what is told now waits for a person."""
    return context.actor.access == devices.REVOKED


def has_room(conn: Connection, till_id: str, entries: Sequence[Entry]) -> bool:
    """Tell whether so much more may be kept of a till since it was revoked.

    Nothing of one that has enrolled anew since it was let in to tell: it tells again, as one that may speak.
    """
    since, told_of = _of_revocation(conn, till_id)
    if since is None:
        return False
    told = [row.detail for row in told_of]
    count: int = sum(each["entries"] for each in told) + len(entries)
    size: int = sum(each["bytes"] for each in told) + sum(len(entry.body) for entry in entries)
    return count <= ENTRIES_MAX and size <= BYTES_MAX


def hold(conn: Connection, context: Context, told: Sequence[tuple[Told, Entry, Any]]) -> Verdict:
    """Return the verdict of entries of one batch, in order, and count them in the finding of their revocation.

    Each comes with its body, None where it cannot be read. One that is decided gets no more: the next begins.
    """
    (first, _, _), (last, _, _) = told[0], told[-1]
    since, told_of = _of_revocation(conn, first.till_id)
    same = [row for row in told_of if row.state == FindingState.OPEN and row.detail["epoch"] == first.epoch]
    before = same[0].detail if same else {}
    sold = [_minor(each, body) for each, _, body in told if each.kind != protocol.REFUND]
    paid_back = [_minor(each, body) for each, _, body in told if each.kind == protocol.REFUND]
    detail = {
        "till": first.till_id,
        "epoch": first.epoch,
        "revoked_at": since,
        "first": before.get("first", first.seq),
        "last": last.seq,
        "entries": before.get("entries", 0) + len(told),
        "bytes": before.get("bytes", 0) + sum(len(entry.body) for _, entry, _ in told),
        "sold_minor": min(MAX_MINOR, before.get("sold_minor", 0) + sum(sold)),
        "paid_back_minor": min(MAX_MINOR, before.get("paid_back_minor", 0) + sum(paid_back)),
    }
    key = same[0].key if same else f"{first.till_id}/{first.epoch}/{first.seq}"
    amount_minor = min(MAX_MINOR, detail["sold_minor"] + detail["paid_back_minor"])
    if same:
        conn.execute(update(finding).where(finding.c.id == same[0].id).values(detail=detail, amount_minor=amount_minor))
    else:
        findings.open_finding(conn, kind=KIND, key=key, amount_minor=amount_minor, detail=detail, now=context.now)
    return _verdict(key)


def held(conn: Connection, row: Row[Any], *, limit: int) -> tuple[list[Row[Any]], int]:
    """Return the first entries that a finding holds, in the order of the ledger, and how many it holds in all."""
    its = (
        ledger_entry.c.till_id == row.detail["till"],
        ledger_entry.c.epoch == row.detail["epoch"],
        ledger_entry.c.seq.between(row.detail["first"], row.detail["last"]),
        ledger_entry.c.result == protocol.QUARANTINED,
        ledger_entry.c.detail == detail_of(_verdict(row.key)),
    )
    count = conn.execute(select(func.count()).select_from(ledger_entry).where(*its)).scalar_one()
    return list(conn.execute(select(ledger_entry).where(*its).order_by(ledger_entry.c.seq).limit(limit))), count


def _verdict(key: str) -> Verdict:
    return Verdict(protocol.QUARANTINED, KIND, f"{KIND} {key}")


def _of_revocation(conn: Connection, till_id: str) -> tuple[str | None, list[Row[Any]]]:
    """Return when the till was revoked, and the findings of what it has told since; None = it is no more."""
    since_at = conn.execute(select(shut_till.c.since_at).where(shut_till.c.till_id == till_id)).scalar_one_or_none()
    if since_at is None:
        return None, []
    since = since_at.isoformat()
    its = (finding.c.kind == KIND, finding.c.key.startswith(f"{till_id}/", autoescape=True))
    rows = conn.execute(select(finding).where(*its))
    return since, [row for row in rows if (row.detail["till"], row.detail["revoked_at"]) == (till_id, since)]


def _minor(told: Told, body: Any) -> int:
    """Return how much money an entry speaks of, 0 where it cannot be read."""
    if body is None:
        return 0
    match told.kind:
        case protocol.SALE | protocol.LATE_PAYMENT:
            return abs(paid_minor(body["tenders"]))
        case protocol.REFUND:
            return int(body["body"]["amount_minor"])
    return 0

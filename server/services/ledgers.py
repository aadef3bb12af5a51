"""Hold a till's ledger against the books: known, going on, broken, or another than ours (PROTOCOL 3.2, 3.3)."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.ledger import Entry, genesis, verifies
from server.db.schema import ledger_entry, till
from server.services import findings
from server.services.context import Context
from sync import protocol
from sync.protocol import EntryResult, Mark, Push, PushedEntry

GAP, FORK, EPOCH, ANNOUNCE = "GAP", "FORK", "EPOCH", "ANNOUNCE"
"""Why a batch, or the rest of it, is not taken in (`sync.protocol.PushAnswer`); FORK is a till's state too."""
EVIDENCE_MAX = 20
"""Entries of each side that a fork shows, from where they part."""
_OTHER_PLACE = "\n"
"""Divides an entry's id from its place where the same id stands in another place of the books already."""


def mark_of(row: Row[Any]) -> Mark:
    """Return the place up to which the till's ledger is in the books."""
    return (row.acked_seq, row.acked_hash.hex() if row.acked_hash else "")


def tail_of(row: Row[Any]) -> Mark:
    """Return the end of its ledger that the till announced last."""
    return (row.tail_seq, row.tail_hash.hex() if row.tail_hash else "")


# ------------------------------------------------------------------ the chain


def recognise(conn: Connection, row: Row[Any], repeats: Sequence[PushedEntry]) -> list[EntryResult] | None:
    """Answer entries that are in the books: DUP, or the first verdict where it was none; None = another entry."""
    if not repeats:
        return []
    stored = conn.execute(
        select(ledger_entry.c.seq, ledger_entry.c.hash, ledger_entry.c.result, ledger_entry.c.detail).where(
            ledger_entry.c.till_id == row.id,
            ledger_entry.c.epoch == row.epoch,
            ledger_entry.c.seq.in_([entry.seq for entry in repeats]),
        )
    )
    by_seq = {each.seq: each for each in stored}
    results = []
    for entry in repeats:
        first = by_seq.get(entry.seq)
        if first is None or first.hash.hex() != entry.hash:
            return None
        code, _, finding = first.detail.partition(" ")
        result = protocol.DUPLICATE if first.result == protocol.OK else first.result
        results.append(EntryResult(seq=entry.seq, result=result, code=code, finding=finding))
    return results


def compare_tail(row: Row[Any], message: Push) -> str:
    """Compare the announced tail, number and hash, with what the batch says of the same place, before any of it counts.

    A disk that was rolled back and has sold past its old end would else push the evidence under the books: what it
    sends continues the chain at `acked` and is sound by itself. FORK: it says another hash of that place; ANNOUNCE: it
    says nothing of it; "" = it goes on from there.
    """
    tail = tail_of(row)
    if tail[0] <= row.acked_seq or all(entry.seq <= row.acked_seq for entry in message.entries):
        return ""
    told = {entry.seq: entry.hash for entry in message.entries} | dict([message.last])
    if tail[0] not in told:
        return ANNOUNCE
    return "" if told[tail[0]] == tail[1] else FORK


def open_fork(conn: Connection, context: Context, row: Row[Any], *, message: Push) -> None:
    """Stop taking from a till whose ledger is not the one that we hold; the entries of both are kept as evidence."""
    ours = _stored(conn, row, [entry.seq for entry in message.entries])
    apart = [entry for entry in message.entries if entry.seq not in ours or ours[entry.seq].hash != entry.hash]
    shown = apart[:EVIDENCE_MAX]
    strand(
        conn,
        context,
        row,
        kind="ledger_fork",
        told={
            "last": list(message.last),
            "entries": [entry.model_dump() for entry in shown],
            "ours": [ours[entry.seq].model_dump() for entry in shown if entry.seq in ours],
        },
    )


def _stored(conn: Connection, row: Row[Any], numbers: Sequence[int]) -> dict[int, PushedEntry]:
    """Return what the books hold under these numbers, as it came."""
    entry = ledger_entry.c
    rows = conn.execute(
        select(ledger_entry).where(entry.till_id == row.id, entry.epoch == row.epoch, entry.seq.in_(numbers))
    )
    stored = [
        Entry(each.epoch, each.seq, true_entry_id(each.entry_id), each.kind, each.schema, each.body, b"", each.hash)
        for each in rows
    ]
    return {entry.seq: PushedEntry.of(entry) for entry in stored}


def ledger_here(conn: Connection, row: Row[Any], *, at: int) -> dict[str, Any]:
    """Show what is here of a till's ledger: where it ends, what end was announced, and the entry of that number."""
    ends = {"acked": list(mark_of(row)), "tail": list(tail_of(row))}
    return {**ends, "entries": [entry.model_dump() for entry in _stored(conn, row, [at]).values()]}


def strand(conn: Connection, context: Context, row: Row[Any], *, kind: str, told: Mapping[str, Any]) -> None:
    """Take nothing more from a till whose ledger is not the one that is here, and open a finding with the evidence."""
    conn.execute(update(till).where(till.c.id == row.id).values(state=FORK, last_seen_at=context.now))
    here = {"till": row.id, "epoch": row.epoch, "acked": list(mark_of(row)), "tail": list(tail_of(row))}
    findings.open_finding(
        conn, kind=kind, key=f"{row.id}/{row.epoch}", amount_minor=0, detail={**here, **told}, now=context.now
    )


def follow(row: Row[Any], pushed: Sequence[PushedEntry]) -> tuple[list[Entry], PushedEntry | None]:
    """Return the entries that continue the chain at `acked`, and the first whose hash does not (None = none such)."""
    seq, before = row.acked_seq, row.acked_hash or genesis(row.id, row.epoch)
    fresh: list[Entry] = []
    for each in pushed:
        if each.seq != seq + 1:
            return fresh, None
        try:
            entry = each.entry(row.epoch, before)
        except ValueError:
            return fresh, each
        if not verifies(entry, row.id):
            return fresh, each
        fresh.append(entry)
        seq, before = entry.seq, entry.hash
    return fresh, None


def open_broken(conn: Connection, context: Context, row: Row[Any], *, entry: PushedEntry) -> None:
    """Open the finding about an entry that goes on from `acked` and whose hash is not its own."""
    findings.open_finding(
        conn,
        kind="broken_chain",
        key=f"{row.id}/{row.epoch}/{entry.seq}",
        amount_minor=0,
        detail={
            "till": row.id,
            "epoch": row.epoch,
            "seq": entry.seq,
            "entry": entry.model_dump(),
            "here": ledger_here(conn, row, at=entry.seq - 1),
        },
        now=context.now,
    )


# ------------------------------------------------------------------ an id that stands twice


def id_elsewhere(till_id: str, entry: Entry) -> str:
    """Return the id under which an entry is kept whose own stands in another place of the books."""
    return f"{entry.entry_id}{_OTHER_PLACE}{till_id}/{entry.epoch}/{entry.seq}"


def is_elsewhere(stored: str) -> bool:
    """Tell whether the same action stands in the books in another place, and only there."""
    return _OTHER_PLACE in stored


def true_entry_id(stored: str) -> str:
    """Return the id that an entry was given by its till, and by which it was hashed."""
    return stored.partition(_OTHER_PLACE)[0]

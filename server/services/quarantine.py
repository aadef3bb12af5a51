"""Judge again what could not be read or judged when it came (PROTOCOL 3.3, 3.8).

What an entry lacks is a newer version that knows its kind, its schema, or no longer has the bug that it met. So a job
tries while nobody has decided about the finding: who has booked it by hand since does not see it booked again. A person
may have it tried at any time before the finding is closed.
"""

from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.ledger import CARRY, carried
from app.domain.refusals import unknown
from app.domain.states import FindingState
from server.db.schema import finding, ledger_entry
from server.services import findings, ingest, revoked
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.entries import read_body
from server.services.findings import FINDING, Word
from server.services.verdicts import UNJUDGED, detail_of
from sync.protocol import OK, QUARANTINED, REFUND

HELD_AT_ONCE = 500
"""Entries of a revoked till that are judged in one transaction: others write too."""


def legible(conn: Connection, _ctx: Context, *, above: int, limit: int) -> tuple[list[int], int | None]:
    """Return undecided findings of entries that this version can read, in the order in which they came.

    Looks at `limit` findings whose number is above `above`; tells the last one seen too, None = there is no more.
    """
    wanted = (finding.c.kind == UNJUDGED, finding.c.state == FindingState.OPEN, finding.c.id > above)
    rows = conn.execute(select(finding).where(*wanted).order_by(finding.c.id).limit(limit)).all()
    stored = ((row.id, _entry(conn, row)) for row in rows)
    found = [finding_id for finding_id, entry in stored if entry is not None and _reads(entry)]
    return found, rows[-1].id if len(rows) == limit else None


def is_refund(conn: Connection, finding_id: int) -> bool:
    """Tell whether the entry of a finding is a refund, carried or not."""
    detail = conn.execute(select(finding.c.detail).where(finding.c.id == finding_id)).scalar_one()
    return bool(detail.get("entry_kind") == REFUND)


def try_again(conn: Connection, ctx: Context, *, finding_id: int) -> bool:
    """Judge the entry of an undecided finding again; tells whether it left quarantine.

    One that waits for what other tills tell after a restore leaves it as a conflict once `ctx.all_told`.
    """
    row = conn.execute(select(finding).where(finding.c.id == finding_id)).one()
    entry = _entry(conn, row) if row.state == FindingState.OPEN else None
    return entry is not None and _judge(conn, ctx, row, entry=entry, reason="judged again") is not None


def judge(conn: Connection, ctx: Context, finding_id: int, *, word: Word) -> Answer:
    """Judge the entry of a finding again because a person asks; answers with the finding, and `result` and `code`.

    An entry that still cannot be judged stays where it is, and so does its finding. `left` counts what is to be judged
    yet: of what a revoked till told, the first entries are judged at once, and the finding closes with the last.
    """
    row = conn.execute(select(finding).where(finding.c.id == finding_id)).one_or_none()
    if row is None:
        return refused(unknown(FINDING, str(finding_id)))
    reason = f"judged again: {word.reason}"
    if row.kind == revoked.KIND and row.state != FindingState.CLOSED:
        return _judge_held(conn, ctx, row, reason=reason, by=findings.signed(ctx, word))
    entry = _entry(conn, row) if row.kind == UNJUDGED and row.state != FindingState.CLOSED else None
    if entry is None:
        return findings.impossible(row, "judge")
    verdict = _judge(conn, ctx, row, entry=entry, reason=reason, by=findings.signed(ctx, word))
    told = ("", "") if verdict is None else verdict
    shown = findings.shown(conn, ctx, finding_id)
    return ok(**{**shown, "result": told[0] or QUARANTINED, "code": told[1], "left": int(verdict is None)})


def _judge_held(conn: Connection, ctx: Context, row: Row[Any], *, reason: str, by: str) -> Answer:
    """Judge what a revoked till told, as if it had come from one that may speak.

    What still cannot be read or judged has a finding of its own then, as if it had.
    """
    entries, count = revoked.held(conn, row, limit=HELD_AT_ONCE)
    for entry in entries:
        verdict = ingest.judge_again(conn, ctx, entry)
        if verdict.result == QUARANTINED:
            place = (ledger_entry.c.till_id, ledger_entry.c.epoch, ledger_entry.c.seq)
            its = [column == getattr(entry, column.name) for column in place]
            conn.execute(update(ledger_entry).where(*its).values(detail=detail_of(verdict)))
    left = count - len(entries)
    if not left:
        findings.close_findings(conn, row.kind, [row.key], now=ctx.now, reason=reason, by=by)
    shown = findings.shown(conn, ctx, row.id)
    return ok(**{**shown, "result": QUARANTINED if left else OK, "code": "", "left": left})


def _judge(
    conn: Connection, ctx: Context, row: Row[Any], *, entry: Row[Any], reason: str, by: str | None = None
) -> tuple[str, str] | None:
    """Judge, and close the finding; returns result and code, None where it stays in quarantine."""
    verdict = ingest.judge_again(conn, ctx, entry)
    if verdict.result == QUARANTINED:
        return None
    findings.close_findings(conn, row.kind, [row.key], now=ctx.now, reason=reason, by=by)
    return verdict.result, verdict.code


def _entry(conn: Connection, row: Row[Any]) -> Row[Any] | None:
    """Return the entry that a finding is about, as long as it is in quarantine."""
    place = ("till", "epoch", "seq")
    till_id, epoch, seq = (row.detail.get(name) for name in place)
    its = (ledger_entry.c.till_id == till_id, ledger_entry.c.epoch == epoch, ledger_entry.c.seq == seq)
    return conn.execute(select(ledger_entry).where(*its, ledger_entry.c.result == QUARANTINED)).one_or_none()


def _reads(entry: Row[Any]) -> bool:
    """Tell whether this version reads an entry, and what it carries."""
    try:
        body = read_body(entry.kind, entry.schema, entry.body)
        if entry.kind == CARRY:
            inner = carried(body, entry.till_id)
            read_body(inner.kind, inner.schema, inner.body)
    except ValueError:
        return False
    return True

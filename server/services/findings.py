"""Keep what a person must look at: facts that no rule can put right by itself.

A finding is opened with the evidence of both sides, decided by somebody (who, what, why), and closed when that was
done; or its cause goes away by itself. Nothing is deleted. Who did what and when stands in its history too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from app.domain.money import MAX_MINOR
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import FindingEvent, FindingState
from resources.lifecycles import load
from server.db.portable import upsert
from server.db.schema import finding
from server.services import alerts, history
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.remedies import remedy

FINDING = "finding"
DECISIONS = ("remedy", "accept", "other")
"""What may be decided: what is proposed, to leave it as it is, or what the reason says."""


def open_finding(
    conn: Connection, *, kind: str, key: str, amount_minor: int, detail: Mapping[str, Any], now: datetime
) -> None:
    """Open a finding and have somebody told of it; one of the same kind and key, open or not, stays as it is.

    An amount beyond MAX_MINOR is kept as that: no column holds what a rule may promise a thousand times.
    """
    opened = conn.execute(
        upsert(conn, finding)
        .values(kind=kind, key=key, amount_minor=min(amount_minor, MAX_MINOR), detail=dict(detail), opened_at=now)
        .on_conflict_do_nothing(index_elements=["kind", "key"])
        .returning(finding.c.id)
    ).one_or_none()
    if opened is not None:
        alerts.finding_opened(conn, kind, now=now)


GONE = "the cause is gone"


def close_findings(
    conn: Connection, kind: str, keys: Collection[str], *, now: datetime, reason: str = GONE, by: str | None = None
) -> int:
    """Close findings whose cause is gone (somebody looked again); returns how many. They stay to be read.

    `by` is who made it go, None where it went by itself.
    """
    if not keys:
        return 0
    live = (FindingState.OPEN.value, FindingState.DECIDED.value)
    wanted = (finding.c.kind == kind, finding.c.key.in_(keys), finding.c.state.in_(live))
    rows = conn.execute(select(finding).where(*wanted)).all()
    conn.execute(update(finding).where(*wanted).values(state=FindingState.CLOSED, closed_at=now))
    gone = [_event(row, FindingEvent.RESOLVE, FindingState.CLOSED, reason=reason, operator=by) for row in rows]
    history.record(conn, gone, now)
    return len(rows)


def open_again(
    conn: Connection, *, kind: str, key: str, amount_minor: int, detail: Mapping[str, Any], now: datetime
) -> None:
    """Open a finding that was closed because its cause was gone, and that is back; what a person closed stays so."""
    closed = (finding.c.kind == kind, finding.c.key == key, finding.c.state == FindingState.CLOSED)
    row = conn.execute(select(finding).where(*closed)).one_or_none()
    if row is None or not _went_by_itself(conn, row):
        return
    fresh = {"amount_minor": min(amount_minor, MAX_MINOR), "detail": dict(detail), "opened_at": now, "closed_at": None}
    undecided = {"decision": "", "decided_by": "", "decided_at": None}
    conn.execute(update(finding).where(*closed).values(state=FindingState.OPEN, **fresh, **undecided))
    back = _event(row, FindingEvent.RECUR, FindingState.OPEN, reason="the cause is back")
    history.record(conn, [back], now)
    alerts.finding_opened(conn, kind, now=now)


def _went_by_itself(conn: Connection, row: Row[Any]) -> bool:
    done = [each["event"] for each in history.of(conn, FINDING, str(row.id)) if not each["refused"]]
    return done[-1:] == [FindingEvent.RESOLVE]


# ------------------------------------------------------------------ deciding


@dataclass(frozen=True, slots=True)
class Word:
    """Hold what a person says of a finding: `by` is that person's name, `decision` "" where it is to be closed."""

    by: str
    reason: str
    decision: str = ""


def decide(conn: Connection, ctx: Context, finding_id: int, *, word: Word) -> Answer:
    """Note what somebody decided; the same decision by the same person again changes nothing."""
    row = _find(conn, finding_id)
    if row is None:
        return refused(unknown(FINDING, str(finding_id)))
    by = signed(ctx, word)
    if (row.state, row.decision, row.decided_by) == (FindingState.DECIDED, word.decision, by):
        return ok(**_view(row), currency=ctx.chain.currency.code)
    values = {"decision": word.decision, "decided_by": by, "decided_at": ctx.now}
    return _step(conn, ctx, row, event=FindingEvent.DECIDE, word=word, values=values)


def close(conn: Connection, ctx: Context, finding_id: int, *, word: Word) -> Answer:
    """Close a finding that was decided: it is done. One that is closed stays so."""
    row = _find(conn, finding_id)
    if row is None:
        return refused(unknown(FINDING, str(finding_id)))
    if row.state == FindingState.CLOSED:
        return ok(**_view(row), currency=ctx.chain.currency.code)
    return _step(conn, ctx, row, event=FindingEvent.CLOSE, word=word, values={"closed_at": ctx.now})


def signed(ctx: Context, word: Word) -> str:
    """Return who says so as it is kept: the person, and the key that spoke."""
    return f"{word.by} ({ctx.actor.scope}:{ctx.actor.key_id})"


def impossible(row: Row[Any], event: str) -> Answer:
    """Refuse what cannot be done with a finding as it stands."""
    facts = {"finding": row.id, "state": row.state, "event": event}
    return refused(refuse(RefusalCode.ILLEGAL_TRANSITION, **facts))


def _step(
    conn: Connection, ctx: Context, row: Row[Any], *, event: FindingEvent, word: Word, values: Mapping[str, Any]
) -> Answer:
    step = load(FINDING).step(row.state, event)
    moved = update(finding).where(finding.c.id == row.id, finding.c.state == row.state)
    if isinstance(step, Refusal) or conn.execute(moved.values({**values, "state": step.to})).rowcount != 1:
        told = _event(row, event, None, reason=word.reason, operator=signed(ctx, word))
        history.record(conn, [told], ctx.now)
        return impossible(row, event.value)
    reason = f"{word.decision}: {word.reason}" if word.decision else word.reason
    history.record(conn, [_event(row, event, step.to, reason=reason, operator=signed(ctx, word))], ctx.now)
    after = _find(conn, row.id)
    assert after is not None, "nothing is deleted"
    return ok(**_view(after), currency=ctx.chain.currency.code)


def _event(
    row: Row[Any], event: FindingEvent, to: str | None, *, reason: str, operator: str | None = None
) -> history.Event:
    return history.Event(FINDING, str(row.id), event, row.state, to, reason=reason, operator=operator)


# ------------------------------------------------------------------ reading


def open_keys(conn: Connection, kind: str) -> set[str]:
    """Return the keys of the findings of a kind that are not closed."""
    live = finding.c.state != FindingState.CLOSED
    return set(conn.execute(select(finding.c.key).where(finding.c.kind == kind, live)).scalars())


def open_counts(conn: Connection) -> dict[str, int]:
    """Count the open findings of each kind that has any."""
    rows = conn.execute(select(finding.c.kind, func.count()).where(finding.c.state == "OPEN").group_by(finding.c.kind))
    return {row[0]: row[1] for row in rows}


def newest(conn: Connection, *, limit: int, state: str | None = None, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the newest findings as JSON data, those in a state or of a kind where they are named."""
    wanted = [column == value for column, value in ((finding.c.state, state), (finding.c.kind, kind)) if value]
    rows = conn.execute(select(finding).where(*wanted).order_by(finding.c.id.desc()).limit(limit))
    return [_view(row) for row in rows]


def shown(conn: Connection, ctx: Context, finding_id: int) -> Answer:
    """Show one finding with its history, and the currency of its amount."""
    row = _find(conn, finding_id)
    if row is None:
        return refused(unknown(FINDING, str(finding_id)))
    told = history.of(conn, FINDING, str(finding_id))
    return ok(**_view(row), currency=ctx.chain.currency.code, history=told)


def _find(conn: Connection, finding_id: int) -> Row[Any] | None:
    return conn.execute(select(finding).where(finding.c.id == finding_id)).one_or_none()


def _view(row: Row[Any]) -> dict[str, Any]:
    """Show a finding; `amount_minor` is money where `in_money` says so, else a count of what it is about."""
    what = remedy(row.kind)
    return {
        "id": row.id,
        "kind": row.kind,
        "key": row.key,
        "amount_minor": row.amount_minor,
        "in_money": what.in_money,
        "loser": what.loser,
        "remedy": what.proposal,
        "detail": row.detail,
        "state": row.state,
        "opened_at": row.opened_at.isoformat(),
        "decision": row.decision,
        "decided_by": row.decided_by,
        "decided_at": row.decided_at.isoformat() if row.decided_at else None,
        "closed_at": row.closed_at.isoformat() if row.closed_at else None,
    }

"""Come back from a backup: let the tills tell again what it lacks, before anybody is given anything (PROTOCOL 3.9).

Until each till has told, what looks free may be used: so nothing is granted, lent, held, moved home or refunded, and
whoever asks is told `busy`. Facts are taken as ever; one that lacks what another till may tell waits in quarantine, and
is judged when all have told, before the restore ends (`jobs/restored.py`). A till that will never tell is written off,
by name.
"""

from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.refusals import unknown
from app.domain.states import FindingState
from server.db import schema
from server.services import findings, history
from server.services.adopting import UNTOLD_HOME
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.verdicts import UNJUDGED
from sync.protocol import Hello

TILL = "till"
_LEAST = 10**9


def begin(conn: Connection, ctx: Context, *, reason: str) -> Answer:
    """Say that this database came back from a backup; answers with the tills that are waited for.

    Every restore gets an incarnation of its own, also the second from one backup: so the tills notice.
    """
    chain, till = schema.chain, schema.till
    fresh = _LEAST + int(ctx.ids.digits(9))
    assert fresh != ctx.chain.incarnation, "drawn at random from a thousand millions"
    conn.execute(update(chain).values(incarnation=fresh, restored_at=ctx.now))
    conn.execute(update(till).values(incarnation=0))
    _tell(conn, ctx, "", event="restored", reason=reason)
    return status(conn, ctx)


def status(conn: Connection, _ctx: Context) -> Answer:
    """Tell whether the restore still goes on, and which tills have not told yet."""
    restored_at = conn.execute(select(schema.chain.c.restored_at)).scalar_one()
    return ok(restoring=restored_at is not None, waiting_for=[] if restored_at is None else _missing(conn))


def write_off(conn: Connection, ctx: Context, till_id: str, *, reason: str) -> Answer:
    """Wait no longer for a till: what it has and the backup lacks may be given out once more. By name, for a reason."""
    till = schema.till
    done = conn.execute(update(till).where(till.c.id == till_id).values(incarnation=ctx.chain.incarnation))
    if done.rowcount != 1:
        return refused(unknown("till", till_id))
    _tell(conn, ctx, till_id, event="written_off", reason=reason)
    _end_when_all_told(conn, ctx)
    return status(conn, ctx)


def reported(conn: Connection, ctx: Context, row: Row[Any], *, message: Hello) -> None:
    """Note a till that has told everything to this incarnation: what it knows to be here is all that it has."""
    told = message.incarnation == ctx.chain.incarnation and message.last[0] == row.acked_seq
    if not ctx.chain.restoring or not told or row.incarnation == ctx.chain.incarnation:
        return
    till = schema.till
    conn.execute(update(till).where(till.c.id == row.id).values(incarnation=ctx.chain.incarnation))
    _end_when_all_told(conn, ctx)


def lost(conn: Connection, ctx: Context, row: Row[Any], *, message: Hello) -> None:
    """Find that a till knows a tail of its own from us that we do not: this database was set back, and nobody said so.

    A tail never goes back within an incarnation, so no late or doubled message says such a thing.
    """
    known = max(row.acked_seq, row.tail_seq)
    if message.incarnation != ctx.chain.incarnation or message.seen[0] <= known:
        return
    detail = {"till": row.id, "epoch": row.epoch, "seen": list(message.seen), "known": known}
    key = f"{row.id}/{row.epoch}/{ctx.chain.incarnation}"
    findings.open_finding(conn, kind="server_set_back", key=key, amount_minor=0, detail=detail, now=ctx.now)


def _missing(conn: Connection) -> list[str]:
    till = schema.till
    present = select(schema.chain.c.incarnation).scalar_subquery()
    return list(conn.execute(select(till.c.id).where(till.c.incarnation != present).order_by(till.c.id)).scalars())


def have_all_told(conn: Connection, ctx: Context) -> bool:
    """Tell whether a restore goes on that waits for no till any more."""
    return ctx.chain.restoring and not _missing(conn)


def end(conn: Connection, _ctx: Context) -> None:
    """Give out again what is free: all have told, and all that waited for that is judged."""
    conn.execute(update(schema.chain).values(restored_at=None))


def _end_when_all_told(conn: Connection, ctx: Context) -> None:
    finding = schema.finding
    waits = (finding.c.kind.in_([UNJUDGED, UNTOLD_HOME]), finding.c.state == FindingState.OPEN)
    if not _missing(conn) and conn.execute(select(finding.c.id).where(*waits).limit(1)).first() is None:
        end(conn, ctx)


def _tell(conn: Connection, ctx: Context, till_id: str, *, event: str, reason: str) -> None:
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    told = history.Event(TILL, till_id, event, None, None, reason=reason, till_id=till_id or None, operator=by)
    history.record(conn, [told], ctx.now)

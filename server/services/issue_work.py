"""Work a batch issue chunk by chunk; any number of workers, in any number of processes, may die at any point.

A worker leases a chunk, then grants it in one transaction that also says that the chunk is done, adds to the task's
counts and leases the next one. So a chunk is granted whole or not at all, and what is done is never done again. The
lease keeps two workers from doing the same work; it makes nothing safe. That is its fence: each lease of a chunk
raises it, and the transaction commits only under the newest, while the task runs. Clocks free the chunks of a worker
that died, and a clock that was wrong costs time, not coupons.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, bindparam, or_, select, update

from app.domain.refusals import RefusalCode
from app.domain.states import IssueEvent, IssueState
from server.db import schema
from server.db.bulk import Present
from server.services.context import Context
from server.services.grants import Wanted, grant
from server.services.issue_tasks import PASSING, fire, waits_for

LEASE = timedelta(seconds=20)
"""Far above what a chunk takes; what a worker that died holds goes on after this, or at once by `resume`."""
_NOT_NOW = frozenset({RefusalCode.BUSY.value, *(code.value for code in PASSING)})
REPEATED = "repeated"
"""The reason of a row whose member stands on the list before."""
_ANSWERED = Present(schema.request.c.id)
Failure = tuple[int, str, str]
"""A line, the member (or the text) on it, and why it got nothing."""


class NotOurs(Exception):
    """Say that a chunk is not to be done by this worker now; nothing of its transaction is kept."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Hold a chunk to work on: its members, one a line from `first_line` on (None = nobody), and what failed before."""

    task_id: str
    campaign_id: str
    number: int
    fence: int
    first_line: int
    members: tuple[str | None, ...]
    failures: tuple[Failure, ...]


_TASK, _CHUNK = schema.issue_task, schema.issue_chunk
_RUNNING = (
    select(_TASK.c.id, _TASK.c.campaign_id, _TASK.c.started_at)
    .where(_TASK.c.state == IssueState.RUNNING.value)
    .order_by(_TASK.c.created_at, _TASK.c.id)
)
_OPEN = (_CHUNK.c.task_id == bindparam("task"), _CHUNK.c.state == "OPEN")
# A lease that ends later than any lease can was given by a clock that has been set back since.
_FREE = (
    select(_CHUNK.c.number, _CHUNK.c.fence, _CHUNK.c.first_line, _CHUNK.c.failures, _CHUNK.c.members)
    .where(
        *_OPEN,
        or_(
            _CHUNK.c.leased_until_at.is_(None),
            _CHUNK.c.leased_until_at <= bindparam("now"),
            _CHUNK.c.leased_until_at > bindparam("longest"),
        ),
    )
    .order_by(_CHUNK.c.number)
    .limit(1)
)
_FENCED = (*_OPEN, _CHUNK.c.number == bindparam("place"), _CHUNK.c.fence == bindparam("held"))
_TAKE = update(_CHUNK).where(*_FENCED)
_LEFT = select(_CHUNK.c.number).where(*_OPEN).limit(1)


def lease(conn: Connection, ctx: Context) -> Lease | None:
    """Lease the next chunk of the oldest task that can go on; None = there is nothing to do now."""
    for task in conn.execute(_RUNNING).all():
        free = {"task": task.id, "now": ctx.now, "longest": ctx.now + LEASE}
        row = conn.execute(_FREE, free).one_or_none()
        if row is None or waits_for(conn, ctx, task.campaign_id) is not None:
            continue
        taken = conn.execute(
            _TAKE.values(fence=row.fence + 1, leased_until_at=ctx.now + LEASE),
            {"task": task.id, "place": row.number, "held": row.fence},
        )
        assert taken.rowcount == 1, "the row was read in this transaction"
        if task.started_at is None:
            conn.execute(update(_TASK).where(_TASK.c.id == task.id).values(started_at=ctx.now))
        failures = tuple((line, text, reason) for line, text, reason in row.failures)
        return Lease(task.id, task.campaign_id, row.number, row.fence + 1, row.first_line, tuple(row.members), failures)
    return None


def work(conn: Connection, ctx: Context, held: Lease, *, more: bool = True) -> Lease | None:
    """Grant the chunk and, where the worker wants `more`, lease the next in the same transaction.

    None = there is nothing to do now.

    Raises NotOurs where the lease was lost, the task was stopped, or the campaign gives nothing for now.
    """
    granted, failures = _grant(conn, ctx, held)
    _finish(conn, ctx, held, granted=granted, failures=failures)
    return lease(conn, ctx) if more else None


def _grant(conn: Connection, ctx: Context, held: Lease) -> tuple[int, list[Failure]]:
    """Grant to everyone on the chunk who stands on the list for the first time.

    The chunk commits whole, so a request that has an answer already is that of an earlier line of the same task.
    """
    rows = [(held.first_line + place, member) for place, member in enumerate(held.members) if member is not None]
    request_of = {member: f"issue:{held.task_id}/{member}" for _, member in rows}
    answered = _ANSWERED.among(conn, request_of.values())
    failures, wanted, lines = list(held.failures), [], []
    for line, member in rows:
        request = request_of[member]
        if request in answered:
            failures.append((line, member, REPEATED))
            continue
        answered.add(request)
        lines.append(line)
        wanted.append(Wanted(request, held.campaign_id, member, f"issue:{held.task_id}"))
    answers = grant(conn, ctx, wanted)
    refused = [
        (line, each.member_id, answer["outcome"])
        for line, each, answer in zip(lines, wanted, answers, strict=True)
        if answer["outcome"] != "ok"
    ]
    for _, _, reason in refused:
        if reason in _NOT_NOW:
            raise NotOurs(reason)
    return len(answers) - len(refused), sorted(failures + refused)


def _finish(conn: Connection, ctx: Context, held: Lease, *, granted: int, failures: list[Failure]) -> None:
    done = conn.execute(
        _TAKE.values(state="DONE", granted=granted, failed=len(failures), failures=failures, done_at=ctx.now),
        {"task": held.task_id, "place": held.number, "held": held.fence},
    )
    if done.rowcount != 1:
        raise NotOurs("the lease was lost")
    counted = conn.execute(
        update(_TASK)
        .where(_TASK.c.id == held.task_id, _TASK.c.state == IssueState.RUNNING)
        # What cannot be read was counted when the list was loaded.
        .values(granted=_TASK.c.granted + granted, failed=_TASK.c.failed + len(failures) - len(held.failures))
    )
    if counted.rowcount != 1:
        raise NotOurs("the task was stopped")
    if conn.execute(_LEFT, {"task": held.task_id}).first() is None:
        answer = fire(conn, ctx, held.task_id, event=IssueEvent.FINISH)
        assert answer["outcome"] == "ok", "a running task finishes"

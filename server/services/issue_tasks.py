"""Steer and show batch issues: what state a task is in, how far it is, what it waits for."""

import math
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from app.domain.conditions import campaign_reason
from app.domain.lifecycle import Step
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rules import Kind
from app.domain.states import IssueEvent, IssueState
from resources import lifecycles
from server.db import schema
from server.services import grants, history
from server.services.answers import Answer, ok, refused
from server.services.context import Context

RATE_WINDOW = timedelta(seconds=30)
LISTED = 100
PASSING = (RefusalCode.CAMPAIGN_PAUSED, RefusalCode.NOT_STARTED)
"""Reasons of a campaign that time or a person takes away: the task waits, it does not refuse a million members."""


def reason_against(conn: Connection, ctx: Context, campaign_id: str) -> Refusal | None:
    """Return why the campaign gives nothing to anybody now; None = it does."""
    offer = grants.offers(conn, ctx, [campaign_id]).get(campaign_id)
    if offer is None:
        return unknown("campaign", campaign_id)
    if offer.rule.kind is not Kind.COUPON:
        return refuse(RefusalCode.INVALID_CAMPAIGN, campaign=campaign_id, field="kind")
    return campaign_reason(campaign_id, offer.rule, state=offer.state, now=ctx.now)


def waits_for(conn: Connection, ctx: Context, campaign_id: str) -> Refusal | None:
    """Return the reason that the task waits for to pass; None = it need not wait."""
    reason = reason_against(conn, ctx, campaign_id)
    return reason if reason is not None and reason.code in PASSING else None


def fire(conn: Connection, ctx: Context, task_id: str, *, event: IssueEvent) -> Answer:
    """Let the task take one step of its life; one that it does not have is refused and remembered.

    A pause holds at once: a chunk that is being worked on commits only while the task runs. `resume` also frees what
    workers have leased: who says it wants the task to go on now, and a worker that is not dead is refused as late.
    """
    task = find(conn, task_id)
    if task is None:
        return refused(unknown("issue", task_id))
    step = lifecycles.load("issue").step(task.state, event)
    if not isinstance(step, Step):
        history.record(conn, [event_of(ctx, task_id, event, frm=task.state, to=None)], ctx.now)
        return refused(Refusal(step.code, {"task": task_id, **step.facts}))
    tasks, chunk = schema.issue_task, schema.issue_chunk
    over = step.to in (IssueState.DONE, IssueState.CANCELLED)
    moved = conn.execute(
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.state == task.state)
        .values(state=step.to, finished_at=ctx.now if over else None)
    )
    assert moved.rowcount == 1, "the row was read in this transaction"
    if event is IssueEvent.RESUME:
        leased = (chunk.c.task_id == task_id, chunk.c.state == "OPEN", chunk.c.leased_until_at.is_not(None))
        conn.execute(update(chunk).where(*leased).values(leased_until_at=None, fence=chunk.c.fence + 1))
    history.record(conn, [event_of(ctx, task_id, event, frm=step.frm, to=step.to)], ctx.now)
    return view(conn, ctx, task_id)


def find(conn: Connection, task_id: str) -> Row[Any] | None:
    """Return the task's row, None where there is none."""
    return conn.execute(select(schema.issue_task).where(schema.issue_task.c.id == task_id)).one_or_none()


def view(conn: Connection, ctx: Context, task_id: str) -> Answer:
    """Show a task and how far it is.

    `done` = granted + failed, of `total`. `rate_per_s` is that of the last 30 seconds, `remaining_s` what is left at
    this rate; both None where nothing is known. `waiting_for` names what keeps a running task from going on.
    """
    task = find(conn, task_id)
    if task is None:
        return refused(unknown("issue", task_id))
    done, running = task.granted + task.failed, task.state == IssueState.RUNNING
    waiting = waits_for(conn, ctx, task.campaign_id) if running else None
    rate = _rate(conn, ctx, task) if running and waiting is None else None
    return ok(
        task=task.id,
        campaign=task.campaign_id,
        state=task.state,
        total=task.total,
        granted=task.granted,
        failed=task.failed,
        done=done,
        remaining=task.total - done,
        rate_per_s=round(rate, 1) if rate else None,
        remaining_s=math.ceil((task.total - done) / rate) if rate else None,
        waiting_for=waiting.code.value if waiting else None,
        created_at=task.created_at.isoformat(),
        created_by=task.created_by,
        started_at=task.started_at.isoformat() if task.started_at else None,
        finished_at=task.finished_at.isoformat() if task.finished_at else None,
    )


def listed(conn: Connection, ctx: Context) -> list[Answer]:
    """Show the newest tasks."""
    tasks = schema.issue_task
    ids = conn.execute(select(tasks.c.id).order_by(tasks.c.created_at.desc(), tasks.c.id.desc()).limit(LISTED))
    return [{key: value for key, value in view(conn, ctx, each).items() if key != "outcome"} for each in ids.scalars()]


def _rate(conn: Connection, ctx: Context, task: Row[Any]) -> float | None:
    """Return the members a second that were worked through lately; None where no time or nothing has passed."""
    if task.started_at is None:
        return None
    since = max(ctx.now - RATE_WINDOW, task.started_at)
    chunk = schema.issue_chunk
    worked = conn.execute(
        select(func.sum(chunk.c.size)).where(chunk.c.task_id == task.id, chunk.c.done_at > since)
    ).scalar_one()
    passed_s = (ctx.now - since).total_seconds()
    return float(worked) / passed_s if worked and passed_s > 0 else None


def event_of(ctx: Context, task_id: str, event: str, *, frm: str | None, to: str | None) -> history.Event:
    """Tell a step of a task, and who took it."""
    return history.Event(history.ISSUE, task_id, event, frm, to, operator=who(ctx))


def who(ctx: Context) -> str:
    """Name who acts, for people who read the history."""
    return f"{ctx.actor.scope}:{ctx.actor.key_id}" if ctx.actor.key_id else ctx.actor.scope

"""Create batch issues: a coupon of one campaign for each of many members (REQUIREMENTS E1).

A task is worked in chunks of one small transaction each (`issue_work`), its members come from `issue_lists`, what
failed is told by `issue_failures`, and people steer it by `issue_tasks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert

from app.domain.states import IssueState
from server.db import schema
from server.services import history
from server.services.answers import Answer, refused
from server.services.context import Context
from server.services.idempotency import once
from server.services.issue_lists import load_list
from server.services.issue_tasks import PASSING, event_of, reason_against, view, who

CHUNK_SIZE = 200
CHUNK_SIZE_MAX = 2000


@dataclass(frozen=True, slots=True)
class Draft:
    """Describe a task as asked for; `filter` ({tiers, home_stores}) None = the members are listed, now or by a file."""

    id: str
    campaign_id: str
    chunk_size: int = CHUNK_SIZE
    filter: Mapping[str, Any] | None = None


def create(conn: Connection, ctx: Context, draft: Draft, *, members: list[str] | None = None) -> Answer:
    """Create a task, once for each id; with `members` it runs at once, else it is LOADING until they are there."""
    content = {"campaign": draft.campaign_id, "chunk": draft.chunk_size, "filter": draft.filter, "members": members}
    return once(
        conn,
        f"issue_task:{draft.id}",
        content,
        decide=lambda: _create(conn, ctx, draft, members=members),
        now=ctx.now,
    )


def _create(conn: Connection, ctx: Context, draft: Draft, *, members: list[str] | None) -> Answer:
    reason = reason_against(conn, ctx, draft.campaign_id)
    if reason is not None and reason.code not in PASSING:
        return refused(reason)
    conn.execute(
        insert(schema.issue_task).values(
            id=draft.id,
            campaign_id=draft.campaign_id,
            state=IssueState.LOADING.value,
            chunk_size=draft.chunk_size,
            filter=draft.filter,
            created_at=ctx.now,
            created_by=who(ctx),
        )
    )
    history.record(conn, [event_of(ctx, draft.id, "create", frm=None, to=IssueState.LOADING)], ctx.now)
    if members is not None:
        return load_list(conn, ctx, draft.id, members=members, chunk_size=draft.chunk_size)
    return view(conn, ctx, draft.id)

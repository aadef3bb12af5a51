"""Bring the members of a batch issue in, chunk by chunk: from a list, a file or a filter.

A task is LOADING until its list is whole, and nothing is granted before. `load` in its row is the fencing token: a
second upload begins anew under the next number, and what the first still sends is refused.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import IssueEvent, IssueState
from server.db import schema
from server.db.bulk import BulkInsert
from server.services import member_file
from server.services.answers import Answer, refused
from server.services.context import Context
from server.services.issue_tasks import find, fire, view
from server.services.services import Services

PAGE_CHUNKS = 20
"""Chunks that a filter's page or a part of a file is written in at once: bounds memory and the transaction."""
_GAP = 4
_CHUNKS = BulkInsert(schema.issue_chunk, "task_id", "number", "first_line", "size", "failed", "failures", "members")


class LoadLost(Exception):
    """Say that another upload has begun, or the task is not loading any more: nothing of this one is kept."""


@dataclass(slots=True)
class Chunk:
    """Hold some rows of the list: one member a line from `first_line` on, None = nobody is on that line.

    `failures` has the lines that could not be read, as (line, text, reason).
    """

    first_line: int
    members: list[str | None] = field(default_factory=list)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    size: int = 0

    def add(self, row: member_file.Row) -> None:
        """Put a row in its place."""
        self.members += [None] * (row.line - self.first_line - len(self.members))
        self.members.append(row.text if row.readable else None)
        if not row.readable:
            self.failures.append((row.line, row.text, RefusalCode.UNREADABLE_CODE.value))
        self.size += 1


def chunks_of(rows: Iterable[member_file.Row], size: int) -> Iterator[Chunk]:
    """Cut rows into chunks of `size`; a long run of blank lines ends one early, so that none grows by them."""
    chunk: Chunk | None = None
    for row in rows:
        if chunk is not None and (chunk.size == size or row.line - chunk.first_line >= _GAP * size):
            yield chunk
            chunk = None
        chunk = chunk or Chunk(row.line)
        chunk.add(row)
    if chunk is not None:
        yield chunk


def begin(conn: Connection, task_id: str) -> int | Refusal:
    """Begin to load the task's list, anew where somebody began before; returns the fencing token."""
    task = find(conn, task_id)
    if task is None:
        return unknown("issue", task_id)
    if task.state != IssueState.LOADING or task.filter is not None:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, task=task_id, state=task.state, event=IssueEvent.LOAD.value)
    conn.execute(delete(schema.issue_chunk).where(schema.issue_chunk.c.task_id == task_id))
    tasks = schema.issue_task
    conn.execute(update(tasks).where(tasks.c.id == task_id).values(load=task.load + 1, total=0, failed=0))
    return int(task.load) + 1


def append(
    conn: Connection, task_id: str, chunks: Sequence[Chunk], *, load: int, number: int, cursor: str = ""
) -> None:
    """Add chunks, the first of them with this number; raises LoadLost where the token is not the newest."""
    tasks = schema.issue_task
    bad = sum(len(chunk.failures) for chunk in chunks)
    loading = update(tasks).where(tasks.c.id == task_id, tasks.c.state == IssueState.LOADING, tasks.c.load == load)
    total = sum(chunk.size for chunk in chunks)
    counted = {"total": tasks.c.total + total, "failed": tasks.c.failed + bad, "load_cursor": cursor}
    if conn.execute(loading.values(counted)).rowcount != 1:
        raise LoadLost(task_id)
    _CHUNKS.run(
        conn,
        [
            (task_id, place, each.first_line, each.size, len(each.failures), each.failures, each.members)
            for place, each in enumerate(chunks, start=number)
        ],
    )


def end(conn: Connection, ctx: Context, task_id: str, *, load: int) -> Answer:
    """Say that the list is whole: the task runs, or is done where nobody is on it. Raises LoadLost as `append`."""
    task = find(conn, task_id)
    if task is None or task.load != load or task.state != IssueState.LOADING:
        raise LoadLost(task_id)
    answer = fire(conn, ctx, task_id, event=IssueEvent.LOAD)
    if answer["outcome"] == "ok" and task.total == 0:
        answer = fire(conn, ctx, task_id, event=IssueEvent.FINISH)
    return view(conn, ctx, task_id) if answer["outcome"] == "ok" else answer


def load_list(conn: Connection, ctx: Context, task_id: str, *, members: Sequence[str], chunk_size: int) -> Answer:
    """Load a list that came with the call, in its transaction."""
    load = begin(conn, task_id)
    if isinstance(load, Refusal):
        return refused(load)
    rows = (member_file.Row(line, member) for line, member in enumerate(members, start=1))
    append(conn, task_id, list(chunks_of(rows, chunk_size)), load=load, number=1)
    return end(conn, ctx, task_id, load=load)


# ------------------------------------------------------------------ a filter


def load_more(services: Services) -> bool:
    """Load the next page of a task whose members a filter chooses; False = there is no such task.

    Who has the filter's tier and store when the page is read is on the list. The page is read outside of the writer,
    since few of many members may match; two workers who read the same one write it once.
    """
    found = services.read(lambda conn, _ctx: _page(conn))
    if found is None:
        return False
    task, members = found
    # Lost: another worker has written this very page.
    with contextlib.suppress(LoadLost):
        services.write(lambda conn, ctx: _append_page(conn, ctx, task, members=members))
    return True


def _page(conn: Connection) -> tuple[Row[Any], list[str]] | None:
    tasks, member = schema.issue_task, schema.member
    loading = select(tasks).where(tasks.c.state == IssueState.LOADING, tasks.c.filter.is_not(None))
    task = conn.execute(loading.order_by(tasks.c.created_at, tasks.c.id).limit(1)).one_or_none()
    if task is None:
        return None
    chosen = select(member.c.id).where(member.c.id > task.load_cursor).order_by(member.c.id)
    for column, values in _conditions(task.filter):
        chosen = chosen.where(column.in_(values))
    return task, list(conn.execute(chosen.limit(PAGE_CHUNKS * task.chunk_size)).scalars())


def _conditions(wanted: Mapping[str, list[str]]) -> Iterator[tuple[Any, list[str]]]:
    if wanted.get("tiers"):
        yield schema.member.c.tier, wanted["tiers"]
    if wanted.get("home_stores"):
        yield schema.member.c.home_store, wanted["home_stores"]


def _append_page(conn: Connection, ctx: Context, task: Row[Any], *, members: Sequence[str]) -> None:
    now = find(conn, task.id)
    if now is None or now.load_cursor != task.load_cursor:
        raise LoadLost(task.id)
    rows = (member_file.Row(line, member) for line, member in enumerate(members, start=task.total + 1))
    chunks = list(chunks_of(rows, task.chunk_size))
    number = -(-task.total // task.chunk_size) + 1
    cursor = members[-1] if members else task.load_cursor
    append(conn, task.id, chunks, load=task.load, number=number, cursor=cursor)
    if len(members) < PAGE_CHUNKS * task.chunk_size:
        end(conn, ctx, task.id, load=task.load)

"""Issue a campaign's coupons to many members as a task: create, load, follow, steer, and see what failed."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ConfigDict, Field, JsonValue, model_validator

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import IssueEvent
from server.http.answers import reply
from server.http.security import Headquarters, Office, ServicesDep
from server.http.values import Body, Id
from server.services import issue_failures, issue_lists, issue_tasks, issues
from server.services.answers import Answer, ok, refused
from server.services.context import Actor
from server.services.member_file import MemberFile, Row
from server.services.services import Services
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1/issues", tags=["batch issue"])

PathId = Annotated[Id, Path()]
MEMBERS_MAX = 50_000
"""Members in a call: more come as a file, which is read as it arrives."""
FILE_MAX_BYTES = 256 * 1024 * 1024
BAD_SHOWN = 100
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=100)]


class FilterIn(Body):
    """Choose members by tier and home store; an empty list chooses all."""

    tiers: Names = []  # noqa: RUF012 (pydantic copies it)
    home_stores: Names = []  # noqa: RUF012


_BOTH: JsonValue = {
    "required": ["members", "filter"],
    "properties": {"members": {"type": "array"}, "filter": {"type": "object"}},
}


class IssueIn(Body):
    """`task` is the id, and makes a repeat known. Members are listed, or filtered, or (neither) come as a file."""

    model_config = ConfigDict(json_schema_extra={"not": _BOTH})
    task: Id
    campaign: Id
    members: Annotated[list[Id], Field(max_length=MEMBERS_MAX)] | None = None
    filter: FilterIn | None = None
    chunk: Annotated[int, Field(ge=1, le=issues.CHUNK_SIZE_MAX), NUMBER] = issues.CHUNK_SIZE

    @model_validator(mode="after")
    def _one_source(self) -> "IssueIn":
        if self.members is not None and self.filter is not None:
            raise ValueError("members or filter, not both")
        return self


@router.post("", status_code=201)
def post_issue(*, body: IssueIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Create a task; the same one again is the first answer. Without members it waits for its file."""
    chosen = body.filter.model_dump() if body.filter is not None else None
    draft = issues.Draft(body.task, body.campaign, chunk_size=body.chunk, filter=chosen)
    return reply(
        services.write(lambda conn, ctx: issues.create(conn, ctx, draft, members=body.members), actor), status=201
    )


@router.get("")
def get_issues(*, services: ServicesDep, actor: Office) -> JSONResponse:
    """List the newest tasks."""
    return reply(ok(issues=services.read(issue_tasks.listed, actor)))


@router.get("/{task_id}")
def get_issue(*, task_id: PathId, services: ServicesDep, actor: Office) -> JSONResponse:
    """Show how far a task is: granted, failed, done, total, members a second, seconds that remain."""
    return reply(services.read(lambda conn, ctx: issue_tasks.view(conn, ctx, task_id), actor), path="issue")


def _steer(event: IssueEvent) -> Callable[..., JSONResponse]:
    def post_event(*, task_id: PathId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
        """Pause, go on with, or cancel a task; from the answer on only one that is running grants anything."""
        answer = services.write(lambda conn, ctx: issue_tasks.fire(conn, ctx, task_id, event=event), actor)
        return reply(answer, path="issue")

    return post_event


# A route for each: a path with the event in it would reach for what other routes are called.
for _event in (IssueEvent.PAUSE, IssueEvent.RESUME, IssueEvent.CANCEL):
    router.add_api_route(f"/{{task_id}}/{_event}", _steer(_event), methods=["POST"])


@router.get("/{task_id}/failures", response_class=StreamingResponse)
def get_failures(*, task_id: PathId, services: ServicesDep, actor: Office) -> Any:
    """Return the rows that got nothing, as CSV: line, member, reason, in words."""
    if services.read(lambda conn, _ctx: issue_tasks.find(conn, task_id), actor) is None:
        return reply(unknown("issue", task_id), path="issue")
    name = {"Content-Disposition": 'attachment; filename="failures.csv"'}
    return StreamingResponse(issue_failures.as_csv(services, task_id), media_type="text/csv", headers=name)


_FILE = {"text/csv": {"schema": {"type": "string"}}, "text/plain": {"schema": {"type": "string"}}}


@router.put(
    "/{task_id}/members",
    max_body_size=FILE_MAX_BYTES,
    openapi_extra={"requestBody": {"required": True, "content": _FILE}},
)
async def put_members(*, task_id: PathId, request: Request, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Send the list of members, one a line, plain or CSV; the task runs when it is whole.

    It is read as it arrives, whatever its size. Lines that cannot be read are told (the first hundred of them, the rest
    among the failures). An upload that broke off is sent again from its beginning.
    """
    try:
        answer = await _load(services, actor, task_id, stream=request.stream())
    except issue_lists.LoadLost:
        answer = refused(refuse(RefusalCode.ILLEGAL_TRANSITION, task=task_id, event=IssueEvent.LOAD.value))
    return reply(answer, path="issue")


async def _load(services: Services, actor: Actor, task_id: str, *, stream: AsyncIterator[bytes]) -> Answer:
    """Write the chunks as the file comes in, a few thousand members in each transaction."""

    def begin() -> tuple[int | Refusal, int]:
        load = services.write(lambda conn, _ctx: issue_lists.begin(conn, task_id), actor)
        task = services.read(lambda conn, _ctx: issue_tasks.find(conn, task_id), actor)
        return load, task.chunk_size if task is not None else 0

    load, size = await run_in_threadpool(begin)
    if isinstance(load, Refusal):
        return refused(load)
    upload = _Upload(services, actor, task_id, load=load, size=size)
    file = MemberFile()
    async for data in stream:
        await run_in_threadpool(upload.take, file.feed(data))
    await run_in_threadpool(upload.take, file.end())
    answer = await run_in_threadpool(upload.end)
    return {**answer, "unreadable": upload.bad} if answer["outcome"] == "ok" else answer


class _Upload:
    """Collect rows into chunks and write them, so many at once."""

    def __init__(self, services: Services, actor: Actor, task_id: str, *, load: int, size: int) -> None:
        self._services, self._actor, self._task_id, self._load = services, actor, task_id, load
        self._size, self._number = size, 1
        self._rows: list[Row] = []
        self.bad: list[dict[str, Any]] = []

    def take(self, rows: Iterator[Row]) -> None:
        """Keep the rows, and write what is enough for some chunks."""
        batch = self._size * issue_lists.PAGE_CHUNKS
        for row in rows:
            self._rows.append(row)
            if not row.readable and len(self.bad) < BAD_SHOWN:
                self.bad.append({"line": row.line, "text": row.text})
            if len(self._rows) == batch:
                self._write()

    def end(self) -> Answer:
        """Write the rest, and let the task run."""
        self._write()
        return self._services.write(
            lambda conn, ctx: issue_lists.end(conn, ctx, self._task_id, load=self._load), self._actor
        )

    def _write(self) -> None:
        chunks = list(issue_lists.chunks_of(self._rows, self._size))
        self._services.write(
            lambda conn, _ctx: issue_lists.append(conn, self._task_id, chunks, load=self._load, number=self._number),
            self._actor,
        )
        self._rows, self._number = [], self._number + len(chunks)

"""Claim a coupon, and ask what became of a claim.

A claim in order (a known key of an app, JSON as declared) is answered by plain ASGI: five times as many a second as
through the framework (DESIGN). Everything else goes the framework's way, so that what is wrong with a request is told
as everywhere.
"""

import asyncio
import time
from typing import Annotated
from urllib.parse import quote

import anyio
import anyio.to_thread
import structlog
from anyio.lowlevel import RunVar
from fastapi import APIRouter, Header, Path
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import Field, ValidationError
from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.refusals import unknown
from server import metrics
from server.db.errors import DatabaseBusy, DatabaseTrouble
from server.http.answers import reply, reply_trouble
from server.http.described import PENDING, RATE_LIMITED
from server.http.security import APP, AppOrTill, ServicesDep
from server.http.values import Body, Id
from server.services import keys
from server.services.admission.admission import Admission
from server.services.admission.claiming import ANSWER_S, Asked, Pending
from server.services.answers import Answer
from server.services.context import Actor
from server.services.services import Services

PLAIN_BODY_MAX = 4096
"""Bytes of the longest claim there can be, all its texts written as escapes; a longer one is not in order."""
RETRY_AFTER_S = 1
ASKERS_MAX = 4
"""Threads that ask whose a key is; a known one is asked for twice a second."""
_askers: RunVar[anyio.CapacityLimiter] = RunVar("pawtill_askers")

log = structlog.get_logger("pawtill.http")


class ClaimIn(Body):
    """`request` is the idempotency key; `source` names the way in, by default the scope of the key or the till."""

    request: Id
    campaign: Id
    member: Id
    source: Annotated[str, Field(min_length=1, max_length=100)] | None = None


PATH = "/v1/claims"


class PlainClaims:
    """Answer claims that are in order, in front of the framework; everything else goes on to it, whole.

    What is answered here is counted, and logged where it went wrong: a line for each claim of a flood would cost a
    tenth of it, and the coupon's history tells the same.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on as the framework would have got it."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        services: Services = self._state.services
        headers = dict(scope["headers"])
        token = _token(headers)
        if not token or not _is_short_json(headers):
            await self._app(scope, receive, send)
            return
        received: list[Message] = []
        body = await _read(receive, received)
        claim = _claim_in(body) if body is not None else None
        response: Response
        try:
            actor = await _actor(services, self._state.who, token) if claim is not None else None
        except DatabaseTrouble as trouble:
            response = reply_trouble(trouble)
        else:
            if claim is None or actor is None:
                await self._app(scope, _again(received, receive), send)
                return
            prefer = headers.get(b"prefer", b"").decode("latin-1")
            response = await _answer_whatever_comes(services, claim, actor, prefer=prefer)
        await response(scope, receive, send)
        metrics.request_answered("POST", PATH, status=response.status_code, seconds=time.perf_counter() - began_s)


router = APIRouter(prefix="/v1", tags=["coupons"])

Prefer = Annotated[str, Header(max_length=200, description="`respond-async`: an answer before the claim has landed")]


@router.post("/claims", status_code=201, responses={202: PENDING, 429: RATE_LIMITED})
async def post_claim(*, body: ClaimIn, services: ServicesDep, actor: AppOrTill, prefer: Prefer = "") -> JSONResponse:
    """Claim a coupon; the answer comes when the grant is durable, and the same request gets the same answer.

    With `Prefer: respond-async` a claim of a campaign on Redis may be answered 202 before; that promises nothing until
    the place in `Location` says so.
    """
    return await _answer(services, body, actor, prefer=prefer)


@router.get("/claims/{request_id}", responses={202: PENDING})
def get_claim(*, request_id: Annotated[Id, Path()], services: ServicesDep, actor: AppOrTill) -> JSONResponse:
    """Tell what became of a claim: granted or refused as then, 202 while it is pending, 404 = not granted, ask again.

    What Redis lost before it had landed is not granted either.
    """
    del actor
    found = _admission(services).found(request_id)
    if found is None:
        return reply(unknown("claim", request_id), path="claim")
    return _pending(request_id) if isinstance(found, Pending) else reply(found)


async def _answer_whatever_comes(services: Services, claim: ClaimIn, actor: Actor, *, prefer: str) -> Response:
    """Answer as the framework would, also what is a mistake of ours."""
    try:
        return await _answer(services, claim, actor, prefer=prefer)
    except DatabaseTrouble as trouble:
        return reply_trouble(trouble)
    except Exception:
        log.exception("claim failed", key=actor.key_id)
        return PlainTextResponse("Internal Server Error", 500)


async def _answer(services: Services, body: ClaimIn, actor: Actor, *, prefer: str) -> JSONResponse:
    source = body.source or (f"till:{actor.till_id}" if actor.till_id else actor.scope)
    early = "respond-async" in (part.strip().lower() for part in prefer.split(","))
    answer: Answer | Pending = await _admission(services).claim(
        Asked(body.request, body.campaign, body.member, source, early=early)
    )
    if isinstance(answer, Pending):
        return _pending(body.request)
    return reply(answer, status=201)


def _pending(request_id: str) -> JSONResponse:
    headers = {
        "Location": f"/v1/claims/{quote(request_id, safe='')}",
        "Retry-After": str(RETRY_AFTER_S),
        "Preference-Applied": "respond-async",
    }
    return JSONResponse({"outcome": Pending.PENDING.value, "request": request_id}, 202, headers=headers)


def _admission(services: Services) -> Admission:
    assert services.admission is not None, "a server that answers claims admits them"
    return services.admission


# ------------------------------------------------------------------ the plain way


def _token(headers: dict[bytes, bytes]) -> str:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _actor(services: Services, who: keys.Who, token: str) -> Actor | None:
    """Return which app's key it is, None where it is none, which is the framework's. Raises a DatabaseTrouble.

    The database is asked in threads of their own: where it stands still, those of the framework all wait for it.
    """
    actor = services.known_keys.find(token)
    if actor is None:
        try:
            async with asyncio.timeout(ANSWER_S):
                actor = await anyio.to_thread.run_sync(
                    services.database.read,
                    lambda conn: who(conn, token),
                    abandon_on_cancel=True,
                    limiter=_asking(),
                )
        except TimeoutError:
            raise DatabaseBusy("whose key it is does not come out") from None
        if actor is None or actor.scope != APP:
            return None
        services.known_keys.add(token, actor)
    return actor


def _asking() -> anyio.CapacityLimiter:
    """Return the threads of this loop that ask whose a key is."""
    try:
        return _askers.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(ASKERS_MAX)
        _askers.set(limiter)
        return limiter


def _is_short_json(headers: dict[bytes, bytes]) -> bool:
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"")
    return kind == b"application/json" and length.isdigit() and int(length) <= PLAIN_BODY_MAX


async def _read(receive: Receive, received: list[Message]) -> bytes | None:
    """Read the body, and note what came; None where it is not what was announced."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        received.append(message)
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > PLAIN_BODY_MAX:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _again(received: list[Message], receive: Receive) -> Receive:
    """Give what was received once more, and then what comes."""
    rest = iter(received)

    async def again() -> Message:
        for message in rest:
            return message
        return await receive()

    return again


def _claim_in(body: bytes) -> ClaimIn | None:
    try:
        return ClaimIn.model_validate_json(body)
    except ValidationError:
        return None

"""Let tills in by their signatures, and sign every answer to them (`sync/signatures.py`).

It stands behind the claims of the chain's app, which carry no signature and pay nothing for it. A signed request is
read whole, within the bound of every body; what is answered is signed with the body, bound to this very request. What
is answered for a database that stands still (`in_time.py`) is signed too. What is refused as no till of ours sends it
is noted behind the answer (`refused.py`).
"""

from typing import Any

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fastapi.responses import JSONResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.db.errors import DatabaseTrouble
from server.http import refused
from server.http.answers import BUSY, TOO_LARGE, reply_trouble
from server.http.in_time import InTime
from server.http.security import ACTOR
from server.services import devices, refused_requests
from server.services.context import Actor
from server.services.services import Services
from sync.signatures import (
    BAD_SIGNATURE,
    CLOCK,
    CLOCK_WINDOW_S,
    REPLAYED,
    BadSignature,
    Reply,
    Request,
    Signed,
    check_request,
    sign_answer,
)

log = structlog.get_logger()
BAD_REQUEST = 400
_SIGNED_PARTS = (b"host", b"content-digest", b"signature", b"signature-input")


class SignedRequests:
    """Check signed requests and sign their answers; pass everything else on untouched."""

    def __init__(self, app: ASGIApp, state: State, *, max_body_bytes: int) -> None:
        self._app, self._state, self._max = app, state, max_body_bytes
        self._in_time = InTime(state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, in time."""
        if scope["type"] != "http" or all(name != b"signature-input" for name, _ in scope["headers"]):
            await self._in_time.answer(self._app, scope, receive, send=send)
            return
        services: Services = self._state.services
        request = _request(scope)
        try:
            body = await _whole(scope, receive, self._max)
        except ClientDisconnect:
            # The line broke in the middle: half a body fits no signature, and is no forgery. Nobody hears this.
            await JSONResponse({"error": "cut"}, BAD_REQUEST)(scope, receive, send)
            return
        if body is None:
            told = BackgroundTask(refused.note, services, scope, kind=refused_requests.OVERSIZED, signed=request)
            headers = {"Connection": "close"}
            answer = JSONResponse({"error": "too_large"}, TOO_LARGE, headers=headers, background=told)
            await answer(scope, receive, send)
            return

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            answer = await run_in_threadpool(_admit, services, scope, request=request, body=body)
            await (self._app if answer is None else answer)(scope, receive, send)

        signer = _Signer(services, request, send)
        await self._in_time.answer(admitted, scope, _again(body, receive), send=signer)


class _Signer:
    """Hold an answer back until it is whole, and send it with its signature."""

    def __init__(self, services: Services, request: Request, send: Send) -> None:
        self._services, self._request, self._send = services, request, send
        self._start: Message = {}
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            body = bytes(self._body)
            # At once where it says that the database stands still: for that all threads wait.
            is_busy = self._start["status"] == BUSY
            start = self._signed(body) if is_busy else await run_in_threadpool(self._signed, body)
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})

    def _signed(self, body: bytes) -> Message:
        answer = Reply(self._start["status"], {}, self._request)
        created_s = int(self._services.clock.now().timestamp())
        try:
            sign_answer(answer, body, key=self._services.chain_key.answers, created_s=created_s)
        except Exception:
            # What cannot be bound (a request of no sense) is told unsigned; the till believes nothing of it.
            log.info("answer not signed", status=self._start["status"])
        told = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
        return {**self._start, "headers": [*self._start.get("headers", []), *told]}


def _admit(services: Services, scope: Scope, *, request: Request, body: bytes) -> JSONResponse | None:
    """Note in the scope who asks, where the signature is good and fresh; else return how that is refused."""
    try:
        found: list[Actor] = []

        def find(key_id: str) -> Ed25519PublicKey | None:
            device = services.database.read(lambda conn: devices.find(conn, key_id))
            if device is None:
                return None
            found.append(device.actor)
            return device.key

        signed = check_request(request, body, find=find)
        now = services.clock.now()
        if _is_of_another_time(services, signed, int(now.timestamp())):
            return _unauthorised(CLOCK, now_ms=round(now.timestamp() * 1000))
        is_copy = not services.nonces.take(signed, int(now.timestamp()))
    except BadSignature as error:
        log.info("signature refused", reason=str(error), path=scope["path"])
        who = found[0] if found else None
        told = BackgroundTask(refused.note, services, scope, kind=refused_requests.FORGED, signed=request, who=who)
        return _unauthorised(BAD_SIGNATURE, told)
    except DatabaseTrouble as trouble:
        return reply_trouble(trouble)
    if is_copy:
        told = BackgroundTask(
            refused.note, services, scope, kind=refused_requests.REPLAYED, signed=request, who=found[0]
        )
        return _unauthorised(REPLAYED, told)
    (scope[ACTOR],) = found
    return None


def _is_of_another_time(services: Services, signed: Signed, now_s: int) -> bool:
    """Tell whether a good signature was made at a time for which copies are not known."""
    return abs(signed.created_s - now_s) > CLOCK_WINDOW_S or signed.created_s < services.nonces.since_s


def _unauthorised(error: str, told: BackgroundTask | None = None, **facts: Any) -> JSONResponse:
    headers = {"WWW-Authenticate": "Signature"}
    return JSONResponse({"error": error, **facts}, 401, headers=headers, background=told)


def _request(scope: Scope) -> Request:
    """Return what of the request is signed, as it came over the wire."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name in _SIGNED_PARTS:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
    path = scope["raw_path"].decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    url = f"{scope['scheme']}://{headers.get('host', '')}{path}" + (f"?{query}" if query else "")
    return Request(scope["method"], url, headers)


async def _whole(scope: Scope, receive: Receive, max_bytes: int) -> bytes | None:
    """Read the body; None where it is longer than any may be, or was announced to be: then it is not read at all.

    Raises ClientDisconnect where the line breaks before its end.
    """
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > max_bytes:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > max_bytes:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Give the body once more, then what else comes (that the caller has gone)."""
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again

"""Speak HTTP with the server: the only door to httpx.

Whatever comes back becomes one of four: an answer, a `Refusal`, `Busy`, or `Offline` with a reason. Anything
that is not provably our server's JSON (a captive portal's page, a proxy's error, half an answer) is `Offline`: it tells
nothing about what the server did, so nothing may be concluded from it. Keys and bodies are never logged and never part
of an exception.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import ValidationError

from app.domain.refusals import Refusal, RefusalCode
from app.services.ports import Busy, Offline
from sync.identity import Identity
from sync.protocol import SLOW, Answer, Message
from sync.signatures import CLOCK, REPLAYED, Request
from sync.trust import is_loopback, may_be_plain

Json = dict[str, Any]
AnswerT = TypeVar("AnswerT", bound=Answer)

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 5.0
"""For the whole answer, looked at after each read: a hold that takes longer is given up, and its cashier goes on."""
KEEP_ALIVE_S = 4.0
"""Below the 5 s after which uvicorn drops an idle connection, so a hold is never sent into a closing one."""
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Largest answer that is read: a page of 1,000 records is far below it, an endless one is not ours."""
DEFAULT_RETRY_S = 5.0
MAX_RETRY_S = 300.0


class KeyRefused(Offline):
    """Say that the server does not know this till's key, or that the key may not do this (401, 403)."""


class ProtocolRefused(Offline):
    """Say that the server does not speak this version of the protocol (426); it still takes the till's entries."""


class TooLarge(Offline):
    """Say that a request was longer than the server, or a proxy before it, reads (413)."""


class Misunderstood(Offline):
    """Say that the server calls a request of ours malformed: a bug at one of the ends, repeating will not help."""


SHUT = ("till_suspended", "till_revoked", "till_replaced")


class ClockWrong(Offline):
    """Say that our clock is too far from the server's; `now_ms` is the server's, in ms since 1970, and is proved."""

    def __init__(self, now_ms: int) -> None:
        super().__init__("clock")
        self.now_ms = now_ms


class TillShut(KeyRefused):
    """Say that headquarters suspended, revoked or replaced this till."""


class ServerClient:
    """Send requests to one server with one key; safe to share between threads.

    `key` is who an enrolled till is: then every request is signed, and no answer is believed that the server has not
    signed for this very request. Or it is the key of an app or an office; None = nobody yet. `trust` says whose TLS
    certificate is believed, None for any of a public authority. Without TLS nothing is said to another machine
    (Offline). `transport` replaces the network (tests, scenarios). `connect_timeout_s` bounds both the connection and
    TLS. `monotonic` measures the whole of an answer, since a timeout for each read would let a dripping connection hang
    a cashier. Name resolution is the system's and has its own limit.
    """

    def __init__(
        self,
        base_url: str,
        key: str | Identity | None,
        *,
        transport: httpx.BaseTransport | None = None,
        trust: ssl.SSLContext | None = None,
        connect_timeout_s: float | None = None,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._answer_timeout_s = answer_timeout_s
        self._untrusted, self._counting = 0, threading.Lock()
        self._insecure = transport is None and not may_be_plain(base_url)
        self._identity = key if isinstance(key, Identity) else None
        url = httpx.URL(base_url)
        if connect_timeout_s is None:
            # On this machine a connection is there or refused at once, and only TLS waits for a busy server.
            connect_timeout_s = answer_timeout_s if is_loopback(url.host) else CONNECT_TIMEOUT_S
        self._http = httpx.Client(
            base_url=url,
            headers=_headers(key),
            transport=transport,
            verify=trust if trust is not None else True,
            timeout=httpx.Timeout(answer_timeout_s, connect=connect_timeout_s, pool=connect_timeout_s),
            limits=httpx.Limits(max_connections=4, keepalive_expiry=KEEP_ALIVE_S),
            follow_redirects=False,
            # A proxy that is set for the whole machine has no business between a till and a server on the same machine.
            trust_env=not is_loopback(url.host),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def untrusted(self) -> int:
        """Count the answers that the server has not signed, since `forget_untrusted`: a meddler's, not the line's.

        Whoever answers 5xx says that the server is away, and a 413 nobody signs.
        """
        return self._untrusted

    def forget_untrusted(self, count: int) -> None:
        """Let go of so many, which somebody was told of."""
        with self._counting:
            self._untrusted -= count

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()

    def exchange(self, path: str, message: Message, answer: type[AnswerT]) -> AnswerT:
        """Send one message of the sync protocol and return its answer.

        Raises Busy, or Offline and its kinds; a 200 that is no such answer is Offline too.
        """
        data = self._send("POST", path, message.model_dump_json().encode())
        if isinstance(data, Refusal):
            raise Misunderstood(data.code.value)
        parsed = _parse(answer, data)
        if parsed is None:
            raise Offline("foreign_answer")
        return parsed

    def post(self, path: str, body: Json) -> Json | Refusal:
        """Send a request and return the server's answer or its refusal. Raises as `exchange` does."""
        return self._send("POST", path, json.dumps(body, ensure_ascii=False, allow_nan=False).encode())

    def put(self, path: str, body: Json) -> Json | Refusal:
        """Set what is at this path. Raises as `exchange` does."""
        return self._send("PUT", path, json.dumps(body, ensure_ascii=False, allow_nan=False).encode())

    def get(self, path: str) -> Json | Refusal:
        """Fetch what the server knows. Raises as `exchange` does."""
        return self._send("GET", path, None)

    def _send(self, method: str, path: str, content: bytes | None) -> Json | Refusal:
        try:
            return self._send_once(method, path, content)
        except ClockWrong as wrong:
            # Told by the server itself, in answer to this request: sign once more, with its time.
            assert self._identity is not None, "only signed requests have a time"
            self._identity.set_clock(wrong.now_ms)
        return self._send_once(method, path, content)

    def _send_once(self, method: str, path: str, content: bytes | None) -> Json | Refusal:
        if self._insecure:
            raise Offline("insecure_address")
        headers = {"content-type": "application/json"} if content is not None else {}
        deadline = self._monotonic() + self._answer_timeout_s
        try:
            request = self._http.build_request(method, path, content=content, headers=headers)
            signed = self._sign(request, content or b"")
            with closing(self._http.send(request, stream=True)) as response:
                body = self._body(response, deadline)
            believed = self._believes(response, body, signed)
            if not believed and _wants_to_be_believed(response):
                with self._counting:
                    self._untrusted += 1
            return _read(response, body, believed=believed)
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            raise Offline("wrong_certificate" if _is_foreign(error) else "unreachable") from None
        except httpx.TimeoutException:
            raise Offline("no_answer") from None
        except httpx.HTTPError:
            # Cut in the middle, broken framing, broken compression: the server may or may not have done it.
            raise Offline("cut") from None

    def _sign(self, request: httpx.Request, content: bytes) -> Request | None:
        """Add our signature and return what it covers; None where a key speaks for us."""
        if self._identity is None:
            return None
        signed = self._identity.sign(request.method, str(request.url), content)
        request.headers.update(signed.headers)
        return signed

    def _believes(self, response: httpx.Response, body: bytes, signed: Request | None) -> bool:
        """Tell whether an answer may be acted on."""
        if self._identity is None or signed is None:
            return True
        return self._identity.believes(response.status_code, response.headers, body, request=signed)

    def _body(self, response: httpx.Response, deadline: float) -> bytes:
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise Offline("foreign_answer")
            if self._monotonic() > deadline:
                raise Offline("no_answer")
        return bytes(body)


def _is_foreign(error: BaseException | None) -> bool:
    """Tell whether a connection failed since the other end's certificate is not one that we believe."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _parse(answer: type[AnswerT], data: Json) -> AnswerT | None:
    """Return the answer, or None: the exception is dropped here, since its text quotes what came."""
    try:
        return answer.model_validate(data)
    except ValidationError:
        return None


def _headers(key: str | Identity | None) -> dict[str, str]:
    """Return the headers of every request; what is signed is the body as it travels, so nobody may compress it."""
    accepted = {"accept": "application/json"}
    if isinstance(key, str):
        return {**accepted, "authorization": f"Bearer {key}"}
    return {**accepted, "accept-encoding": "identity"}


def _read(response: httpx.Response, body: bytes, *, believed: bool) -> Json | Refusal:
    """Tell what an answer means; everything that is not surely ours is Offline.

    `believed`: it carries what proves that the server gave it; where it does not, it is no more than a word for people.
    """
    status = response.status_code
    if _is_too_large(response):
        # Whoever says it, a shorter request is worth a try, and saying it changes nothing at the server.
        raise TooLarge("too_large")
    data = _ours(response, body)
    if data is None:
        raise Offline("captive_portal" if response.is_redirect or response.is_success else f"status_{status}")
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise _refused(data, believed=believed)
    if not believed:
        raise Offline("unsigned_answer")
    if response.is_success:
        return data
    if status == httpx.codes.UPGRADE_REQUIRED:
        raise ProtocolRefused("protocol_refused")
    if status == httpx.codes.UNPROCESSABLE_ENTITY:
        raise Misunderstood("malformed")
    if "outcome" not in data:
        raise Offline(f"status_{status}")
    told = data.get("facts")
    facts = dict(told) if isinstance(told, dict) else {}
    if status in (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS):
        if facts.get("reason") == SLOW:
            # Not `Busy`, which says that nothing was done: it is what we would find out by waiting ourselves.
            raise Offline("no_answer")
        raise Busy(_retry_after_s(response), _code(data))
    if response.is_client_error:
        return Refusal(_code(data), facts)
    raise Offline(f"status_{status}")


def _wants_to_be_believed(response: httpx.Response) -> bool:
    return response.status_code < httpx.codes.INTERNAL_SERVER_ERROR and not _is_too_large(response)


def _is_too_large(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE


def _refused(data: Json, *, believed: bool) -> Offline:
    """Return what a 401 or 403 means."""
    word = data.get("error")
    if word == CLOCK and believed and type(data.get("now_ms")) is int:
        return ClockWrong(data["now_ms"])
    if word == REPLAYED:
        # The line doubled our request: its first copy is answered, and this says nothing of what it did.
        return Offline("cut")
    return TillShut(word) if word in SHUT else KeyRefused("key_refused")


def _ours(response: httpx.Response, body: bytes) -> Json | None:
    """Return the JSON object that our server always answers with, or None."""
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _code(data: Json) -> RefusalCode:
    """Return the refusal's code; one that a newer server invented is a no all the same."""
    try:
        return RefusalCode(data["outcome"])
    except ValueError:
        return RefusalCode.NOT_ALLOWED


def _retry_after_s(response: httpx.Response) -> float:
    """Return the seconds of Retry-After (RFC 9110 section 10.2.3), within what makes sense at a counter.

    The form with a date is not read: it would need both clocks to agree.
    """
    asked = response.headers.get("retry-after", "")
    return min(float(asked), MAX_RETRY_S) if asked.isascii() and asked.isdigit() else DEFAULT_RETRY_S

"""Networks for tests: a line that misbehaves by plan, and a line into an application of the same process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import httpx

HTML = {"content-type": "text/html"}
JSON = {"content-type": "application/json"}


class Fault(StrEnum):
    """Name what may happen to one request on its way there or back."""

    NONE = "none"
    LOSE_REQUEST = "lose_request"
    LOSE_ANSWER = "lose_answer"
    DOUBLE = "double"  # arrives twice, the first answer comes back
    DOUBLE_LATE = "double_late"  # arrives twice, the second answer comes back
    DELAY = "delay"  # no answer now; arrives before the request after the next
    HOLD_BACK = "hold_back"  # no answer now; arrives when the line heals
    STALE_ANSWER = "stale_answer"  # a confused proxy gives the answer of the request before
    CUT = "cut"  # the answer breaks off in the middle
    TRUNCATE = "truncate"  # half the JSON, cleanly framed
    PORTAL = "portal"  # 200 and a page to log in
    PORTAL_JSON = "portal_json"  # 200 and somebody's JSON
    REDIRECT = "redirect"
    ERROR_500 = "error_500"  # before anything is done
    ERROR_500_LATE = "error_500_late"  # after everything is done
    BUSY = "busy"
    GATEWAY = "gateway"
    KEY_REFUSED = "key_refused"


class FaultyTransport(httpx.BaseTransport):
    """Pass requests on to `inner`, each with the next fault of the plan; without faults once the plan is used up."""

    def __init__(self, inner: httpx.BaseTransport, plan: Iterable[Fault] = ()) -> None:
        self.inner = inner
        self._plan: Iterator[Fault] = iter(tuple(plan))
        self._delayed: list[tuple[int, httpx.Request]] = []
        self.last_answer: httpx.Response | None = None
        self.requests: list[str] = []
        self.offline = False

    def plan(self, *faults: Fault) -> None:
        """Replace what is left of the plan."""
        self._plan = iter(faults)

    def heal(self) -> None:
        """End all faults; requests that were held back arrive now, the last one first."""
        self._plan = iter(())
        self.offline = False
        held, self._delayed = self._delayed, []
        for _, request in reversed(held):
            self.inner.handle_request(request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Let the request meet its fault."""
        request.read()
        self.requests.append(request.url.path)
        if self.offline:
            raise httpx.ConnectError("the cable is out", request=request)
        fault = next(self._plan, Fault.NONE)
        early = self._before(fault, request)
        if early is not None:
            return early
        self._arrive_late()
        answer = self._pass(request)
        if fault is Fault.DOUBLE:
            self._pass(request)
        elif fault is Fault.DOUBLE_LATE:
            answer = self._pass(request)
        return self._after(fault, request, answer)

    def _pass(self, request: httpx.Request) -> httpx.Response:
        answer = self.inner.handle_request(request)
        answer.read()
        return answer

    def _arrive_late(self) -> None:
        waiting, self._delayed = self._delayed, []
        for turns, request in waiting:
            if turns > 0:
                self._delayed.append((turns - 1, request))
            else:
                self.inner.handle_request(request)

    def _before(self, fault: Fault, request: httpx.Request) -> httpx.Response | None:
        match fault:
            case Fault.LOSE_REQUEST:
                raise httpx.ReadTimeout("lost on the way there", request=request)
            case Fault.DELAY:
                self._delayed.append((1, request))
                raise httpx.ReadTimeout("delayed", request=request)
            case Fault.HOLD_BACK:
                self._delayed.append((1 << 30, request))
                raise httpx.ReadTimeout("held back", request=request)
            case Fault.PORTAL:
                return httpx.Response(200, text="<html>Wi-Fi</html>", headers=HTML)
            case Fault.PORTAL_JSON:
                return httpx.Response(200, json={"status": "login"})
            case Fault.REDIRECT:
                return httpx.Response(302, headers={"location": "http://portal.test/"})
            case Fault.ERROR_500:
                return httpx.Response(500, text="Internal Server Error")
            case Fault.BUSY:
                busy = {"outcome": "busy", "facts": {}}
                return httpx.Response(503, json=busy, headers={"retry-after": "1"})
            case Fault.GATEWAY:
                return httpx.Response(502, text="<html>", headers=HTML)
            case Fault.KEY_REFUSED:
                return httpx.Response(401, json={"outcome": "not_allowed", "facts": {}})
            case Fault.STALE_ANSWER if self.last_answer is not None:
                return _copy(self.last_answer)
            case _:
                return None

    def _after(self, fault: Fault, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        self.last_answer = answer
        match fault:
            case Fault.LOSE_ANSWER:
                raise httpx.ReadTimeout("lost on the way back", request=request)
            case Fault.CUT:
                raise httpx.RemoteProtocolError("cut in the middle", request=request)
            case Fault.TRUNCATE:
                return httpx.Response(200, content=answer.content[: len(answer.content) // 2], headers=JSON)
            case Fault.ERROR_500_LATE:
                return httpx.Response(500, text="Internal Server Error")
            case _:
                return _copy(answer)


def _copy(answer: httpx.Response) -> httpx.Response:
    """Return an answer that can be read once more."""
    framing = {"content-length", "content-encoding", "transfer-encoding"}
    headers = {name: value for name, value in answer.headers.items() if name not in framing}
    return httpx.Response(answer.status_code, content=answer.content, headers=headers)


class AsgiLine(httpx.BaseTransport):
    """Bring a synchronous client's requests to an ASGI application, whose event loop runs in a thread of its own."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app=app)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asgi-line", daemon=True)
        self._thread.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request over and wait for its answer; what the application raises comes out here."""
        request.read()
        return asyncio.run_coroutine_threadsafe(self._ask(request), self._loop).result()

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)

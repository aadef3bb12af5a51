"""Be the line between a till and the server: slow, cut, and now and then it loses or doubles what it carries."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from server.simulation.timeline import Timeline
from sync.protocol import HELLO_PATH, PULL_PATH, PUSH_PATH, SANITY_PATH

FASTEST_MS, SLOWEST_MS = 20, 3000
GIVEN_UP_MS = 5000
"""How long a till waits for an answer that got lost (`sync.client.ANSWER_TIMEOUT_S`)."""
REFUSED_MS = 1000
CACHED = frozenset({HELLO_PATH, PUSH_PATH, PULL_PATH, SANITY_PATH})
"""Paths at which a bad proxy may answer with what was said there before: the till must see that it is old."""
PORTALS = (b"<html>log in</html>", b"{}", b"[]", b'{"status":"ok"}', b"", b"null")


@dataclass(slots=True)
class Weather:
    """Say how often each thing goes wrong on a line, as chances from 0 to 1; `heal` ends all of it."""

    drop: float = 0.0
    double: float = 0.0
    portal: float = 0.0
    stale: float = 0.0
    slow: float = 0.0

    def heal(self) -> None:
        """Let the lines be good from now on."""
        self.drop = self.double = self.portal = self.stale = self.slow = 0.0


class Forger:
    """Answer as one on the lines who wants tills to believe him: what another till was told, or "all is taken".

    What he says is well made: its signature alone tells that it is not so.
    """

    CHANCE = 0.1

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], httpx.Response] = {}

    def hear(self, request: httpx.Request, answer: httpx.Response) -> None:
        """Keep an answer for whoever asks something of the kind next."""
        self._last[_kind_of(request)] = answer

    def answer(self, request: httpx.Request) -> httpx.Response | None:
        """Return his answer, None where he has none to this."""
        told = self._last.get(_kind_of(request))
        if request.url.path != PUSH_PATH or told is None:
            return told
        message = json.loads(request.content)
        results = [{"seq": entry["seq"], "result": "OK"} for entry in message["entries"]]
        taken = {"acked": message["last"], "results": results, "epoch": message["epoch"]}
        kept = {name: text for name, text in told.headers.items() if name != "content-length"}
        return httpx.Response(200, headers=kept, json=taken, request=request)


def _kind_of(request: httpx.Request) -> tuple[str, ...]:
    """Name what is asked, without of whom: /v1/orders/o1/hold is of a kind with that of another order."""
    return (request.method, *request.url.path.split("/")[2:5:2], request.url.path.rpartition("/")[2][:4])


class Line(httpx.BaseTransport):
    """Carry one till's requests. `cut_until_ms` is when a partition ends, `rng` decides for the action under way."""

    def __init__(self, timeline: Timeline, server: httpx.BaseTransport, weather: Weather) -> None:
        self._timeline, self._server, self.weather = timeline, server, weather
        self.rng = random.Random(0)
        self.cut_until_ms = 0
        self._last: dict[str, httpx.Response] = {}
        self.seen: Counter[str] = Counter()
        self.forger: Forger | None = None
        self.told: Callable[[httpx.Request, httpx.Response], None] = lambda _request, _answer: None

    @property
    def is_cut(self) -> bool:
        """Tell whether nothing gets through now."""
        return self._timeline.now_ms < self.cut_until_ms

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request and its answer, as far as the line does."""
        request.read()
        rng, timeline, weather = self.rng, self._timeline, self.weather
        if self.is_cut:
            timeline.wait(REFUSED_MS)
            self._lose("cut", httpx.ConnectError("no line", request=request))
        if rng.random() < weather.portal:
            timeline.wait(FASTEST_MS)
            return self._portal(request)
        if rng.random() < weather.stale and request.url.path in self._last:
            timeline.wait(FASTEST_MS)
            self.seen["stale answer"] += 1
            return self._last[request.url.path]
        if (forged := self._forged(request)) is not None:
            return forged
        if rng.random() < weather.double:
            self._deliver_again(request)
        if rng.random() < weather.drop:
            timeline.wait(GIVEN_UP_MS)
            self._lose("request lost", httpx.ReadTimeout("no answer", request=request))
        timeline.wait(self._latency())
        if self.is_cut:
            self._lose("request lost", httpx.ReadTimeout("no answer", request=request))
        answer = self._server.handle_request(request)
        self._heard(request, answer)
        if rng.random() < weather.drop:
            timeline.wait(GIVEN_UP_MS)
            self._lose("answer lost", httpx.ReadTimeout("no answer", request=request))
        timeline.wait(self._latency())
        if self.is_cut:
            self._lose("answer lost", httpx.ReadTimeout("no answer", request=request))
        return answer

    def _heard(self, request: httpx.Request, answer: httpx.Response) -> None:
        self.told(request, answer)
        if self.forger is not None and answer.is_success:
            self.forger.hear(request, answer)
        if request.url.path in CACHED and answer.is_success:
            self._last[request.url.path] = answer

    def _forged(self, request: httpx.Request) -> httpx.Response | None:
        if self.forger is None or self.rng.random() >= self.forger.CHANCE * (self.weather.drop > 0):
            return None
        forged = self.forger.answer(request)
        self.seen["forged answer"] += forged is not None
        return forged

    def _latency(self) -> int:
        top = SLOWEST_MS if self.rng.random() < self.weather.slow else 10 * FASTEST_MS
        return self.rng.randint(FASTEST_MS, top)

    def _lose(self, how: str, error: httpx.TransportError) -> None:
        self.seen[how] += 1
        raise error

    def _deliver_again(self, request: httpx.Request) -> None:
        """Let a copy of the request arrive at some time, before it or long after; its answer reaches nobody."""
        method, url, content = request.method, str(request.url), request.content
        headers = dict(request.headers)

        def deliver() -> None:
            copy = httpx.Request(method, url, headers=headers, content=content)
            self.seen["request doubled"] += 1
            try:
                self.told(copy, self._server.handle_request(copy))
            except httpx.TransportError:
                self.seen["copy lost"] += 1

        top_ms = self.rng.choice((100, 10_000, 600_000, 3_600_000))
        self._timeline.after(self.rng.randint(0, top_ms), deliver)

    def _portal(self, request: httpx.Request) -> httpx.Response:
        """Answer as whoever sits between both ends would."""
        self.seen["portal"] += 1
        if self.rng.random() < 0.3:
            facts = {"outcome": "busy", "facts": {"retry_after_s": 3}}
            return httpx.Response(503, headers={"retry-after": "3"}, json=facts, request=request)
        return httpx.Response(
            self.rng.choice([200, 302, 404, 500, 502]),
            content=self.rng.choice(PORTALS),
            headers={"content-type": self.rng.choice(["text/html", "application/json"])},
            request=request,
        )

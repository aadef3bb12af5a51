"""Be the line between a till and the server: slow, cut, and now and then it loses or doubles what it carries."""

import json
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
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
STALE = {PULL_PATH: 3}
"""How many times as often a bad proxy keeps the answers of a path."""
REMEMBERED = 6
"""Answers of each path that a bad proxy keeps."""
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


@dataclass(frozen=True, slots=True)
class Jam:
    """Say what a line keeps until an instant, unanswered: `stopped` paths, or all but those that are `passing`.

    What is `late` arrives after that instant. A greeting never does: `Weather.double` brings old ones.
    """

    until_ms: int = 0
    stopped: Collection[str] = ()
    passing: Collection[str] = ()
    late: bool = False

    def stops(self, path: str, now_ms: int) -> bool:
        """Tell whether a request gets no answer now."""
        return now_ms < self.until_ms and path not in self.passing and (not self.stopped or path in self.stopped)

    def comes_late(self, path: str) -> bool:
        """Tell whether what was kept arrives in the end."""
        return self.late and path != HELLO_PATH


class Line(httpx.BaseTransport):
    """Carry one till's requests. `cut_until_ms` is when a partition ends, `rng` decides for the action under way."""

    def __init__(self, timeline: Timeline, server: httpx.BaseTransport, weather: Weather) -> None:
        self._timeline, self._server, self.weather = timeline, server, weather
        self.rng = random.Random(0)
        self.cut_until_ms = 0
        self._jam = Jam()
        self._breaks_before = 0
        self._kept: dict[str, deque[httpx.Response]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self.seen: Counter[str] = Counter()
        self.forger: Forger | None = None
        self.told: Callable[[httpx.Request, httpx.Response], None] = lambda _request, _answer: None
        self.copied: Callable[[], None] = lambda: None
        """Is called when a signed request reaches the server that was there before."""
        self._there: set[str] = set()
        self.lied: Callable[[], None] = lambda: None
        """Is called when the till is given an answer that the server has not given to what it asked."""

    @property
    def is_cut(self) -> bool:
        """Tell whether nothing gets through now."""
        return self._timeline.now_ms < self.cut_until_ms

    def jam(self, jam: "Jam") -> None:
        """Be jammed for a while, in place of any jam of before."""
        self._jam = jam

    def break_before(self, seq: int) -> None:
        """Be cut for a while behind a push that ends where this entry of the till's ledger would be the next."""
        self._breaks_before = seq

    def heal(self) -> None:
        """Be a good line from now on, as far as its weather lets it."""
        self.cut_until_ms, self._jam, self._breaks_before = 0, Jam(), 0

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
        if rng.random() < weather.stale * STALE.get(request.url.path, 1) and self._kept[request.url.path]:
            timeline.wait(FASTEST_MS)
            self.seen["stale answer"] += 1
            self.lied()
            return rng.choice(self._kept[request.url.path])
        if (forged := self._forged(request)) is not None:
            return forged
        if self._jam.stops(request.url.path, timeline.now_ms):
            if self._jam.comes_late(request.url.path):
                self._deliver(request, self._jam.until_ms - timeline.now_ms + self._delay())
            timeline.wait(GIVEN_UP_MS)
            self._lose("jammed", httpx.ReadTimeout("no answer", request=request))
        if rng.random() < weather.double:
            self._deliver(request, self._delay())
        if rng.random() < weather.drop:
            timeline.wait(GIVEN_UP_MS)
            self._lose("request lost", httpx.ReadTimeout("no answer", request=request))
        timeline.wait(self._latency())
        if self.is_cut:
            self._lose("request lost", httpx.ReadTimeout("no answer", request=request))
        answer = self._reach(request)
        self._answered(request, answer)
        if rng.random() < weather.drop:
            timeline.wait(GIVEN_UP_MS)
            self._lose("answer lost", httpx.ReadTimeout("no answer", request=request))
        timeline.wait(self._latency())
        if self.is_cut:
            self._lose("answer lost", httpx.ReadTimeout("no answer", request=request))
        return answer

    def _reach(self, request: httpx.Request) -> httpx.Response:
        signature = request.headers.get("signature")
        if signature in self._there:
            self.copied()
        elif signature is not None:
            self._there.add(signature)
        return self._server.handle_request(request)

    def _answered(self, request: httpx.Request, answer: httpx.Response) -> None:
        path = request.url.path
        self.told(request, answer)
        if self.forger is not None and answer.is_success:
            self.forger.hear(request, answer)
        if path in CACHED and answer.is_success:
            self._kept[path].append(answer)
        if self._breaks_before and path == PUSH_PATH and _ends_at(request) == self._breaks_before - 1:
            self._breaks_before = 0
            self.cut_until_ms = self._timeline.now_ms + self.rng.randint(300_000, 3_600_000)

    def _forged(self, request: httpx.Request) -> httpx.Response | None:
        if self.forger is None or self.rng.random() >= self.forger.CHANCE * (self.weather.drop > 0):
            return None
        forged = self.forger.answer(request)
        if forged is not None:
            self.seen["forged answer"] += 1
            self.lied()
        return forged

    def _latency(self) -> int:
        top = SLOWEST_MS if self.rng.random() < self.weather.slow else 10 * FASTEST_MS
        return self.rng.randint(FASTEST_MS, top)

    def _lose(self, how: str, error: httpx.TransportError) -> None:
        self.seen[how] += 1
        raise error

    def _delay(self) -> int:
        return self.rng.randint(0, self.rng.choice((100, 10_000, 600_000, 3_600_000)))

    def _deliver(self, request: httpx.Request, after_ms: int) -> None:
        """Let a copy of the request arrive at some time, before it or long after; its answer reaches nobody."""
        method, url, content = request.method, str(request.url), request.content
        headers = dict(request.headers)

        def deliver() -> None:
            copy = httpx.Request(method, url, headers=headers, content=content)
            self.seen["request doubled"] += 1
            try:
                self.told(copy, self._reach(copy))
            except httpx.TransportError:
                self.seen["copy lost"] += 1

        self._timeline.after(after_ms, deliver)

    def _portal(self, request: httpx.Request) -> httpx.Response:
        """Answer as whoever sits between both ends would."""
        self.seen["portal"] += 1
        self.lied()
        if self.rng.random() < 0.3:
            facts = {"outcome": "busy", "facts": {"retry_after_s": 3}}
            return httpx.Response(503, headers={"retry-after": "3"}, json=facts, request=request)
        return httpx.Response(
            self.rng.choice([200, 302, 404, 500, 502]),
            content=self.rng.choice(PORTALS),
            headers={"content-type": self.rng.choice(["text/html", "application/json"])},
            request=request,
        )


def _ends_at(push: httpx.Request) -> int:
    """Return the number of the last entry that a push carries."""
    return int(json.loads(push.content)["entries"][-1]["seq"])

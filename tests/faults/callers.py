"""Callers of a sale that goes wrong: many at once, each asks again with the same request id until it is answered.

An answer is a grant (201) or a refusal (4xx). No connection, a lost one, silence, `busy` and `rate_limited` are none:
the caller cannot know what became of the claim, and asks again. Every third asks for an early answer (202), and then
at the place that it was told.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

SILENCE_S = 8.0
"""How long a caller waits for an answer before it hangs up."""
PAUSE_S, CLOSED_S = 0.03, 0.2
EARLY_EVERY = 3
CALLS_A_LINE = 4
"""Connections that come at one moment are all taken by one server process; those that come one by one spread."""
CREATED, ACCEPTED, NOT_FOUND = 201, 202, 404
LATER = frozenset({429, 503})

Asked = tuple[str, str]
"""A claim: request id, member."""


@dataclass(slots=True)
class Heard:
    """Collect what callers were told; `coupons` holds every coupon that a request was ever answered with."""

    outcomes: dict[str, str] = field(default_factory=dict)
    coupons: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    troubles: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0

    def granted(self) -> list[str]:
        """List the requests whose last answer was a coupon."""
        return [request for request, outcome in self.outcomes.items() if outcome == "ok"]


class Crowd:
    """Send claims from a thread of its own; `place` tells the port that the shop has now, None = it has none."""

    def __init__(self, place: Callable[[], int | None], key: str, campaign: str, *, callers: int = 24) -> None:
        self._place, self._key, self._campaign, self._callers = place, key, campaign, callers
        self.heard = Heard()
        self._moved = threading.Condition()
        self._thread: threading.Thread | None = None
        self._given_up = False

    def begin(self, asked: Sequence[Asked], *, early: bool = True) -> None:
        """Start asking."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask_all(asked, early)), daemon=True)
        self._thread.start()

    def wait_for(self, count: int, *, patience_s: float) -> None:
        """Return once so many requests are answered, or nobody asks any more."""
        with self._moved:
            self._moved.wait_for(lambda: len(self.heard.outcomes) >= count or not self.asking, patience_s)

    @property
    def asking(self) -> bool:
        """Tell whether somebody still asks."""
        return self._thread is not None and self._thread.is_alive()

    def finish(self, *, patience_s: float) -> Heard:
        """Wait until all are answered; raises where that takes longer than `patience_s`."""
        assert self._thread is not None, "begun before"
        self._thread.join(patience_s)
        if self.asking:
            self._given_up = True
            self._thread.join()
            raise AssertionError(f"not all were answered in {patience_s} s: {self.heard.troubles}")
        return self.heard

    def ask(self, asked: Sequence[Asked], *, patience_s: float, early: bool = False) -> Heard:
        """Ask, and wait until all are answered."""
        self.begin(asked, early=early)
        return self.finish(patience_s=patience_s)

    # -------------------------------------------------------------- in the thread

    async def _ask_all(self, asked: Sequence[Asked], early: bool) -> None:
        waiting = deque(enumerate(asked))

        async def caller() -> None:
            line = _Line(self._place, self._key)
            while waiting and not self._given_up:
                number, (request, member) = waiting.popleft()
                await self._until_answered(line, request, member, early=early and number % EARLY_EVERY == 0)
                if number % CALLS_A_LINE == 0:
                    line.hang_up()
            line.hang_up()

        await asyncio.gather(*(caller() for _ in range(self._callers)))
        with self._moved:
            self._moved.notify_all()

    async def _until_answered(self, line: _Line, request: str, member: str, *, early: bool) -> None:
        body = {"request": request, "campaign": self._campaign, "member": member}
        pending = False
        while not self._given_up:
            began_s = time.monotonic()
            try:
                if pending:
                    status, told = await line.send("GET", f"/v1/claims/{request}")
                else:
                    status, told = await line.send("POST", "/v1/claims", body, early=early)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.heard.troubles[type(error).__name__] += 1
                line.hang_up()
                await asyncio.sleep(CLOSED_S if isinstance(error, ConnectionRefusedError) else PAUSE_S)
                continue
            self.heard.slowest_s = max(self.heard.slowest_s, time.monotonic() - began_s)
            if status == ACCEPTED or status in LATER or status >= 500 or (pending and status == NOT_FOUND):
                # An early answer promised nothing: where its place knows of no grant, the claim is made again.
                pending = status == ACCEPTED or (pending and status in LATER)
                self.heard.troubles[str(status) if status != ACCEPTED else "pending"] += 1
                await asyncio.sleep(PAUSE_S)
                continue
            self._note(request, told)
            return

    def _note(self, request: str, told: dict[str, Any]) -> None:
        with self._moved:
            self.heard.outcomes[request] = str(told["outcome"])
            if told["outcome"] == "ok":
                self.heard.coupons[request].add(str(told["coupon"]))
            self._moved.notify_all()


class _Line:
    """Keep one connection, made anew where it was lost: HTTP/1.1, answers with a Content-Length."""

    def __init__(self, place: Callable[[], int | None], key: str) -> None:
        self._place, self._key = place, key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, early: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Return status and body; raises OSError, IncompleteReadError or TimeoutError."""
        async with asyncio.timeout(SILENCE_S):
            if self._streams is None:
                port = self._place()
                if port is None:
                    raise ConnectionRefusedError("closed")
                self._streams = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = self._streams
            content = b"" if body is None else json.dumps(body).encode()
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
                + ("Prefer: respond-async\r\n" if early else "")
            )
            writer.write(f"{head}\r\n".encode() + content)
            told = await reader.readuntil(b"\r\n\r\n")
            length = int(told.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
            return int(told.split(b" ", 2)[1]), _json(await reader.readexactly(length))

    def hang_up(self) -> None:
        """Let go of the connection, whatever is under way on it."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def _json(content: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(content)
    except ValueError:
        return {}
    return found

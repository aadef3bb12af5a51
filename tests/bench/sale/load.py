"""Send claims from a process of its own, as many callers at once, each waiting for its answer before the next claim.

`python -m tests.bench.sale.load PORT CALLERS LIMIT_S PATH` reads request bodies from stdin, one a line, and the
key from the environment, and prints one JSON object: `statuses` (status -> count), `granted_s` (from the first request
to the last 201), `latencies_ms` of what was granted.

An HTTP client library costs more processor time per request than the server that is to be measured, so this one knows
just what it needs: HTTP/1.1, keep-alive, an answer with a Content-Length.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CREATED = 201
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(slots=True)
class Tally:
    """Collect what was answered; times are `perf_counter` seconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    last_granted: float = 0.0

    def add(self, status: int, asked: float) -> None:
        """Count one answer to what was asked then."""
        self.statuses[status] += 1
        if status == CREATED:
            self.last_granted = time.perf_counter()
            self.latencies_ms.append((self.last_granted - asked) * 1000)


class Caller(asyncio.Protocol):
    """Ask, wait for the answer, ask the next; `done` is set when nothing is left to ask, or time is up."""

    def __init__(self, requests: Iterator[bytes], tally: Tally, until: float) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests, self._tally, self._until = requests, tally, until
        self._got, self._asked = b"", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take in a piece of the answer; when it is whole, ask again."""
        self._got += data
        head, found, rest = self._got.partition(_END_OF_HEAD)
        if not found:
            return
        start = head.lower().index(_LENGTH) + len(_LENGTH)
        if len(rest) < int(head[start:].split(b"\r\n", 1)[0]):
            return
        self._got = b""
        self._tally.add(int(head.split(b" ", 2)[1]), self._asked)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop; an answer that never came is not counted."""
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None or time.perf_counter() > self._until:
            self._transport.close()
            return
        self._asked = time.perf_counter()
        self._transport.write(request)


def requests_of(bodies: list[bytes], *, path: str, key: str) -> Iterator[bytes]:
    """Return the whole bytes of each request, made before the clock runs."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    )
    return iter([f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies])


async def run(requests: Iterator[bytes], *, port: int, callers: int, limit_s: float) -> dict[str, Any]:
    """Send everything, or what can be sent within the limit (seconds)."""
    loop, tally = asyncio.get_running_loop(), Tally()
    started = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Caller(requests, tally, started + limit_s), "127.0.0.1", port)
        for _ in range(callers)
    ]
    await asyncio.gather(*(caller.done for _, caller in made))
    return {
        "statuses": dict(tally.statuses),
        "granted_s": max(tally.last_granted - started, 0.0),
        "latencies_ms": tally.latencies_ms,
    }


if __name__ == "__main__":
    port, callers, limit_s, path = sys.argv[1:5]
    asked = requests_of(sys.stdin.buffer.read().splitlines(), path=path, key=os.environ["PAWTILL_BENCH_KEY"])
    print(json.dumps(asyncio.run(run(asked, port=int(port), callers=int(callers), limit_s=float(limit_s)))))

"""Be the lines between tills and server: each may be cut, hang, be slow, slice its bytes, or double them.

They carry bytes, whose meaning TLS hides. So that a whole request is doubled, a line leads through the balancer: it
speaks TLS by a certificate of the chain, as a proxy of headquarters does, and sends on what it reads, twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

Place = Callable[[], int | None]
"""Tell the port of 127.0.0.1 that the server has now, None = it has none."""
CHUNK = 64 * 1024
SLICE_PAUSE_S = 0.0005
LATEST_COPY_S = 4.0


@dataclass(slots=True)
class Weather:
    """Say what is wrong with a line; `doubled_bytes` is the chance that a chunk is sent twice, `slow_s` the longest
    that a chunk takes."""

    cut: bool = False
    hangs: bool = False
    slices: bool = False
    doubles: bool = False
    doubled_bytes: float = 0.0
    slow_s: float = 0.0


class Loop:
    """Run an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def call(self, work: Callable[[], object]) -> None:
        """Let something be done in the loop."""
        self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """End it with all that runs in it."""

        async def end() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Wire:
    """Carry one till's connections to the server, or through the balancer while `weather.doubles`."""

    def __init__(self, loop: Loop, server: Place, balancer: Place, rng: random.Random) -> None:
        self.weather, self.seen = Weather(), Counter[str]()
        self._loop, self._server, self._balancer, self._rng = loop, server, balancer, rng
        self._open: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server = loop.run(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port: int = self._listener.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break what is open, and let nothing through from now on."""
        self.weather.cut = True
        self._loop.call(self._break_all)

    def double(self) -> None:
        """Lead it through the balancer, from the next connection on: what is open breaks."""
        self.weather.doubles = True
        self._loop.call(self._break_all)

    def heal(self) -> None:
        """Let the line be good from now on; what hung goes on."""
        if self.weather.doubles:
            self._loop.call(self._break_all)
        self.weather.cut = self.weather.hangs = self.weather.slices = self.weather.doubles = False
        self.weather.doubled_bytes = self.weather.slow_s = 0.0

    def close(self) -> None:
        """End it."""
        self.cut()
        self._loop.call(self._listener.close)

    def _break_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = (self._balancer if self.weather.doubles else self._server)()
        if self.weather.cut or port is None:
            self.seen["refused"] += 1
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._open |= ends
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        except (OSError, ConnectionError):
            self.seen["broken"] += 1
        finally:
            self._open -= ends
            for each in ends:
                each.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            weather = self.weather
            while weather.hangs:
                await asyncio.sleep(0.05)
            if weather.slow_s:
                await asyncio.sleep(self._rng.uniform(0, weather.slow_s))
            if self._rng.random() < weather.doubled_bytes:
                self.seen["bytes doubled"] += 1
                data += data
            for part in self._sliced(data) if weather.slices else (data,):
                if drain.is_closing():
                    raise ConnectionResetError("the other end is gone")
                drain.write(part)
                await drain.drain()
                await asyncio.sleep(SLICE_PAUSE_S if weather.slices else 0)
        with contextlib.suppress(OSError):
            drain.write_eof() if drain.can_write_eof() else drain.close()

    def _sliced(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = self._rng.choice([1, 2, 7, 100, 1400])
            yield data[at : at + size]
            at += size


class Balancer:
    """Take TLS off, and send each request to the server twice; the answer to one of them goes back."""

    def __init__(
        self, loop: Loop, server: Place, *, certificate: ssl.SSLContext, trust: ssl.SSLContext, rng: random.Random
    ) -> None:
        self.doubled = 0
        self._server, self._trust, self._rng = server, trust, rng
        self._copies: set[asyncio.Task[bytes]] = set()
        self._loop = loop
        self._listener: asyncio.Server = loop.run(asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=certificate))
        self.port: int = self._listener.sockets[0].getsockname()[1]

    def close(self) -> None:
        """End it."""
        self._loop.call(self._listener.close)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            while True:
                request = await _message(reader)
                writer.write(await self._twice(request))
                await writer.drain()
        writer.transport.abort()

    async def _twice(self, request: bytes) -> bytes:
        """Send it now, and once more at the same moment, or when the first is long answered."""
        self.doubled += 1
        late_s = self._rng.choice([0.0, 0.0, 0.05, LATEST_COPY_S])
        first, second = (asyncio.create_task(self._send(request, after_s)) for after_s in (0.0, late_s))
        self._copies |= {first, second}
        for each in (first, second):
            each.add_done_callback(self._sent)
        return await (first if late_s > 1 or self._rng.random() < 0.5 else second)

    def _sent(self, copy: asyncio.Task[bytes]) -> None:
        self._copies.discard(copy)
        if not copy.cancelled():
            copy.exception()  # who waits for it hears of it; nobody waits for the other copy

    async def _send(self, request: bytes, after_s: float) -> bytes:
        await asyncio.sleep(after_s)
        port = self._server()
        if port is None:
            raise ConnectionRefusedError("closed")
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self._trust)
            try:
                writer.write(request)
                return await _message(reader)
            finally:
                writer.transport.abort()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Read a request or an answer of HTTP/1.1 with its body; neither end of ours sends one in chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return head + await reader.readexactly(int(length or 0))


@contextlib.contextmanager
def open_loop() -> Iterator[Loop]:
    """Run a loop while the block runs."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()

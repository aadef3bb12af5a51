"""A Redis behind TLS: believed where its certificate is, spoken to by nobody where it is not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.chain_key import ChainKey
from server.stock.connection import read_address
from server.stock.door import Door
from server.stock.trouble import StockTrouble
from server.tls import make_authority, server_context
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running

KEY = ChainKey(bytes(32))
SENTINEL = ("--sentinel",)
HANDSHAKE = b"\x16"
"""The first byte of every TLS connection (RFC 8446, section 5.1: ContentType handshake)."""


class Relay:
    """Speak TLS on a port of its own and hand everything on to a plain one, as stunnel does.

    Who begins in plain words is handed on as well: the Sentinel of these tests watches by such connections, since the
    bundled server knows no TLS, and names the port that it watches to everybody. `plainly` counts them.
    """

    def __init__(self, plain_port: int, context: ssl.SSLContext) -> None:
        self._plain_port, self._context = plain_port, context
        self.plainly = 0
        self._loop = asyncio.new_event_loop()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """End with every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._listening.close()

    def _run(self) -> None:
        self._accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self) -> None:
        serving = set()
        while True:
            accepted, _ = await self._loop.sock_accept(self._listening)
            serving.add(self._loop.create_task(self._serve(accepted)))

    async def _serve(self, accepted: socket.socket) -> None:
        is_plain = await self._begins_plainly(accepted)
        self.plainly += is_plain
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        context = None if is_plain else self._context
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._plain_port)
        await asyncio.wait(
            [asyncio.create_task(_pass_on(reader, inner_writer)), asyncio.create_task(_pass_on(inner_reader, writer))]
        )

    async def _begins_plainly(self, accepted: socket.socket) -> bool:
        speaks = self._loop.create_future()
        self._loop.add_reader(accepted, lambda: speaks.done() or speaks.set_result(None))
        try:
            await speaks
        finally:
            self._loop.remove_reader(accepted)
        return accepted.recv(1, socket.MSG_PEEK) != HANDSHAKE


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Return the port of a Redis that speaks TLS by a certificate of an authority of its own."""
    with running(tmp_path / "redis") as redis, behind_tls(redis, tmp_path) as relay:
        yield relay.port


@contextmanager
def behind_tls(server: RedisServer, folder: Path, *, key: ChainKey = KEY) -> Iterator[Relay]:
    """Put TLS in front of a server, by a certificate of the chain that `key` belongs to."""
    relay = Relay(server.port, server_context(key, folder, names=("127.0.0.1",), now=datetime.now(UTC)))
    try:
        yield relay
    finally:
        relay.close()


@pytest.fixture
def believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process believe what the chain's authority certifies."""
    (tmp_path / "ca.pem").write_text(make_authority(KEY))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


@pytest.mark.usefixtures("believed")
def test_claims_go_through_a_redis_whose_certificate_is_believed(headquarters: Headquarters, port: int) -> None:
    office = RedisOffice(headquarters, read_address(f"rediss://127.0.0.1:{port}"))
    headquarters.campaign(arbiter="redis", stock=2)

    assert office.claim("r1")["outcome"] == "ok"
    assert office.standing().available == 1
    office.assert_sound()
    office.close()


def test_a_redis_that_anybody_could_be_is_not_spoken_to(port: int) -> None:
    door = Door(read_address(f"rediss://127.0.0.1:{port}"))

    with pytest.raises(StockTrouble):
        door.look()
    door.close()


@contextmanager
def watched(folder: Path, *, sentinel_key: ChainKey = KEY) -> Iterator[tuple[str, Relay, Relay]]:
    """Run a Redis and a Sentinel that watches it, both behind TLS; yields the setting that names them."""
    with (
        running(folder / "redis") as redis,
        behind_tls(redis, folder) as primary,
        running(folder / "sentinel", f"sentinel monitor main 127.0.0.1 {primary.port} 1", arguments=SENTINEL) as asked,
        behind_tls(asked, folder, key=sentinel_key) as sentinel,
    ):
        yield f"rediss+sentinel://127.0.0.1:{sentinel.port}/main", primary, sentinel


@pytest.mark.usefixtures("believed")
def test_the_sentinels_of_a_redis_behind_tls_are_asked_by_tls_too(on_file: Headquarters, tmp_path: Path) -> None:
    with watched(tmp_path) as (url, primary, sentinel):
        office = RedisOffice(on_file, read_address(url))
        by_the_sentinel = primary.plainly
        on_file.campaign(arbiter="redis", stock=2)

        assert office.claim("r1")["outcome"] == "ok"
        office.assert_sound()
        assert sentinel.plainly == 0
        assert primary.plainly == by_the_sentinel
        office.close()


@pytest.mark.usefixtures("believed")
def test_a_sentinel_that_anybody_could_be_is_not_asked(tmp_path: Path) -> None:
    with watched(tmp_path, sentinel_key=ChainKey(bytes([1]) * 32)) as (url, _, _):
        door = Door(read_address(url))

        with pytest.raises(StockTrouble):
            door.look()
        door.close()

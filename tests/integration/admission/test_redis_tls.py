"""A Redis behind TLS: believed where its certificate is, spoken to by nobody where it is not."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
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
from tests.fakes.redis_server import running

KEY = ChainKey(bytes(32))


class Relay:
    """Speak TLS on a port of its own and hand everything on to a plain one, as stunnel does."""

    def __init__(self, plain_port: int, context: ssl.SSLContext) -> None:
        self._plain_port, self._context = plain_port, context
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        """End with every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._plain_port)
        await asyncio.wait(
            [asyncio.create_task(_pass_on(reader, inner_writer)), asyncio.create_task(_pass_on(inner_reader, writer))]
        )


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
    with running(tmp_path / "redis") as redis:
        names, now = ("127.0.0.1",), datetime.now(UTC)
        relay = Relay(redis.port, server_context(KEY, tmp_path, names=names, now=now))
        yield relay.port
        relay.close()


def test_claims_go_through_a_redis_whose_certificate_is_believed(
    headquarters: Headquarters, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text(make_authority(KEY))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
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

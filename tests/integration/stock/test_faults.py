"""What Redis may do to us: run out of memory, come back older, hang, go away. Nothing half done, nothing hidden."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from server.stock import connection, pipeline, scripts
from server.stock.connection import aclose, connect, connect_async
from server.stock.pipeline import AsyncStock
from server.stock.scripts import Call, Fault, Reserved, Standing, Why
from server.stock.suitability import look
from server.stock.trouble import StockDamaged, StockFull, StockRestarted, StockUnreachable
from tests.fakes.redis_server import RedisServer, acquainted, running
from tests.integration.stock.sale import KEYS, everything, open_sale, reservation, standing


def test_out_of_memory_refuses_whole_scripts_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    with running(tmp_path, "maxmemory 8mb", "maxmemory-policy noeviction") as server:
        stock, _ = acquainted(server.address)
        open_sale(stock, total=10, limit=9)
        token = stock.run(scripts.reserve(KEYS, 1, reservation()))
        assert isinstance(token, Reserved)
        stock.client.config_set("maxmemory", 1)
        before = everything(stock)

        with pytest.raises(StockFull):
            stock.run(scripts.reserve(KEYS, 1, reservation("r2", "m2")))
        assert everything(stock) == before
        stock.client.config_set("maxmemory", 0)

        assert isinstance(stock.run(scripts.reserve(KEYS, 1, reservation("r2", "m2"))), Reserved)


def test_a_server_that_evicts_is_named_at_the_start(tmp_path: Path) -> None:
    with running(tmp_path, "maxmemory 8mb", "maxmemory-policy allkeys-lru") as server:
        assert [each.word for each in look(server.client()).problems if each.forbids] == ["evicts"]


def test_one_that_came_back_from_an_old_snapshot_is_refused_though_its_generation_is_right(tmp_path: Path) -> None:
    with running(tmp_path, "dbfilename dump.rdb") as server:
        stock, acquaintance = acquainted(server.address)
        open_sale(stock, total=1)
        server.client().save()
        sold = stock.run(scripts.reserve(KEYS, 1, reservation()))
        assert isinstance(sold, Reserved)
        stock.run(scripts.confirm(KEYS, 1, [("r1", sold.token)]))
        server.restart()

        with pytest.raises((StockRestarted, StockUnreachable)):
            stock.run(scripts.reserve(KEYS, 1, reservation("r2", "m2")))
        with pytest.raises(StockRestarted):
            stock.run(scripts.reserve(KEYS, 1, reservation("r2", "m2")))

        # The control: with the look taken out, the unit that was sold is sold again.
        unguarded = acquainted(server.address)[0]
        assert isinstance(unguarded.run(scripts.reserve(KEYS, 1, reservation("r2", "m2"))), Reserved)
        assert acquaintance.wants_look


def test_one_that_comes_back_empty_has_no_generation(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        open_sale(acquainted(server.address)[0])
        server.restart()

        answer = acquainted(server.address)[0].run(scripts.reserve(KEYS, 1, reservation()))

    assert answer == Fault(Why.NO_GENERATION)


def test_a_server_that_hangs_is_unreachable_after_a_moment_and_nobody_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.3)
    with running(tmp_path) as server:
        stock, acquaintance = acquainted(server.address)
        open_sale(stock, total=9, limit=9)
        assert server.process is not None

        async def ask() -> None:
            together = AsyncStock(connect_async(server.address, acquaintance))
            try:
                await together.run(scripts.inspect(KEYS, now_ms=0))
                os.kill(server.process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
                with pytest.raises(StockUnreachable):
                    await together.run(scripts.reserve(KEYS, 1, reservation()))
            finally:
                await aclose(together.client)

        try:
            asyncio.run(ask())
            with pytest.raises(StockUnreachable):
                standing(stock)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)

        # What was on its way may have arrived, but once: the caller may ask for the same request again.
        assert standing(stock).request_count <= 1


def test_who_gave_up_waiting_before_the_call_was_sent_takes_no_unit(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_server.client().flushall()
    stock, acquaintance = acquainted(redis_server.address)
    open_sale(stock, total=9)
    monkeypatch.setattr(pipeline, "IN_FLIGHT_MAX", 1)

    async def ask() -> None:
        together = AsyncStock(connect_async(redis_server.address, acquaintance))
        exchange, go_on = together._exchange, asyncio.Event()

        async def held_up(calls: Sequence[Call[Any]]) -> list[Any]:
            await go_on.wait()
            return await exchange(calls)

        together._exchange = held_up  # type: ignore[method-assign]
        first = asyncio.ensure_future(together.run(scripts.inspect(KEYS, now_ms=0)))
        while not together._in_flight:
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            until_s = asyncio.get_running_loop().time() + 0.01
            await together.run(scripts.reserve(KEYS, 1, reservation()), until_s=until_s)
        go_on.set()
        await first
        await together.run(scripts.inspect(KEYS, now_ms=0))
        await aclose(together.client)

    asyncio.run(ask())

    assert standing(stock).request_count == 0


def test_a_server_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        stock, _ = acquainted(server.address)
        server.kill()

        with pytest.raises(StockUnreachable):
            standing(stock)
        with pytest.raises(StockUnreachable):
            look(connect(server.address, None))


def test_as_many_threads_as_the_server_has_may_ask_at_once(redis_server: RedisServer) -> None:
    stock, _ = acquainted(redis_server.address)
    threads = 40 + 20 + 20  # the framework's, one for each patrol, the loop's own
    others = [stock.client.connection_pool.get_connection() for _ in range(threads - 1)]
    try:
        assert isinstance(standing(stock), Standing | Fault)
    finally:
        for each in others:
            stock.client.connection_pool.release(each)


def test_a_key_of_another_kind_is_damage(redis_server: RedisServer) -> None:
    redis_server.client().flushall()
    stock, _ = acquainted(redis_server.address)
    open_sale(stock)
    stock.client.delete(KEYS.key("u"))
    stock.client.set(KEYS.key("u"), "not ours")

    with pytest.raises(StockDamaged):
        stock.run(scripts.reserve(KEYS, 1, reservation()))

"""Rivals for the last units: the script grants exactly what there is; the same race without atomicity must oversell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from server.stock import scripts
from server.stock.connection import Acquaintance, aclose, connect_async
from server.stock.pipeline import AsyncStock, BlockingStock
from server.stock.scripts import Reserved
from server.stock.suitability import look
from tests.fakes.redis_server import RedisServer
from tests.integration.stock.sale import KEYS, open_sale, reservation

STOCK, RIVALS = 50, 400

Claim = Callable[[AsyncStock, str], Awaitable[bool]]


async def by_script(stock: AsyncStock, member: str) -> bool:
    """Claim as the server does."""
    return isinstance(await stock.run(scripts.reserve(KEYS, 1, reservation(f"r-{member}", member))), Reserved)


async def by_get_and_set(stock: AsyncStock, member: str) -> bool:
    """Claim with the atomicity taken out: look, then write what was seen less one."""
    left = int(await stock.client.get("left"))
    if left < 1:
        return False
    await stock.client.set("left", left - 1)
    return True


async def _race(server: RedisServer, claim: Claim) -> int:
    acquaintance = Acquaintance()
    acquaintance.accept(frozenset(look(server.client()).run_ids.values()))
    stock = AsyncStock(connect_async(server.address, acquaintance))
    gate = asyncio.Semaphore(30)

    async def one(number: int) -> bool:
        async with gate:
            return await claim(stock, f"m{number}")

    try:
        return sum(await asyncio.gather(*(one(number) for number in range(RIVALS))))
    finally:
        await aclose(stock.client)


def test_rivals_get_exactly_what_there_is(redis_server: RedisServer, stock: BlockingStock) -> None:
    open_sale(stock, total=STOCK)

    assert asyncio.run(_race(redis_server, by_script)) == STOCK


def test_the_same_race_without_the_script_oversells(redis_server: RedisServer, stock: BlockingStock) -> None:
    stock.client.set("left", STOCK)

    assert asyncio.run(_race(redis_server, by_get_and_set)) > STOCK


def test_concurrent_callers_share_a_pipeline(redis_server: RedisServer, stock: BlockingStock) -> None:
    open_sale(stock)
    sent: list[int] = []

    async def ask() -> list[Any]:
        acquaintance = Acquaintance()
        acquaintance.accept(frozenset(look(redis_server.client()).run_ids.values()))
        together = AsyncStock(connect_async(redis_server.address, acquaintance))
        exchange = together._exchange

        async def counted(calls: Any) -> Any:
            sent.append(len(calls))
            return await exchange(calls)

        together._exchange = counted  # type: ignore[method-assign]
        calls = [scripts.reserve(KEYS, 1, reservation(f"r{n}", f"m{n}")) for n in range(20)]
        try:
            return await asyncio.gather(*(together.run(call) for call in calls))
        finally:
            await aclose(together.client)

    answers = asyncio.run(ask())

    assert [type(each) for each in answers] == [Reserved] * 20
    assert sent == [20]


def test_one_caller_who_goes_away_takes_no_answer_from_the_others(
    redis_server: RedisServer, stock: BlockingStock
) -> None:
    open_sale(stock)

    async def ask() -> list[Any]:
        acquaintance = Acquaintance()
        acquaintance.accept(frozenset(look(redis_server.client()).run_ids.values()))
        together = AsyncStock(connect_async(redis_server.address, acquaintance))
        tasks = [
            asyncio.ensure_future(together.run(scripts.reserve(KEYS, 1, reservation(f"r{n}", f"m{n}"))))
            for n in range(3)
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()
        try:
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await aclose(together.client)

    first, second, third = asyncio.run(ask())

    assert isinstance(first, Reserved) and isinstance(third, Reserved)
    assert isinstance(second, asyncio.CancelledError)

"""Those who wait are told that their time is up in the order of their times, whatever the order of their coming."""

from __future__ import annotations

import asyncio

from server.patience import Patience


def test_who_came_later_and_waits_less_long_is_told_first() -> None:
    async def wait() -> list[str]:
        loop, patience, told = asyncio.get_running_loop(), Patience(), list[str]()
        futures = {name: loop.create_future() for name in ("long", "short")}
        for name, seconds in (("long", 60.0), ("short", 0.01)):
            futures[name].add_done_callback(lambda _, name=name: told.append(name))
            patience.limit(futures[name], loop.time() + seconds)
        await asyncio.wait([futures["short"]], timeout=10)
        return told

    assert asyncio.run(wait()) == ["short"]


def test_everyone_is_told_at_the_own_time_and_who_has_an_answer_keeps_it() -> None:
    async def wait() -> list[object]:
        loop, patience = asyncio.get_running_loop(), Patience()
        futures = [loop.create_future() for _ in range(4)]
        for future, seconds in zip(futures, (0.03, 0.01, 0.01, 0.02), strict=True):
            patience.limit(future, loop.time() + seconds)
        futures[1].set_result("answered")
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 10)

    found = asyncio.run(wait())

    assert [each if each == "answered" else type(each) for each in found] == [
        TimeoutError,
        "answered",
        TimeoutError,
        TimeoutError,
    ]


def test_a_time_that_is_over_is_told_at_once() -> None:
    async def wait() -> BaseException | None:
        loop = asyncio.get_running_loop()
        late = loop.create_future()
        Patience().limit(late, loop.time() - 1)
        await asyncio.wait([late], timeout=10)
        return late.exception()

    assert isinstance(asyncio.run(wait()), TimeoutError)

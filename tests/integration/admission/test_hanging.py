"""A database or a Redis that does not answer: a claim is told to come again, and is granted once all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from server.services.admission import claiming, landing
from server.services.admission.claiming import Asked
from server.services.context import Context
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import running


@contextmanager
def impatient(wait_s: float = 0.1) -> Iterator[None]:
    """Let claims wait so long; those that are to succeed are asked outside, however slow the machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claiming, "ANSWER_S", wait_s)
        yield


@pytest.mark.parametrize("arbiter", ["redis", "database"])
def test_a_claim_whose_landing_hangs_is_told_to_come_again_and_granted_once(office: RedisOffice, arbiter: str) -> None:
    office.headquarters.campaign(arbiter=arbiter, stock=3)
    assert office.claim("r0", member="m2")["outcome"] == "ok"
    go_on = threading.Event()
    hanging = office.services.submit(lambda _conn, _ctx: go_on.wait(30))

    with impatient():
        [answer] = office.send([("r1", "m1")])
    go_on.set()
    hanging.result()

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["facts"]["reason"] == "slow"
    assert office.claim("r1")["outcome"] == "ok"
    assert office.held() == {"m1": 1, "m2": 1}
    if arbiter == "redis":
        office.assert_sound()


def test_who_goes_away_while_the_database_is_asked_takes_no_answer_from_those_who_ask_with_him(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2, tiers=["gold"])
    looking, go_on, peek = threading.Event(), threading.Event(), claiming.peek

    def slow(conn: Connection, ctx: Context, wanted: Any) -> Any:
        looking.set()
        go_on.wait(30)
        return peek(conn, ctx, wanted)

    async def ask() -> Any:
        first = asyncio.ensure_future(office.admission.claim(Asked("r1", "c1", "m1", "app")))
        while not looking.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(office.admission.claim(Asked("r2", "c1", "m2", "app")))
        while not office.admission._on_loop()._peeks:
            await asyncio.sleep(0.001)
        first.cancel()
        await asyncio.sleep(0)
        go_on.set()
        return await second

    monkeypatch.setattr(claiming, "peek", slow)
    answer = office.headquarters._loop.run(ask())

    assert answer["outcome"] == "wrong_tier"


def test_a_claim_waits_no_longer_for_a_redis_that_hangs_than_for_the_database(
    headquarters: Headquarters, tmp_path: Path
) -> None:
    with running(tmp_path / "redis") as server:
        assert server.process is not None
        office = RedisOffice(headquarters, server.address)
        headquarters.campaign(arbiter="redis", stock=2)
        assert office.claim("r1", member="m1")["outcome"] == "ok"
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            with impatient():
                answer = office.claim("r2", member="m2")
        finally:
            os.kill(server.process.pid, signal.SIGCONT)

        assert answer["facts"]["reason"] == "slow"
        office.close()


@pytest.mark.parametrize("arbiter", ["redis", "database"])
def test_no_more_claims_wait_for_a_database_that_stands_still_than_there_is_room_for(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch, arbiter: str
) -> None:
    office.headquarters.campaign(arbiter=arbiter, stock=9)
    assert office.claim("r0", member="m8")["outcome"] == "ok"
    monkeypatch.setattr(landing, "QUEUE_MAX", 3)
    monkeypatch.setattr(landing, "BATCH_MAX", 1)
    asked = [(f"r{number}", f"m{number}") for number in range(1, 8)]
    go_on = threading.Event()
    hanging = office.services.submit(lambda _conn, _ctx: go_on.wait(30))

    with impatient(0.25):
        answers = [office.claim(request, member=member) for request, member in asked]
    go_on.set()
    hanging.result()

    assert [each["facts"]["reason"] for each in answers] == ["slow"] * 3 + ["crowded"] * 4
    monkeypatch.setattr(landing, "QUEUE_MAX", 100)
    assert office.outcomes(asked) == {"ok": 7}

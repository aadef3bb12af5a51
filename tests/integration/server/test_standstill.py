"""A PostgreSQL that stands still: everybody is answered in time, and all is well when it goes on."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from sqlalchemy import URL, QueuePool

from server import lookout
from server.db import postgres
from server.http import claims, health, in_time
from server.services import campaigns, ingest, orders
from server.services.admission import claiming
from server.services.keys import KeyCache
from server.services.services import Services
from tests.fakes.counter import coupon, coupon_state, open_counter, violations
from tests.fakes.enrolled import NewTill
from tests.fakes.headquarters import Headquarters
from tests.fakes.standstill import Line, line_to
from tests.fakes.transport import AsgiLine

FRAMEWORK_THREADS = 40
"""Threads in which the framework runs routes (anyio's default); who comes when all are taken waits for one."""


@pytest.fixture
def line(postgres_url: URL) -> Iterator[Line]:
    """Open the line to a database."""
    with tempfile.TemporaryDirectory() as folder, line_to(postgres_url, Path(folder)) as opened:
        yield opened


@pytest.fixture
def office(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headquarters]:
    """Open a server behind the line, with a campaign of two coupons; who reads waits for as long as it takes."""
    monkeypatch.setattr(postgres, "_POOL_TIMEOUT_S", 60)
    monkeypatch.setitem(postgres._LINE, "connect_timeout", 60)  # type: ignore[arg-type]
    opened = Headquarters(tmp_path, url=line.url)
    opened.furnish(members=3)
    opened.campaign(stock=2)
    yield opened
    store = opened.services.database._store
    assert isinstance(store, postgres.Postgres) and isinstance(store.readers.pool, QueuePool)
    # Who was given up reads on, and a connection that comes back to a pool behind its end would stay open.
    while store.readers.pool.checkedout():
        time.sleep(0.01)
    opened.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for long who is not to succeed."""
    monkeypatch.setattr(lookout, "PATIENCE_S", 0.2)
    for module in (claims, claiming):
        monkeypatch.setattr(module, "ANSWER_S", 0.2)


async def ask(office: Headquarters, *requests: httpx.Request) -> list[httpx.Response]:
    transport = httpx.ASGITransport(office.app, client=("127.0.0.1", 50000))

    async def one(request: httpx.Request) -> httpx.Response:
        answer = await transport.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

    return await asyncio.gather(*(one(each) for each in requests))


def get(path: str, key: str = "") -> httpx.Request:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Request("GET", f"http://headquarters{path}", headers=headers)


def claim(key: str, request: str, member: str) -> httpx.Request:
    body = {"request": request, "campaign": "c1", "member": member}
    return httpx.Request("POST", "http://headquarters/v1/claims", json=body, headers={"Authorization": f"Bearer {key}"})


@pytest.mark.usefixtures("impatient")
def test_whoever_looks_after_the_server_is_told_what_hangs_while_everybody_else_waits(
    office: Headquarters, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_time, "LOOK_AFTER_S", 600)

    async def look() -> tuple[Sequence[httpx.Response], Sequence[httpx.Response]]:
        line.stand_still()
        crowd = asyncio.gather(
            *(ask(office, get("/v1/campaigns/c1", office.key)) for _ in range(FRAMEWORK_THREADS + 10))
        )
        try:
            # Twice: what hangs from the first time must not hold up the second.
            async with asyncio.timeout(30):
                paths = ("/ready", "/metrics", "/health")
                told = [(await ask(office, get(path)))[0] for path in paths * 2]
            still_waiting = not crowd.done()
        finally:
            line.go_on()
        assert still_waiting
        return told, [each[0] for each in await crowd]

    told, crowd = office._loop.run(look())

    for ready, numbers, alive in (told[:3], told[3:]):
        assert (ready.status_code, ready.json()) == (503, {"status": "hangs", "parts": {"database": "hangs"}})
        assert "pawtill_database_up 0.0" in numbers.text
        assert alive.status_code == 200
    assert all(each.status_code == 200 for each in crowd)
    assert office.call("GET", "/ready", status=200)["status"] == "ok"


@pytest.mark.usefixtures("impatient")
def test_claims_are_busy_meanwhile_also_of_those_whose_key_nobody_remembers(
    office: Headquarters, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyCache, "find", lambda _self, _token: None)
    key = office.new_key("app")

    async def claim_all() -> Sequence[httpx.Response]:
        line.stand_still()
        try:
            async with asyncio.timeout(30):
                return await ask(office, *(claim(key, f"r{n}", f"m{n}") for n in range(1, 9)))
        finally:
            line.go_on()

    busy = office._loop.run(claim_all())

    assert {(each.status_code, each.json()["outcome"], each.headers["Retry-After"]) for each in busy} == {
        (503, "busy", "1")
    }
    monkeypatch.undo()
    answers = office._loop.run(ask(office, *(claim(key, f"r{n}", f"m{n}") for n in range(1, 4))))
    assert sorted(each.json()["outcome"] for each in answers) == ["ok", "ok", "out_of_stock"]
    assert office.stock()["granted"] == 2


# ------------------------------------------------------------------ everything else


@contextmanager
def standing_still(line: Line, module: ModuleType, use_case: str) -> Iterator[None]:
    """Let the line stand still as soon as a use case is under way, until the end of the block (or for 30 s)."""
    run = getattr(module, use_case)
    late = threading.Timer(30, line.go_on)

    with pytest.MonkeyPatch.context() as patched:

        def stuck(*args: Any, **keys: Any) -> Any:
            line.stand_still()
            patched.setattr(lookout, "PATIENCE_S", 0.2)
            return run(*args, **keys)

        patched.setattr(module, use_case, stuck)
        patched.setattr(lookout, "PATIENCE_S", 60)
        patched.setattr(in_time, "LOOK_AFTER_S", 0.2)
        late.start()
        try:
            yield
        finally:
            late.cancel()
            line.go_on()


def workers() -> int:
    """Count the threads in which routes run."""
    return sum(each.name.startswith("AnyIO") for each in threading.enumerate())


def come_to_an_end(office: Headquarters) -> None:
    """Return when every write that was begun is over."""
    office.services.write(lambda _conn, _ctx: None)


SLOW = {"outcome": "busy", "facts": {"reason": "slow", "retry_after_s": 5}}


def test_a_hold_is_answered_in_time_and_asked_again_it_tells_what_came_of_it(office: Headquarters, line: Line) -> None:
    counter = open_counter(office)
    name = coupon(office)
    basket = counter.basket("o1", "A", member="m1", use=(name,))

    with standing_still(line, orders, "hold"):
        assert counter.hold(basket, payable_minor=9_000, status=503) == SLOW
    come_to_an_end(office)

    held = counter.call("GET", "/v1/orders/o1", status=200)
    assert (held["state"], coupon_state(office, name)) == ("HELD", "FROZEN")
    office.clock.pass_time(seconds=60)
    again = counter.hold(basket, payable_minor=9_000, status=200)
    assert (again["outcome"], again["held_until_at"]) == ("ok", held["held_until_at"])
    assert violations(office) == []


def test_a_push_is_answered_in_time_and_sent_again_it_changes_nothing(office: Headquarters, line: Line) -> None:
    counter = open_counter(office)
    counter.sell(counter.basket("o1", "A"))

    with standing_still(line, ingest, "push"):
        assert counter.push(status=503) == SLOW
    come_to_an_end(office)

    assert counter.state("o1") == "PAID"
    assert [row["result"] for row in counter.push()["results"]] == ["DUP"]
    assert (counter.acked, violations(office)) == (1, [])


def test_everybody_is_answered_in_time_also_without_a_thread_and_enrolled_tills_by_signature(
    office: Headquarters, line: Line
) -> None:
    identity = NewTill(office, AsgiLine(office.app)).enrol()
    signed = identity.sign("GET", "http://headquarters/v1/orders/o1", b"")
    crowd = [get("/v1/campaigns/c1", office.key) for _ in range(FRAMEWORK_THREADS + 10)]
    before = workers()

    async def all_of_them() -> Sequence[httpx.Response]:
        line.stand_still()
        try:
            async with asyncio.timeout(60):
                answers = [*await ask(office, *crowd), *await ask(office, *crowd)]
                answers += await ask(office, httpx.Request("GET", signed.url, headers=signed.headers))
                # Who was given up made no room in the pool for one more that hangs.
                assert workers() - before <= FRAMEWORK_THREADS
                return answers
        finally:
            line.go_on()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lookout, "PATIENCE_S", 0.2)
        patched.setattr(in_time, "LOOK_AFTER_S", 0.2)
        answers = office._loop.run(all_of_them())
        patched.setattr(in_time, "LOOK_AFTER_S", 600)
        later = office._loop.run(ask(office, *crowd))

    assert {(each.status_code, each.headers["Retry-After"]) for each in answers} == {(503, "5")}
    told = answers[-1]
    assert told.json() == SLOW and identity.believes(503, told.headers, told.content, request=signed)
    assert {each.status_code for each in later} == {200}


def test_what_takes_long_is_let_be_while_the_database_answers(
    on_file: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_file.furnish()
    on_file.campaign(stock=2)
    looks, often, look, view = [], threading.Event(), health.reading_state, campaigns.view

    def counted(services: Services) -> str:
        looks.append(look(services))
        if len(looks) == 3:
            often.set()
        return looks[-1]

    def long(*args: Any, **keys: Any) -> Any:
        assert often.wait(30)
        return view(*args, **keys)

    monkeypatch.setattr(in_time, "LOOK_AFTER_S", 0.01)
    monkeypatch.setattr(on_file.app.state.reading, "_ask", lambda: counted(on_file.services))
    monkeypatch.setattr(campaigns, "view", long)

    assert on_file.stock()["granted"] == 0
    assert looks[:3] == ["ok"] * 3

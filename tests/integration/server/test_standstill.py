"""A PostgreSQL that stands still: the server says so in time, claims are busy, and all is well when it goes on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from sqlalchemy import URL

from server import lookout
from server.db import postgres
from server.http import claims
from server.services.admission import claiming
from server.services.keys import KeyCache
from tests.fakes.headquarters import Headquarters
from tests.fakes.standstill import Line, line_to

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
    office: Headquarters, line: Line
) -> None:
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

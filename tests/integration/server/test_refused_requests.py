"""What is refused as no till of ours sends it is found, once a day, and a million of it is found as cheaply as one."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.types import Message

from server.db.errors import DiskFull
from server.http.app import MAX_BODY_BYTES
from server.services import refused_requests
from server.services.refused_requests import FORGED, OVERSIZED, REPLAYED, TRY_AGAIN_AFTER, UNKNOWN, Refused, ToldToday
from sync.protocol import PULL_PATH
from sync.signatures import Request, Signed, named_key, sign_request
from tests.fakes.counter import finding, findings
from tests.fakes.enrolled import ADDRESS, enrol_here
from tests.fakes.headquarters import START, Headquarters

PULL = {"proto": 1, "till": "t1", "cursor": 0}


@pytest.fixture
def headquarters(on_file: Headquarters) -> Headquarters:
    """Take SQLite alone."""
    return on_file


def forged(headquarters: Headquarters, key_id: str) -> int:
    """Pull under a key's name, signed by another; return the status."""
    body = json.dumps(PULL).encode()
    request = Request("POST", ADDRESS + PULL_PATH, {})
    created_s = round(headquarters.clock.now().timestamp())
    sign_request(request, body, key=Ed25519PrivateKey.generate(), signed=Signed(key_id, created_s, "n"))
    return headquarters.send(httpx.Request("POST", request.url, content=body, headers=request.headers)).status_code


def writes(headquarters: Headquarters, act: Callable[[], object]) -> int:
    """Count the writes of an act."""
    sizes: list[int] = []
    headquarters.database.observe = lambda size, _seconds, _waiting: sizes.append(size)
    act()
    headquarters.services.write(lambda _conn, _ctx: None)
    return sum(sizes) - 1


def test_who_stole_the_database_has_no_tills_word_and_is_found(headquarters: Headquarters) -> None:
    enrol_here(headquarters)
    with sqlite3.connect(headquarters.database.path or "") as stolen:
        (key_id,) = stolen.execute("SELECT id FROM device").fetchone()
    stolen.close()

    status = forged(headquarters, key_id)

    found = finding(headquarters, FORGED)
    assert (status, found["key"], found["detail"]["key"]) == (401, f"t1/{START:%Y-%m-%d}", key_id)


def test_ten_thousand_forged_requests_make_one_row(headquarters: Headquarters) -> None:
    drawn = random.Random(7)
    one = Refused(FORGED, None, lambda: {"key": str(drawn.random())})

    def attack() -> None:
        for _ in range(10_000):
            refused_requests.note(headquarters.services, one)
        for number in range(20):
            assert forged(headquarters, f"{number:032}") == 401

    assert writes(headquarters, attack) == 1
    assert findings(headquarters) == {FORGED: 1}
    assert finding(headquarters, FORGED)["key"].startswith(f"{UNKNOWN}/")


def test_each_till_kind_and_day_is_found_by_itself(headquarters: Headquarters) -> None:
    def day() -> None:
        for kind in (FORGED, REPLAYED, OVERSIZED):
            for till in ("t1", "t2", None, "t1", "t2", None):
                refused_requests.note(headquarters.services, Refused(kind, till, dict))

    day()
    headquarters.clock.pass_time(days=1)
    day()

    assert findings(headquarters) == {FORGED: 6, REPLAYED: 6, OVERSIZED: 6}


@pytest.mark.parametrize("key", ["app", ""])
def test_a_message_that_is_too_long_is_found_also_without_a_signature(headquarters: Headquarters, key: str) -> None:
    token = headquarters.new_key(key) if key else "pt_x_y"
    body, headers = bytes(MAX_BODY_BYTES + 1), {"Authorization": f"Bearer {token}"}

    status = headquarters.send(httpx.Request("POST", ADDRESS + PULL_PATH, content=body, headers=headers)).status_code

    found = finding(headquarters, OVERSIZED)
    assert (status, found["key"], found["detail"]["route"]) == (413, f"{UNKNOWN}/{START:%Y-%m-%d}", PULL_PATH)
    assert token not in json.dumps(found)


def test_what_a_full_disk_kept_from_being_written_is_written_later(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = Refused(FORGED, "t1", dict), 0

    def full(_work: object) -> None:
        nonlocal asked
        asked += 1
        raise DiskFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(headquarters.database, "write", full)
        for _ in range(100):
            refused_requests.note(headquarters.services, one)
    headquarters.clock.at += TRY_AGAIN_AFTER
    refused_requests.note(headquarters.services, one)

    assert (asked, findings(headquarters)) == (1, {FORGED: 1})


def test_a_clock_that_was_years_ahead_silences_nobody() -> None:
    told, now = ToldToday(), datetime(2026, 12, 1, 23, 59, tzinfo=UTC)

    heard = [
        told.is_news((FORGED, "t1"), at) for at in (now + timedelta(days=900), now, now, now + timedelta(minutes=1))
    ]

    assert heard == [True, True, False, True]


@pytest.mark.parametrize(
    "text",
    ["", "x", ';keyid=""', f';keyid="{"k" * 65}"', ';keyid="a\x1b[2Jb"', ';keyid="\xe9"', ';keyid="a\\"b"', ";keyid=k"],
)
def test_what_names_no_key_that_may_be_names_none(text: str) -> None:
    assert named_key(Request("GET", ADDRESS, {"signature-input": text})) == ""


def test_a_request_that_the_line_cut_in_two_is_no_forgery(headquarters: Headquarters) -> None:
    identity, body = enrol_here(headquarters), json.dumps(PULL).encode()
    request = identity.sign("POST", ADDRESS + PULL_PATH, body)
    headers = {"Host": "server.test", "Content-Length": str(len(body)), **request.headers}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PULL_PATH,
        "raw_path": PULL_PATH.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("server.test", 80),
    }
    half: Message = {"type": "http.request", "body": body[:9], "more_body": True}
    came: Iterator[Message] = iter((half, {"type": "http.disconnect"}))

    async def receive() -> Message:
        return next(came)

    async def send(_message: Message) -> None:
        pass

    asyncio.run(headquarters.app(scope, receive, send))

    assert findings(headquarters) == {}

"""Signed requests: what is believed, what is refused and why, on both databases; and that each is answered once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_message_signatures import HTTPMessageSigner, algorithms
from sqlalchemy import URL

from app.domain.refusals import Refusal
from app.services.ports import Offline
from server.db.engine import Database
from server.db.errors import DatabaseBusy, DatabaseTrouble
from server.http.app import attend
from server.services.nonces import DatabaseNonces, MemoryNonces
from sync.client import ServerClient
from sync.identity import Identity
from sync.protocol import PULL_PATH
from sync.signatures import REQUEST_PARTS, BadSignature, Reply, Request, Signed, _Keys, check_answer, sign_request
from tests.fakes.clock import SetClock
from tests.fakes.counter import finding, findings
from tests.fakes.enrolled import ADDRESS, NewTill
from tests.fakes.headquarters import START, Headquarters
from tests.fakes.transport import AsgiLine, FaultyTransport

PULL = {"proto": 1, "till": "t1", "cursor": 0}


class Wire(FaultyTransport):
    """Keep every request as it went over."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        super().__init__(inner)
        self.sent: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        return super().handle_request(request)


@pytest.fixture
def headquarters(on_file: Headquarters) -> Headquarters:
    """Take SQLite alone, but for what depends on the database."""
    return on_file


@pytest.fixture
def wire(headquarters: Headquarters) -> Iterator[Wire]:
    line = AsgiLine(headquarters.app)
    yield Wire(line)
    line.close()


@pytest.fixture
def identity(headquarters: Headquarters, wire: Wire) -> Identity:
    return NewTill(headquarters, wire).enrol()


def pull(wire: Wire, identity: Identity) -> httpx.Request:
    """Pull as the till does, and return the request as it went over the wire."""
    with ServerClient(ADDRESS, identity, transport=wire) as client:
        assert not isinstance(client.post(PULL_PATH, PULL), Refusal)
    return wire.sent[-1]


def _signed(identity: Identity, **changes: Any) -> httpx.Request:
    """Return a pull, signed by the profile but for what is changed."""
    body = json.dumps(changes.get("body", PULL)).encode()
    request = Request("POST", ADDRESS + PULL_PATH, {})
    created_s = round(identity.clock.now().timestamp()) + changes.get("late_s", 0)
    signed = Signed(changes.get("key_id", identity.key_id), created_s, changes.get("nonce", "n1"))
    sign_request(request, body, key=changes.get("key", identity.private_key), signed=signed)
    return httpx.Request("POST", ADDRESS + PULL_PATH, content=body, headers=request.headers)


def _ask(headquarters: Headquarters, request: httpx.Request) -> tuple[int, Any]:
    answer = headquarters.send(request)
    return answer.status_code, answer.json().get("error")


def test_a_replayed_request_is_refused(headquarters: Headquarters, wire: Wire, identity: Identity) -> None:
    sent = pull(wire, identity)

    assert _ask(headquarters, sent) == (401, "replayed")
    found = finding(headquarters, "replayed_request")
    assert (found["key"], found["loser"], found["detail"]) == (
        f"t1/{START:%Y-%m-%d}",
        "nobody",
        {"till": "t1", "key": identity.key_id, "from": "127.0.0.1", "route": PULL_PATH},
    )


@pytest.mark.parametrize("minutes", [4, 6, 60])
def test_a_request_that_is_replayed_later_is_refused_too(
    headquarters: Headquarters, wire: Wire, identity: Identity, minutes: int
) -> None:
    sent = pull(wire, identity)
    headquarters.clock.pass_time(minutes=minutes)
    pull(wire, identity)  # whatever else comes meanwhile must not make it forgotten too early

    assert _ask(headquarters, sent) == (401, "replayed" if minutes < 5 else "clock")


def test_a_request_counts_within_five_minutes_of_the_servers_time(
    headquarters: Headquarters, identity: Identity
) -> None:
    # The server began when the test did: pass the time before which it knows nothing.
    headquarters.clock.pass_time(minutes=10)
    wanted = {300: None, 301: "clock", -300: None, -301: "clock", 10**9: "clock"}

    told = {late_s: _ask(headquarters, _signed(identity, late_s=late_s, nonce=f"n{late_s}"))[1] for late_s in wanted}

    assert told == wanted


SPOILT: dict[str, dict[str, Any]] = {
    "method": {"method": "PUT"},
    "path": {"path": "/v1/sync/hello"},
    "query": {"path": PULL_PATH + "?a=b"},
    "host": {"host": "another.test"},
    "body": {"content": b'{"proto": 1, "till": "t1", "cursor": 1}'},
    "no body": {"content": b""},
    "no signature": {"drop": "signature"},
    "no digest": {"drop": "content-digest"},
    "another signature": {"signature": "pawtill=:AAAA:"},
    "an empty signature": {"signature": "pawtill=::"},
    "no parts": {"signature-input": "pawtill=()"},
    "no list": {"signature-input": "x"},
    "no ASCII": {"signature-input": "\xe9"},
}


def _spoilt(good: httpx.Request, spoil: dict[str, Any]) -> httpx.Request:
    headers = {name: value for name, value in good.headers.items() if name not in ("content-length", spoil.get("drop"))}
    headers |= {name: spoil[name] for name in ("signature", "signature-input", "host") if name in spoil}
    return httpx.Request(
        spoil.get("method", "POST"),
        ADDRESS + spoil.get("path", PULL_PATH),
        content=spoil.get("content", good.content),
        headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    )


def test_what_is_changed_on_the_way_opens_nothing(headquarters: Headquarters, identity: Identity) -> None:
    good = _signed(identity)

    told = {name: _ask(headquarters, _spoilt(good, spoil)) for name, spoil in SPOILT.items()}

    assert told == dict.fromkeys(SPOILT, (401, "bad_signature"))
    assert _ask(headquarters, good)[0] == 200
    # What says whose key it is signed by is that till's, everything else nobody's.
    assert findings(headquarters) == {"forged_request": 2}


def _signed_but_for(identity: Identity, left_out: str) -> httpx.Request:
    """Sign everything that the profile wants except one part."""
    body = json.dumps(PULL).encode()
    request = Request("POST", ADDRESS + PULL_PATH, {})
    keys = _Keys(private={identity.key_id: identity.private_key})
    HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=keys).sign(
        request,
        key_id=identity.key_id,
        created=identity.clock.now(),
        nonce=f"n{left_out}",
        label="pawtill",
        tag="pawtill-request",
        covered_component_ids=[part for part in REQUEST_PARTS if part != left_out],
        body=None if left_out == "content-digest" else body,
    )
    return httpx.Request("POST", ADDRESS + PULL_PATH, content=body, headers=request.headers)


def test_a_signature_covers_every_part(headquarters: Headquarters, identity: Identity) -> None:
    told = {part: _ask(headquarters, _signed_but_for(identity, part)) for part in REQUEST_PARTS}

    assert told == dict.fromkeys(REQUEST_PARTS, (401, "bad_signature"))
    assert _ask(headquarters, _signed_but_for(identity, "nothing"))[0] == 200


def test_the_key_of_another_till_speaks_for_that_till_alone(headquarters: Headquarters, wire: Wire) -> None:
    first, second = NewTill(headquarters, wire).enrol(), NewTill(headquarters, wire, "t2").enrol()

    assert _ask(headquarters, _signed(first, key_id=second.key_id)) == (401, "bad_signature")
    assert _ask(headquarters, _signed(first, key=second.private_key)) == (401, "bad_signature")
    assert _ask(headquarters, _signed(second)) == (403, "wrong_till")
    assert _ask(headquarters, _signed(first, key_id="0" * 32)) == (401, "bad_signature")
    found = headquarters.call("GET", "/v1/findings?kind=forged_request", status=200)["findings"]
    told = {each["key"].partition("/")[0]: each["detail"]["key"] for each in found}
    assert told == {"t1": first.key_id, "t2": second.key_id, "unknown": "0" * 32}


def test_a_till_whose_clock_is_wrong_learns_the_time_from_the_server_and_is_answered(
    headquarters: Headquarters, wire: Wire
) -> None:
    clock = SetClock(START + timedelta(days=900))
    identity = NewTill(headquarters, wire).enrol(clock)

    pull(wire, identity)
    asked = len(wire.sent)
    pull(wire, identity)

    assert len(wire.sent) == asked + 1, "it learns once"
    assert abs(identity.offset_ms + timedelta(days=900) / timedelta(milliseconds=1)) < 1000


def test_nobody_but_the_server_moves_a_tills_time(headquarters: Headquarters, wire: Wire, identity: Identity) -> None:
    def portal(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, json={"error": "clock", "now_ms": 0})

    with (
        ServerClient(ADDRESS, identity, transport=httpx.MockTransport(portal)) as client,
        pytest.raises(Offline, match="key_refused"),
    ):
        client.post(PULL_PATH, PULL)

    assert identity.offset_ms == 0


def test_a_server_that_began_just_now_refuses_what_was_signed_before(
    headquarters: Headquarters, identity: Identity
) -> None:
    sent = _signed(identity)
    began_at = START + timedelta(seconds=2)
    attend(headquarters.app, replace(headquarters.services, nonces=MemoryNonces(began_at)))

    refused = _ask(headquarters, sent)
    headquarters.clock.at = began_at

    assert refused == (401, "clock")
    assert _ask(headquarters, _signed(identity))[0] == 200


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_a_till_speaks_once_by_each_request_and_not_when_it_is_shut(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    url: URL | None = request.getfixturevalue("postgres_url") if where == "postgres" else None
    office = Headquarters(tmp_path, url=url)
    office.furnish()
    line = AsgiLine(office.app)
    till = NewTill(office, FaultyTransport(line))
    identity = till.enrol()
    sent = _signed(identity)

    told = [_ask(office, sent), _ask(office, sent), _ask(office, _signed(identity, nonce="n2"))]
    office.call("POST", "/v1/tills/t1/suspend", {"reason": "looked at"}, status=200)
    told.append(_ask(office, _signed(identity, nonce="n3")))
    office.call("POST", "/v1/tills/t1/resume", status=200)
    till.enrol()
    told.append(_ask(office, _signed(identity, nonce="n4")))

    line.close()
    office.close()
    assert told == [(200, None), (401, "replayed"), (200, None), (403, "till_suspended"), (403, "till_replaced")]


def test_an_answer_is_signed_for_the_request_that_it_answers(headquarters: Headquarters, identity: Identity) -> None:
    asked, other = _signed(identity, nonce="a"), _signed(identity, nonce="b")
    answer = headquarters.send(asked)
    key = headquarters.services.chain_key.answers.public_key()

    def reply(request: httpx.Request) -> Reply:
        signed = Request(request.method, str(request.url), dict(request.headers))
        return Reply(answer.status_code, dict(answer.headers), signed)

    check_answer(reply(asked), answer.content, key=key)
    with pytest.raises(BadSignature):
        check_answer(reply(other), answer.content, key=key)
    with pytest.raises(BadSignature):
        check_answer(reply(asked), answer.content + b" ", key=key)


def test_refusals_of_a_tills_access_are_signed_too(headquarters: Headquarters, identity: Identity) -> None:
    headquarters.call("POST", "/v1/tills/t1/suspend", {"reason": "looked at"}, status=200)
    asked = _signed(identity)

    answer = headquarters.send(asked)

    signed = Request(asked.method, str(asked.url), dict(asked.headers))
    key = headquarters.services.chain_key.answers.public_key()
    check_answer(Reply(403, dict(answer.headers), signed), answer.content, key=key)


def test_a_message_of_a_hundred_megabytes_is_not_read(headquarters: Headquarters, identity: Identity) -> None:
    piece, given = bytes(1024 * 1024), 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(100):
            given += 1
            yield piece

    headers = {**_signed(identity).headers}
    del headers["content-length"]
    chunked = httpx.Request("POST", ADDRESS + PULL_PATH, content=endless(), headers=headers)
    announced = httpx.Request("POST", ADDRESS + PULL_PATH, headers={**headers, "content-length": str(100 * 2**20)})

    assert _ask(headquarters, chunked) == (413, "too_large")
    assert given < 8
    assert finding(headquarters, "oversized_request")["key"] == f"t1/{START:%Y-%m-%d}"
    assert _ask(headquarters, announced) == (413, "too_large")
    assert findings(headquarters) == {"oversized_request": 1}


def test_an_app_with_a_key_needs_no_signature_and_gets_none(headquarters: Headquarters) -> None:
    headers = {"Authorization": f"Bearer {headquarters.new_key('app')}"}
    request = httpx.Request("GET", f"{ADDRESS}/v1/members/m1/coupons", headers=headers)

    answer = headquarters.send(request)

    assert (answer.status_code, "signature" in answer.headers) == (200, False)


def test_several_processes_on_one_database_know_each_others_nonces(postgres_url: URL) -> None:
    first, second = Database(postgres_url), Database(postgres_url)
    now_s = int(START.timestamp())
    signed = Signed("k", now_s, "n")

    taken = DatabaseNonces(first).take(signed, now_s), DatabaseNonces(second).take(signed, now_s)

    first.close()
    second.close()
    assert taken == (True, False)


def test_memory_that_is_full_refuses_rather_than_forgets() -> None:
    nonces, now_s = MemoryNonces(START, kept_max=2), int(START.timestamp())
    assert [nonces.take(Signed("k", now_s, str(n)), now_s) for n in range(2)] == [True, True]

    with pytest.raises(DatabaseBusy):
        nonces.take(Signed("k", now_s, "3"), now_s)
    assert not nonces.take(Signed("k", now_s, "1"), now_s)
    later_s = now_s + 400
    assert nonces.take(Signed("k", later_s, "3"), later_s), "what is out of date by its time needs no place"


def test_a_database_that_is_away_says_nothing_of_the_key(
    headquarters: Headquarters, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(work: object) -> object:
        raise DatabaseTrouble("away")

    monkeypatch.setattr(headquarters.services.database, "read", away)

    answer = headquarters.send(_signed(identity))

    assert (answer.status_code, answer.json()["outcome"]) == (503, "busy")

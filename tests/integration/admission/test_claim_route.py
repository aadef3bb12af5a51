"""The claim route in front of the framework answers as the framework does, whatever comes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from server.http.app import MAX_BODY_BYTES
from server.services.keys import KeyCache
from tests.fakes.clock import SetClock
from tests.fakes.headquarters import START, Headquarters

GOOD = {"request": "r1", "campaign": "c1", "member": "m1"}


def _post(headquarters: Headquarters, key: str, content: bytes, **headers: str) -> httpx.Response:
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
    return headquarters.send(httpx.Request("POST", "http://headquarters/v1/claims", content=content, headers=sent))


def _known(headquarters: Headquarters, key: str) -> None:
    """Let the server know the key, so that the next claim in order takes the plain way, however late it comes."""
    app = headquarters.app
    app.state.services = replace(app.state.services, known_keys=KeyCache(monotonic=lambda: 0.0))
    _post(headquarters, key, json.dumps({**GOOD, "campaign": "nowhere", "request": "warm"}).encode())
    assert app.state.services.known_keys.find(key) is not None


BAD: list[tuple[str, bytes, dict[str, str]]] = [
    ("no body", b"", {}),
    ("no json", b"{", {}),
    ("a list", b"[]", {}),
    ("null", b"null", {}),
    ("no field", b"{}", {}),
    ("one field less", json.dumps({"request": "r", "campaign": "c"}).encode(), {}),
    ("one field more", json.dumps({**GOOD, "colour": 1}).encode(), {}),
    ("a number", json.dumps({**GOOD, "request": 1}).encode(), {}),
    ("empty", json.dumps({**GOOD, "request": ""}).encode(), {}),
    ("a slash", json.dumps({**GOOD, "member": "a/b"}).encode(), {}),
    ("a blank", json.dumps({**GOOD, "campaign": "a b"}).encode(), {}),
    ("too long", json.dumps({**GOOD, "member": "x" * 65}).encode(), {}),
    ("long and wrong", json.dumps({**GOOD, "member": "x" * 9000}).encode(), {}),
    ("half a character", b'{"request": "\\ud800", "campaign": "c1", "member": "m1"}', {}),
    ("not utf-8", b'{"request": "\xff", "campaign": "c1", "member": "m1"}', {}),
    ("no source", json.dumps({**GOOD, "source": ""}).encode(), {}),
    ("another type", json.dumps(GOOD).encode(), {"Content-Type": "text/plain"}),
    ("a form", b"request=r1", {"Content-Type": "application/x-www-form-urlencoded"}),
]


@pytest.mark.parametrize(("content", "headers"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_a_request_that_is_not_in_order_is_answered_as_the_framework_does(
    on_file: Headquarters, content: bytes, headers: dict[str, str]
) -> None:
    key = on_file.new_key("app")
    by_the_framework = _post(on_file, key, content, **headers)
    _known(on_file, key)

    answer = _post(on_file, key, content, **headers)

    assert answer.status_code == by_the_framework.status_code
    assert answer.json() == by_the_framework.json()
    assert (answer.status_code, answer.json()["error"]) in [(422, "invalid_request"), (400, "bad_request")]


def test_a_claim_in_order_gets_the_same_answer_on_both_ways(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=2)
    key = headquarters.new_key("app")
    by_the_framework = _post(headquarters, key, json.dumps(GOOD).encode())

    answer = _post(headquarters, key, json.dumps(GOOD).encode())

    assert (answer.status_code, answer.json()) == (by_the_framework.status_code, by_the_framework.json())
    assert answer.status_code == 201 and answer.json()["source"] == "app"
    assert answer.headers["content-type"] == by_the_framework.headers["content-type"]


def test_texts_in_any_writing_of_json_are_the_same_texts(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=2)
    key = headquarters.new_key("app")
    _known(headquarters, key)
    plain = _post(headquarters, key, json.dumps({**GOOD, "source": "横幅"}, ensure_ascii=False).encode())

    escaped = _post(headquarters, key, json.dumps({**GOOD, "source": "横幅"}).encode())

    assert escaped.json() == plain.json()
    assert plain.json()["source"] == "横幅"


def test_a_body_that_is_too_large_is_refused_unread(on_file: Headquarters) -> None:
    key = on_file.new_key("app")
    _known(on_file, key)

    answer = _post(on_file, key, b" " * (MAX_BODY_BYTES + 1))

    assert answer.status_code == 413


@pytest.mark.parametrize("key", ["", "pt_x", "é"])
def test_without_a_key_nobody_claims(on_file: Headquarters, key: str) -> None:
    sent = [(b"Authorization", b"Bearer " + key.encode()), (b"Content-Type", b"application/json")]
    request = httpx.Request("POST", "http://headquarters/v1/claims", content=json.dumps(GOOD), headers=sent)

    answer = on_file.send(request)

    assert (answer.status_code, answer.json()) == (401, {"error": "no_key"})


def test_a_scope_that_does_not_reach_here_is_told_so_each_time(headquarters: Headquarters) -> None:
    key = headquarters.new_key("manager")

    answers = [_post(headquarters, key, json.dumps(GOOD).encode()) for _ in range(2)]

    assert [each.status_code for each in answers] == [403, 403]


def test_a_revoked_key_claims_nothing_from_now_on(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=2)
    made = headquarters.call("POST", "/v1/keys", {"scope": "app", "name": "app"}, status=201)
    _known(headquarters, made["key"])

    headquarters.call("POST", f"/v1/keys/{made['id']}/revoke", status=200)

    assert _post(headquarters, made["key"], json.dumps(GOOD).encode()).status_code == 401


def test_a_key_is_remembered_for_two_seconds_and_not_longer(on_file: Headquarters) -> None:
    clock = SetClock(START)
    cache = KeyCache(monotonic=lambda: clock.now().timestamp())
    cache.add("token", on_file.context().actor)

    clock.pass_time(milliseconds=499)
    assert cache.find("token") is not None
    assert cache.find("another") is None
    clock.pass_time(milliseconds=1500)
    assert [cache.find("token") is not None for _ in range(2)] == [False, True]
    clock.pass_time(milliseconds=1)
    assert [cache.find("token") for _ in range(2)] == [None, None]


def test_one_caller_asks_anew_whose_key_it_is_while_the_others_pass(on_file: Headquarters) -> None:
    clock = SetClock(START)
    cache = KeyCache(monotonic=lambda: clock.now().timestamp())
    actor = on_file.context().actor
    cache.add("token", actor)

    clock.pass_time(milliseconds=500)
    assert [cache.find("token") for _ in range(3)] == [None, actor, actor]
    cache.add("token", actor)
    clock.pass_time(milliseconds=499)

    assert cache.find("token") == actor


def test_a_tills_claim_names_the_till(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=2)
    key = headquarters.new_key("till")

    assert _post(headquarters, key, json.dumps(GOOD).encode()).json()["source"] == "till:t1"


def test_the_claim_route_is_described(on_file: Headquarters) -> None:
    described: dict[str, Any] = on_file.app.openapi()["paths"]

    claim = described["/v1/claims"]["post"]
    assert claim["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/ClaimIn")
    assert "201" in claim["responses"] and claim["security"]
    assert "get" in described["/v1/claims/{request_id}"]

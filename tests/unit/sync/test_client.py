"""The door to the network: what an answer means, and what is no answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import httpx
import pytest

from app.domain.refusals import Refusal, RefusalCode
from app.services.ports import Busy, Offline
from sync.client import (
    DEFAULT_RETRY_S,
    MAX_RETRY_S,
    KeyRefused,
    Misunderstood,
    ProtocolRefused,
    ServerClient,
    TooLarge,
)
from sync.protocol import PULL_PATH, Pull, PullAnswer

KEY = "pt_k1_canarysecret"
PULL = Pull(proto=1, till="t1", cursor=0)


def client_of(handler: Callable[[httpx.Request], httpx.Response]) -> ServerClient:
    return ServerClient("http://server.test", KEY, transport=httpx.MockTransport(handler))


def client_that_gets(status: int, body: object = None, **headers: str) -> ServerClient:
    return client_of(lambda request: httpx.Response(status, json=body, headers=headers))


def test_an_answer_of_ours_is_returned_whole() -> None:
    client = client_that_gets(201, {"outcome": "ok", "new_field": [1]})

    answer = client.post("/v1/refunds", {"request": "r1"})

    assert answer == {"outcome": "ok", "new_field": [1]}


def test_a_request_carries_the_key_and_its_body_as_json() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"outcome": "ok"})

    client_of(handler).post("/v1/refunds", {"store": "静安店"})

    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert seen[0].headers["content-type"] == "application/json"
    assert json.loads(seen[0].content) == {"store": "静安店"}


@pytest.mark.parametrize("status", [409, 404])
def test_a_refusal_is_a_value_with_its_facts(status: int) -> None:
    client = client_that_gets(status, {"outcome": "frozen", "facts": {"coupon": "c1"}})

    answer = client.post("/v1/orders/o1/hold", {})

    assert answer == Refusal(RefusalCode.FROZEN, {"coupon": "c1"})


def test_a_refusal_that_a_newer_server_invented_is_still_a_no() -> None:
    client = client_that_gets(409, {"outcome": "moon_is_full", "facts": {}})

    answer = client.post("/v1/orders/o1/hold", {})

    assert answer == Refusal(RefusalCode.NOT_ALLOWED)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, KeyRefused), (403, KeyRefused), (426, ProtocolRefused), (413, TooLarge), (422, Misunderstood)],
)
def test_a_server_that_cannot_be_used_is_offline_of_a_kind(status: int, error: type[Offline]) -> None:
    client = client_that_gets(status, {"outcome": "not_allowed", "facts": {}})

    with pytest.raises(error):
        client.exchange(PULL_PATH, PULL, PullAnswer)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "86400"}, MAX_RETRY_S),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-1"}, DEFAULT_RETRY_S),
        ({"retry-after": "nan"}, DEFAULT_RETRY_S),
        ({"retry-after": "Fri, 31 Dec 2027 23:59:59 GMT"}, DEFAULT_RETRY_S),
        ({}, DEFAULT_RETRY_S),
    ],
)
@pytest.mark.parametrize(("status", "outcome"), [(503, "busy"), (429, "rate_limited")])
def test_a_busy_server_says_when_to_come_back(
    status: int, outcome: str, header: dict[str, str], seconds: float
) -> None:
    client = client_that_gets(status, {"outcome": outcome, "facts": {}}, **header)

    with pytest.raises(Busy) as caught:
        client.get("/v1/orders/o1")

    assert (caught.value.retry_after_s, caught.value.code) == (seconds, RefusalCode(outcome))


def test_a_server_whose_database_stands_still_tells_nothing_of_what_was_done() -> None:
    client = client_that_gets(503, {"outcome": "busy", "facts": {"reason": "slow"}}, **{"retry-after": "5"})

    with pytest.raises(Offline, match="no_answer"):
        client.post("/v1/orders/o1/hold", {})


HTML = {"content-type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>Please log in to the Wi-Fi</html>", headers=HTML),
        httpx.Response(200, text='{"records": [], "next": 0, "more": false}', headers=HTML),
        httpx.Response(200, text="<html>", headers={"content-type": "application/json"}),
        httpx.Response(200, text="[" * 100_000, headers={"content-type": "application/json"}),
        httpx.Response(200, json=["not", "an", "object"]),
        httpx.Response(200, json={"records": [], "next": 0}),
        httpx.Response(200, json={"records": [], "next": "soon", "more": False}),
        httpx.Response(200, text='{"records": [], "next"', headers={"content-type": "application/json"}),
        httpx.Response(204),
        httpx.Response(302, headers={"location": "http://portal.test/login"}),
        httpx.Response(401, text="<html>proxy wants a password</html>", headers=HTML),
        httpx.Response(404, json={"detail": "Not Found"}),
        httpx.Response(407, text="", headers=HTML),
        httpx.Response(500, text="Internal Server Error"),
        httpx.Response(500, json={"outcome": "ok"}),
        httpx.Response(502, text="<html>", headers=HTML),
        httpx.Response(503, text="<html>", headers=HTML),
        httpx.Response(504, json={"error": "upstream"}),
        httpx.Response(511, text="<html>", headers=HTML),
    ],
    ids=lambda response: f"{response.status_code}-{response.content[:24]!r}",
)
def test_what_is_not_provably_ours_is_no_answer_at_all(response: httpx.Response) -> None:
    client = client_of(lambda request: response)

    with pytest.raises(Offline) as caught:
        client.exchange(PULL_PATH, PULL, PullAnswer)

    assert type(caught.value) is Offline


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpx.ConnectError("no route"), "unreachable"),
        (httpx.ConnectTimeout("slow"), "unreachable"),
        (httpx.ReadTimeout("slow"), "no_answer"),
        (httpx.PoolTimeout("full"), "no_answer"),
        (httpx.ReadError("reset"), "cut"),
        (httpx.RemoteProtocolError("half"), "cut"),
        (httpx.DecodingError("gzip"), "cut"),
    ],
)
def test_a_broken_line_is_offline_with_its_reason(error: Exception, reason: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(Offline) as caught:
        client_of(handler).get("/v1/orders/o1")

    assert str(caught.value) == reason


class Drip(httpx.SyncByteStream):
    """Give one byte at a time and let the clock run on with each."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._tick()
            yield b" "


def test_an_answer_that_drips_for_ever_is_given_up_after_the_answers_time() -> None:
    now = [0.0]

    def tick() -> None:
        now[0] += 1.0

    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Drip(tick)))
    client = ServerClient("http://server.test", KEY, transport=transport, monotonic=lambda: now[0])

    with pytest.raises(Offline) as caught:
        client.get("/v1/orders/o1")

    assert (str(caught.value), now[0]) == ("no_answer", 6.0)


def test_an_answer_without_end_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sync.client.MAX_ANSWER_BYTES", 1000)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Drip(lambda: None)))
    client = ServerClient("http://server.test", KEY, transport=transport)

    with pytest.raises(Offline) as caught:
        client.get("/v1/orders/o1")

    assert str(caught.value) == "foreign_answer"


def test_neither_key_nor_body_reaches_a_log_or_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_that_gets(200, {"records": "canarybody", "next": 0, "more": False})

    with pytest.raises(Offline) as caught:
        client.exchange(PULL_PATH, PULL, PullAnswer)

    told = caplog.text + repr(caught.value) + repr(vars(caught.value)) + repr(caught.value.__context__) + repr(client)
    assert "canary" not in told

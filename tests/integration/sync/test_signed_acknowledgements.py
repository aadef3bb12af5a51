"""An enrolled till and whatever answers in its server's place: nothing moves without the server's own signature."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from app.services.ports import Offline
from app.store import meta
from sync.client import KeyRefused, TillShut
from sync.protocol import HELLO_PATH, PULL_PATH, PUSH_PATH
from tests.fakes.counter import finding
from tests.fakes.enrolled import NewTill
from tests.fakes.headquarters import START
from tests.fakes.transport import Fault
from tests.integration.sync.shop import Shop

Answer = Callable[[httpx.Request, httpx.Response], httpx.Response]
STAMPS = ("signature", "signature-input", "content-digest")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(tmp_path, enrolled=True)
    yield opened
    opened.close()


def _between(shop: Shop, path: str, change: Answer) -> None:
    """Put something in the line that answers in the server's place on one path; the server hears the request."""
    pass_on = shop.line._pass

    def meddle(request: httpx.Request) -> httpx.Response:
        answer = pass_on(request)
        return change(request, answer) if request.url.path == path else answer

    shop.line._pass = meddle  # type: ignore[method-assign]


def _moved(shop: Shop) -> tuple[int, int, int, set[str]]:
    """Return all that an answer may move: what is acknowledged, announced and pulled, and the outbox."""
    with shop.db.read() as conn:
        known = meta.load(conn)
    return known.acked_seq, known.seen_seq, known.cursor, {state for state, _ in shop.outbox()}


def _stamped(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in STAMPS}


def _json(content: object, like: httpx.Response) -> httpx.Response:
    return httpx.Response(200, json=content, headers=_stamped(like))


def _html(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
    return httpx.Response(200, text="<html>Wi-Fi</html>", headers={"content-type": "text/html"})


def _unsigned(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    return httpx.Response(200, content=answer.content, headers={"content-type": "application/json"})


def _made_up(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    """Say that more is acknowledged than was, under the genuine signature of the answer."""
    said = json.loads(answer.content)
    return _json({**said, "signature": "x"}, answer)


def _error_as_success(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    return httpx.Response(201, content=answer.content, headers=dict(answer.headers))


@pytest.mark.parametrize("path", [HELLO_PATH, PUSH_PATH, PULL_PATH])
@pytest.mark.parametrize("change", [_html, _unsigned, _made_up, _error_as_success])
def test_an_answer_that_is_not_the_servers_own_moves_nothing(shop: Shop, path: str, change: Answer) -> None:
    shop.sell("o1")
    before = _moved(shop)
    if path != HELLO_PATH:
        shop.engine._greet()
        before = _moved(shop)
    if path == PULL_PATH:
        shop.engine.push_now()
        before = _moved(shop)
    _between(shop, path, change)

    with pytest.raises(Offline) as caught:
        {HELLO_PATH: shop.engine.run_once, PUSH_PATH: shop.engine.push_now, PULL_PATH: shop.engine.pull_now}[path]()

    assert _moved(shop) == before
    assert str(caught.value) == ("captive_portal" if change is _html else "unsigned_answer")


def _meddled(shop: Shop, *answers: httpx.Response) -> None:
    """Run a session for each of these answers, which a stranger gives; the server hears nothing."""
    pass_on = shop.line._pass
    for answer in answers:
        shop.line._pass = lambda _request, answer=answer: answer  # type: ignore[method-assign, misc]
        with pytest.raises(Offline):
            shop.engine.run_once()
    shop.line._pass = pass_on  # type: ignore[method-assign]


def _by_a_stranger(status: int) -> httpx.Response:
    return httpx.Response(status, json={"error": "no_key"})


def test_headquarters_hears_how_many_answers_were_not_the_servers(shop: Shop) -> None:
    portal = httpx.Response(302, text="<html>Wi-Fi</html>", headers={"content-type": "text/html"})
    _meddled(shop, portal, *map(_by_a_stranger, (200, 401, 409)))
    shop.engine.run_once()

    found = finding(shop.office_side, "untrusted_answers")
    assert (found["key"], found["amount_minor"], found["in_money"]) == (f"t1/{START:%Y-%m-%d}", 4, False)
    assert (found["loser"], found["detail"]["answers"]) == ("nobody", 4)


def test_each_answer_of_a_meddler_is_told_once_and_one_finding_a_day_is_opened(shop: Shop) -> None:
    for count in (1, 2):
        _meddled(shop, *[_by_a_stranger(200)] * count)
        shop.engine.run_once()
    shop.office_side.clock.pass_time(days=1)
    shop.engine.run_once()
    _meddled(shop, _by_a_stranger(200))
    shop.engine.run_once()

    found = shop.office_side.call("GET", "/v1/findings?kind=untrusted_answers", status=200)["findings"]
    assert [each["amount_minor"] for each in found] == [1, 1]


def test_a_server_that_is_away_or_reads_no_more_is_no_meddler(shop: Shop) -> None:
    _meddled(shop, *map(_by_a_stranger, (502, 503, 413)))
    shop.engine.run_once()

    assert shop.findings() == []


def test_everything_lands_once_when_the_meddler_is_gone(shop: Shop) -> None:
    shop.sell("o1")
    shop.line.plan(Fault.PORTAL_JSON, Fault.PORTAL)
    for _ in range(2):
        with pytest.raises(Offline):
            shop.engine.run_once()

    report = shop.engine.run_once()

    assert (report.pushed, report.pending, shop.server_entries()) == (1, 0, shop.till_entries())


def test_an_old_acknowledgement_moves_nothing(shop: Shop) -> None:
    kept: list[httpx.Response] = []

    def replay(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        kept.append(answer)
        return kept[0]

    _between(shop, PUSH_PATH, replay)
    shop.sell("o1")
    shop.engine.run_once()
    shop.sell("o2")
    shop.engine._greet()
    before = _moved(shop)

    with pytest.raises(Offline, match="unsigned_answer"):
        shop.engine.push_now()

    assert _moved(shop) == before
    assert len(kept) == 2


def test_an_acknowledgement_of_another_till_moves_nothing(shop: Shop) -> None:
    other = NewTill(shop.office_side, shop.line, "t2").enrol()

    def of_another(request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        body = json.dumps({**json.loads(request.content), "till": "t2"}).encode()
        signed = other.sign("POST", str(request.url), body)
        return shop.line.inner.handle_request(httpx.Request("POST", request.url, content=body, headers=signed.headers))

    _between(shop, HELLO_PATH, of_another)
    shop.sell("o1")
    before = _moved(shop)

    with pytest.raises(Offline, match="unsigned_answer"):
        shop.engine.run_once()

    assert _moved(shop) == before


def test_a_meddler_that_says_the_till_is_refused_takes_nothing_away(shop: Shop) -> None:
    shop.sell("o1")
    shop.line.plan(Fault.KEY_REFUSED)
    with pytest.raises(KeyRefused):
        shop.engine.run_once()

    assert shop.engine.run_once().pushed == 1


def test_a_suspended_till_keeps_its_sales_and_sends_them_when_it_is_resumed(shop: Shop) -> None:
    shop.office_side.call("POST", "/v1/tills/t1/suspend", {"reason": "looked at"}, status=200)
    shop.sell("o1")
    with pytest.raises(TillShut):
        shop.engine.run_once()
    assert shop.engine.status.reason == "till_suspended"

    shop.office_side.call("POST", "/v1/tills/t1/resume", status=200)

    assert shop.engine.run_once().pushed == 1


@pytest.mark.parametrize("fault", [Fault.DOUBLE, Fault.DOUBLE_LATE, Fault.LOSE_ANSWER, Fault.HOLD_BACK])
def test_a_line_that_doubles_or_loses_requests_loses_no_sale(shop: Shop, fault: Fault) -> None:
    shop.sell("o1")
    shop.line.plan(Fault.NONE, fault)
    try:
        shop.engine.run_once()
    except Offline as error:
        assert str(error) in ("cut", "no_answer")
    shop.line.heal()

    shop.engine.run_once()

    assert (shop.server_entries(), {state for state, _ in shop.outbox()}) == (
        shop.till_entries(),
        {"ACKNOWLEDGED"},
    )

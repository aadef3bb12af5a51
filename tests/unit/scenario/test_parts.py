"""The small parts of a scenario: durations, the virtual clock, typing by hand, the bad line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.domain.codes import MEMBER_COUPON, make_code, parse
from app.domain.refusals import Refusal
from server.scenario.clock import TillClock, VirtualClock
from server.scenario.transport import Link
from server.scenario.typing_modes import type_code
from server.scenario.values import parse_duration

START = datetime(2026, 6, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("14m59s", timedelta(minutes=14, seconds=59)),
        ("2h", timedelta(hours=2)),
        ("10d", timedelta(days=10)),
        ("0s", timedelta()),
    ],
)
def test_a_duration_is_read_in_its_units(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "90", "s", "1.5h", "-2h", "1h 30m", "2w", "１h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_time_moves_forward_alone_and_a_till_may_be_wrong_about_it() -> None:
    clock = VirtualClock(START)
    till = TillClock(clock)

    till.skew(timedelta(hours=-2))
    till.skew(timedelta(minutes=10))
    clock.advance(timedelta(minutes=1))

    assert till.now() == clock.now() - timedelta(hours=1, minutes=50)
    assert clock.move_to(START + timedelta(minutes=1)) and not clock.move_to(START)
    assert clock.now() == START + timedelta(minutes=1)


@pytest.mark.parametrize("how", ["lower", "spaced", "dashed", "fullwidth", "lookalike"])
def test_a_code_typed_in_a_forgiven_way_is_the_same_code(how: str) -> None:
    code = make_code(MEMBER_COUPON, lambda count: "01" * (count // 2))

    typed = type_code(code, how)
    parsed = parse(typed)

    assert not isinstance(parsed, Refusal) and parsed.text == code
    assert (typed != code) == (how != "lower")


@pytest.mark.parametrize("how", ["one_wrong", "swapped"])
@pytest.mark.parametrize("digits", ["12345678901234", "00000000000000", "99999999999999", "10000000000000"])
def test_a_code_with_one_slip_is_another_text_that_cannot_be_read(how: str, digits: str) -> None:
    code = make_code(MEMBER_COUPON, lambda _count: digits)

    typed = type_code(code, how)

    assert len(typed) == len(code) and typed != code
    assert isinstance(parse(typed), Refusal)


class Counter(httpx.BaseTransport):
    """Answer every request with its number."""

    def __init__(self) -> None:
        self.count = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Count and answer."""
        self.count += 1
        return httpx.Response(200, text=str(self.count))


@pytest.fixture
def line() -> Iterator[tuple[httpx.Client, Link, Counter]]:
    """Give a client on a link to a server that counts."""
    server = Counter()
    link = Link(server)
    with httpx.Client(transport=link, base_url="http://server") as client:
        yield client, link, server


def test_nothing_reaches_the_server_over_a_pulled_cable(line: tuple[httpx.Client, Link, Counter]) -> None:
    client, link, server = line
    link.faults.offline = True

    with pytest.raises(httpx.ConnectError):
        client.get("/")

    assert (server.count, link.lost) == (0, 0)


def test_a_lost_answer_belongs_to_a_request_that_arrived(line: tuple[httpx.Client, Link, Counter]) -> None:
    client, link, server = line
    link.faults.lose = 1

    with pytest.raises(httpx.ReadTimeout):
        client.get("/")

    assert (server.count, link.lost) == (1, 1)
    assert client.get("/").text == "2"


def test_a_doubled_request_arrives_twice_and_is_answered_once(line: tuple[httpx.Client, Link, Counter]) -> None:
    client, link, server = line
    link.faults.double = 1

    assert client.get("/").text == "1"
    assert server.count == 2
    assert client.get("/").text == "3"

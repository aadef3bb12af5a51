"""Every answer of the scripts of a claim, on a real server: reserve, confirm, release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from server.stock import scripts
from server.stock.pipeline import BlockingStock
from server.stock.scripts import End, Fault, No, Refused, Repeated, Reserved, Why
from tests.integration.stock.sale import (
    KEYS,
    NOW,
    configuration,
    everything,
    open_sale,
    reservation,
    standing,
    take,
    take_token,
)

# ------------------------------------------------------------------ reserve


def test_a_reservation_takes_a_unit_and_leaves_its_event(stock: BlockingStock) -> None:
    open_sale(stock, total=3)

    answer = take(stock, event='{"source": "app"}')

    assert isinstance(answer, Reserved) and answer.available == 2
    [(entry, event)] = stock.client.xrange(KEYS.key("s"))
    assert answer.token == f"1/{entry.decode()}"
    assert event == {
        b"gen": b"1",
        b"request": b"r1",
        b"fingerprint": b"ab",
        b"member": b"m1",
        b"qty": b"1",
        b"at_ms": str(NOW).encode(),
        b"deadline_ms": str(NOW + 5000).encode(),
        b"event": b'{"source": "app"}',
    }


def test_a_campaign_without_stock_has_no_number_left(stock: BlockingStock) -> None:
    open_sale(stock, total=None)

    answer = take(stock)

    assert isinstance(answer, Reserved) and answer.available is None


def test_the_same_request_again_is_told_apart_and_takes_nothing(stock: BlockingStock) -> None:
    open_sale(stock, limit=2)
    token = take_token(stock)
    before = everything(stock)

    assert take(stock, now_ms=NOW + 1) == Repeated(token, NOW + 5000)
    assert everything(stock) == before


@pytest.mark.parametrize("other", [{"member": "m2"}, {"fingerprint": "cd"}, {"qty": 2}])
def test_the_same_request_with_other_content_is_refused(stock: BlockingStock, other: dict[str, Any]) -> None:
    open_sale(stock, limit=5)
    take_token(stock)

    assert take(stock, **other) == Refused(No.KEY_REUSE)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_member_gets_as_many_as_allowed_and_not_one_more(stock: BlockingStock, limit: int) -> None:
    open_sale(stock, limit=limit)
    for number in range(limit):
        take_token(stock, f"r{number}")

    assert take(stock, "one more") == Refused(No.LIMIT)


def test_what_a_member_held_before_counts(stock: BlockingStock) -> None:
    open_sale(stock, held={"m1": 1})

    assert take(stock) == Refused(No.LIMIT)
    assert isinstance(take(stock, "r2", "m2"), Reserved)


def test_several_at_once_are_taken_whole_or_not_at_all(stock: BlockingStock) -> None:
    open_sale(stock, total=4, limit=5)

    assert isinstance(take(stock, "r1", "m1", qty=3), Reserved)
    assert take(stock, "r2", "m2", qty=2) == Refused(No.SOLD_OUT)
    assert isinstance(take(stock, "r3", "m2", qty=1), Reserved)


def test_the_last_unit_is_granted_and_nothing_behind_it(stock: BlockingStock) -> None:
    open_sale(stock, total=1)

    assert isinstance(take(stock), Reserved)
    assert take(stock, "r2", "m2") == Refused(No.SOLD_OUT)


@pytest.mark.parametrize(("now_ms", "granted"), [(NOW - 1, False), (NOW, True), (NOW + 999, True), (NOW + 1000, False)])
def test_the_window_opens_and_ends_to_the_millisecond(stock: BlockingStock, now_ms: int, granted: bool) -> None:
    open_sale(stock, from_ms=NOW, until_ms=NOW + 1000)

    answer = take(stock, now_ms=now_ms)

    assert isinstance(answer, Reserved) if granted else answer == Refused(No.CLOSED)


def test_a_paused_campaign_reserves_nothing(stock: BlockingStock) -> None:
    open_sale(stock, is_open=False)

    assert take(stock) == Refused(No.CLOSED)


def test_a_repeat_is_known_also_while_the_campaign_is_paused(stock: BlockingStock) -> None:
    open_sale(stock)
    token = take_token(stock)
    stock.run(scripts.configure(KEYS, 1, configuration(config=2, is_open=False)))

    assert take(stock) == Repeated(token, NOW + 5000)


# ------------------------------------------------------------------ rate


def test_the_rate_lets_a_burst_through_and_then_so_many_a_second(stock: BlockingStock) -> None:
    open_sale(stock, rate=10, burst=2)
    for number in range(2):
        take_token(stock, f"r{number}", f"m{number}")

    assert take(stock, "r2", "m2") == Refused(No.RATE, retry_ms=100)
    assert take(stock, "r2", "m2", now_ms=NOW + 99) == Refused(No.RATE, retry_ms=1)
    assert isinstance(take(stock, "r2", "m2", now_ms=NOW + 100), Reserved)


def test_the_bucket_never_holds_more_than_the_burst(stock: BlockingStock) -> None:
    open_sale(stock, rate=10, burst=2)
    later = NOW + 3_600_000

    answers = [take(stock, f"r{n}", f"m{n}", now_ms=later) for n in range(3)]

    assert [type(each) for each in answers] == [Reserved, Reserved, Refused]


def test_a_clock_that_goes_back_fills_no_bucket(stock: BlockingStock) -> None:
    open_sale(stock, rate=1, burst=1)
    take_token(stock, now_ms=NOW + 10_000)

    assert take(stock, "r2", "m2", now_ms=NOW) == Refused(No.RATE, retry_ms=1000)
    assert take(stock, "r2", "m2", now_ms=NOW + 10_999) == Refused(No.RATE, retry_ms=1)


def test_who_is_refused_for_limit_or_stock_uses_up_no_rate(stock: BlockingStock) -> None:
    open_sale(stock, total=2, rate=1, burst=2)
    take_token(stock)
    for _ in range(5):
        assert take(stock, "again") == Refused(No.LIMIT)

    assert isinstance(take(stock, "r2", "m2"), Reserved)


# ------------------------------------------------------------------ faults


def test_a_campaign_that_was_never_loaded_has_no_generation(stock: BlockingStock) -> None:
    assert take(stock) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.confirm(KEYS, 1, [("r1", "1/1-0")])) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.release(KEYS, 1, [("r1", "1/1-0")])) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.adjust(KEYS, version=2, units=-1, members={"m1": 1})) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.configure(KEYS, 1, configuration())) == Fault(Why.NO_GENERATION)
    assert standing(stock) == Fault(Why.NO_GENERATION)
    assert stock.client.dbsize() == 0


@pytest.mark.parametrize("generation", [6, 8])
def test_another_generation_is_refused_and_named(stock: BlockingStock, generation: int) -> None:
    open_sale(stock, generation=7)
    token = take_token(stock, generation=7)
    before = everything(stock)

    for answer in (
        take(stock, "r2", generation=generation),
        stock.run(scripts.confirm(KEYS, generation, [("r1", token)])),
        stock.run(scripts.release(KEYS, generation, [("r1", token)])),
        stock.run(scripts.configure(KEYS, generation, configuration(config=9))),
    ):
        assert answer == Fault(Why.STALE_GENERATION, "7")
    assert everything(stock) == before


@pytest.mark.parametrize("part", "hruds")
def test_one_lost_key_is_noticed_by_every_script(stock: BlockingStock, part: str) -> None:
    open_sale(stock, limit=9)
    token = take_token(stock)
    take_token(stock, "r2", "m2")
    stock.client.delete(KEYS.key(part))
    expected = Fault(Why.NO_GENERATION) if part == "h" else Fault(Why.CORRUPT, part)

    assert take(stock, "r3", "m3") == expected
    assert stock.run(scripts.confirm(KEYS, 1, [("r1", token)])) == expected
    assert stock.run(scripts.release(KEYS, 1, [("r1", token)])) == expected
    assert standing(stock) == expected


@pytest.mark.parametrize("field", ["avail", "nr", "nu", "units", "limit", "tokens"])
@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "99999999999999999999"])
def test_a_counter_that_is_no_number_is_noticed_before_anything_is_written(
    stock: BlockingStock, field: str, value: str
) -> None:
    open_sale(stock)
    stock.client.hset(KEYS.key("h"), field, value)
    before = everything(stock)

    assert take(stock) == Fault(Why.CORRUPT, "h")
    assert everything(stock) == before


def test_a_record_that_makes_no_sense_is_noticed(stock: BlockingStock) -> None:
    open_sale(stock, limit=3)
    token = take_token(stock)
    stock.client.hset(KEYS.key("r"), "r1", "nonsense")

    assert take(stock) == Fault(Why.CORRUPT, "r")
    assert stock.run(scripts.confirm(KEYS, 1, [("r1", token)])) == Fault(Why.CORRUPT, "r")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 0),
        (0, -1),
        (0, "one"),
        (1, ""),
        (2, ""),
        (2, "no hex"),
        (3, ""),
        (4, 0),
        (4, -1),
        (4, "1.0"),
        (4, "2e1"),
        (4, "9007199254740993"),
        (5, "now"),
        (6, -1),
    ],
)
def test_a_bad_argument_is_named_by_its_place_and_writes_nothing(
    stock: BlockingStock, place: int, value: str | int
) -> None:
    open_sale(stock)
    before = everything(stock)
    call = scripts.reserve(KEYS, 1, reservation())
    args = tuple(value if n == place else each for n, each in enumerate((*call.args, *call.own)))

    raw = stock.run(replace(call, args=args, own=(), read=list))  # type: ignore[arg-type]

    assert raw == [b"BAD_ARG", place + 1]
    assert everything(stock) == before


def test_a_missing_argument_is_a_bad_one(stock: BlockingStock) -> None:
    open_sale(stock)
    call = scripts.reserve(KEYS, 1, reservation())

    assert stock.run(replace(call, own=call.own[:6], read=list)) == [b"BAD_ARG", 8]  # type: ignore[arg-type]
    assert stock.run(replace(call, own=(), read=list)) == [b"BAD_ARG", 2]  # type: ignore[arg-type]


def test_a_bad_argument_of_one_is_said_before_anything_is_written_for_the_others(stock: BlockingStock) -> None:
    open_sale(stock)
    before = everything(stock)
    call = scripts.reserve(KEYS, 1, reservation())
    other = scripts.reserve(KEYS, 1, reservation("r2", "m2", qty=0))

    raw = stock.run(replace(call, own=(*call.own, *other.own), read=list))  # type: ignore[arg-type]

    assert raw == [b"BAD_ARG", 12]
    assert everything(stock) == before


def test_reservations_that_come_together_are_one_call_and_each_is_told_its_own(stock: BlockingStock) -> None:
    open_sale(stock, total=2)
    asked = [("r1", "m1"), ("r1", "m1"), ("r1", "m2"), ("r2", "m1"), ("r3", "m3"), ("r4", "m4")]
    calls = stock.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

    told = stock.run_all([scripts.reserve(KEYS, 1, reservation(*each)) for each in asked])

    assert stock.client.info("commandstats")["cmdstat_evalsha"]["calls"] == calls + 1
    first, again, reused, limited, second, sold_out = told
    assert isinstance(first, Reserved) and isinstance(second, Reserved)
    assert (first.available, second.available) == (1, 0)
    assert again == Repeated(first.token, NOW + 5000)
    assert (reused, limited, sold_out) == (Refused(No.KEY_REUSE), Refused(No.LIMIT), Refused(No.SOLD_OUT))
    now = standing(stock, request="r3")
    assert (now.units, now.request_count, now.member_count) == (2, 2, 2)
    assert now.reservation == Repeated(second.token, NOW + 5000)


def test_a_record_that_makes_no_sense_is_noticed_before_anything_is_written_for_the_others(
    stock: BlockingStock,
) -> None:
    open_sale(stock, limit=3)
    take_token(stock)
    stock.client.hset(KEYS.key("u"), "m1", "nonsense")
    before = everything(stock)

    told = stock.run_all([scripts.reserve(KEYS, 1, reservation(*each)) for each in (("r2", "m2"), ("r3", "m1"))])

    assert told == [Fault(Why.CORRUPT, "u")] * 2
    assert everything(stock) == before


def test_a_wrong_call_is_our_bug_and_no_answer() -> None:
    with pytest.raises(AssertionError, match="BAD_ARG 5"):
        scripts.reserve(KEYS, 1, reservation()).read([b"BAD_ARG", 5])


# ------------------------------------------------------------------ confirm and release


def test_a_confirmed_reservation_is_gone_and_its_unit_stays_taken(stock: BlockingStock) -> None:
    open_sale(stock, total=2)
    token = take_token(stock)

    assert stock.run(scripts.confirm(KEYS, 1, [("r1", token)])) == [End.OK]
    now = standing(stock, request="r1")
    assert (now.available, now.units, now.request_count, now.member_count, now.reservation) == (1, 0, 0, 1, None)
    assert take(stock, "r2") == Refused(No.LIMIT)


def test_a_released_reservation_is_as_if_it_had_not_been(stock: BlockingStock) -> None:
    open_sale(stock, total=2)
    before = everything(stock)
    token = take_token(stock)

    assert stock.run(scripts.release(KEYS, 1, [("r1", token)])) == [End.OK]
    assert everything(stock) == before
    assert isinstance(take(stock), Reserved)


def test_a_release_gives_back_all_that_was_reserved_together(stock: BlockingStock) -> None:
    open_sale(stock, total=5, limit=5, held={"m1": 1})
    token = take_token(stock, qty=3)

    stock.run(scripts.release(KEYS, 1, [("r1", token)]))

    assert standing(stock).available == 5
    assert stock.client.hget(KEYS.key("u"), "m1") == b"1"


@pytest.mark.parametrize("first", [scripts.confirm, scripts.release])
@pytest.mark.parametrize("second", [scripts.confirm, scripts.release])
def test_a_reservation_is_closed_once_whoever_comes_second(stock: BlockingStock, first: Any, second: Any) -> None:
    open_sale(stock)
    token = take_token(stock)
    assert stock.run(first(KEYS, 1, [("r1", token)])) == [End.OK]
    before = everything(stock)

    assert stock.run(second(KEYS, 1, [("r1", token)])) == [End.UNKNOWN]
    assert everything(stock) == before


@pytest.mark.parametrize("end", [scripts.confirm, scripts.release])
def test_a_reservation_that_was_made_anew_is_not_the_old_owners_to_close(stock: BlockingStock, end: Any) -> None:
    open_sale(stock)
    old = take_token(stock)
    stock.run(scripts.release(KEYS, 1, [("r1", old)]))
    new = take_token(stock)
    assert new != old
    before = everything(stock)

    assert stock.run(end(KEYS, 1, [("r1", old)])) == [End.WRONG_STATE]
    assert everything(stock) == before


@pytest.mark.parametrize("end", [scripts.confirm, scripts.release])
def test_many_are_closed_at_once_each_for_itself(stock: BlockingStock, end: Any) -> None:
    open_sale(stock, limit=9)
    one, two, other = take_token(stock), take_token(stock, "r2", "m1"), take_token(stock, "r3", "m3")

    ended = stock.run(end(KEYS, 1, [("r1", one), ("r2", other), ("r2", two), ("r2", two), ("r9", one)]))

    assert ended == [End.OK, End.WRONG_STATE, End.OK, End.UNKNOWN, End.UNKNOWN]
    now = standing(stock, request="r3")
    assert (now.units, now.request_count, now.reservation) == (1, 1, Repeated(other, NOW + 5000))


@pytest.mark.parametrize("end", [scripts.confirm, scripts.release])
def test_one_that_makes_no_sense_leaves_all_that_were_to_be_closed_with_it(stock: BlockingStock, end: Any) -> None:
    open_sale(stock, limit=9)
    pairs = [("r1", take_token(stock)), ("r2", take_token(stock, "r2", "m2"))]
    stock.client.hset(KEYS.key("r"), "r2", "nonsense")
    before = everything(stock)

    assert stock.run(end(KEYS, 1, pairs)) == Fault(Why.CORRUPT, "r")
    assert everything(stock) == before

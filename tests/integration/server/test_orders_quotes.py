"""Quotes over HTTP: the price and its reasons, the best combination, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.domain.facts import OrderFacts
from server.services.facts import gather
from tests.fakes.counter import (
    Counter,
    coupon,
    covers,
    open_counter,
)
from tests.fakes.headquarters import Headquarters


def _quote(headquarters: Headquarters, *, status: int = 200, **keys: Any) -> dict[str, Any]:
    body = {"store": "s1", "lines": [{"sku": "A", "qty": "1"}], **keys}
    return headquarters.call("POST", "/v1/quotes", body, key=headquarters.new_key("app"), status=status)


def test_a_quote_tells_the_price_and_every_reason(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", name="十元券")
    headquarters.campaign("dear", min_spend="500.00", group="dear")
    mine, dear = coupon(headquarters, "c1"), coupon(headquarters, "dear")

    answer = _quote(
        headquarters,
        member="m1",
        lines=[{"sku": "A", "qty": "2"}, {"sku": "W", "qty": "0.735"}],
        use=[mine, dear, "nope"],
    )

    assert (answer["gross"], answer["discount"], answer["payable"]) == ("207.28", "10.00", "197.28")
    assert answer["lines"][1] == {
        "number": 2,
        "sku": "W",
        "price": "9.90",
        "qty": "0.735",
        "covered": 0,
        "gross": "7.28",
        "discount": "0.35",
        "net": "6.93",
    }
    assert answer["used"] == [mine]
    assert answer["laid"] == [{"campaign": "c1", "coupon": mine, "discount": "10.00"}]
    assert {name: reason["code"] for name, reason in answer["refused"].items()} == {
        dear: "below_minimum",
        "nope": "unknown_code",
    }


def test_a_quote_writes_nothing(on_file: Headquarters) -> None:
    open_counter(on_file)
    on_file.campaign()
    mine = coupon(on_file)
    path = on_file.database.path
    key = on_file.new_key("app")
    before = [Path(f"{path}{end}").read_bytes() for end in ("", "-wal")]

    body = {"store": "s1", "member": "m1", "lines": [{"sku": "A", "qty": "1"}], "use": [mine]}
    on_file.call("POST", "/v1/quotes", body, key=key, status=200)

    assert [Path(f"{path}{end}").read_bytes() for end in ("", "-wal")] == before


def test_the_best_combination_is_found_for_the_member(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("solo", benefit={"type": "amount_off", "amount": "60.00"}, exclusive=True, group="solo")
    headquarters.campaign("food", benefit={"type": "amount_off", "amount": "40.00"}, group="food")
    headquarters.campaign("toys", benefit={"type": "percent_off", "percent": 30}, group="toys")
    names = {name: coupon(headquarters, name) for name in ("solo", "food", "toys")}

    answer = _quote(headquarters, member="m1", best=True, lines=[{"sku": "A", "qty": "1"}])

    assert sorted(answer["used"]) == sorted([names["food"], names["toys"]])
    assert (answer["payable"], answer["exact"]) == ("30.00", True)


def test_each_coupon_of_the_member_tells_why_it_would_not_do(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    headquarters.campaign("dear", min_spend="500.00")
    headquarters.campaign("held")
    headquarters.campaign("over", until="2026-06-01T10:30:00+08:00")
    headquarters.campaign("used")
    names = {name: coupon(headquarters, name) for name in ("c1", "dear", "held", "over", "used")}
    counter.hold(counter.basket("o1", "A", member="m1", use=(names["held"],)), status=200)
    counter.hold_and_sell(counter.basket("o2", "A", member="m1", use=(names["used"],)))
    counter.push()
    headquarters.clock.pass_time(hours=1)

    answer = _quote(headquarters, member="m1", coupons=True)

    reasons = {each["coupon"]: each["refusal"] and each["refusal"]["code"] for each in answer["coupons"]}
    assert reasons == {
        names["c1"]: None,
        names["dear"]: "below_minimum",
        names["held"]: "frozen",
        names["over"]: "expired",
    }
    assert answer["coupons"][0]["coupon"] == names["over"], "what ends first stands first"
    assert answer["payable"] == "100.00", "asking does not use"


@pytest.mark.parametrize("ask", [{"best": True}, {"coupons": True}])
def test_a_members_coupons_need_a_member(headquarters: Headquarters, counter: Counter, ask: dict[str, bool]) -> None:
    answer = _quote(headquarters, status=409, **ask)

    assert answer["outcome"] == "needs_member"


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({"lines": [{"sku": "A", "qty": "0"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "A", "qty": "-1"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "A", "qty": "1.5"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "W", "qty": "0.7355"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "W", "qty": "１"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "A", "qty": "100000"}]}, "invalid_quantity"),
        ({"lines": [{"sku": "NOPE", "qty": "1"}]}, "unknown_code"),
        ({"store": "nope"}, "unknown_code"),
        ({"member": "nope"}, "unknown_code"),
    ],
)
def test_what_cannot_be_priced_is_refused(
    headquarters: Headquarters, counter: Counter, keys: dict[str, Any], outcome: str
) -> None:
    answer = _quote(headquarters, status=409, **keys)

    assert answer["outcome"] == outcome


@pytest.mark.parametrize(("lines", "status"), [(1000, 200), (1001, 422)])
def test_a_basket_holds_a_thousand_lines_and_not_one_more(
    headquarters: Headquarters, counter: Counter, lines: int, status: int
) -> None:
    _quote(headquarters, status=status, lines=[{"sku": "B", "qty": "1"}] * lines)


@pytest.mark.parametrize("scope", ["manager", "headquarters"])
def test_only_an_app_or_a_till_asks_for_prices(headquarters: Headquarters, counter: Counter, scope: str) -> None:
    key = headquarters.key if scope == "headquarters" else headquarters.new_key(scope)

    body = {"store": "s1", "lines": [{"sku": "A", "qty": "1"}]}
    headquarters.call("POST", "/v1/quotes", body, key=key, status=403)


def test_gathering_takes_the_same_number_of_queries_for_any_basket(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1", per_member=30, max_per_order=30, budget="500.00")
    headquarters.campaign("auto", kind="automatic", benefit={"type": "amount_off", "amount": "1.00"})
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    mine = tuple(coupon(headquarters, request=f"r{n}") for n in range(30))
    small = counter.basket("o1", "A", "WASH", member="m1", use=mine[:1], covers=covers("p1", 2))
    large = counter.basket("o1", *["A", "B", "W"] * 20, "WASH", member="m1", use=mine, covers=covers("p1", 61))

    counts = [_queries(headquarters, basket) for basket in (small, large)]

    assert counts[0] == counts[1] <= 8


def _queries(headquarters: Headquarters, basket: Any) -> int:
    asked: list[str] = []

    def gathered(conn: Any, ctx: Any) -> None:
        def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            asked.append(statement)

        event.listen(conn, "before_cursor_execute", note)
        try:
            assert isinstance(gather(conn, ctx, basket), OrderFacts)
        finally:
            event.remove(conn, "before_cursor_execute", note)

    headquarters.services.read(gathered)
    return len(asked)

"""What a till has is worth money: a coupon what its rule allows at most, a card use its service, the rest is named."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from app.domain.money import MAX_MINOR
from server.jobs.reconcile import check_tills
from server.services import exposure
from tests.fakes.counter import Counter, coupon, finding, open_counter
from tests.fakes.headquarters import Headquarters

TIERS = [{"min": "50.00", "off": "5.00"}, {"min": "100.00", "off": "20.00"}, {"min": "200.00", "off": "15.00"}]
BOUNDED = [
    ({"type": "amount_off", "amount": "7.00"}, "7.00"),
    ({"type": "percent_off", "percent": 10, "max_discount": "30.00"}, "30.00"),
    ({"type": "tiered", "tiers": TIERS}, "20.00"),
    ({"type": "every", "min": "30.00", "off": "4.00", "max_times": 3}, "12.00"),
]
UNBOUNDED = [
    {"type": "percent_off", "percent": 10},
    {"type": "every", "min": "30.00", "off": "4.00"},
    {"type": "fixed_price", "price": "1.00"},
    {"type": "buy_x_get_y", "buy": 1, "get": 1},
]


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    return open_counter(headquarters)


def rights(headquarters: Headquarters) -> dict[str, Any]:
    return headquarters.call("GET", "/v1/tills/t1/rights", status=200)


@pytest.mark.parametrize(("benefit", "most"), BOUNDED)
def test_a_coupon_is_worth_what_its_rule_takes_off_at_most(
    headquarters: Headquarters, counter: Counter, benefit: dict[str, Any], most: str
) -> None:
    headquarters.campaign("c1", benefit=benefit)

    counter.take_home(coupon(headquarters))

    told = rights(headquarters)
    assert (told["money"], told["parts"]["coupons"], told["currency"]) == (most, most, "CNY")
    assert (told["pieces"]["coupons"], told["without_limit"]["coupons"]) == (1, 0)


@pytest.mark.parametrize("benefit", UNBOUNDED)
def test_what_no_rule_bounds_is_counted_and_in_no_sum(
    headquarters: Headquarters, counter: Counter, benefit: dict[str, Any]
) -> None:
    headquarters.campaign("c1", benefit=benefit, stock=5)
    counter.take_home(coupon(headquarters))

    counter.lease("stock", "c1", 2)

    told = rights(headquarters)
    assert (told["money"], told["without_limit"]) == ("0.00", {"stock": 2, "uses": 0, "coupons": 1})


def test_coupons_to_give_out_are_worth_what_the_rule_in_force_takes_off(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1", stock=9)
    mine = coupon(headquarters)
    headquarters.call("PATCH", "/v1/campaigns/c1", {"benefit": {"type": "amount_off", "amount": "3.00"}}, status=200)

    counter.take_home(mine)
    counter.lease("stock", "c1", 4)

    parts = rights(headquarters)["parts"]
    assert (parts["stock"], parts["coupons"]) == ("12.00", "10.00"), "one that was granted keeps its rule"


def test_a_card_use_is_worth_what_its_service_costs_now(headquarters: Headquarters, counter: Counter) -> None:
    card = {"id": "p1", "member": "m1", "service": "A", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    counter.lease("uses", "p1", 3)
    before = rights(headquarters)

    headquarters.call("POST", "/v1/products", [{"sku": "A", "price": "120.50"}], status=200)

    after = rights(headquarters)
    assert (before["parts"]["uses"], after["parts"]["uses"], after["money"]) == ("300.00", "361.50", "361.50")
    shown = {"reason": "stolen", "exposure": before["exposure"]}
    told = headquarters.call("POST", "/v1/tills/t1/reclaim", shown, status=409)
    assert told["outcome"] == "illegal_transition", "the amount that was shown is not the amount that it is"


def test_all_kinds_add_up(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=9, budget="500.00")
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    card = {"id": "p1", "member": "m1", "service": "A", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    headquarters.call("PUT", "/v1/tills/t1/risk", {"amount": "5.00", "by": "Hana", "reason": "fair"}, status=200)
    counter.take_home(coupon(headquarters))
    for number, (kind, of, amount) in enumerate(
        [("stock", "c1", 2), ("budget", "c1", 4_000), ("value", "m1", 3_000), ("uses", "p1", 1), ("risk", "t1", 500)]
    ):
        counter.lease(kind, of, amount, lease=f"l{number}")

    told = rights(headquarters)

    parts = {"value": "30.00", "budget": "40.00", "risk": "5.00", "stock": "20.00", "uses": "100.00"}
    assert told["parts"] == {**parts, "coupons": "10.00"} and told["money"] == "205.00"
    (listed,) = headquarters.call("GET", "/v1/tills", status=200)["tills"]
    assert {name: told[name] for name in ("money", "parts", "pieces", "without_limit")}.items() <= listed.items()


def test_many_rights_of_many_tills_are_asked_for_at_once(headquarters: Headquarters, counter: Counter) -> None:
    for number in range(4):
        headquarters.campaign(f"c{number}", stock=9)
        counter.take_home(coupon(headquarters, f"c{number}"), request=f"h{number}")
        counter.lease("stock", f"c{number}", 1, lease=f"l{number}")

    def ask(till_ids: list[str]) -> int:
        asked: list[str] = []

        def look(conn: Any, ctx: Any) -> None:
            def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
                asked.append(statement)

            event.listen(conn, "before_cursor_execute", note)
            try:
                exposure.of_tills(conn, till_ids, ctx.chain.currency)
            finally:
                event.remove(conn, "before_cursor_execute", note)

        headquarters.services.read(look)
        return len(asked)

    assert ask([]) == ask(["t1"]) == ask(["t1", "t2", "t3"]) == 2


def test_a_lost_till_is_told_of_with_all_that_it_has(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", benefit=UNBOUNDED[0])
    headquarters.campaign("c2")
    counter.take_home(coupon(headquarters, "c1"), request="h1")
    counter.take_home(coupon(headquarters, "c2"), request="h2")
    headquarters.give_up("strand")
    headquarters.clock.pass_time(hours=30)

    check_tills(headquarters.services)
    counter.hello()

    for kind in ("rights_stranded", "lost_till_heard"):
        found = finding(headquarters, kind)
        outstanding = found["detail"].get("outstanding", found["detail"])
        assert (found["amount_minor"], outstanding["without_limit"]["coupons"]) == (1_000, 1), kind


@pytest.mark.parametrize("how", ["strand", "reclaim"])
def test_nobody_gives_up_what_was_not_shown(headquarters: Headquarters, counter: Counter, how: str) -> None:
    headquarters.campaign("c1")
    counter.take_home(coupon(headquarters))

    headquarters.call("POST", f"/v1/tills/t1/{how}", {"reason": "stolen"}, status=422)

    told = rights(headquarters)
    assert (told["pieces"]["coupons"], told["lost_at"]) == (1, None)


def test_a_lost_till_speaks_again_also_where_its_rule_promised_more_than_a_column_holds(
    headquarters: Headquarters, counter: Counter
) -> None:
    benefit = {"type": "every", "min": "1.00", "off": "9000000000.00", "max_times": 1_000_000_000}
    headquarters.campaign("c1", benefit=benefit)
    counter.take_home(coupon(headquarters))
    told = rights(headquarters)
    headquarters.call("POST", "/v1/tills/t1/strand", {"reason": "stolen", "exposure": told["exposure"]}, status=200)

    counter.hello()
    check_tills(headquarters.services)

    assert finding(headquarters, "lost_till_heard")["amount_minor"] == MAX_MINOR
    assert finding(headquarters, "rights_stranded")["amount_minor"] == MAX_MINOR

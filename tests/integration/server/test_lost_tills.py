"""A till that is declared lost: its rights are set aside, what it still tells draws on them, nobody else gets them."""

from __future__ import annotations

from typing import Any

import pytest

from server.jobs.reconcile import check_tills
from server.services import accounts
from tests.fakes.counter import (
    Counter,
    cash,
    coupon,
    coupon_state,
    events,
    finding,
    findings,
    open_counter,
    stored_value,
    violations,
)
from tests.fakes.headquarters import Headquarters

VALUE = "value:m1"


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    made = open_counter(headquarters)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    return made


def rights(headquarters: Headquarters, till: str = "t1") -> dict[str, Any]:
    return headquarters.call("GET", f"/v1/tills/{till}/rights", status=200)


def strand(headquarters: Headquarters, exposure: str | None = None, *, status: int = 200) -> dict[str, Any]:
    if exposure is None:
        return headquarters.give_up("strand", status=status)
    body = {"reason": "stolen", "exposure": exposure}
    return headquarters.call("POST", "/v1/tills/t1/strand", body, status=status)


def account(headquarters: Headquarters, account_id: str = VALUE) -> accounts.Account:
    return headquarters.services.read(lambda conn, _: accounts.read(conn, [account_id]))[account_id]


def sell(counter: Counter, order: str, minor: int, *, lease: str = "l1") -> None:
    tenders = [stored_value(minor), cash(10_000 - minor)]
    counter.sell_by_rights(counter.basket(order, "A", member="m1"), tenders=tenders, leases={lease: minor})


def close(counter: Counter, used: int, lease: str = "l1") -> None:
    counter.append("lease_close", counter.told(lease=lease, used=used))


# ------------------------------------------------------------------ setting aside


def test_what_a_lost_till_has_is_set_aside_and_nobody_gets_it(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=3)
    mine = coupon(headquarters)
    counter.lease("value", "m1", 3_000)
    counter.lease("stock", "c1", 2, lease="l2")
    counter.take_home(mine)
    other = Counter(headquarters, "t2")
    shown = rights(headquarters)

    told = strand(headquarters, shown["exposure"])

    assert (shown["money"], shown["pieces"]) == ("60.00", {"stock": 2, "uses": 0, "coupons": 1})
    assert (told["money"], told["exposure"]) == (shown["money"], shown["exposure"])
    assert [each["stranded"] for each in told["leases"]] == [True, True]
    assert told["lost_at"] == headquarters.clock.at.isoformat()
    assert (account(headquarters).stranded, account(headquarters).leased) == (3_000, 0)
    assert other.lease("value", "m1", 5_000, lease="l4")["amount"] == 2_000
    assert other.lease("stock", "c1", 1, lease="l3", status=409)["outcome"] == "out_of_stock"
    assert other.take_home(mine, request="h2", status=409)["outcome"] == "leased_elsewhere"
    assert violations(headquarters) == []


def test_what_changed_since_it_was_shown_is_shown_again(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 3_000)
    shown = rights(headquarters)
    sell(counter, "o1", 1)
    counter.push()

    refused = strand(headquarters, shown["exposure"], status=409)

    assert refused["outcome"] == "illegal_transition" and account(headquarters).stranded == 0
    body = {"reason": "stolen", "exposure": shown["exposure"]}
    headquarters.call("POST", "/v1/tills/t1/reclaim", body, status=409)
    assert account(headquarters).leased == 2_999
    strand(headquarters, rights(headquarters)["exposure"])


def test_declaring_it_lost_again_changes_nothing(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 3_000)
    first = strand(headquarters)
    headquarters.clock.pass_time(hours=1)

    assert strand(headquarters) == first

    assert [name for name, _, _ in events(headquarters, "till", "t1")] == ["strand"]
    assert violations(headquarters) == []


def test_only_headquarters_declares_a_till_lost_that_there_is(headquarters: Headquarters, counter: Counter) -> None:
    body = {"reason": "stolen", "exposure": "0" * 16}
    headquarters.call("POST", "/v1/tills/t9/strand", body, status=404)
    headquarters.call("POST", "/v1/tills/t9/found", {"reason": "no"}, status=404)
    headquarters.call("POST", "/v1/tills/t1/strand", body, key=headquarters.new_key("manager"), status=403)
    counter.call("POST", "/v1/tills/t1/strand", body, status=403)


def test_a_lost_till_is_lent_nothing_until_it_is_found(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    strand(headquarters)

    assert counter.lease("value", "m1", 1, status=409)["outcome"] == "not_allowed"
    assert counter.take_home(mine, status=409)["outcome"] == "not_allowed"

    headquarters.call("POST", "/v1/tills/t1/found", {"reason": "it was in the van"}, status=200)

    assert rights(headquarters)["lost_at"] is None
    assert counter.lease("value", "m1", 1, lease="l2")["amount"] == 1


# ------------------------------------------------------------------ what it still tells


def test_late_sales_draw_exactly_on_what_was_set_aside(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 4_000)
    sell(counter, "o1", 3_000)
    strand(headquarters)
    other = Counter(headquarters, "t2")
    other.hold_and_sell(other.basket("o2", "A", member="m1"), tenders=[stored_value(1_000), cash(9_000)])
    other.push()

    assert counter.verdicts() == [("OK", "")]

    found = account(headquarters)
    assert (found.stranded, found.spent, found.over, found.available) == (1_000, 4_000, 0, 0)
    assert findings(headquarters) == {} and violations(headquarters) == []


def test_a_late_close_makes_the_rest_available_again(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 4_000)
    sell(counter, "o1", 3_000)
    strand(headquarters)
    close(counter, 3_000)

    assert counter.verdicts() == [("OK", ""), ("OK", "")]
    assert (account(headquarters).stranded, account(headquarters).available) == (0, 2_000)
    assert violations(headquarters) == []


def test_coupons_of_a_leased_stock_that_come_late_are_drawn_from_what_was_set_aside(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1", stock=2)
    given, _ = counter.lease("stock", "c1", 2)["coupons"]
    strand(headquarters)
    claim = {"lease": "l1", "coupon": given["coupon"], "request": "q1", "source": "till:t1", "campaign": "c1"}
    counter.append("claim", counter.told(**claim, snapshot="c1/1", member="m1", valid_until_ms=None))

    assert counter.verdicts() == [("OK", "")]
    assert headquarters.stock()["stranded"] == 1 and headquarters.stock()["granted"] == 1
    assert violations(headquarters) == []


def test_a_coupon_at_home_at_a_lost_till_is_used_by_its_late_sale(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})
    strand(headquarters)

    assert counter.verdicts() == [("OK", "")]
    assert coupon_state(headquarters, mine) == "USED" and violations(headquarters) == []


def test_what_was_set_aside_can_still_be_reclaimed_at_a_risk(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 4_000)
    sell(counter, "o1", 3_000)
    strand(headquarters)

    headquarters.give_up("reclaim")

    assert (account(headquarters).stranded, account(headquarters).available) == (0, 5_000)
    assert counter.verdicts() == [("CONFLICT", "late_use")]
    assert violations(headquarters) == []


# ------------------------------------------------------------------ what people are told


def test_a_lost_till_that_speaks_again_is_a_finding(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 4_000)
    counter.hello()
    assert findings(headquarters) == {}
    strand(headquarters)

    counter.hello()
    counter.hello()

    told = finding(headquarters, "lost_till_heard")
    assert (told["amount_minor"], told["detail"]["till"]) == (4_000, "t1")


def test_what_lost_tills_have_is_listed_until_it_is_settled(headquarters: Headquarters, counter: Counter) -> None:
    counter.hello()
    counter.lease("value", "m1", 4_000)
    strand(headquarters)
    headquarters.clock.pass_time(hours=30)

    check_tills(headquarters.services)

    told = finding(headquarters, "rights_stranded")
    assert (told["amount_minor"], told["detail"]["leases"]) == (4_000, 1)
    assert findings(headquarters) == {"rights_stranded": 1}, "a till that is lost is not reported as silent too"

    close(counter, 0)
    counter.push()
    check_tills(headquarters.services)

    assert findings(headquarters) == {}


def test_what_is_told_of_a_lost_till_is_money_and_no_fault_of_the_books(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 4_000)
    strand(headquarters)
    counter.hello()
    check_tills(headquarters.services)

    found = headquarters.call("GET", "/v1/findings", status=200)["findings"]

    told = {each["kind"]: (each["remedy"], each["in_money"], each["loser"]) for each in found}
    assert told == {
        "lost_till_heard": ("say_found", True, "nobody"),
        "rights_stranded": ("wait_or_reclaim", True, "nobody"),
    }


def test_the_report_of_a_silent_till_says_what_it_has(headquarters: Headquarters, counter: Counter) -> None:
    counter.hello()
    counter.lease("value", "m1", 4_000)
    headquarters.clock.pass_time(hours=25)

    check_tills(headquarters.services)

    outstanding = finding(headquarters, "silent_till")["detail"]["outstanding"]
    none = {"stock": 0, "uses": 0, "coupons": 0}
    assert outstanding == {"money_minor": 4_000, "pieces": none, "without_limit": none, "leases": 1}

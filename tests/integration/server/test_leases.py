"""Leases and homes at the server: lent once, drawn as told, given back by the till's own word, reclaimed at a risk."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from app.domain.rights import Rights
from server.jobs import run_due
from server.services import rights
from server.services.context import Context
from server.services.rights import Attempt, LostRace
from sync.protocol import PROTOCOL, PULL_PATH
from tests.fakes.counter import (
    Counter,
    balance,
    cash,
    coupon,
    coupon_state,
    finding,
    findings,
    open_counter,
    stored_value,
    violations,
)
from tests.fakes.enrolled import enrol_here
from tests.fakes.headquarters import Headquarters

VALUE = "value:m1"


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    made = open_counter(headquarters)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    return made


def lent(headquarters: Headquarters, till: str = "t1") -> list[dict[str, Any]]:
    return list(headquarters.call("GET", f"/v1/tills/{till}/rights", status=200)["leases"])


def reclaim(headquarters: Headquarters, till: str = "t1") -> dict[str, Any]:
    return headquarters.give_up("reclaim", till)


def sell_by_lease(counter: Counter, order: str, minor: int, *, named: int | None = None, lease: str = "l1") -> None:
    tenders = [stored_value(minor), cash(10_000 - minor)]
    basket = counter.basket(order, "A", member="m1")
    counter.sell_by_rights(basket, tenders=tenders, leases={lease: minor if named is None else named})


def close(counter: Counter, used: int, lease: str = "l1") -> None:
    counter.append("lease_close", counter.told(lease=lease, used=used))


# ------------------------------------------------------------------ lending


def test_the_smaller_of_what_is_asked_for_and_what_is_there_is_lent(
    headquarters: Headquarters, counter: Counter
) -> None:
    first = counter.lease("value", "m1", 3_000)
    rest = counter.lease("value", "m1", 3_000, lease="l2")
    none = counter.lease("value", "m1", 1, lease="l3", status=409)

    assert (first["amount"], rest["amount"], none["outcome"]) == (3_000, 2_000, "insufficient_balance")
    assert balance(headquarters, VALUE) == (0, 0, 0)
    assert violations(headquarters) == []


def test_the_same_request_is_the_same_lease(headquarters: Headquarters, counter: Counter) -> None:
    assert counter.lease("value", "m1", 3_000) == counter.lease("value", "m1", 3_000)

    assert counter.lease("value", "m1", 2_000, status=409)["outcome"] == "duplicate_mismatch"
    assert balance(headquarters, VALUE)[0] == 2_000


def test_a_refused_request_that_comes_again_late_is_refused_again(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("uses", "p1", 1, status=409)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)

    assert counter.lease("uses", "p1", 1, status=409)["outcome"] == "unknown_code"
    assert lent(headquarters) == []


def test_a_campaign_that_is_online_only_lends_nothing(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=3, offline="online_only", budget="10.00")
    mine = coupon(headquarters)

    assert counter.lease("stock", "c1", 1, status=409)["outcome"] == "needs_online"
    assert counter.lease("budget", "c1", 1, lease="l2", status=409)["outcome"] == "needs_online"
    assert counter.take_home(mine, status=409)["outcome"] == "needs_online"


def test_a_till_whose_ledger_forked_gets_no_right(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    counter.cancel("o1")
    counter.push()
    twin = list(counter.entries)
    counter.entries.clear()
    counter.cancel("o2")
    counter.push(counter.entries)
    assert counter.entries != twin

    assert counter.lease("value", "m1", 1, status=409)["outcome"] == "not_allowed"
    assert counter.take_home(mine, status=409)["outcome"] == "not_allowed"


def test_a_leased_stock_brings_its_coupons_and_nobody_else_sees_their_codes(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1", stock=3)
    other = Counter(headquarters, "t2")

    told = counter.lease("stock", "c1", 2)

    codes = [each["code"] for each in told["coupons"]]
    pull = {"proto": PROTOCOL, "cursor": 0}
    ours = counter.call("POST", PULL_PATH, {**pull, "till": "t1"}, status=200)
    theirs = other.call("POST", PULL_PATH, {**pull, "till": "t2"}, status=200)
    assert len(codes) == 2 and all(code in str(ours) for code in codes)
    assert not any(code in str(theirs) for code in codes)
    assert "lease" not in {record["kind"] for record in theirs["records"]}
    assert theirs["next"] == ours["next"]


def test_what_is_lent_nobody_claims(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=2)
    counter.lease("stock", "c1", 2)

    key = headquarters.new_key("app")
    answer = headquarters.call("POST", "/v1/claims", {"request": "r", "campaign": "c1", "member": "m1"}, key=key)

    assert answer["outcome"] == "out_of_stock"


# ------------------------------------------------------------------ a fair part


def ask_share(counter: Counter, kind: str, of: str, amount: int, *, lease: str) -> dict[str, Any]:
    body = {"lease": lease, "kind": kind, "of": of, "amount": amount, "size": "share"}
    return counter.call("POST", "/v1/leases", body)


def test_a_fair_part_is_half_of_what_is_there_divided_among_the_tills(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1", stock=21)
    other = Counter(headquarters, "t2")

    first = ask_share(counter, "stock", "c1", 100, lease="l1")
    again = ask_share(counter, "stock", "c1", 100, lease="l2")
    rest = ask_share(other, "stock", "c1", 100, lease="l3")
    little = ask_share(other, "stock", "c1", 1, lease="l4")

    assert (first["amount"], again["outcome"], rest["amount"]) == (6, "out_of_stock", 4)
    assert little["outcome"] == "out_of_stock"
    assert headquarters.stock()["available"] == 11 and violations(headquarters) == []


def test_the_last_one_is_somebodys_fair_part(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=1)
    Counter(headquarters, "t2")

    assert ask_share(counter, "stock", "c1", 5, lease="l1")["amount"] == 1


@pytest.mark.parametrize(("event", "part"), [("", 25), ("revoke", 50)])
def test_a_till_that_enrolled_has_its_part_as_one_with_a_pass_has(
    headquarters: Headquarters, counter: Counter, event: str, part: int
) -> None:
    headquarters.campaign(stock=100)
    headquarters.call("PUT", "/v1/tills/t2", {"store": "s1"}, status=200)
    enrol_here(headquarters, "t2")
    if event:
        headquarters.call("POST", f"/v1/tills/t2/{event}", {"reason": "stolen"}, status=200)

    assert ask_share(counter, "stock", "c1", 100, lease="l1")["amount"] == part


def test_only_tills_that_may_want_it_share(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("PUT", "/v1/stores/s2", {}, status=200)
    far, lost = Counter(headquarters, "t2", "s2"), Counter(headquarters, "t3")
    headquarters.give_up("strand", "t3")
    headquarters.campaign("here", stock=10, stores=["s1"])

    value = ask_share(counter, "value", "m1", 9_000, lease="l1")
    stock = ask_share(counter, "stock", "here", 9, lease="l2")

    assert (value["amount"], stock["amount"]) == (2_500, 5)
    assert ask_share(lost, "value", "m1", 1, lease="l3")["outcome"] == "not_allowed"
    assert ask_share(far, "value", "m1", 9_000, lease="l4")["amount"] == 1_250


def test_a_fair_part_is_another_question_than_all_of_it(headquarters: Headquarters, counter: Counter) -> None:
    ask_share(counter, "value", "m1", 3_000, lease="l1")

    assert counter.lease("value", "m1", 3_000, status=409)["outcome"] == "duplicate_mismatch"


# ------------------------------------------------------------------ drawing and closing


def test_a_sale_draws_on_its_lease_and_the_close_gives_the_rest_back(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 5_000)
    sell_by_lease(counter, "o1", 3_000)
    close(counter, 3_000)

    assert counter.verdicts() == [("OK", ""), ("OK", "")]
    assert balance(headquarters, VALUE) == (2_000, 0, 3_000)
    assert lent(headquarters) == [] and violations(headquarters) == []


def test_a_close_that_counts_otherwise_is_a_finding(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 5_000)
    sell_by_lease(counter, "o1", 3_000)
    close(counter, 2_999)

    assert counter.verdicts()[1] == ("CONFLICT", "lease_mismatch")
    assert finding(headquarters, "lease_mismatch")["detail"]["server_used"] == 3_000
    assert balance(headquarters, VALUE) == (2_000, 0, 3_000) and violations(headquarters) == []


def test_what_names_a_closed_lease_is_booked_and_told(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 5_000)
    close(counter, 0)
    close(counter, 0)
    sell_by_lease(counter, "o1", 3_000)

    assert [code for _, code in counter.verdicts()] == ["", "lease_mismatch", "lease_mismatch"]
    assert balance(headquarters, VALUE) == (2_000, 0, 3_000) and violations(headquarters) == []


def test_a_till_draws_on_no_lease_of_another_till(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 3_000)
    other = Counter(headquarters, "t2")
    sell_by_lease(other, "o1", 1_000)
    close(other, 0)

    assert [code for _, code in other.verdicts()] == ["lease_mismatch", "lease_mismatch"]
    assert lent(headquarters)[0]["left"] == 3_000
    assert violations(headquarters) == []


def test_more_than_was_lent_is_an_overdraft(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 5_000)
    sell_by_lease(counter, "o1", 6_000)

    counter.push()

    assert set(findings(headquarters)) == {"lease_mismatch", "overdraft"}
    assert violations(headquarters) == []


def test_a_sale_that_names_more_than_it_used_draws_only_that(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 5_000)
    sell_by_lease(counter, "o1", 1_000, named=4_000)

    assert counter.verdicts() == [("CONFLICT", "lease_mismatch")]
    assert lent(headquarters)[0]["left"] == 4_000 and violations(headquarters) == []


def test_a_payment_that_was_unknown_draws_on_the_lease_too(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 5_000)
    payment = {"id": "pay1", "type": "card", "amount_minor": 7_000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    counter.push()
    sell_by_lease(counter, "o1", 3_000)

    assert counter.verdicts() == [("OK", "")]
    assert lent(headquarters)[0]["left"] == 2_000 and violations(headquarters) == []


def test_while_its_refund_may_be_on_the_way_nobody_else_refunds_a_sale_by_rights(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 5_000)
    sell_by_lease(counter, "o1", 3_000)
    counter.cancel("never")
    counter.hello()
    counter.push(counter.entries[:1])

    answer = Counter(headquarters, "t2").refund("o1", request="r1")

    assert answer["outcome"] == "busy"


# ------------------------------------------------------------------ homes


def test_only_its_home_uses_a_coupon(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    other = Counter(headquarters, "t2")
    basket = other.basket("o2", "A", member="m1", use=(mine,))

    held = other.hold(basket, payable_minor=9_000)
    revoked = headquarters.call("POST", f"/v1/coupons/{mine}/revoke", {"reason": "no"}, status=409)
    taken = other.take_home(mine, request="h2", status=409)

    assert {held["outcome"], revoked["outcome"], taken["outcome"]} == {"leased_elsewhere"}
    assert held["facts"]["till"] == "t1"
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})
    assert counter.verdicts() == [("OK", "")]
    assert coupon_state(headquarters, mine) == "USED" and violations(headquarters) == []


def test_the_write_of_a_hold_takes_no_coupon_that_went_to_a_till_meanwhile(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    counter.take_home(mine)

    def freeze(conn: Connection, ctx: Context) -> None:
        rights.freeze(conn, Attempt("o1", 1, ctx.now), Rights(frozenset({mine}), {}))

    with pytest.raises(LostRace):
        headquarters.services.write(freeze)


def test_a_home_request_that_comes_again_late_moves_nothing(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    first = counter.take_home(mine)
    counter.append("coupon_return", counter.told(coupon=mine, version=first["version"]))
    counter.push()

    assert counter.take_home(mine) == first

    shown = headquarters.call("GET", f"/v1/coupons/{mine}", status=200)
    assert shown["home"] is None
    assert counter.take_home(mine, request="h2")["version"] == first["version"] + 2


def test_a_return_of_an_older_version_is_void(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    first = counter.take_home(mine)["version"]
    reclaim(headquarters)
    second = counter.take_home(mine, request="h2")["version"]
    counter.append("coupon_return", counter.told(coupon=mine, version=first))

    assert counter.verdicts() == [("OK", "")]
    assert headquarters.call("GET", f"/v1/coupons/{mine}", status=200)["home"] == "t1"
    counter.append("coupon_return", counter.told(coupon=mine, version=second + 1))
    assert counter.verdicts() == [("CONFLICT", "home_mismatch")]


def test_a_coupon_at_home_at_a_till_expires_only_once_it_is_back(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", valid_days=1)
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    headquarters.clock.pass_time(days=2)
    run_due(headquarters.services)
    assert headquarters.call("GET", f"/v1/coupons/{mine}", status=200)["home"] == "t1"

    counter.append("coupon_return", counter.told(coupon=mine, version=version))
    counter.push()
    run_due(headquarters.services)

    events = headquarters.call("GET", f"/v1/coupons/{mine}/history", status=200)["events"]
    assert [event["event"] for event in events] == ["grant", "home_taken", "home_returned", "expire"]
    assert violations(headquarters) == []


def test_who_uses_a_coupon_that_is_at_home_elsewhere_gets_it_when_it_comes_back(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    other = Counter(headquarters, "t2")
    other.sell_by_rights(other.basket("o2", "A", member="m1", use=(mine,)))
    assert other.verdicts() == [("CONFLICT", "double_redemption")]
    assert violations(headquarters) == []

    counter.append("coupon_return", counter.told(coupon=mine, version=version))
    counter.push()

    shown = headquarters.call("GET", f"/v1/coupons/{mine}", status=200)
    assert (shown["state"], shown["order"]) == ("USED", "o2")
    assert violations(headquarters) == []

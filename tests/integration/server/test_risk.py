"""Risk budgets at the server: off by default, leased like anything else, spent by losses and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update

from server.db import schema
from server.services import staff
from server.services.staff import Manager
from sync.protocol import PROTOCOL, PULL_PATH
from tests.fakes.counter import Counter, coupon, coupon_state, finding, findings, open_counter, violations
from tests.fakes.headquarters import Headquarters

ACCOUNT = "risk:t1"


@pytest.fixture
def headquarters(on_file: Headquarters) -> Headquarters:
    """Be on SQLite; scenarios 231 to 236 go the same ways on PostgreSQL too."""
    return on_file


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.campaign(offline="risk", risk_max="20.00")
    meg = Manager("meg", "Meg", None, verifier="$argon2id$not looked at")
    headquarters.services.write(lambda conn, ctx: staff.put(conn, ctx, meg))
    return open_counter(headquarters)


def set_budget(headquarters: Headquarters, amount: str, till: str = "t1") -> dict[str, Any]:
    body = {"amount": amount, "by": "Hana", "reason": "summer"}
    return headquarters.call("PUT", f"/v1/tills/{till}/risk", body, status=200)


def risk(headquarters: Headquarters) -> dict[str, Any]:
    return headquarters.call("GET", "/v1/risk", status=200)


def sell_at_risk(counter: Counter, order: str, coupon_id: str, *, lease: str = "l1", by: str = "meg") -> None:
    """Sell an A with a coupon of 10.00 that this till has no right to, on Meg's word."""
    basket = counter.basket(order, "A", member="m1", use=(coupon_id,))
    lines, quote = counter.price_at_home(basket)
    named = {"coupon": coupon_id, "amount_minor": 1_000, "approval": f"ok-{order}", "by": by, "reason": "known"}
    rights = {"leases": [{"lease": lease, "amount": 1_000}], "coupons": [], "risks": [named]}
    counter.append("sale", {**counter.sale_body(lines, quote, basket), "rights": rights})


def pull(counter: Counter, kind: str) -> dict[str, Any]:
    """Return the records of a kind that the till gets, by key."""
    message = {"proto": PROTOCOL, "till": counter.till_id, "cursor": 0, "limit": 1000}
    records = counter.call("POST", PULL_PATH, message, status=200)["records"]
    return {each["key"]: each["record"] for each in records if each["kind"] == kind}


# ------------------------------------------------------------------ budgets


def test_a_till_without_a_budget_is_lent_no_risk(headquarters: Headquarters, counter: Counter) -> None:
    assert counter.lease("risk", "t1", 1_000, status=409)["outcome"] == "unknown_code"
    assert risk(headquarters)["tills"] == []
    assert risk(headquarters)["sum"]["left"] == "0.00"
    assert pull(counter, "risk") == {}


def test_the_worst_case_is_what_was_granted_and_not_lost(headquarters: Headquarters, counter: Counter) -> None:
    Counter(headquarters, "t2")
    set_budget(headquarters, "300.00")
    set_budget(headquarters, "50.00", till="t2")
    counter.lease("risk", "t1", 20_000)

    told = risk(headquarters)

    (first, second) = told["tills"]
    assert (first["till"], first["granted"], first["lost"], first["left"]) == ("t1", "300.00", "0.00", "300.00")
    assert first["at_till"] == "200.00"
    assert second["left"] == "50.00"
    assert (told["sum"]["granted"], told["sum"]["left"]) == ("350.00", "350.00")
    assert headquarters.call("GET", "/v1/tills/t1/risk", status=200)["left"] == "300.00"
    assert headquarters.call("GET", "/v1/tills/t1/rights", status=200)["money"] == "200.00"
    assert violations(headquarters) == []


def test_no_more_is_leased_than_the_budget_has(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "30.00")

    assert counter.lease("risk", "t1", 10_000)["amount"] == 3_000
    assert counter.lease("risk", "t1", 1, lease="l2", status=409)["outcome"] == "risk_spent"


def test_a_till_leases_its_own_risk_alone(headquarters: Headquarters, counter: Counter) -> None:
    Counter(headquarters, "t2")
    set_budget(headquarters, "30.00", till="t2")

    assert counter.lease("risk", "t2", 1_000, status=409)["outcome"] == "not_allowed"
    assert pull(counter, "risk") == {}


def test_a_lower_budget_is_asked_back_and_taken_out_when_it_comes(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "300.00")
    counter.lease("risk", "t1", 20_000)

    shown = set_budget(headquarters, "50.00")

    assert shown["left"] == "200.00"  # what the till has is still the worst case
    assert pull(counter, "lease")["l1"]["recalled"]
    counter.append("lease_close", counter.told(lease="l1", used=0))
    assert counter.verdicts() == [("OK", "")]
    assert headquarters.call("GET", "/v1/tills/t1/risk", status=200)["left"] == "50.00"
    assert counter.lease("risk", "t1", 20_000, lease="l2")["amount"] == 5_000
    assert violations(headquarters) == []


def test_a_budget_of_nothing_is_off(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "300.00")

    assert set_budget(headquarters, "0.00")["left"] == "0.00"

    assert counter.lease("risk", "t1", 1, status=409)["outcome"] == "risk_spent"
    assert pull(counter, "risk")["t1"] == {"till": "t1", "limit_minor": 0, "available_minor": 0}


def test_a_budget_is_an_amount_of_a_till_that_there_is(headquarters: Headquarters, counter: Counter) -> None:
    asked = {"by": "Hana", "reason": "summer"}

    for amount in ("-1.00", "1.001", "much"):
        answer = headquarters.call("PUT", "/v1/tills/t1/risk", {**asked, "amount": amount}, status=409)
        assert answer["outcome"] == "invalid_amount"
    headquarters.call("PUT", "/v1/tills/t9/risk", {**asked, "amount": "1"}, status=404)
    headquarters.call("GET", "/v1/tills/t9/risk", status=404)


def test_only_headquarters_grants_a_risk_and_a_till_sees_none_of_it(
    headquarters: Headquarters, counter: Counter
) -> None:
    manager = headquarters.new_key("manager")
    body = {"amount": "1.00", "by": "Hana", "reason": "x"}

    headquarters.call("PUT", "/v1/tills/t1/risk", body, key=manager, status=403)
    headquarters.call("GET", "/v1/risk", key=manager, status=200)
    counter.call("GET", "/v1/risk", status=403)
    counter.call("GET", "/v1/staff", status=403)


# ------------------------------------------------------------------ a campaign's terms


def test_a_campaign_says_how_much_and_how_late(headquarters: Headquarters, counter: Counter) -> None:
    shown = headquarters.call("GET", "/v1/campaigns/c1", status=200)

    assert (shown["offline"], shown["risk_max"], shown["sync_age_max_h"]) == ("risk", "20.00", 24)
    told = pull(counter, "campaign")["c1"]
    assert (told["offline"], told["risk_max_minor"], told["sync_age_max_h"]) == ("risk", 2_000, 24)


def test_terms_are_edited_and_left_alone(headquarters: Headquarters, counter: Counter) -> None:
    path = "/v1/campaigns/c1"

    later = headquarters.call("PATCH", path, {"sync_age_max_h": 12}, status=200)
    renamed = headquarters.call("PATCH", path, {"name": "x"}, status=200)
    off = headquarters.call("PATCH", path, {"offline": "lease"}, status=200)

    assert (later["risk_max"], later["sync_age_max_h"]) == ("20.00", 12)
    assert (renamed["offline"], renamed["sync_age_max_h"]) == ("risk", 12)
    assert (off["offline"], off["risk_max"], off["sync_age_max_h"]) == ("lease", None, None)


# ------------------------------------------------------------------ what tills accepted


def test_a_coupon_that_was_free_costs_nothing(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    sell_at_risk(counter, "o1", mine)

    assert counter.verdicts() == [("OK", "")]

    (told,) = risk(headquarters)["tills"]
    assert (told["lost"], told["left"], told["at_till"]) == ("0.00", "50.00", "40.00")
    assert told["accepted"] == {"count": 1, "amount": "10.00"}
    assert coupon_state(headquarters, mine) == "USED"
    assert findings(headquarters) == {}
    assert violations(headquarters) == []


def test_a_coupon_that_was_used_elsewhere_is_a_loss_with_both_sides(
    headquarters: Headquarters, counter: Counter
) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    other = Counter(headquarters, "t2")
    other.hold_and_sell(other.basket("o2", "A", member="m1", use=(mine,)))
    other.push()
    sell_at_risk(counter, "o1", mine)

    assert counter.verdicts() == [("CONFLICT", "risk_loss")]

    (told,) = risk(headquarters)["tills"]
    assert (told["lost"], told["left"]) == ("10.00", "40.00")
    found = finding(headquarters, "risk_loss")
    assert (found["amount_minor"], found["loser"], found["in_money"]) == (1_000, "store", True)
    assert found["detail"]["accepted"]["approved_by"] == "meg"
    assert found["detail"]["accepted"]["reason"] == "known"
    assert (found["detail"]["used"]["order"], found["detail"]["used"]["till"]) == ("o2", "t2")
    assert counter.state("o1") == "PAID"  # the goods are gone
    assert violations(headquarters) == []


def test_a_second_acceptance_of_one_coupon_is_the_loss(headquarters: Headquarters, counter: Counter) -> None:
    other = Counter(headquarters, "t2")
    for till in (counter, other):
        set_budget(headquarters, "50.00", till=till.till_id)
        till.lease("risk", till.till_id, 5_000, lease=f"l-{till.till_id}")
    mine = coupon(headquarters)
    sell_at_risk(counter, "o1", mine, lease="l-t1")
    sell_at_risk(other, "o2", mine, lease="l-t2")

    verdicts = [*counter.verdicts(), *other.verdicts()]

    assert verdicts == [("OK", ""), ("CONFLICT", "risk_loss")]
    assert [each["lost"] for each in risk(headquarters)["tills"]] == ["0.00", "10.00"]
    assert finding(headquarters, "risk_loss")["detail"]["used"]["till"] == "t1"
    assert violations(headquarters) == []


def test_a_coupon_at_home_at_another_till_is_a_loss(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    Counter(headquarters, "t2").take_home(mine)
    sell_at_risk(counter, "o1", mine)

    assert counter.verdicts() == [("CONFLICT", "risk_loss")]
    assert finding(headquarters, "risk_loss")["detail"]["used"]["home"] == "t2"
    assert violations(headquarters) == []


def test_what_was_lost_is_filled_up_by_the_word_of_headquarters_alone(
    headquarters: Headquarters, counter: Counter
) -> None:
    test_a_coupon_that_was_used_elsewhere_is_a_loss_with_both_sides(headquarters, counter)
    assert counter.lease("risk", "t1", 5_000, lease="l2", status=409)["outcome"] == "risk_spent"

    shown = set_budget(headquarters, "50.00")

    assert (shown["granted"], shown["lost"], shown["left"]) == ("60.00", "10.00", "50.00")
    assert counter.lease("risk", "t1", 5_000, lease="l3")["amount"] == 1_000
    assert violations(headquarters) == []


def test_a_risk_that_no_lease_pays_for_is_taken_in_and_seen(headquarters: Headquarters, counter: Counter) -> None:
    mine = coupon(headquarters)
    sell_at_risk(counter, "o1", mine, lease="no-such-lease")

    (verdict,) = counter.verdicts()

    assert verdict[0] == "CONFLICT"
    assert findings(headquarters) == {"lease_mismatch": 1, "overdraft": 1}
    assert counter.state("o1") == "PAID"
    assert violations(headquarters) == []


def test_what_a_lost_till_took_draws_on_what_was_set_aside(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    headquarters.give_up("strand")
    assert risk(headquarters)["sum"]["left"] == "50.00"
    sell_at_risk(counter, "o1", mine)

    assert counter.verdicts() == [("OK", "")]
    assert violations(headquarters) == []


def test_more_accepted_than_was_leased_is_a_violation(headquarters: Headquarters, counter: Counter) -> None:
    test_a_coupon_that_was_free_costs_nothing(headquarters, counter)
    use = schema.risk_use

    headquarters.database.write(lambda conn: conn.execute(update(use).values(amount_minor=5_001)))

    assert violations(headquarters) == ["risk_bound t1: accepted=5001 leased=5000"]


def test_a_loss_that_is_not_in_the_books_is_a_violation(headquarters: Headquarters, counter: Counter) -> None:
    test_a_coupon_that_was_used_elsewhere_is_a_loss_with_both_sides(headquarters, counter)

    headquarters.database.write(lambda conn: conn.execute(delete(schema.risk_use)))

    assert violations(headquarters) == ["risk_spent risk:t1: spent=1000 given=0"]


# ------------------------------------------------------------------ managers


def test_a_manager_is_told_to_the_tills_of_the_store_with_a_verifier_and_no_pin(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("PUT", "/v1/stores/s2", {}, status=200)
    headquarters.call("PUT", "/v1/staff/leo", {"name": "Leo", "store": "s2", "pin": "993311"}, status=200)
    guessed = headquarters.call("PUT", "/v1/staff/ann", {"name": "Ann", "pin": "123456"}, status=409)

    here, there = pull(counter, "staff"), pull(Counter(headquarters, "t9", "s2"), "staff")

    assert (guessed["outcome"], "123456" in str(guessed)) == ("wrong_pin", False)
    assert here["leo"] is None
    assert here["meg"]["name"] == "Meg"
    assert there["leo"]["verifier"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert set(there) == {"meg", "leo"} and there["leo"]["store"] == "s2"
    listed = headquarters.call("GET", "/v1/staff", status=200)["staff"]
    assert [each["id"] for each in listed] == ["leo", "meg"]
    assert "verifier" not in listed[0]


def test_who_has_left_is_gone_at_the_tills_and_comes_back_by_a_new_pin(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("POST", "/v1/staff/meg/leave", {"reason": "moved"}, status=200)
    assert pull(counter, "staff")["meg"] is None

    kept = headquarters.call("PUT", "/v1/staff/meg", {"name": "Meg"}, status=409)
    back = headquarters.call("PUT", "/v1/staff/meg", {"name": "Meg", "pin": "880088"}, status=200)

    assert (kept["outcome"], back["active"]) == ("wrong_pin", True)
    assert pull(counter, "staff")["meg"]["pin_version"] == 2


def test_what_a_till_tells_of_pins_and_approvals_is_taken_in(headquarters: Headquarters, counter: Counter) -> None:
    mine = coupon(headquarters)
    approval = {
        "approval": "a1",
        "order": "o1",
        "coupon": mine,
        "campaign": "c1",
        "by": "meg",
        "pin_version": 1,
        "reason": "known",
        "max_minor": 2_000,
    }
    counter.append("pin_failed", counter.told(by="meg", pin_version=1, failures=1))
    counter.append("approval", counter.told(**approval))
    counter.append("approval", counter.told(**{**approval, "approval": "a2", "by": "nobody"}))
    counter.append("approval", {**counter.told(**{**approval, "approval": "a3"}), "operator": "meg"})

    told = counter.verdicts()

    assert told == [("OK", ""), ("OK", ""), *[("CONFLICT", "unknown_approver")] * 2]
    assert violations(headquarters) == []


def test_a_coupon_that_comes_home_unused_was_no_loss_after_all(headquarters: Headquarters, counter: Counter) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    other = Counter(headquarters, "t2")
    version = other.take_home(mine)["version"]
    sell_at_risk(counter, "o1", mine)
    assert counter.verdicts() == [("CONFLICT", "risk_loss")]

    other.append("coupon_return", other.told(coupon=mine, version=version))
    assert other.verdicts() == [("OK", "")]

    (told,) = risk(headquarters)["tills"]
    assert (told["lost"], told["left"]) == ("0.00", "50.00")
    assert findings(headquarters) == {}
    assert coupon_state(headquarters, mine) == "USED"
    assert violations(headquarters) == []


def test_what_comes_back_after_the_budget_was_lowered_is_lent_no_more(
    headquarters: Headquarters, counter: Counter
) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    sell_at_risk(counter, "o1", coupon(headquarters))
    set_budget(headquarters, "40.00")
    assert counter.verdicts() == [("OK", "")]  # 40.00 are at the till, and 10.00 have come back

    assert counter.lease("risk", "t1", 1_000, lease="l2", status=409)["outcome"] == "risk_spent"
    assert violations(headquarters) == []


def test_a_new_machine_that_takes_a_payment_over_spends_the_risk_that_was_named_before(
    headquarters: Headquarters, counter: Counter
) -> None:
    set_budget(headquarters, "50.00")
    counter.lease("risk", "t1", 5_000)
    mine = coupon(headquarters)
    sell_at_risk(counter, "o1", mine)
    sold = counter.entries.pop().read()
    payment = {"id": "p1", "type": "card", "amount_minor": 9_000}
    counter.append("payment_unknown", {**sold, "payment": payment})
    assert counter.verdicts() == [("OK", "")]
    counter.enrol()

    counter.append("sale", {name: value for name, value in sold.items() if name != "rights"})

    assert counter.verdicts() == [("OK", "")]
    (told,) = risk(headquarters)["tills"]
    assert (told["lost"], told["accepted"]["amount"]) == ("0.00", "10.00")
    assert coupon_state(headquarters, mine) == "USED"
    assert violations(headquarters) == []

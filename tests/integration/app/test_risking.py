"""Coupons without a right: on a manager's word alone, while the budget lasts, and never more than was leased for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from sqlalchemy import text

from app.domain.codes import damm_digit
from app.domain.pins import peppered
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode
from app.services.api import Approved, Cancelled, OpenOrder, PaymentPending, ScanAnswer
from app.store import approvals, projections
from tests.fakes.memory_world import CODE_KEY, Change
from tests.fakes.shop import K1, K2, Shop, basket, card, cash
from tests.fakes.terminal import Habit

PIN, RISK = "270581", "risk:T1"


def verifier(pin: str = PIN) -> str:
    """Hash a PIN with little work: how much it was stands in what was hashed."""
    kdf = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=8)
    return kdf.derive_phc_encoded(peppered(CODE_KEY, pin))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A till that may lose 25.00, with a coupon k1 of m1 that is the server's, and manager Meg; no line."""
    made = Shop(tmp_path)
    made.coupon("k1", K1, offline="risk", risk_max_minor=2_000)
    made.server.manager("meg", "Meg", verifier=verifier())
    made.server.risk_budget("T1", 2_500)
    made.notice()
    made.till.renew_rights()
    made.unplug()
    yield made
    made.close()


def approve(shop: Shop, order: str = "o1", coupon: str = "k1", **keys: Any) -> Approved | Refusal:
    said = {"by": "meg", "pin": PIN, "reason": "a regular, the line is down", **keys}
    return shop.till.approve_risk(order, coupon, **said)


def quote(shop: Shop, order: str = "o1", *coupons: str) -> Quote:
    priced = shop.till.quote(basket("A", "B", member="m1", use=coupons or ("k1",)), order_id=order)
    assert isinstance(priced, Quote)
    return priced


def reason(shop: Shop, order: str = "o1", coupon: str = "k1") -> tuple[str, dict[str, Any]]:
    refused = quote(shop, order, coupon).refused[coupon]
    return refused.code.value, {name: fact for name, fact in refused.facts.items() if name != "coupon"}


def more(shop: Shop, count: int, *, member: str | None = "m1", off: str = "1.00") -> list[str]:
    """Give out coupons of a campaign that may be risked."""
    shop.plug()
    shop.server.campaign(
        "c-more",
        offline="risk",
        risk_max_minor=2_000,
        benefit={"type": "amount_off", "amount": off},
        max_per_order=9,
    )
    names = [f"x{number}" for number in range(count)]
    for number, name in enumerate(names):
        shop.server.coupon(name, _code(number), "c-more", member=member)
    shop.notice()
    shop.unplug()
    return names


def _code(number: int) -> str:
    digits = f"9{number + 500:014}"
    return digits + damm_digit(digits)


def sell(shop: Shop, order: str, coupon: str, **keys: Any) -> None:
    assert isinstance(approve(shop, order, coupon), Approved)
    shop.sell(order, "A", member="m1", use=(coupon,), **keys)


def left(shop: Shop) -> int | None:
    with shop.till.database.read() as conn:
        return approvals_left(conn)


def approvals_left(conn: Any) -> int | None:
    found = conn.execute(
        text("SELECT sum(qty - used - held) FROM lease WHERE account_id = :a AND state = 'OPEN'"), {"a": RISK}
    )
    return found.scalar()  # type: ignore[no-any-return]


def sales(shop: Shop) -> list[dict[str, Any]]:
    with shop.till.database.read() as conn:
        return [entry.read() for entry, _ in shop.till.database.ledger.every(conn) if entry.kind == "sale"]


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code.value


# ------------------------------------------------------------------ accepting


def test_a_manager_lets_a_coupon_through_and_the_sale_says_by_whose_word(shop: Shop) -> None:
    assert reason(shop) == ("needs_approval", {"max_minor": 2_000})

    assert approve(shop) == Approved("k1", "Meg", max_minor=2_000)

    assert quote(shop).used == ("k1",)
    shop.sell("o1", "A", "B", member="m1", use=("k1",))
    (told,) = sales(shop)
    (risk,) = told["rights"]["risks"]
    assert (risk["coupon"], risk["amount_minor"], risk["by"]) == ("k1", 1_000, "meg")
    assert risk["reason"] == "a regular, the line is down"
    assert [each["amount"] for each in told["rights"]["leases"]] == [1_000]
    assert shop.kinds() == ["approval", "sale"]
    assert left(shop) == 1_500
    assert reason(shop, "o2") == ("already_used", {"order": "o1", "store": "s1", "at": "2026-06-01T04:00:00+00:00"})


def test_a_scan_tells_that_a_managers_word_is_all_that_lacks(shop: Shop) -> None:
    found = shop.till.scan(K1)

    assert isinstance(found, ScanAnswer) and found.verdict is not None
    assert (found.id, found.verdict.code.value) == ("k1", "needs_approval")


def test_a_code_that_the_copy_has_not_heard_of_is_never_taken(shop: Shop) -> None:
    # Its check digit is right; whether there is such a coupon only the server knows.
    found = shop.till.scan(K2)

    assert found.refusal is not None and found.refusal.code.value == "needs_online"
    assert code_of(approve(shop, coupon="k2")) == "needs_online"


def test_with_a_line_the_server_decides_and_the_budget_stays(shop: Shop) -> None:
    approve(shop)
    shop.plug()

    assert code_of(approve(shop)) == "not_allowed"
    opened = shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))

    assert isinstance(opened, OpenOrder) and opened.held
    assert shop.till.pay("o1") is not None
    assert "rights" not in sales(shop)[0] and left(shop) == 2_500


def test_a_line_that_comes_back_before_the_payment_asks_the_server(shop: Shop) -> None:
    approve(shop)
    assert isinstance(shop.till.checkout("o1", basket("A", member="m1", use=("k1",))), OpenOrder)
    shop.plug()

    shop.till.pay("o1")

    assert "rights" not in sales(shop)[0] and sales(shop)[0]["held"]
    assert left(shop) == 2_500


def test_the_word_is_for_one_order(shop: Shop) -> None:
    approve(shop, "o1")

    assert quote(shop, "o1").used == ("k1",)
    assert reason(shop, "o2")[0] == "needs_approval"


def test_an_older_word_of_the_server_does_not_free_what_was_taken_here(shop: Shop) -> None:
    sell(shop, "o1", "k1")
    shop.plug()
    shop.server._publish_coupon("k1")  # ISSUED: it has not heard of the sale
    shop.notice()
    shop.unplug()

    assert reason(shop, "o2") == ("already_used", {})
    assert code_of(approve(shop, "o2")) == "already_used"


def test_an_order_that_waits_keeps_coupon_and_budget_from_others(shop: Shop) -> None:
    approve(shop)
    shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))
    shop.till.park("o1")

    assert left(shop) == 1_500
    assert reason(shop, "o2")[0] == "frozen"
    assert isinstance(shop.till.cancel("o1"), Cancelled)
    assert left(shop) == 2_500
    assert reason(shop, "o2")[0] == "needs_approval"


def test_a_payment_without_an_answer_keeps_both_until_there_is_one(shop: Shop) -> None:
    approve(shop)
    shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    assert isinstance(shop.till.pay("o1", (card(9_000),)), PaymentPending)
    assert left(shop) == 1_500

    shop.till.decide_payment("o1", paid=True)

    assert sales(shop)[0]["rights"]["risks"][0]["coupon"] == "k1"
    assert left(shop) == 1_500


# ------------------------------------------------------------------ limits


def test_what_the_budget_has_not_is_refused_in_clear_numbers(shop: Shop) -> None:
    names = more(shop, 2, off="15.00")
    sell(shop, "o1", names[0])

    assert isinstance(approve(shop, "o2", names[1]), Approved)
    assert reason(shop, "o2", names[1]) == ("risk_limit", {"max_minor": 1_000, "off_minor": 1_500})
    assert code_of(shop.till.checkout("o2", basket("A", member="m1", use=(names[1],)))) == "risk_limit"


def test_a_budget_that_is_spent_takes_nothing_more(shop: Shop) -> None:
    names = more(shop, 3, off="12.50")
    sell(shop, "o1", names[0])
    sell(shop, "o2", names[1])

    assert left(shop) == 0
    assert reason(shop, "o3", names[2]) == ("risk_spent", {"left_minor": 0})
    assert code_of(approve(shop, "o3", names[2])) == "risk_spent"


def test_a_till_without_a_budget_never_asks_for_a_manager(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.coupon("k1", K1, offline="risk", risk_max_minor=2_000)
    shop.notice()
    shop.unplug()

    assert reason(shop) == ("needs_online", {})
    shop.close()


def test_a_campaign_that_allows_no_risk_is_left_to_the_server(shop: Shop) -> None:
    shop.plug()
    shop.coupon("k2", K2)
    shop.notice()
    shop.unplug()

    assert reason(shop, coupon="k2") == ("needs_online", {})


def test_a_coupon_that_would_take_off_more_than_its_campaign_allows_is_refused(shop: Shop) -> None:
    (name,) = more(shop, 1, off="20.01")
    approve(shop, coupon=name)

    assert reason(shop, coupon=name) == ("risk_limit", {"max_minor": 2_000, "off_minor": 2_001})


def test_all_coupons_of_one_order_are_bounded_by_what_is_left(shop: Shop) -> None:
    names = more(shop, 2, off="13.00")
    for name in names:
        approve(shop, coupon=name)

    priced = quote(shop, "o1", *names)

    assert priced.used == (names[0],)
    assert priced.refused[names[1]].code.value == "risk_spent"
    assert priced.refused[names[1]].facts["left_minor"] == 1_200


def test_no_risk_once_the_last_sync_is_too_old(shop: Shop) -> None:
    shop.clock.at += timedelta(hours=24)
    assert reason(shop)[0] == "needs_approval"

    shop.clock.at += timedelta(seconds=1)

    assert reason(shop) == ("risk_limit", {"sync_age_max_h": 24})
    assert code_of(approve(shop)) == "risk_limit"


def test_three_of_one_member_and_ten_in_a_row_then_only_after_a_sync(shop: Shop) -> None:
    names = more(shop, 12, member=None)
    for number, name in enumerate(names[:10]):
        assert isinstance(approve(shop, f"o{number}", name), Approved)
        shop.sell(f"o{number}", "A", use=(name,))
    assert reason(shop, "o10", names[10]) == ("risk_limit", {"in_a_row": 10})

    shop.plug()
    shop.till.head_office.flush()
    shop.unplug()

    assert reason(shop, "o10", names[10])[0] == "needs_approval"


def test_three_coupons_of_one_member_are_enough(shop: Shop) -> None:
    names = more(shop, 4)
    for number, name in enumerate(names[:3]):
        sell(shop, f"o{number}", name)

    assert reason(shop, "o3", names[3]) == ("risk_limit", {"per_member": 3})


def test_a_coupon_at_home_at_a_sister_till_is_not_for_the_taking(shop: Shop) -> None:
    shop.plug()
    shop.server.move_home("k1", "T2")
    shop.notice()
    shop.unplug()

    assert reason(shop)[0] == "leased_elsewhere"
    assert code_of(approve(shop)) == "leased_elsewhere"


# ------------------------------------------------------------------ people


def test_nobody_approves_for_himself(shop: Shop) -> None:
    assert [each.name for each in shop.till.approvers()] == ["Meg"]
    for name in ("meg", "Meg"):
        shop.till.operator = name

        assert shop.till.approvers() == ()
        assert code_of(approve(shop)) == "not_allowed"


def test_who_has_left_approves_nothing(shop: Shop) -> None:
    shop.plug()
    shop.server.changes.append(Change("staff", "meg", None))
    shop.notice()
    shop.unplug()

    assert code_of(approve(shop)) == "unknown_code"


def test_wrong_pins_are_entries_and_lock_for_longer_and_longer(shop: Shop) -> None:
    assert [code_of(approve(shop, pin="270582")) for _ in range(5)] == [*["wrong_pin"] * 4, "pin_locked"]
    assert shop.kinds() == ["pin_failed"] * 5

    locked = approve(shop)  # the right one, too early

    assert isinstance(locked, Refusal) and locked.facts["retry_after_s"] == 30
    shop.clock.at += timedelta(seconds=30)
    assert isinstance(approve(shop, pin="270582"), Refusal)
    assert approve(shop) == Refusal(locked.code, {"retry_after_s": 60})
    shop.clock.at += timedelta(seconds=60)
    assert isinstance(approve(shop), Approved)
    with shop.till.database.read() as conn:
        assert approvals.failures(conn, approvals.managers(conn)[0]) == (0, None)


def test_ten_wrong_pins_are_forgiven_by_no_time_but_by_a_new_pin_and_lock_nobody_else(shop: Shop) -> None:
    shop.plug()
    shop.server.manager("bob", "Bob", verifier=verifier("880271"), pin_version=1)
    shop.notice()
    shop.unplug()
    for _ in range(10):
        last = approve(shop, pin="270582")
        shop.clock.at += timedelta(minutes=15)
    shop.restart()

    locked = Refusal(RefusalCode.PIN_LOCKED, {"manager": "Meg"})
    assert (last, approve(shop)) == (locked, locked)
    assert shop.kinds() == ["pin_failed"] * 10  # what is not looked at is no try
    assert isinstance(shop.till.approve_risk("o2", "k1", by="bob", pin="880271", reason="known"), Approved)

    shop.plug()
    shop.server.manager("meg", "Meg", verifier=verifier("913570"), pin_version=2)
    shop.notice()
    shop.unplug()
    assert isinstance(approve(shop, pin="913570"), Approved)


def test_a_restart_and_an_older_clock_do_not_undo_wrong_pins(shop: Shop) -> None:
    for _ in range(5):
        approve(shop, pin="270582")
    shop.clock.at -= timedelta(days=1)
    shop.restart()

    assert code_of(approve(shop)) == "pin_locked"


def test_a_new_pin_begins_at_nothing(shop: Shop) -> None:
    for _ in range(5):
        approve(shop, pin="270582")
    shop.plug()
    shop.server.manager("meg", "Meg", verifier=verifier("880271"), pin_version=2)
    shop.notice()
    shop.unplug()

    assert code_of(approve(shop, pin=PIN)) == "wrong_pin"
    assert isinstance(approve(shop, pin="880271"), Approved)


def test_no_pin_stands_in_any_entry_or_table(shop: Shop) -> None:
    approve(shop, pin="270582")
    sell(shop, "o1", "k1")
    shop.till.close()

    content = b"".join(path.read_bytes() for path in shop.path.parent.iterdir() if path.is_file())
    shop.open()

    assert b"270582" not in content and PIN.encode() not in content
    assert b"meg" in content  # the control: what is looked for would be found


# ------------------------------------------------------------------ the budget's lease


def test_the_budget_is_leased_whole_and_given_back_for_the_night(shop: Shop) -> None:
    assert left(shop) == 2_500
    shop.plug()

    shop.till.close_day()
    shop.server.risk_budget("T1", 2_500)  # it is there again, and still it is night
    shop.notice()
    shop.till.renew_rights()

    assert left(shop) is None
    assert shop.kinds() == ["lease_close"]


def test_a_budget_that_is_taken_away_goes_back_behind_the_next_session(shop: Shop) -> None:
    shop.plug()
    shop.server._publish("risk", "T1", {"till": "T1", "limit_minor": 0, "available_minor": 0})
    shop.notice()

    shop.till.renew_rights()

    assert left(shop) is None
    shop.unplug()
    assert reason(shop) == ("needs_online", {})


def test_everything_is_made_anew_from_the_ledger(shop: Shop) -> None:
    names = more(shop, 1)
    sell(shop, "o1", "k1")
    approve(shop, "o2", names[0])
    approve(shop, "o3", names[0], pin="270582")
    with shop.till.database.write() as tx:
        assert projections.rebuild(tx, shop.till.database.ledger) == []
        tx.execute(text("DELETE FROM approval"))
        tx.execute(text("DELETE FROM pin_failure"))
        tx.execute(text("UPDATE lease SET used = 0"))

        drift = projections.rebuild(tx, shop.till.database.ledger)

        assert [each.partition(" ")[0] for each in drift] == ["approval", "approval", "pin_failure", "lease"]
        assert projections.rebuild(tx, shop.till.database.ledger) == []
    assert left(shop) == 1_500
    assert quote(shop, "o2", names[0]).used == (names[0],)


# ------------------------------------------------------------------ power


class Died(BaseException):
    """The power went."""


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("passes", [0, 1])
def test_a_till_that_dies_between_the_steps_has_each_of_them_or_not(shop: Shop, point: str, passes: int) -> None:
    """Steps: the approval's entry, then the sale's; what was not committed is asked for again, and nothing is spent."""
    count = passes

    def probe(passed: str) -> None:
        nonlocal count
        if passed == point:
            count -= 1
            if count < 0:
                raise Died

    shop.probe = probe
    with pytest.raises(Died):
        approve(shop)
        shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))
        shop.till.pay("o1", (cash(9_000),))
    shop.probe = lambda _point: None
    shop.restart()

    done = passes + (point == "after_commit")
    assert shop.kinds() == ["approval", "sale"][:done]
    assert left(shop) == (1_500 if done == 2 else 2_500)
    if done == 0:
        assert reason(shop)[0] == "needs_approval"
    if done == 1:
        assert quote(shop).used == ("k1",)
        shop.sell("o1", "A", member="m1", use=("k1",))
        assert left(shop) == 1_500
    with shop.till.database.write() as tx:
        assert projections.rebuild(tx, shop.till.database.ledger) == []

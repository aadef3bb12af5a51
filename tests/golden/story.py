"""Let a till do everything that it writes an entry of, on the real services: a ledger with every kind of entry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from app.domain.codes import damm_digit
from app.domain.ledger import Entry
from app.domain.pins import peppered
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.services.api import Approved, AtHome, Cancelled, GivenCoupon, Lent, OpenOrder, PaymentPending, RefundDone
from app.services.epochs import Mark, NewEpoch
from tests.fakes.memory_world import CODE_KEY
from tests.fakes.shop import Shop, basket, card, cash, value, wallet
from tests.fakes.terminal import Habit

PIN = "270581"
CARRIED_KINDS = frozenset({"sale", "refund", "pin_failed"})
EVERY_KEY = {
    "benefit": {"type": "amount_off", "amount": "10.00"},
    "name": "券",
    "name_en": "Coupon",
    "scope": {"include": {"skus": ["A"], "categories": ["food"]}, "exclude": {"brands": ["none"]}},
    "min_spend": "1.00",
    "min_qty": 1,
    "stores": ["s1"],
    "tiers": ["basic"],
    "from": "2026-05-01T00:00:00+08:00",
    "until": "2030-01-01T00:00:00+08:00",
    "use_from": "2026-05-02T00:00:00+08:00",
    "valid_days": 900,
    "weekdays": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    "hours": {"from": "00:00", "until": "24:00"},
    "per_member": 2,
    "per_member_per_day": 2,
    "budget": "100.00",
    "group": "own",
    "max_per_order": 2,
    "priority": 3,
    "bearer": True,
    "threshold_base": "gross",
    "refund_policy": "recompute",
}
BENEFITS: tuple[dict[str, Any], ...] = (
    {"type": "percent_off", "percent": "12.50", "max_discount": "30.00"},
    {"type": "tiered", "tiers": [{"min": "50.00", "off": "5.00"}, {"min": "90.00", "off": "9.00"}]},
    {"type": "every", "min": "30.00", "off": "2.00", "max_times": 2},
    {"type": "fixed_price", "price": "88.00", "qty": 1},
    {"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": "50", "max_times": 1},
)


class _AllLost:
    """A server that has nothing of the old epoch but what `CARRIED_KINDS` leaves out."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._lacks: dict[str, str] = {}
        for entry in entries:
            if entry.kind in CARRIED_KINDS:
                self._lacks.setdefault(entry.kind, entry.entry_id)

    def new_epoch(self, enrolment_id: str, *, epoch: int, last: Mark) -> NewEpoch:
        return NewEpoch(epoch + 1, (0, ""), forked=False)

    def unknown(self, entry_ids: Sequence[str]) -> set[str]:
        return set(self._lacks.values())


def tell(folder: Path) -> list[Entry]:
    """Return the ledger of a till that did it all, two epochs long."""
    shop = Shop(folder)
    try:
        _open(shop)
        _sell(shop)
        _give_up(shop)
        _use_rights(shop)
        _use_risks(shop)
        shop.clock.at -= timedelta(days=400)
        shop.sell("doubted", "A")
        shop.till.begin_epoch(_AllLost(_ledger(shop)))
        return _ledger(shop)
    finally:
        shop.close()


def _ledger(shop: Shop) -> list[Entry]:
    with shop.till.database.read() as conn:
        return [entry for entry, _ in shop.till.database.ledger.every(conn)]


def _code(number: int) -> str:
    digits = f"9{number + 500:014}"
    return digits + damm_digit(digits)


def _open(shop: Shop) -> None:
    server = shop.server
    server.publish_chain(cash_step_minor=5)
    server.product("WASH", 8_000)
    server.card("p1", "m1", "WASH", uses=8)
    server.member("m2")
    server.campaign("auto", kind="automatic", benefit={"type": "amount_off", "amount": "1.00"}, min_spend="50.00")
    server.campaign("full", **EVERY_KEY, budget_left_minor=10_000)
    server.coupon("k-full", _code(0), "full", member="m1")
    for number, benefit in enumerate(BENEFITS, 1):
        server.campaign(f"c{number}", benefit=benefit)
        server.coupon(f"k{number}", _code(number), f"c{number}", member="m1")
    server.campaign("given", benefit={"type": "amount_off", "amount": "10.00"})
    server.campaign("risky", benefit={"type": "amount_off", "amount": "2.00"}, offline="risk", risk_max_minor=2_000)
    server.coupon("k-risk", _code(9), "risky", member="m1")
    kdf = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=8)
    server.manager("meg", "Meg", verifier=kdf.derive_phc_encoded(peppered(CODE_KEY, PIN)))
    server.risk_budget("T1", 2_500)
    server.lendable.update({"value:m1": 2_000, "uses:p1": 3, "stock:given": 2})
    shop.notice()


def _sell(shop: Shop) -> None:
    shop.sell("plain", "A", ("TEA", 333), tenders=(cash(20_000),))
    assert isinstance(shop.till.refund("r-till", "plain", (RefundLine(1, 1000),)), RefundDone)
    shop.sell(
        "held",
        "A",
        "WASH",
        member="m1",
        use=("k-full",),
        covers=(("p1", 2),),
        stored_value_minor=1_000,
        tenders=(value(1_000), card(3_000), wallet(1_000), cash(20_000)),
    )
    shop.notice()
    assert isinstance(shop.till.refund("r-server", "held"), RefundDone)


def _give_up(shop: Shop) -> None:
    assert isinstance(shop.till.checkout("left", basket("A", member="m1", use=("k1",))), OpenOrder)
    assert isinstance(shop.till.cancel("left"), Cancelled)
    shop.till.checkout("second card", basket("A"))
    shop.terminal.next(Habit.PAYS, Habit.DECLINES)
    assert isinstance(shop.till.pay("second card", (card(6_000), wallet(3_900))), Cancelled)
    shop.till.checkout("silent", basket("A"))
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    assert isinstance(shop.till.pay("silent", (card(9_900),)), PaymentPending)
    shop.till.resolve("silent")


def _use_rights(shop: Shop) -> None:
    shop.notice()
    for account, amount in (("value:m1", 2_000), ("uses:p1", 3), ("stock:given", 2)):
        assert isinstance(shop.till.lease(account, amount), Lent)
    for number in range(1, len(BENEFITS) + 1):
        assert isinstance(shop.till.take_home(f"k{number}"), AtHome)
    shop.till.renew_rights()
    shop.unplug()
    assert isinstance(shop.till.give("q1", "given", "m2", source="at the till"), GivenCoupon)
    for number in range(1, len(BENEFITS)):
        shop.sell(f"by right {number}", "A", "B", member="m1", use=(f"k{number}",))
    shop.sell(
        "by leases",
        "A",
        "WASH",
        member="m1",
        covers=(("p1", 2),),
        stored_value_minor=1_000,
        tenders=(value(1_000), cash(20_000)),
    )
    shop.till.checkout("silent by right", basket("A", member="m1"), stored_value_minor=500)
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    assert isinstance(shop.till.pay("silent by right", (value(500), card(9_400))), PaymentPending)
    shop.till.resolve("silent by right")
    assert shop.till.unlease("value:m1") is None
    assert shop.till.return_home(f"k{len(BENEFITS)}") is None


def _use_risks(shop: Shop) -> None:
    wrong = shop.till.approve_risk("at a risk", "k-risk", by="meg", pin="000000", reason="a slip")
    assert isinstance(wrong, Refusal) and wrong.code is RefusalCode.WRONG_PIN
    shop.till.quote(basket("A", member="m1", use=("k-risk",)), order_id="at a risk")
    said = {"by": "meg", "pin": PIN, "reason": "a regular, the line is down"}
    assert isinstance(shop.till.approve_risk("at a risk", "k-risk", **said), Approved)
    shop.sell("at a risk", "A", member="m1", use=("k-risk",))

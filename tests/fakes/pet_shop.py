"""A pet shop small enough to know by heart, on the till in memory: goods, two members, their cards and coupons."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

from app.domain.benefits import AmountOff, BuyXGetY, FixedPrice, PercentOff, Tier, Tiered
from app.domain.facts import CouponFacts, PromotionFacts
from app.domain.rules import Kind, Rule, Scope, Selection
from app.services.ports import PaymentPort
from tests.fakes.clock import SetClock
from tests.fakes.stock import Card, Member, Product
from tests.fakes.till import NOW, FakeTill

FOOD = Product("FOOD", "北屿成猫粮 2kg", "Northisle Adult Cat Food 2kg", 29900, "staple", barcode="6901234567892")
CAN = Product("CAN", "金枪鱼猫罐头 85g", "Tuna Cat Can 85g", 850, "can", barcode="6901234567908")
WASH = Product("WASH", "中型犬洗澡", "Bath, medium dog", 8000, "service")
TREAT = Product("TREAT", "冻干鸡肉（散称）", "Freeze-dried chicken, loose", 19800, "treat", by_weight=True)
TOY = Product("TOY", "逗猫棒", "Cat teaser", 1990, "toy")
PRODUCTS = (FOOD, CAN, WASH, TREAT, TOY)

ANNA = Member("M1001", "138****1001", "gold", 30000)
BEN = Member("M1002", "139****1002", "basic", 0)
CARD = Card("P2001", "M1001", "WASH", 8)


def of(*categories: str) -> Scope:
    """Include these categories."""
    return Scope(Selection(categories=frozenset(categories)))


def coupons() -> dict[str, CouponFacts]:
    """List coupons by their code; the first five are Anna's, one is Ben's, one is anybody's."""
    until = NOW + timedelta(days=12)
    staple = Rule(AmountOff(5000), name="主粮满199减50", scope=of("staple"), min_spend_minor=19900)
    cans = Rule(BuyXGetY(10, 3), name="罐头买10送3", scope=of("can"), group="cans")
    treats = Rule(PercentOff(Fraction(15)), name="零食85折", scope=of("treat"), group="treats")
    toys = Rule(Tiered((Tier(10000, 1000), Tier(20000, 3000))), name="玩具满100减10", scope=of("toy"), group="toys")
    wash = Rule(FixedPrice(1), name="一分钱洗澡", scope=of("service"), group="wash", tiers=frozenset({"silver"}))
    bearer = Rule(AmountOff(500), name="开业立减5元", group="opening", bearer=True)
    return {
        "K-FOOD": CouponFacts("c-food", "food", staple, member_id="M1001", valid_until_at=until),
        "K-CANS": CouponFacts("c-cans", "cans", cans, member_id="M1001", valid_until_at=until),
        "K-TREATS": CouponFacts("c-treats", "treats", treats, member_id="M1001", valid_until_at=until),
        "K-TOYS": CouponFacts("c-toys", "toys", toys, member_id="M1001", valid_until_at=until),
        "K-WASH": CouponFacts("c-wash", "wash", wash, member_id="M1001", valid_until_at=until),
        "K-USED": CouponFacts(
            "c-used",
            "food",
            staple,
            state="USED",
            member_id="M1001",
            order_id="0190f3a2b4c57d1e8f90a1b2c3d4e5f6",
            state_facts={"store": "old-town", "at": (NOW - timedelta(days=2)).isoformat()},
        ),
        "K-BEN": CouponFacts("c-ben", "food", staple, member_id="M1002", valid_until_at=until),
        "K-OPEN": CouponFacts("c-open", "opening", bearer),
    }


GOLD_TOYS = PromotionFacts(
    "gold-toys",
    Rule(PercentOff(Fraction(5)), Kind.AUTOMATIC, name="金卡玩具95折", scope=of("toy"), tiers=frozenset({"gold"})),
)


def pet_shop(
    *, terminal: PaymentPort | None = None, cash_step_minor: int = 10, clock: SetClock | None = None
) -> FakeTill:
    """Open the shop."""
    return FakeTill(
        products=PRODUCTS,
        members=(ANNA, BEN),
        cards=(CARD,),
        coupons=coupons(),
        promotions=(GOLD_TOYS,),
        terminal=terminal,
        cash_step_minor=cash_step_minor,
        clock=clock,
    )

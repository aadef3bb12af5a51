"""Make small facts for the rules' tests: goods at round prices, coupons plain but for what a test is about."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from app.domain.basket import Cover, Line
from app.domain.benefits import AmountOff
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode
from app.domain.rules import Kind, Rule

NOW = datetime(2026, 6, 1, 2, tzinfo=UTC)
MEMBER = MemberFacts("m1")


def line(price_minor: int = 10_000, *, number: int = 1, qty_milli: int = 1000, **more: object) -> Line:
    """Make a line; one unit at 100.00 by default, of sku `sku<number>`."""
    return Line(number, str(more.pop("sku", f"sku{number}")), price_minor, qty_milli, **more)


def lines(*prices_minor: int) -> tuple[Line, ...]:
    """Make a basket of one unit each."""
    return tuple(line(price_minor, number=number) for number, price_minor in enumerate(prices_minor, start=1))


def off(amount_minor: int = 1000, **rule: object) -> Rule:
    """Make a rule that takes an amount off, 10.00 by default."""
    return Rule(AmountOff(amount_minor), **rule)


def coupon(id: str = "k1", rule: Rule | None = None, *, campaign: str | None = None, **more: object) -> CouponFacts:
    """Make a coupon of a campaign of its own, with a group of its own when no rule is given."""
    return CouponFacts(id, campaign or f"c-{id}", rule or off(group=f"g-{id}"), **more)


def promotion(id: str = "p1", rule: Rule | None = None, **more: object) -> PromotionFacts:
    """Make an automatic promotion, 5.00 off by default."""
    return PromotionFacts(id, rule or off(500, kind=Kind.AUTOMATIC), **more)


def order(
    basket: Sequence[Line] = (line(),),
    coupons: Sequence[CouponFacts] = (),
    *,
    promotions: Sequence[PromotionFacts] = (),
    covers: Sequence[Cover] = (),
    cards: Mapping[str, CardFacts] | None = None,
    member: MemberFacts | None = MEMBER,
    **more: object,
) -> OrderFacts:
    """Make an order of member m1 in store s1, at ten o'clock in Shanghai (02:00 UTC), on a Monday."""
    return OrderFacts(
        order_id="o1",
        lines=tuple(basket),
        place=more.pop("place", Place("s1", UTC)),
        now=more.pop("now", NOW),
        member=member,
        coupons=tuple(coupons),
        promotions=tuple(promotions),
        covers=tuple(covers),
        cards=cards or {},
        **more,
    )


def quoted(basket: Sequence[Line], *coupons: CouponFacts, **more: object) -> Quote:
    """Price a basket with coupons."""
    return price(order(basket, coupons, **more))


def nets(quote: Quote) -> list[int]:
    """Return what each line costs."""
    return [row.net_minor for row in quote.lines]


def code(found: object) -> RefusalCode:
    """Return the code of what must be a refusal."""
    assert isinstance(found, Refusal), found
    return found.code


def accepted(found: Refusal | object) -> object:
    """Return what must not be a refusal."""
    assert not isinstance(found, Refusal), found
    return found

"""Answer questions about a basket without any effect: its price, the best coupons, which are usable and why not."""

from collections.abc import Callable
from dataclasses import replace

from app.domain.best import Best, best_combination
from app.domain.conditions import coupon_reason
from app.domain.facts import CouponFacts, OrderFacts
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import BasketRequest, UsableCoupon
from app.services.asking import Asked
from app.services.gathering import gather, gather_member_coupons
from app.services.parts import Parts


def quote(parts: Parts, basket: BasketRequest, *, order_id: str) -> Quote | Refusal:
    """Price a basket; see `Till.quote`."""
    with parts.database.read() as conn:
        facts = gather(conn, parts, Asked.of(basket).basket, order_id=order_id)
    return facts if isinstance(facts, Refusal) else price(facts)


def best(parts: Parts, basket: BasketRequest, *, keep_going: Callable[[Best], bool] | None = None) -> Best | Refusal:
    """Choose the member's best coupons; see `Till.best`."""
    facts = _with_members_coupons(parts, basket)
    return facts if isinstance(facts, Refusal) else best_combination(facts, keep_going=keep_going)


def usable_coupons(parts: Parts, basket: BasketRequest) -> list[UsableCoupon] | Refusal:
    """List the member's coupons with their reasons; see `Till.usable_coupons`."""
    facts = _with_members_coupons(parts, basket)
    if isinstance(facts, Refusal):
        return facts
    shown = [_alone(facts, coupon) for coupon in facts.coupons]
    return sorted(shown, key=lambda each: (each.refusal is not None, -each.discount_minor, each.coupon.id))


def _with_members_coupons(parts: Parts, basket: BasketRequest) -> OrderFacts | Refusal:
    if basket.member_id is None:
        return refuse(RefusalCode.NEEDS_MEMBER)
    with parts.database.read() as conn:
        return gather_member_coupons(conn, parts, basket)


def _alone(facts: OrderFacts, coupon: CouponFacts) -> UsableCoupon:
    """Judge one coupon as the only one on the basket; without a basket, only what does not look at goods."""
    title = coupon.rule.name or coupon.campaign_id
    if not facts.lines:
        reason = coupon_reason(coupon, place=facts.place, now=facts.now, order_id=facts.order_id, member=facts.member)
        return UsableCoupon(coupon, title, reason)
    priced = price(replace(facts, coupons=(coupon,)))
    taken = sum(stage.discount_minor for stage in priced.laid if stage.coupon_id == coupon.id)
    return UsableCoupon(coupon, title, priced.refused.get(coupon.id), discount_minor=taken)

"""Decide which coupons go together in one order (RULES, "Stacking"): groups, `max_per_order`, `exclusive`."""

from collections.abc import Sequence

from app.domain.facts import CouponFacts


def clash(coupon: CouponFacts, kept: Sequence[CouponFacts]) -> str | None:
    """Return the id of a kept coupon that does not go together with `coupon`; None when it may join them.

    An order takes one coupon of each group; a campaign with `max_per_order = n` allows n of its own. Where two
    snapshots of one campaign disagree on n, the smaller counts, since neither promised more.
    """
    if coupon.rule.exclusive and kept:
        return kept[0].id
    for other in kept:
        if other.rule.exclusive:
            return other.id
        if other.rule.group == coupon.rule.group and other.campaign_id != coupon.campaign_id:
            return other.id
    own = [other for other in kept if other.campaign_id == coupon.campaign_id]
    limit = min(other.rule.max_per_order for other in (*own, coupon))
    return own[0].id if len(own) >= limit else None


def keep_first_scanned(coupons: Sequence[CouponFacts]) -> tuple[list[CouponFacts], dict[str, str]]:
    """Split coupons, in the order of scanning, into those that stay and those that do not go together with them.

    The second value maps the id of each that leaves to the id of the kept one that it clashes with.
    """
    kept: list[CouponFacts] = []
    clashes: dict[str, str] = {}
    for coupon in coupons:
        other = clash(coupon, kept)
        if other is None:
            kept.append(coupon)
        else:
            clashes[coupon.id] = other
    return kept, clashes

"""Answer "what does this basket cost?" without effect: a quote, the best combination, and which coupons would do.

Amounts are text in the chain's currency: this is what the chain's app shows to a member.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from sqlalchemy import Connection, select

from app.domain.basket import format_qty
from app.domain.best import best_combination
from app.domain.facts import OrderFacts
from app.domain.money import Currency
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.states import CouponState
from server.db.schema import coupon
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.facts import Basket, gather

SEARCH_LIMIT = 20_000
"""How often a search for the best combination is asked whether to go on: bounds what one question may cost us."""
COUPONS_MAX = 500
"""Coupons of one member that are looked at, those that end first; nobody holds more than a handful."""


@dataclass(frozen=True, slots=True)
class Question:
    """Ask for the price of a basket.

    `best` looks for the member's best coupons instead of `basket.use`. `judged` adds the member's coupons, each with
    the reason why it could not be used.
    """

    basket: Basket
    best: bool = False
    judged: bool = False


def quote(conn: Connection, context: Context, question: Question) -> Answer:
    """Return the price with all its stages; refuses what cannot be priced at all (`facts.gather`).

    `best` and `judged` need a member: `needs_member`. `exact` False says that the search for the best was cut short.
    """
    basket = question.basket
    if (question.best or question.judged) and basket.member_id is None:
        return refused(refuse(RefusalCode.NEEDS_MEMBER, best=True))
    offered = basket
    if basket.member_id is not None and (question.best or question.judged):
        offered = replace(basket, use=held_by(conn, basket.member_id))
    facts = gather(conn, context, offered if question.best else basket)
    if isinstance(facts, Refusal):
        return refused(facts)
    exact = True
    if question.best:
        asked = count()
        found = best_combination(facts, keep_going=lambda _best: next(asked) < SEARCH_LIMIT)
        priced, exact = found.quote, found.exact
    else:
        priced = price(facts)
    answer = show(priced, context.chain.currency) | {"exact": exact}
    if question.judged:
        answer["coupons"] = _judged(conn, context, offered)
    return ok(**answer)


def held_by(conn: Connection, member_id: str) -> tuple[str, ...]:
    """Return the coupons in a member's hand that are not used, expired or revoked, those that end first in front."""
    rows = conn.execute(
        select(coupon.c.id)
        .where(coupon.c.member_id == member_id, coupon.c.state.in_((CouponState.ISSUED, CouponState.FROZEN)))
        .order_by(coupon.c.valid_until_at.is_(None), coupon.c.valid_until_at, coupon.c.id)
        .limit(COUPONS_MAX)
    )
    return tuple(rows.scalars())


def usable(facts: OrderFacts) -> dict[str, Refusal | None]:
    """Tell of each coupon why it could not be used in this order, by itself; None = it could (REQUIREMENTS C6)."""
    return {each.id: price(replace(facts, coupons=(each,))).refused.get(each.id) for each in facts.coupons}


def _judged(conn: Connection, context: Context, basket: Basket) -> list[dict[str, Any]]:
    facts = gather(conn, context, basket)
    assert isinstance(facts, OrderFacts), "the same lines were priced a moment ago"
    reasons = usable(facts)
    return [
        {
            "coupon": each.id,
            "campaign": each.campaign_id,
            "name": each.rule.name,
            "valid_until_at": each.valid_until_at.isoformat() if each.valid_until_at else None,
            "refusal": _reason(reasons[each.id]),
        }
        for each in facts.coupons
    ]


def _reason(refusal: Refusal | None) -> Mapping[str, Any] | None:
    return None if refusal is None else refusal.to_json()


def show(priced: Quote, currency: Currency) -> dict[str, Any]:
    """Return a quote as the public API shows it."""
    money = currency.format
    return {
        "gross": money(priced.gross_minor),
        "discount": money(priced.discount_minor),
        "payable": money(priced.payable_minor),
        "member": priced.member_id,
        "lines": [
            {
                "number": line.number,
                "sku": line.sku,
                "price": money(line.price_minor),
                "qty": format_qty(line.qty_milli),
                "covered": line.covered_units,
                "gross": money(line.gross_minor),
                "discount": money(line.discount_minor),
                "net": money(line.net_minor),
            }
            for line in priced.lines
        ],
        "laid": [
            {"campaign": stage.campaign_id, "coupon": stage.coupon_id, "discount": money(stage.discount_minor)}
            for stage in priced.laid
        ],
        "used": list(priced.used),
        "refused": {name: reason.to_json() for name, reason in priced.refused.items()},
        "skipped": {name: reason.to_json() for name, reason in priced.skipped.items()},
    }

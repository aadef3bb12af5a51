"""Sell a basket and ask for parts of it back."""

from collections.abc import Sequence
from dataclasses import replace

from app.domain.basket import Line
from app.domain.facts import CouponFacts
from app.domain.pricing import price
from app.domain.refunds import Refund, RefundLine, SoldOrder, decide_refund
from app.domain.refusals import Refusal
from app.domain.tenders import Tender, TenderType
from tests.unit.domain.shop import order


def sold(
    basket: Sequence[Line],
    *coupons: CouponFacts,
    tenders: Sequence[tuple[TenderType, int]] | None = None,
    **more: object,
) -> SoldOrder:
    """Sell a basket, for cash unless tenders are named."""
    quote = price(order(basket, coupons, **more))
    assert not quote.refused
    paid = [(TenderType.CASH, quote.payable_minor)] if tenders is None else tenders
    assert sum(amount for _, amount in paid) == quote.payable_minor
    return SoldOrder("o1", "PAID", tuple(basket), quote, tuple(Tender(*one) for one in paid))


def after(done: SoldOrder, *refunds: Refund) -> SoldOrder:
    return replace(done.after(refunds), state="PARTLY_REFUNDED")


def back(done: SoldOrder, *asked: tuple[int, int], step: int = 0) -> Refund:
    """Return units: pairs of line number and thousandths; none = all that is left."""
    found = decide_refund(done, [RefundLine(*one) for one in asked] or None, cash_step_minor=step)
    assert isinstance(found, Refund), found
    return found


def refused(done: SoldOrder, *asked: tuple[int, int]) -> Refusal:
    found = decide_refund(done, [RefundLine(*one) for one in asked])
    assert isinstance(found, Refusal), found
    return found


def paid_back(refund: Refund) -> list[tuple[TenderType, int]]:
    return [(tender.type, tender.amount_minor) for tender in refund.tenders]

"""Laws of refunds: whatever returns first, in the end exactly what was paid is back, and never more before."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.domain.basket import MILLI
from app.domain.facts import OrderFacts
from app.domain.pricing import price
from app.domain.refunds import Refund, RefundLine, SoldOrder, decide_refund
from app.domain.rules import RefundPolicy
from app.domain.tenders import Settlement, Tender, TenderType, settle
from tests.property.orders import orders

STEPS = st.sampled_from([0, 5, 10])


@st.composite
def sold_orders(draw: st.DrawFn, policy: RefundPolicy, step_minor: int) -> SoldOrder:
    """Draw a paid order; some of it paid by other tenders, the rest in cash."""
    facts: OrderFacts = draw(orders(max_coupons=3, policy=policy))
    quote = price(facts)
    left, others = quote.payable_minor, []
    for kind in draw(st.lists(st.sampled_from(["stored_value", "card", "wallet"]), max_size=3)):
        if left:
            amount = draw(st.integers(1, left))
            others.append(Tender(TenderType(kind), amount))
            left -= amount
    cash = [Tender(TenderType.CASH, left + step_minor)] if left else []
    settled = settle(quote.payable_minor, [*others, *cash], cash_step_minor=step_minor)
    assert isinstance(settled, Settlement)
    return SoldOrder("o1", "PAID", facts.lines, quote, settled.tenders)


@st.composite
def returns(draw: st.DrawFn, policy: RefundPolicy) -> tuple[SoldOrder, list[Refund]]:
    """Draw a sold order and return it bit by bit, to the last unit."""
    step_minor = draw(STEPS)
    sold = draw(sold_orders(policy, step_minor))
    refunds: list[Refund] = []
    left = {line.number: line.qty_milli for line in sold.lines}
    weighed = {line.number for line in sold.lines if line.by_weight}
    while any(left.values()):
        number = draw(st.sampled_from([number for number, milli in left.items() if milli]))
        grain = 1 if number in weighed else MILLI
        milli = draw(st.integers(1, left[number] // grain)) * grain
        left[number] -= milli
        refund = decide_refund(sold.after(refunds), [RefundLine(number, milli)], cash_step_minor=step_minor)
        assert isinstance(refund, Refund), refund
        refunds.append(refund)
    return sold, refunds


def check_that_all_is_back(sold: SoldOrder, refunds: list[Refund]) -> None:
    paid_minor = sold.quote.payable_minor
    assert sum(refund.amount_minor for refund in refunds) == paid_minor
    back, paid = Counter(), Counter()
    for tender in sold.tenders:
        paid[tender.type] += tender.amount_minor
    for refund in refunds:
        assert refund.amount_minor >= 0
        assert sum(tender.amount_minor for tender in refund.tenders) == refund.amount_minor
        for tender in refund.tenders:
            back[tender.type] += tender.amount_minor
            assert tender.type is TenderType.ROUNDING or tender.amount_minor > 0
            assert tender.type is TenderType.ROUNDING or back[tender.type] <= paid[tender.type]
    assert {kind: minor for kind, minor in back.items() if minor} == {
        kind: minor for kind, minor in paid.items() if minor
    }


def check_that_rights_come_back_once(sold: SoldOrder, refunds: list[Refund]) -> None:
    assert Counter(coupon_id for refund in refunds for coupon_id in refund.returned) == Counter(sold.quote.used)
    budgets: Counter[str] = Counter()
    for refund in refunds:
        budgets.update(refund.budget_minor)
    given_away: Counter[str] = Counter()
    for stage in sold.quote.laid:
        given_away[stage.campaign_id] += stage.discount_minor
    assert budgets == given_away
    uses: Counter[str] = Counter()
    for refund in refunds:
        uses.update(refund.uses)
    assert uses == Counter(cover.card_id for cover in sold.quote.covers)
    assert [refund.whole for refund in refunds] == [False] * (len(refunds) - 1) + [True]


@given(returns(RefundPolicy.KEEP))
def test_partial_refunds_add_up_to_what_was_paid(done: tuple[SoldOrder, list[Refund]]) -> None:
    check_that_all_is_back(*done)


@given(returns(RefundPolicy.KEEP))
def test_each_line_comes_back_at_its_net(done: tuple[SoldOrder, list[Refund]]) -> None:
    sold, refunds = done

    by_line: Counter[int] = Counter()
    for refund in refunds:
        by_line[refund.lines[0].number] += refund.amount_minor
    assert by_line == Counter({row.number: row.net_minor for row in sold.quote.lines})


@given(returns(RefundPolicy.RECOMPUTE))
def test_recomputed_refunds_never_pass_what_was_paid_and_end_at_it(done: tuple[SoldOrder, list[Refund]]) -> None:
    check_that_all_is_back(*done)


@given(st.sampled_from(RefundPolicy).flatmap(returns))
def test_coupons_budgets_and_uses_come_back_once(done: tuple[SoldOrder, list[Refund]]) -> None:
    check_that_rights_come_back_once(*done)


@given(st.sampled_from(RefundPolicy).flatmap(lambda policy: sold_orders(policy, 0)))
def test_a_return_of_everything_gives_everything_back(sold: SoldOrder) -> None:
    refund = decide_refund(sold, None)

    assert isinstance(refund, Refund)
    check_that_all_is_back(sold, [refund])
    check_that_rights_come_back_once(sold, [refund])

"""Refunds: what returns is worth what was paid for it, and gives its rights back once."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from app.domain.basket import Cover
from app.domain.benefits import BuyXGetY, PercentOff, Tier, Tiered
from app.domain.facts import CardFacts
from app.domain.refunds import REFUNDABLE, RefundLine, SoldOrder, covers_back, decide_refund, reprice
from app.domain.refusals import RefusalCode, refuse
from app.domain.rules import Kind, RefundPolicy, Rule, Scope, Selection
from app.domain.tenders import TenderType
from tests.unit.domain.shop import code, coupon, line, lines, off, promotion
from tests.unit.domain.sold import after, back, paid_back, refused, sold

CASH = TenderType.CASH
TOYS = Scope(Selection(categories=frozenset({"toy"})))
RECOMPUTE = {"refund_policy": RefundPolicy.RECOMPUTE}


# ---- what is worth what


def test_a_whole_return_gives_back_what_was_paid() -> None:
    refund = back(sold(lines(3000, 2000), coupon()))

    assert refund.amount_minor == 4000
    assert refund.lines == (RefundLine(1, 1000), RefundLine(2, 1000))
    assert (paid_back(refund), refund.whole) == ([(CASH, 4000)], True)


def test_a_line_comes_back_at_its_net() -> None:
    refund = back(sold(lines(3000, 2000), coupon()), (2, 1000))

    assert (refund.amount_minor, refund.whole) == (1600, False)


def test_partial_returns_add_up_to_the_net_exactly() -> None:
    done = sold([line(3334, qty_milli=3000)], coupon("k1", off(2)))

    first = back(done, (1, 1000))
    second = back(after(done, first), (1, 1000))
    third = back(after(done, first, second), (1, 1000))

    # 100.00 in three parts: 33.33 and 66.67 (rounded half up) and 100.00.
    assert [first.amount_minor, second.amount_minor, third.amount_minor] == [3333, 3334, 3333]
    assert [first.whole, second.whole, third.whole] == [False, False, True]


def test_a_half_fen_is_rounded_up() -> None:
    assert back(sold([line(5, qty_milli=2000)], coupon("k1", off(5))), (1, 1000)).amount_minor == 3


def test_the_same_line_asked_for_twice_is_asked_for_once_in_all() -> None:
    done = sold([line(1000, qty_milli=3000)])

    assert back(done, (1, 1000), (1, 1000)).lines == (RefundLine(1, 2000),)
    assert code(refused(done, (1, 2000), (1, 2000))) is RefusalCode.NOT_REFUNDABLE


def test_a_weight_comes_back_in_part() -> None:
    done = sold([line(2000, qty_milli=1500, by_weight=True)])

    assert back(done, (1, 333)).amount_minor == 666


def test_lines_are_told_by_number() -> None:
    refund = back(sold(lines(1000, 2000, 3000)), (3, 1000), (1, 1000))

    assert refund.lines == (RefundLine(1, 1000), RefundLine(3, 1000))


# ---- what is refused


@pytest.mark.parametrize("state", ["OPEN", "HELD", "UNKNOWN", "CANCELLED"])
def test_an_order_that_was_never_paid_has_nothing_to_give_back(state: str) -> None:
    assert state not in REFUNDABLE
    assert decide_refund(replace(sold(lines(1000)), state=state), None) == refuse(
        RefusalCode.ILLEGAL_TRANSITION, order="o1", state=state, event="refund"
    )


def test_more_than_was_bought_is_refused_with_what_is_left() -> None:
    done = sold([line(1000, qty_milli=2000)])

    assert back(done, (1, 2000)).whole
    assert refused(done, (1, 3000)) == refuse(RefusalCode.NOT_REFUNDABLE, order="o1", line=1, left_milli=2000)


def test_more_than_is_left_is_refused() -> None:
    done = sold([line(1000, qty_milli=2000)])
    rest = after(done, back(done, (1, 1000)))

    assert refused(rest, (1, 2000)) == refuse(RefusalCode.NOT_REFUNDABLE, order="o1", line=1, left_milli=1000)
    assert back(rest, (1, 1000)).amount_minor == 1000


def test_a_line_that_is_not_there_is_refused() -> None:
    assert refused(sold(lines(1000)), (2, 1000)) == refuse(RefusalCode.NOT_REFUNDABLE, order="o1", line=2, left_milli=0)


@pytest.mark.parametrize("milli", [0, -1000, 500])
def test_a_quantity_is_above_nothing_and_whole_for_goods_by_the_piece(milli: int) -> None:
    assert refused(sold(lines(1000)), (1, milli)) == refuse(RefusalCode.INVALID_QUANTITY, line=1, qty_milli=milli)


def test_a_weight_of_nothing_is_refused() -> None:
    done = sold([line(1000, qty_milli=500, by_weight=True)])

    assert code(refused(done, (1, 0))) is RefusalCode.INVALID_QUANTITY
    assert back(done, (1, 1)).amount_minor == 1


def test_a_return_of_no_line_at_all_is_refused() -> None:
    assert decide_refund(sold(lines(1000)), []) == refuse(RefusalCode.INVALID_QUANTITY, lines=0)


def test_an_order_that_came_back_whole_has_nothing_left() -> None:
    done = sold(lines(1000))
    gone = replace(after(done, back(done)), state="REFUNDED")

    assert decide_refund(gone, None) == refuse(RefusalCode.NOT_REFUNDABLE, order="o1")
    assert code(refused(gone, (1, 1000))) is RefusalCode.NOT_REFUNDABLE


def test_all_that_is_left_leaves_out_what_came_back() -> None:
    done = sold(lines(1000, 2000))

    rest = back(after(done, back(done, (1, 1000))))

    assert (rest.lines, rest.amount_minor, rest.whole) == ((RefundLine(2, 1000),), 2000, True)


# ---- recompute


def test_recompute_prices_what_stays_anew() -> None:
    done = sold(lines(6000, 4000), coupon("k1", off(3000, min_spend_minor=10_000, **RECOMPUTE)))

    refund = back(done, (2, 1000))

    # Paid 70.00; what stays costs 60.00 without the threshold.
    assert refund.amount_minor == 1000
    assert reprice(done, {2: 1000}) == 6000


def test_keep_pays_the_net_though_the_threshold_is_missed() -> None:
    done = sold(lines(6000, 4000), coupon("k1", off(3000, min_spend_minor=10_000)))

    assert back(done, (2, 1000)).amount_minor == 2800


def test_recompute_holds_for_the_order_where_any_coupon_says_so() -> None:
    done = sold(
        lines(6000, 4000),
        coupon("k1", off(3000, min_spend_minor=10_000, group="a")),
        coupon("k2", off(100, group="b", **RECOMPUTE)),
    )

    assert back(done, (2, 1000)).amount_minor == 6900 - 5900


def test_a_promotion_alone_does_not_recompute() -> None:
    done = sold(lines(6000, 4000), promotions=[promotion("p1", off(3000, min_spend_minor=10_000, **RECOMPUTE))])

    assert back(done, (2, 1000)).amount_minor == 2800


def test_recompute_never_pays_less_than_nothing() -> None:
    done = sold(lines(6000, 4000), coupon("k1", off(5000, min_spend_minor=10_000, **RECOMPUTE)))

    first = back(done, (2, 1000))
    rest = back(after(done, first))

    # What stays would cost more than all did; nothing comes back now, and all that was paid at the end.
    assert (first.amount_minor, first.tenders) == (0, ())
    assert rest.amount_minor == 5000


def test_recompute_lays_the_lower_tier_that_is_still_reached() -> None:
    tiers = Tiered((Tier(5000, 500), Tier(10_000, 3000)))
    done = sold(lines(6000, 4000), coupon("k1", Rule(tiers, **RECOMPUTE)))

    assert back(done, (2, 1000)).amount_minor == 7000 - 5500


def test_recompute_lays_promotions_and_coupons_in_the_order_in_which_they_were() -> None:
    done = sold(
        lines(6000, 4000),
        coupon("k1", Rule(PercentOff(Fraction(50)), **RECOMPUTE)),
        promotions=[promotion("p1", off(1000, kind=Kind.AUTOMATIC))],
    )

    assert reprice(done, {}) == 4500
    assert reprice(done, {2: 1000}) == 2500


def test_recompute_goes_on_from_what_came_back_before() -> None:
    done = sold([line(1000, qty_milli=4000)], coupon("k1", Rule(BuyXGetY(2, 1), **RECOMPUTE)))

    first = back(done, (1, 1000))
    second = back(after(done, first), (1, 1000))
    third = back(after(done, first, second), (1, 2000))

    assert [first.amount_minor, second.amount_minor, third.amount_minor] == [1000, 0, 2000]


def test_recompute_keeps_what_lines_are() -> None:
    basket = [
        line(1000, qty_milli=1500, category="toy", brand="b", by_weight=True),
        line(500, number=2, qty_milli=2000, category="toy"),
    ]
    scope = Scope(Selection(brands=frozenset({"b"})))
    done = sold(basket, coupon("k1", Rule(PercentOff(Fraction(10)), scope=scope, min_spend_minor=1, **RECOMPUTE)))

    assert reprice(done, {}) == 1350 + 1000
    assert reprice(done, {1: 500}) == 900 + 1000
    assert reprice(done, {1: 1000}) == 450 + 1000
    assert reprice(done, {2: 1000}) == 1350 + 500
    assert reprice(done, {1: 1500, 2: 2000}) == 0


@pytest.mark.parametrize("named", [{"skus": frozenset({"ball"})}, {"categories": frozenset({"toy"})}])
def test_recompute_finds_the_goods_in_scope_again(named: dict[str, frozenset[str]]) -> None:
    scope = Scope(Selection(**named))
    basket = [line(1000, sku="ball", category="toy", qty_milli=2000), line(500, number=2)]
    done = sold(basket, coupon("k1", Rule(PercentOff(Fraction(10)), scope=scope, **RECOMPUTE)))

    assert reprice(done, {1: 1000}) == 900 + 500


# ---- punch cards


def washes(*, covered: int, units: int = 3, cards: Sequence[str] = ("card1",), **more: object) -> SoldOrder:
    basket = [line(1000, sku="wash", qty_milli=units * 1000)]
    covers = [Cover(cards[i % len(cards)], 1) for i in range(covered)]
    facts = {id_: CardFacts(id_, "m1", "wash", uses_left=9) for id_ in cards}
    return sold(basket, covers=covers, cards=facts, **more)


def test_paid_units_come_back_before_covered_ones() -> None:
    done = washes(covered=2)

    first = back(done, (1, 1000))
    second = back(after(done, first), (1, 1000))
    third = back(after(done, first, second), (1, 1000))

    assert [(one.amount_minor, one.uses) for one in (first, second, third)] == [
        (1000, {}),
        (0, {"card1": 1}),
        (0, {"card1": 1}),
    ]
    assert second.tenders == ()


def test_each_use_that_comes_back_has_its_number_on_its_card_and_line() -> None:
    done = washes(covered=3, units=4, cards=["card1", "card2"])
    one, other = Cover("card1", 1), Cover("card2", 1)

    assert covers_back(done, {1: 1000}) == []
    assert covers_back(done, {1: 3000}) == [(one, 2), (other, 1)]
    assert covers_back(after(done, back(done, (1, 3000))), {1: 1000}) == [(one, 1)]


def test_covered_units_come_back_as_uses() -> None:
    refund = back(washes(covered=3))

    assert (refund.amount_minor, refund.uses, refund.whole) == (0, {"card1": 3}, True)


def test_a_return_may_cross_from_paid_to_covered_units() -> None:
    refund = back(washes(covered=2), (1, 2000))

    assert (refund.amount_minor, refund.uses) == (1000, {"card1": 1})


def test_the_use_laid_last_returns_first() -> None:
    done = washes(covered=3, cards=("card1", "card2", "card3"))

    first = back(done, (1, 1000))
    second = back(after(done, first), (1, 2000))

    assert [first.uses, second.uses] == [{"card3": 1}, {"card2": 1, "card1": 1}]


def test_covers_come_back_by_number_from_every_line() -> None:
    basket = [line(1000, sku="wash", qty_milli=3000), line(1000, sku="wash", number=2, qty_milli=2000)]
    covers = [Cover("card1", 1), Cover("card1", 2), Cover("card1", 1), Cover("card2", 1)]
    cards = {id_: CardFacts(id_, "m1", "wash", uses_left=9) for id_ in ("card1", "card2")}
    done = sold(basket, covers=covers, cards=cards)

    first = covers_back(done, {1: 2000, 2: 2000})
    second = covers_back(done.after([back(done, (1, 2000), (2, 1000))]), {1: 1000})

    assert first == [(Cover("card2", 1), 1), (Cover("card1", 1), 2), (Cover("card1", 2), 1)]
    assert second == [(Cover("card1", 1), 1)]
    assert back(done, (1, 2000), (2, 2000)).uses == {"card2": 1, "card1": 2}


def test_recompute_covers_what_stays_as_far_as_it_can_be() -> None:
    basket = [line(1000, sku="wash", qty_milli=3000), line(5000, number=2)]
    done = sold(
        basket,
        coupon("k1", off(600, min_spend_minor=6000, **RECOMPUTE)),
        covers=[Cover("card1", 1), Cover("card1", 1)],
        cards={"card1": CardFacts("card1", "m1", "wash", uses_left=9)},
    )

    assert done.quote.payable_minor == 5400
    assert reprice(done, {1: 1000}) == 5000
    assert reprice(done, {1: 2000}) == 5000
    assert reprice(done, {2: 1000}) == 1000
    assert back(done, (1, 1000)).amount_minor == 400


# ---- coupons and budgets


def test_a_coupon_returns_with_the_last_line_that_it_discounted() -> None:
    basket = [line(1000, category="toy"), line(1000, number=2, category="toy"), line(1000, number=3)]
    done = sold(basket, coupon("k1", off(500, scope=TOYS), campaign="c1"))

    first = back(done, (1, 1000))
    second = back(after(done, first), (2, 1000))
    third = back(after(done, first, second), (3, 1000))

    assert [one.returned for one in (first, second, third)] == [(), ("k1",), ()]
    assert [one.budget_minor for one in (first, second, third)] == [{}, {"c1": 500}, {}]


def test_a_line_that_is_back_in_part_keeps_the_coupon() -> None:
    done = sold([line(1000, qty_milli=2000)], coupon())

    first = back(done, (1, 1000))

    assert first.returned == ()
    assert back(after(done, first), (1, 1000)).returned == ("k1",)


def test_the_smallest_weight_gives_its_coupon_back_too() -> None:
    done = sold([line(100_000, qty_milli=1, by_weight=True)], coupon("k1", off(10)))

    assert back(done).returned == ("k1",)


def test_a_stage_that_does_not_fit_the_lines_is_never_taken_for_one_that_does() -> None:
    done = sold(lines(1000, 2000), coupon())
    broken = replace(done.quote, laid=(replace(done.quote.laid[0], shares_minor=(1000,)),))

    with pytest.raises(ValueError, match="shorter"):
        decide_refund(replace(done, quote=broken), None)


def test_coupons_return_in_the_order_in_which_they_were_laid_and_promotions_give_their_budget_back() -> None:
    done = sold(
        lines(10_000),
        coupon("k1", off(100, group="a"), campaign="c1"),
        coupon("k2", Rule(PercentOff(Fraction(10)), group="b"), campaign="c2"),
        promotions=[promotion("p1")],
    )

    refund = back(done)

    assert refund.returned == ("k2", "k1")
    assert refund.budget_minor == {"p1": 500, "c2": 950, "c1": 100}


def test_two_coupons_of_a_campaign_give_both_discounts_back() -> None:
    done = sold(lines(10_000), *(coupon(id_, off(100, max_per_order=2), campaign="c1") for id_ in ("k1", "k2")))

    assert back(done).budget_minor == {"c1": 200}

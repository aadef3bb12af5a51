"""Pricing: the order of evaluation, thresholds, who is refused and why, and that a refused coupon leaves no trace."""

from datetime import timedelta
from fractions import Fraction

import pytest

from app.domain.basket import Cover
from app.domain.benefits import AmountOff, BuyXGetY, FixedPrice, PercentOff, Tier, Tiered
from app.domain.facts import CardFacts, MemberFacts, PromotionFacts
from app.domain.pricing import effective_member_id, evaluation_key
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.risk import RiskRoom
from app.domain.rules import Kind, Rule, Scope, Selection
from tests.unit.domain.shop import NOW, code, coupon, line, lines, nets, off, promotion, quoted

HALF = PercentOff(Fraction(50))
TOYS = Scope(Selection(categories=frozenset({"toy"})))


def percent(value: int, **rule: object) -> Rule:
    return Rule(PercentOff(Fraction(value)), **rule)


def automatic(benefit: object = HALF, **rule: object) -> Rule:
    return Rule(benefit, kind=Kind.AUTOMATIC, **rule)


# ---- lines


def test_without_coupons_a_basket_costs_what_its_lines_cost() -> None:
    quote = quoted([line(1999, qty_milli=735, by_weight=True), line(1000, number=2, qty_milli=3000)])

    assert [(row.number, row.sku, row.price_minor, row.qty_milli, row.gross_minor) for row in quote.lines] == [
        (1, "sku1", 1999, 735, 1469),
        (2, "sku2", 1000, 3000, 3000),
    ]
    assert (quote.gross_minor, quote.discount_minor, quote.payable_minor) == (4469, 0, 4469)
    assert (quote.laid, quote.used, quote.refused, quote.covers) == ((), (), {}, ())


def test_an_empty_basket_costs_nothing() -> None:
    quote = quoted([], coupon())

    assert quote.payable_minor == 0
    assert code(quote.refused["k1"]) is RefusalCode.NOTHING_ELIGIBLE


def test_a_discount_lies_on_the_lines_in_scope() -> None:
    basket = [line(3000, category="toy"), line(5000, number=2), line(1000, number=3, category="toy")]

    quote = quoted(basket, coupon("k1", off(1000, scope=TOYS)))

    assert nets(quote) == [2250, 5000, 750]
    assert quote.laid[0].shares_minor == (750, 0, 250)
    assert quote.laid[0].discount_minor == 1000
    assert (quote.used, quote.discount_minor, quote.payable_minor) == (("k1",), 1000, 8000)


def test_no_line_in_scope_is_nothing_eligible() -> None:
    quote = quoted(lines(3000), coupon("k1", off(scope=TOYS)))

    assert quote.refused["k1"] == refuse(RefusalCode.NOTHING_ELIGIBLE, coupon="k1")


# ---- the order of evaluation


def test_units_go_before_percent_and_percent_before_amounts_whatever_was_scanned_first() -> None:
    amounts, shares, units = (
        coupon("a", off(1000, group="a", priority=-9)),
        coupon("b", percent(50, group="b", priority=-5)),
        coupon("z", Rule(FixedPrice(4000), group="z", priority=9)),
    )

    forwards, backwards = quoted(lines(10_000), amounts, shares, units), quoted(lines(10_000), units, shares, amounts)

    assert [stage.coupon_id for stage in forwards.laid] == ["z", "b", "a"]
    assert [stage.discount_minor for stage in forwards.laid] == [6000, 2000, 1000]
    assert backwards.laid == forwards.laid


def test_within_a_stage_the_lower_priority_then_the_campaign_then_the_coupon_goes_first() -> None:
    rule = off(1000, group="g", max_per_order=9)
    first = coupon("z", off(group="other", priority=-1), campaign="z")
    second, third = coupon("b", rule, campaign="a"), coupon("c", rule, campaign="a")
    fourth = coupon("a", off(group="b"), campaign="b")

    quote = quoted(lines(10_000), third, fourth, second, first)

    assert quote.used == ("z", "b", "c", "a")
    assert evaluation_key(first) == (2, -1, "z", "z")


def test_promotions_come_before_every_coupon_and_a_threshold_sees_what_they_leave() -> None:
    basket = lines(10_000)

    quote = quoted(basket, coupon("k1", off(min_spend_minor=9501)), promotions=[promotion()])
    reached = quoted(basket, coupon("k1", off(min_spend_minor=9500)), promotions=[promotion()])

    assert quote.refused["k1"] == refuse(RefusalCode.BELOW_MINIMUM, coupon="k1", missing_minor=1)
    assert [stage.campaign_id for stage in reached.laid] == ["p1", "c-k1"]
    assert reached.laid[0].coupon_id is None


def test_promotions_go_by_priority_then_by_campaign_without_stages() -> None:
    promotions = [
        PromotionFacts("b", automatic(AmountOff(1000))),
        PromotionFacts("a", automatic(HALF, priority=1)),
        PromotionFacts("c", automatic(BuyXGetY(1, 1))),
    ]

    quote = quoted([line(5000, qty_milli=2000)], promotions=promotions)

    assert [(stage.campaign_id, stage.discount_minor) for stage in quote.laid] == [
        ("b", 1000),
        ("c", 4500),
        ("a", 2250),
    ]


def test_a_promotion_that_does_not_apply_is_skipped_with_its_reason() -> None:
    quote = quoted(lines(1000), promotions=[promotion("p1", automatic(min_spend_minor=1001)), promotion("p2")])

    assert quote.skipped == {"p1": refuse(RefusalCode.BELOW_MINIMUM, missing_minor=1)}
    assert [stage.campaign_id for stage in quote.laid] == ["p2"]


def test_a_promotion_without_a_line_in_scope_is_skipped() -> None:
    assert code(quoted(lines(1000), promotions=[promotion("p1", automatic(scope=TOYS))]).skipped["p1"]) is (
        RefusalCode.NOTHING_ELIGIBLE
    )


def test_a_paused_promotion_is_skipped() -> None:
    quote = quoted(lines(1000), promotions=[promotion("p1", campaign_state="PAUSED")])

    assert code(quote.skipped["p1"]) is RefusalCode.CAMPAIGN_PAUSED
    assert quote.payable_minor == 1000


# ---- thresholds


@pytest.mark.parametrize(("spend_minor", "used"), [(4999, ("k1",)), (5000, ("k1",)), (5001, ())])
def test_a_minimum_spend_is_reached_to_the_fen(spend_minor: int, used: tuple[str, ...]) -> None:
    assert quoted(lines(3000, 2000), coupon("k1", off(min_spend_minor=spend_minor))).used == used


def test_a_minimum_spend_counts_the_lines_in_scope_alone() -> None:
    basket = [line(3000, category="toy"), line(9000, number=2)]

    quote = quoted(basket, coupon("k1", off(scope=TOYS, min_spend_minor=3001)))

    assert quote.refused["k1"].facts == {"coupon": "k1", "missing_minor": 1}


def test_a_gross_threshold_looks_past_earlier_discounts() -> None:
    coupons = [
        coupon("k1", percent(50, group="a")),
        coupon("k2", off(1000, group="b", min_spend_minor=10_000, gross_threshold=True)),
        coupon("k3", Rule(Tiered((Tier(10_000, 500),)), group="c", gross_threshold=True)),
    ]

    quote = quoted(lines(10_000), *coupons)

    assert quote.used == ("k1", "k2", "k3")
    assert quote.payable_minor == 3500
    assert quoted(lines(9999), *coupons).used == ("k1",)


def test_a_minimum_number_of_units_counts_whole_units_in_scope() -> None:
    basket = [
        line(1000, qty_milli=2000, category="toy"),
        line(1000, number=2, qty_milli=3000),
        line(1000, number=3, qty_milli=4000, category="toy", by_weight=True),
    ]

    assert quoted(basket, coupon("k1", off(scope=TOYS, min_qty=2))).used == ("k1",)
    refused = quoted(basket, coupon("k1", off(scope=TOYS, min_qty=3))).refused["k1"]
    assert refused == refuse(RefusalCode.BELOW_MINIMUM, coupon="k1", missing_units=1)


def test_goods_by_weight_count_for_the_threshold_of_a_unit_benefit_and_are_passed_by() -> None:
    basket = [line(5000, qty_milli=1500, by_weight=True), line(1000, number=2)]

    quote = quoted(basket, coupon("k1", Rule(FixedPrice(0), min_spend_minor=8500)))

    assert nets(quote) == [7500, 0]


def test_a_spend_too_small_goes_before_units_too_few() -> None:
    refused = quoted(lines(1000), coupon("k1", off(min_spend_minor=1001, min_qty=2))).refused["k1"]

    assert refused.facts == {"coupon": "k1", "missing_minor": 1}


# ---- budget


@pytest.mark.parametrize(("left_minor", "used"), [(1000, ("k1",)), (999, ()), (0, ())])
def test_a_discount_that_would_pass_the_budget_is_refused_whole(left_minor: int, used: tuple[str, ...]) -> None:
    quote = quoted(lines(10_000), coupon("k1", off(1000), campaign="c", budget_left_minor=left_minor))

    assert quote.used == used
    if not used:
        assert quote.refused["k1"] == refuse(RefusalCode.BUDGET_SPENT, coupon="k1", campaign="c")


def test_coupons_of_one_campaign_draw_on_one_budget() -> None:
    two = [coupon(id_, off(1000, max_per_order=2), campaign="c", budget_left_minor=1999) for id_ in ("k1", "k2")]

    quote = quoted(lines(10_000), *two)

    assert quote.used == ("k1",)
    assert code(quote.refused["k2"]) is RefusalCode.BUDGET_SPENT


def test_the_third_coupon_of_a_campaign_sees_what_both_before_it_drew() -> None:
    three = [
        coupon(id_, off(1000, max_per_order=3), campaign="c", budget_left_minor=2999) for id_ in ("k1", "k2", "k3")
    ]

    assert quoted(lines(10_000), *three).used == ("k1", "k2")


def test_coupons_of_one_campaign_may_use_its_budget_up() -> None:
    two = [coupon(id_, off(1000, max_per_order=2), campaign="c", budget_left_minor=2000) for id_ in ("k1", "k2")]

    assert quoted(lines(10_000), *two).used == ("k1", "k2")


def test_a_promotion_over_its_budget_is_skipped() -> None:
    assert code(quoted(lines(1000), promotions=[promotion(budget_left_minor=499)]).skipped["p1"]) is (
        RefusalCode.BUDGET_SPENT
    )
    assert quoted(lines(1000), promotions=[promotion(budget_left_minor=500)]).skipped == {}


# ---- coupons without a right


@pytest.mark.parametrize(("each_minor", "used"), [(1000, ("k1",)), (999, ())])
def test_a_coupon_at_a_risk_may_take_off_what_its_campaign_lets_one_take(
    each_minor: int, used: tuple[str, ...]
) -> None:
    quote = quoted(lines(10_000), coupon("k1", off(1000), risk=RiskRoom(each_minor, left_minor=9_000)))

    assert quote.used == used
    if not used:
        assert code(quote.refused["k1"]) is RefusalCode.RISK_LIMIT


def test_coupons_at_a_risk_draw_on_one_budget_and_others_draw_nothing() -> None:
    room = RiskRoom(2_000, left_minor=1_999)
    risked = [coupon(id_, off(1000, group=id_), risk=room) for id_ in ("k1", "k2")]

    quote = quoted(lines(10_000), coupon("k0", off(1500, group="k0")), *risked)

    assert quote.used == ("k0", "k1")
    assert code(quote.refused["k2"]) is RefusalCode.RISK_SPENT


# ---- who is refused leaves no trace


def test_a_refused_coupon_takes_no_place_in_its_group() -> None:
    missed, second = coupon("k1", off(min_spend_minor=99_999)), coupon("k2", off())

    quote = quoted(lines(10_000), missed, second)

    assert quote.used == ("k2",)
    assert code(quote.refused["k1"]) is RefusalCode.BELOW_MINIMUM


def test_a_coupon_over_budget_takes_no_place_in_its_group() -> None:
    over, second = coupon("k1", off(1000), budget_left_minor=999), coupon("k2", off(10))

    quote = quoted(lines(10_000), over, second)

    assert quote.used == ("k2",)
    assert code(quote.refused["k1"]) is RefusalCode.BUDGET_SPENT


def test_a_coupon_held_by_this_very_order_is_used() -> None:
    assert quoted(lines(1000), coupon("k1", off(100), state="FROZEN", order_id="o1")).used == ("k1",)


def test_a_promotion_for_a_tier_sees_the_member() -> None:
    gold = promotion("p1", off(500, kind=Kind.AUTOMATIC, tiers=frozenset({"gold"})))

    assert quoted(lines(1000), promotions=[gold], member=MemberFacts("m1", "gold")).payable_minor == 500
    assert code(quoted(lines(1000), promotions=[gold]).skipped["p1"]) is RefusalCode.WRONG_TIER


def test_a_refused_coupon_brings_no_silence_over_the_promotions() -> None:
    missed = coupon("k1", off(min_spend_minor=99_999, no_promotions=True))

    quote = quoted(lines(10_000), missed, promotions=[promotion()])

    assert quote.payable_minor == 9500


def test_a_coupon_that_would_take_nothing_off_is_refused() -> None:
    quote = quoted(lines(10_000), coupon("k1", Rule(FixedPrice(10_000))))

    assert quote.refused["k1"] == refuse(RefusalCode.NOTHING_ELIGIBLE, coupon="k1")


def test_what_earlier_coupons_took_whole_leaves_nothing_for_later_ones() -> None:
    quote = quoted(lines(10_000), coupon("k1", off(10_000, group="a")), coupon("k2", off(1, group="b")))

    assert quote.used == ("k1",)
    assert code(quote.refused["k2"]) is RefusalCode.NOTHING_ELIGIBLE
    assert quote.payable_minor == 0


def test_a_coupon_over_budget_is_judged_when_the_others_are_settled() -> None:
    # Without k2 the promotion comes back, and half of 5.00 is within k1's budget; with it half of 10.00 would not be.
    over = coupon("k1", percent(50, group="a"), campaign="c", budget_left_minor=250)
    missed = coupon("k2", off(min_spend_minor=99_999, no_promotions=True, group="b"))

    quote = quoted(lines(1000), over, missed, promotions=[promotion()])

    assert quote.used == ("k1",)
    assert set(quote.refused) == {"k2"}


def test_of_two_over_budget_the_one_scanned_last_leaves_first() -> None:
    # k1 and k2 are over budget; when k2 leaves, k3 of its group comes in and leaves less for k1, which then fits.
    first = coupon("k1", percent(50, group="a", priority=2), campaign="a", budget_left_minor=400)
    last = coupon("k2", percent(50, group="b", priority=1), campaign="b", budget_left_minor=400)
    waiting = coupon("k3", percent(20, group="b", priority=1), campaign="d")

    quote = quoted(lines(1000), first, last, waiting)

    assert quote.used == ("k3", "k1")
    assert code(quote.refused["k2"]) is RefusalCode.BUDGET_SPENT


def test_the_same_coupon_twice_counts_once() -> None:
    twice = coupon("k1", off(max_per_order=5))

    quote = quoted(lines(10_000), twice, twice)

    assert (quote.used, quote.payable_minor, quote.refused) == (("k1",), 9000, {})


# ---- the first of several reasons


def test_the_reason_of_the_coupon_itself_goes_before_scope_and_threshold() -> None:
    used_up = coupon("k1", off(scope=TOYS, min_spend_minor=99_999), state="USED", order_id="o9")

    assert code(quoted(lines(1000), used_up).refused["k1"]) is RefusalCode.ALREADY_USED


def test_scope_goes_before_stacking_and_threshold_before_stacking() -> None:
    first = coupon("k1", off())
    no_scope, missed, both = (
        coupon("k2", off(scope=TOYS)),
        coupon("k3", off(min_spend_minor=99_999)),
        coupon("k4", off()),
    )

    refused = quoted(lines(10_000), first, no_scope, missed, both).refused

    assert code(refused["k2"]) is RefusalCode.NOTHING_ELIGIBLE
    assert code(refused["k3"]) is RefusalCode.BELOW_MINIMUM
    assert refused["k4"] == refuse(RefusalCode.NOT_STACKABLE, coupon="k4", **{"with": "k1"})


def test_stacking_goes_before_budget() -> None:
    refused = quoted(lines(10_000), coupon("k1", off()), coupon("k2", off(), budget_left_minor=0)).refused

    assert code(refused["k2"]) is RefusalCode.NOT_STACKABLE


def test_what_is_unknown_keeps_its_reason() -> None:
    reason = refuse(RefusalCode.UNKNOWN_CODE, coupon="k9")

    assert quoted(lines(1000), unknown={"k9": reason}).refused == {"k9": reason}


# ---- no_promotions


def test_no_promotions_turns_the_promotions_off_and_says_who_did() -> None:
    silent = coupon("k1", off(100, no_promotions=True))

    quote = quoted(lines(1000), silent, promotions=[promotion()])

    assert quote.skipped == {"p1": refuse(RefusalCode.NOT_STACKABLE, campaign="p1", **{"with": "k1"})}
    assert quote.payable_minor == 900


def test_a_coupon_that_does_not_stack_brings_no_silence() -> None:
    quote = quoted(
        lines(1000), coupon("k1", off(100)), coupon("k2", off(100, no_promotions=True)), promotions=[promotion()]
    )

    assert (quote.used, quote.payable_minor) == (("k1",), 400)


def test_an_exclusive_coupon_leaves_the_promotions() -> None:
    assert quoted(lines(1000), coupon("k1", off(100, exclusive=True)), promotions=[promotion()]).payable_minor == 400


# ---- punch cards


def test_a_covered_unit_leaves_the_basket() -> None:
    basket = [line(1000, sku="wash", qty_milli=3000)]
    cards = {"card1": CardFacts("card1", "m1", "wash", uses_left=5)}
    covers = [Cover("card1", 1)]

    quote = quoted(basket, coupon("k1", off(100, min_spend_minor=2000)), covers=covers, cards=cards)
    missed = quoted(basket, coupon("k1", off(100, min_spend_minor=2001)), covers=covers, cards=cards)

    assert (quote.gross_minor, quote.payable_minor) == (2000, 1900)
    assert (quote.lines[0].covered_units, quote.lines[0].qty_milli, quote.covers) == (1, 3000, tuple(covers))
    assert code(missed.refused["k1"]) is RefusalCode.BELOW_MINIMUM


def test_a_line_covered_whole_is_eligible_for_nothing() -> None:
    quote = quoted(
        [line(1000, sku="wash")],
        coupon("k1", off(100)),
        covers=[Cover("card1", 1)],
        cards={"card1": CardFacts("card1", "m1", "wash", uses_left=1)},
    )

    assert quote.payable_minor == 0
    assert code(quote.refused["k1"]) is RefusalCode.NOTHING_ELIGIBLE


def test_a_refused_card_is_named_and_covers_nothing() -> None:
    quote = quoted(
        [line(1000, sku="wash")],
        covers=[Cover("card1", 1)],
        cards={"card1": CardFacts("card1", "m1", "wash", uses_left=0)},
    )

    assert quote.refused == {"card1": refuse(RefusalCode.INSUFFICIENT_USES, card="card1", uses_left=0)}
    assert (quote.covers, quote.payable_minor) == ((), 1000)


# ---- whose order


def test_a_coupon_brings_its_member_to_the_order() -> None:
    def brought(*coupons: object, member_id: str | None = None, cards: tuple[CardFacts, ...] = ()) -> str | None:
        return effective_member_id(member_id, coupons, cards, now=NOW, order_id="o1")

    bearer, spent = coupon("k1"), coupon("k2", state="USED", order_id="o9", member_id="m2")
    card = CardFacts("card1", "m4", "wash", uses_left=1)

    assert brought() is None
    assert brought(bearer) is None
    assert brought(spent) is None
    assert brought(bearer, spent, coupon("k3", member_id="m3"), coupon("k5", member_id="m5")) == "m3"
    assert brought(coupon("k3", member_id="m3"), member_id="m1") == "m1"
    assert brought(bearer, cards=(card,)) == "m4"
    assert brought(coupon("k3", member_id="m3"), cards=(card,)) == "m3"
    assert brought(coupon("k3", member_id="m3", valid_until_at=NOW)) is None
    assert brought(coupon("k3", member_id="m3", valid_until_at=NOW + timedelta(seconds=1))) == "m3"
    assert brought(coupon("k3", state="FROZEN", order_id="o1", member_id="m3")) == "m3"
    assert brought(coupon("k3", state="FROZEN", order_id="o2", member_id="m3")) is None


def test_the_quote_names_the_member_on_the_order() -> None:
    assert quoted(lines(1000)).member_id == "m1"
    assert quoted(lines(1000), member=None).member_id is None


def test_a_coupon_of_somebody_else_is_refused() -> None:
    refused = quoted(lines(1000), coupon("k1", member_id="m2")).refused["k1"]

    assert refused == Refusal(RefusalCode.WRONG_MEMBER, {"coupon": "k1"})


def test_what_failed_only_because_a_refused_coupon_kept_the_promotions_away_is_judged_again() -> None:
    # Without the promotion b takes 60.00 and leaves too little for a; with it b misses its own minimum, and a holds.
    silent = coupon("k1", off(100, min_spend_minor=99_999, no_promotions=True, group="n"))
    before = coupon("k2", off(6000, min_spend_minor=8000, group="b", priority=1))
    after = coupon("k3", off(1000, min_spend_minor=4500, group="a", priority=2))

    quote = quoted(lines(10000), silent, before, after, promotions=[promotion("half", automatic())])

    assert quote.used == ("k3",)
    assert quote.payable_minor == 4000
    assert {name: code(reason) for name, reason in quote.refused.items()} == {
        "k1": RefusalCode.BELOW_MINIMUM,
        "k2": RefusalCode.BELOW_MINIMUM,
    }

"""The best combination: exact, by the tie rule, and stopped when asked to, with something legal in hand."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise

import pytest

from app.domain import best_search
from app.domain.basket import Line
from app.domain.benefits import AmountOff, Benefit, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.best import Best, best_combination
from app.domain.best_runs import NEVER, end_of
from app.domain.best_search import STEP, rank
from app.domain.facts import CouponFacts, PromotionFacts
from app.domain.pricing import price
from app.domain.refusals import RefusalCode, refuse
from app.domain.rules import Rule, Scope, Selection
from tests.unit.domain.shop import NOW, coupon, line, lines, off, order, promotion

TOYS = Scope(Selection(categories=frozenset({"toy"})))
FOOD = Scope(Selection(categories=frozenset({"food"})))


def best(basket: Sequence[Line], *coupons: CouponFacts, **more: object) -> Best:
    found = best_combination(order(basket, coupons, **more))
    assert found.exact
    return found


def own(benefit: Benefit, group: str, **rule: object) -> Rule:
    return Rule(benefit, group=group, **rule)


# ---- the lowest amount to pay


def test_without_coupons_nothing_is_used() -> None:
    found = best(lines(1000))

    assert (found.coupon_ids, found.quote.payable_minor) == ((), 1000)


def test_an_empty_basket_needs_no_coupon() -> None:
    assert best([], coupon()).coupon_ids == ()


def test_of_one_group_the_coupon_that_saves_most_is_used() -> None:
    assert best(lines(10_000), coupon("k1", off(100)), coupon("k2", off(300)), coupon("k3", off(200))).coupon_ids == (
        "k2",
    )


def test_coupons_of_different_groups_are_combined_and_told_as_they_are_laid() -> None:
    found = best(lines(10_000), coupon("k1", off(100, group="a")), coupon("k2", own(PercentOff(Fraction(10)), "b")))

    assert (found.coupon_ids, found.quote.payable_minor) == (("k2", "k1"), 8900)
    assert found.quote == price(
        order(lines(10_000), [coupon("k1", off(100, group="a")), coupon("k2", own(PercentOff(Fraction(10)), "b"))])
    )


def test_a_coupon_that_cannot_be_used_is_not() -> None:
    spent = coupon("k1", off(5000), state="USED", order_id="o9")
    blocked = coupon("k2", off(4000), blocked=refuse(RefusalCode.NEEDS_ONLINE))
    foreign = coupon("k3", off(3000), member_id="m2")

    assert best(lines(10_000), spent, blocked, foreign, coupon("k4", off(1))).coupon_ids == ("k4",)


def test_a_coupon_with_too_few_units_is_not_used() -> None:
    assert best(lines(10_000), coupon("k1", off(5000, min_qty=2)), coupon("k2", off(1))).coupon_ids == ("k2",)


def test_a_greedy_choice_is_not_good_enough() -> None:
    # 40.00 off now makes the 70.00 off at 100.00 impossible.
    greedy = coupon("k1", own(PercentOff(Fraction(40)), "a"))
    patient = coupon("k2", off(7000, group="b", min_spend_minor=10_000))

    found = best(lines(10_000), greedy, patient)

    assert (found.coupon_ids, found.quote.payable_minor) == (("k2",), 3000)


def test_two_small_coupons_may_beat_a_large_one() -> None:
    large = coupon("k1", off(500, group="a"), campaign="large")
    small = [coupon(id_, off(300, group="a", max_per_order=2), campaign="small") for id_ in ("k2", "k3", "k4")]

    assert best(lines(10_000), large, *small).coupon_ids == ("k2", "k3")


def test_a_threshold_reached_to_the_fen_decides() -> None:
    gift = coupon("k1", own(FixedPrice(0), "a"))
    dear = coupon("k2", off(900, group="b", min_spend_minor=10_000))

    assert best(lines(10_000, 500), gift, dear).coupon_ids == ("k1",)
    assert best(
        lines(9_500, 500), gift, replace(dear, rule=off(9900, group="b", min_spend_minor=10_000))
    ).coupon_ids == ("k2",)


def test_a_gross_threshold_does_not_see_the_others() -> None:
    half = coupon("k1", own(PercentOff(Fraction(50)), "a"))
    dear = coupon("k2", off(2000, group="b", min_spend_minor=10_000, gross_threshold=True))
    steps = coupon("k3", own(Tiered((Tier(10_000, 1000),)), "c", gross_threshold=True))

    assert best(lines(10_000), half, dear, steps).quote.payable_minor == 2000
    assert best(lines(9999), half, dear, steps).quote.payable_minor == 5000 - 1


def test_tiers_of_which_a_higher_gives_less_are_met_by_spending_less() -> None:
    tiers = Tiered((Tier(0, 5000), Tier(9000, 100)))

    assert best(
        lines(10_000), coupon("k1", own(tiers, "a")), coupon("k2", own(PercentOff(Fraction(11)), "b"))
    ).coupon_ids == (
        "k2",
        "k1",
    )


def test_a_budget_may_want_a_smaller_discount() -> None:
    over = coupon("k1", own(PercentOff(Fraction(50)), "a", priority=1), budget_left_minor=4900)
    first = coupon("k2", own(PercentOff(Fraction(2)), "b"))

    assert best(lines(10_000), over, first).coupon_ids == ("k2", "k1")
    assert best(lines(10_000), replace(over, budget_left_minor=4899), first).coupon_ids == ("k2",)


def test_coupons_of_one_campaign_share_its_budget() -> None:
    two = [coupon(id_, off(300, max_per_order=2), campaign="c", budget_left_minor=599) for id_ in ("k1", "k2")]

    assert best(lines(10_000), *two).coupon_ids == ("k1",)
    assert best(lines(10_000), *(replace(one, budget_left_minor=600) for one in two)).coupon_ids == ("k1", "k2")


def test_snapshots_that_disagree_on_the_limit_go_by_the_smaller() -> None:
    lax = [coupon(id_, off(300, max_per_order=3), campaign="c") for id_ in ("k1", "k2")]
    strict = coupon("k3", off(301, max_per_order=1), campaign="c")

    assert best(lines(10_000), *lax, strict).coupon_ids == ("k1", "k2")


def test_one_campaign_in_two_groups_is_limited_over_both() -> None:
    one, other = coupon("k1", off(300, group="a"), campaign="c"), coupon("k2", off(200, group="b"), campaign="c")

    assert best(lines(10_000), one, other).coupon_ids == ("k1",)


def test_an_exclusive_coupon_is_used_alone_or_not_at_all() -> None:
    alone = coupon("k1", off(500, group="x", exclusive=True))

    assert best(lines(10_000), alone, coupon("k2", off(499))).coupon_ids == ("k1",)
    assert best(
        lines(10_000), alone, coupon("k2", off(400, group="a")), coupon("k3", off(101, group="b"))
    ).coupon_ids == ("k2", "k3")


def test_an_exclusive_coupon_that_is_refused_is_no_choice() -> None:
    assert best(lines(1000), coupon("k1", off(500, exclusive=True, min_spend_minor=1001))).coupon_ids == ()


# ---- promotions


def test_promotions_are_given_up_only_where_that_pays() -> None:
    silent = coupon("k1", off(600, no_promotions=True))

    assert best(lines(10_000), silent, promotions=[promotion()]).coupon_ids == ("k1",)
    assert best(lines(10_000), silent, promotions=[promotion("p1", off(600))]).coupon_ids == ()


def test_others_may_join_the_coupon_that_gives_the_promotions_up() -> None:
    silent, other = coupon("k1", off(600, no_promotions=True, group="a")), coupon("k2", off(300, group="b"))

    found = best(lines(10_000), silent, other, promotions=[promotion()])

    assert (found.coupon_ids, found.quote.payable_minor) == (("k1", "k2"), 9100)


def test_without_a_promotion_that_applies_nothing_is_given_up() -> None:
    silent, other = coupon("k1", off(300, no_promotions=True, group="a")), coupon("k2", off(200, group="b"))

    assert best(lines(10_000), silent, other, promotions=[promotion(campaign_state="PAUSED")]).coupon_ids == (
        "k1",
        "k2",
    )


def test_parts_that_do_not_touch_are_still_one_choice_about_promotions() -> None:
    basket = [line(5000, category="toy"), line(5000, number=2, category="food")]
    silent = coupon("k1", off(300, no_promotions=True, scope=TOYS, group="a"))
    other = coupon("k2", off(250, scope=FOOD, group="b"))
    half = promotion("p1", off(200, scope=FOOD))

    assert best(basket, silent, other, promotions=[half]).coupon_ids == ("k1", "k2")
    assert best(
        basket, replace(silent, rule=off(199, no_promotions=True, scope=TOYS, group="a")), other, promotions=[half]
    ).coupon_ids == ("k2",)


def test_a_promotion_of_the_same_campaign_has_drawn_on_the_budget() -> None:
    drawn = PromotionFacts("c", off(500), budget_left_minor=700)

    assert (
        best(lines(10_000), coupon("k1", off(201), campaign="c", budget_left_minor=700), promotions=[drawn]).coupon_ids
        == ()
    )
    assert best(
        lines(10_000), coupon("k1", off(200), campaign="c", budget_left_minor=700), promotions=[drawn]
    ).coupon_ids == ("k1",)


# ---- ties


def until(days: int | None) -> dict[str, object]:
    return {"valid_until_at": None if days is None else NOW + timedelta(days=days)}


def test_of_equally_cheap_choices_the_one_with_fewer_coupons_wins() -> None:
    whole, part = (
        coupon("k3", off(10_000, group="c")),
        [coupon("k1", off(5000, group="a")), coupon("k2", off(5000, group="b"))],
    )

    assert best(lines(10_000), *part, whole).coupon_ids == ("k3",)


def test_then_those_that_expire_first_and_without_end_last() -> None:
    ends = [coupon("k1", off(), **until(None)), coupon("k2", off(), **until(9)), coupon("k3", off(), **until(2))]

    assert best(lines(10_000), *ends).coupon_ids == ("k3",)
    assert best(lines(10_000), *ends[:2]).coupon_ids == ("k2",)


def test_then_those_with_the_lower_id() -> None:
    assert best(lines(10_000), coupon("k2", off(), **until(1)), coupon("k1", off(), **until(1))).coupon_ids == ("k1",)


def test_of_identical_coupons_those_that_expire_first_are_used() -> None:
    rule = off(100, max_per_order=2)
    alike = [
        coupon(id_, rule, campaign="c", **until(days)) for id_, days in (("a", 5), ("b", None), ("c", 1), ("d", 5))
    ]

    assert sorted(best(lines(10_000), *alike).coupon_ids) == ["a", "c"]


def test_sorted_ends_are_compared_as_lists() -> None:
    # Both choices take two and save 10.00; 1 and 9 days come before 2 and 3.
    early = [coupon("z1", off(500, group="a"), **until(1)), coupon("z2", off(500, group="b"), **until(9))]
    late = [coupon("a1", off(500, group="a"), **until(2)), coupon("a2", off(500, group="b"), **until(3))]

    assert set(best(lines(10_000), *early, *late).coupon_ids) == {"z1", "a2"}


def test_ends_are_compared_where_a_full_basket_leaves_many_choices() -> None:
    five = [coupon(f"k{n}", off(4000, group=f"g{n}"), **until(days)) for n, days in enumerate((5, 4, 3, 2, 1))]

    assert set(best(lines(10_000), *five).coupon_ids) == {"k2", "k3", "k4"}


def test_a_full_basket_is_emptied_with_as_few_as_can_be() -> None:
    def emptied_by(*amounts_minor: int) -> list[str]:
        many = [coupon(f"k{n}", off(minor, group=f"g{n}")) for n, minor in enumerate(amounts_minor)]
        return sorted(best(lines(10_000), *many).coupon_ids)

    assert emptied_by(1000, 3000, 6000, 4000) == ["k2", "k3"]
    assert emptied_by(1000, 4000, 4000, 4000, 3000) == ["k1", "k2", "k3"]
    assert emptied_by(3000, 6000, 3000, 6000, 6000, 6000, 5000) == ["k1", "k3"]
    assert emptied_by(4000, 3000, 2000, 1000) == ["k0", "k1", "k2", "k3"]


def test_a_budget_used_up_leaves_the_others_in() -> None:
    two = [coupon(id_, off(300, max_per_order=2), campaign="c", budget_left_minor=300) for id_ in ("k1", "k2")]
    later = [coupon(f"k{n}", off(100, group=f"g{n}"), campaign=f"d{n}") for n in (3, 4)]

    assert best(lines(10_000), *two, *later).coupon_ids == ("k1", "k3", "k4")


def test_rank_is_the_tie_rule() -> None:
    first, second = coupon("k2", **until(1)), coupon("k1", **until(None))

    assert rank(5, (first, second)) == (5, 2, [NOW + timedelta(days=1), NEVER], ["k1", "k2"])
    assert end_of(second) == NEVER
    assert rank(0, ()) == (0, 0, [], [])


# ---- stopping


def hard_order(count: int = 24) -> tuple[Sequence[Line], list[CouponFacts]]:
    """Make a choice with thousands of nodes: amounts that all differ, each with a threshold near the top."""
    basket = [line(1000 + 37 * n, number=n, qty_milli=2000) for n in range(1, 21)]
    return basket, [
        coupon(f"k{n:02}", off(1100 + 97 * n, group=f"g{n}", min_spend_minor=30_000 + 613 * n, priority=-n % 7))
        for n in range(count)
    ]


def test_who_is_asked_may_stop_the_search_and_gets_the_best_so_far() -> None:
    basket, coupons = hard_order()
    seen: list[Best] = []

    found = best_combination(order(basket, coupons), keep_going=lambda so_far: bool(seen.append(so_far)))

    assert not found.exact
    assert len(seen) == 1
    assert found.quote.used == found.coupon_ids != ()
    assert found.coupon_ids == seen[0].coupon_ids


def test_whoever_goes_on_is_told_of_better_and_better_choices_and_gets_the_best() -> None:
    basket, coupons = hard_order()
    seen: list[Best] = []

    found = best_combination(order(basket, coupons), keep_going=lambda so_far: not seen.append(so_far))

    told = [so_far.quote.payable_minor for so_far in seen]
    assert found.exact
    assert len(told) > 1
    assert told == sorted(told, reverse=True)
    assert found.quote.payable_minor <= told[-1]
    assert found == best_combination(order(basket, coupons))
    assert not any(so_far.exact for so_far in seen)


def test_a_choice_that_was_told_is_not_priced_again() -> None:
    basket, coupons = hard_order()
    seen: list[Best] = []

    best_combination(order(basket, coupons), keep_going=lambda so_far: not seen.append(so_far))

    assert any(one is other for one, other in pairwise(seen))


def test_a_search_stopped_before_the_promotions_are_given_up_is_still_legal() -> None:
    basket, coupons = hard_order()
    silent = coupon("k99", off(5900, group="s", no_promotions=True))
    facts = order(basket, [*coupons, silent], promotions=[promotion("p1", off(6000))])

    for patience in (1, 5, 30):
        asked: list[Best] = []
        found = best_combination(
            facts, keep_going=lambda so_far, n=patience, a=asked: len(a) < n and not a.append(so_far)
        )
        assert price(replace(facts, coupons=tuple(c for c in facts.coupons if c.id in found.coupon_ids))) == found.quote


def test_an_easy_order_is_never_asked_about() -> None:
    def never(so_far: Best) -> bool:
        raise AssertionError(so_far)

    assert best_combination(order(lines(10_000), [coupon()]), keep_going=never).exact
    assert STEP == 32


def test_a_search_that_may_remember_nothing_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    basket, coupons = hard_order()
    remembered = best_combination(order(basket, coupons))

    monkeypatch.setattr(best_search, "SEEN_MAX", 0)

    assert best_combination(order(basket, coupons)) == remembered


# ---- worst cases that once ran away


@pytest.mark.parametrize("benefit", [AmountOff(1100), PercentOff(Fraction(30)), FixedPrice(0), Every(1000, 110)])
def test_a_basket_that_many_coupons_can_empty_is_soon_decided(benefit: Benefit) -> None:
    many = [coupon(f"k{n:02}", own(benefit, f"g{n}"), **until(n + 1)) for n in range(14)]
    looks: list[Best] = []

    found = best_combination(
        order([line(1000, number=n) for n in range(1, 11)], many), keep_going=lambda b: not looks.append(b)
    )

    assert found.exact
    assert len(looks) < 40

"""Runs of like coupons, what is the most that they take off, and the parts in which they are searched."""

from collections.abc import Sequence
from fractions import Fraction

from app.domain.basket import Line
from app.domain.benefits import AmountOff, Benefit, BuyXGetY, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.best import Best, best_combination
from app.domain.best_runs import Run, components, runs_of
from app.domain.facts import CouponFacts
from app.domain.pricing import Board, evaluation_key
from app.domain.rules import Rule, Scope, Selection
from tests.unit.domain.shop import coupon, line, lines, off, order

TOYS = Scope(Selection(categories=frozenset({"toy"})))
FOOD = Scope(Selection(categories=frozenset({"food"})))


def best(basket: Sequence[Line], *coupons: CouponFacts, **more: object) -> Best:
    found = best_combination(order(basket, coupons, **more))
    assert found.exact
    return found


def own(benefit: Benefit, group: str, **rule: object) -> Rule:
    return Rule(benefit, group=group, **rule)


def runs(basket: Sequence[Line], *coupons: CouponFacts) -> list[Run]:
    return runs_of(sorted(coupons, key=evaluation_key), Board.of(tuple(basket), []))


def test_identical_coupons_make_one_run_and_any_difference_another() -> None:
    rule = off(100, max_per_order=9)
    alike = [coupon(id_, rule, campaign="c") for id_ in ("a", "b")]
    other_rule = coupon("c", off(101, max_per_order=9), campaign="c")
    other_budget = coupon("d", rule, campaign="c", budget_left_minor=5)
    other_campaign = coupon("e", rule, campaign="d")

    made = runs(lines(1000), *alike, other_rule, other_budget, other_campaign)

    assert [[one.id for one in run.coupons] for run in made] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [run.place for run in made] == [0, 1, 2, 3]


def test_equal_rules_apart_in_the_order_of_evaluation_are_two_runs() -> None:
    rule = off(100, max_per_order=9)
    apart = [
        coupon("a", rule, campaign="c"),
        coupon("b", off(5, max_per_order=9), campaign="c"),
        coupon("c", rule, campaign="c"),
    ]

    assert [[one.id for one in run.coupons] for run in runs(lines(1000), *apart)] == [["a"], ["b"], ["c"]]


def test_a_run_knows_its_lines_and_their_gross() -> None:
    basket = [line(1000, category="toy"), line(2000, number=2), line(4000, number=3, category="toy")]

    (run,) = runs(basket, coupon("k1", off(100, scope=TOYS, min_qty=2), budget_left_minor=7))

    assert (run.eligible, run.gross_minor, run.by_unit, run.budget_minor) == ((0, 2), 5000, False, 7)
    assert runs(basket, coupon("k1", off(100, scope=TOYS, min_qty=3)), coupon("k2", off(scope=FOOD))) == []


def run_of(benefit: Benefit, **rule: object) -> Run:
    return runs(lines(10_000), coupon("k1", Rule(benefit, **rule)))[0]


def test_off_is_what_is_taken_off_a_net_and_nothing_where_it_is_refused() -> None:
    assert run_of(AmountOff(300)).off(200) == 200
    assert run_of(AmountOff(300), min_spend_minor=500).off(500) == 300
    assert run_of(AmountOff(300), min_spend_minor=500).off(499) == 0
    assert run_of(AmountOff(300), min_spend_minor=10_000, gross_threshold=True).off(499) == 300
    assert run_of(Every(100, 10)).off(99) == 0


def test_the_most_below_a_net_looks_at_every_tier_within_reach() -> None:
    tiers = Tiered((Tier(100, 90), Tier(500, 20)))

    assert [run_of(tiers).most(net) for net in (99, 100, 499, 500, 9999)] == [0, 90, 90, 90, 90]
    assert [run_of(tiers).off(net) for net in (99, 100, 499, 500, 9999)] == [0, 90, 90, 20, 20]
    assert run_of(tiers, gross_threshold=True).most(50) == 50
    assert [run_of(tiers, min_spend_minor=200).most(net) for net in (199, 200)] == [0, 90]
    assert run_of(AmountOff(30)).most(20) == run_of(AmountOff(30)).off(20) == 20


def test_the_most_of_several_sees_what_the_ones_before_took() -> None:
    assert run_of(AmountOff(300)).most_of(3, 700, each_minor=300) == 700
    assert run_of(AmountOff(300), min_spend_minor=500).most_of(3, 700, each_minor=300) == 300
    assert run_of(AmountOff(300), min_spend_minor=400).most_of(3, 700, each_minor=300) == 600
    assert run_of(PercentOff(Fraction(50))).most_of(2, 1000, each_minor=500) == 750
    assert run_of(PercentOff(Fraction(50))).most_of(2, 1000, each_minor=100) == 200
    assert run_of(AmountOff(300)).most_of(1, 1000, each_minor=300) == 300
    assert run_of(Every(100, 10)).most_of(2, 1000, each_minor=100) == 190
    assert run_of(Every(100, 10)).most_of(3, 105, each_minor=10) == 10
    assert run_of(Every(100, 10), min_spend_minor=950).most_of(2, 1000, each_minor=100) == 190
    assert run_of(Every(5000, 10), gross_threshold=True).most_of(3, 1000, each_minor=20) == 60


def test_the_most_of_several_tiered_tries_their_tiers() -> None:
    up = Tiered((Tier(100, 30), Tier(500, 200)))
    down = Tiered((Tier(100, 90), Tier(500, 20)))

    assert run_of(up).most_of(2, 600, each_minor=200) == 230
    assert run_of(up).most_of(2, 700, each_minor=200) == 400
    assert run_of(up).most_of(3, 700, each_minor=200) == 430
    assert run_of(up).most_of(4, 700, each_minor=200) == 630
    assert run_of(up).most_of(2, 99, each_minor=0) == 0
    assert run_of(up, min_spend_minor=500).most_of(2, 600, each_minor=200) == 200
    assert run_of(down).most_of(2, 505, each_minor=90) == 180
    assert run_of(up, gross_threshold=True).most_of(2, 300, each_minor=200) == 300


def test_parts_share_no_line_no_group_no_campaign_and_no_say_over_promotions() -> None:
    basket = [line(1000, number=n, sku=f"s{n}") for n in range(1, 8)]

    def one(id_: str, *numbers: int, campaign: str | None = None, **rule: object) -> CouponFacts:
        scope = Scope(Selection(skus=frozenset(f"s{n}" for n in numbers)))
        return coupon(id_, off(10, scope=scope, **{"group": id_, **rule}), campaign=campaign)

    def parts(*coupons: CouponFacts) -> list[list[str]]:
        return sorted([run.coupons[0].id for run in part] for part in components(runs(basket, *coupons)))

    assert parts(one("a", 1), one("b", 2), one("c", 3)) == [["a"], ["b"], ["c"]]
    assert parts(one("a", 1, 2), one("b", 2, 3), one("c", 4)) == [["a", "b"], ["c"]]
    assert parts(one("a", 1), one("b", 2), one("c", 1, 2)) == [["a", "b", "c"]]
    assert parts(one("a", 1, group="g"), one("b", 2, group="g")) == [["a", "b"]]
    assert parts(one("a", 1, campaign="k"), one("b", 2, campaign="k")) == [["a", "b"]]
    assert parts(one("a", 1, no_promotions=True), one("b", 2, no_promotions=True), one("c", 3)) == [["a", "b"], ["c"]]


def test_parts_are_searched_apart_and_put_together() -> None:
    basket = [line(5000, category="toy"), line(5000, number=2, category="food")]
    toys = [coupon(f"t{n}", off(100 * n, scope=TOYS, group="t")) for n in (1, 3, 2)]
    food = [coupon(f"f{n}", off(100 * n, scope=FOOD, group="f")) for n in (5, 4)]

    found = best(basket, *toys, *food)

    assert (set(found.coupon_ids), found.quote.payable_minor) == ({"t3", "f5"}, 9200)


def test_unit_benefits_are_chosen_by_what_they_are_worth_after_each_other() -> None:
    basket = [line(3000), line(2000, number=2), line(1000, number=3)]
    gift = coupon("k1", own(FixedPrice(0), "a"))
    pair = coupon("k2", own(BuyXGetY(1, 1), "b"))
    trio = coupon("k3", own(BuyXGetY(2, 1), "b"))

    # The gift takes 30.00; of 20, 10, 0 the pair gives 10.00 and the trio nothing.
    assert best(basket, gift, pair, trio).quote.payable_minor == 2000


def test_unit_benefits_on_different_lines_do_not_disturb_each_other() -> None:
    basket = [line(3000, category="toy"), line(2000, number=2, category="food"), line(5000, number=3)]
    gifts = [coupon("k1", own(FixedPrice(0), "a", scope=TOYS)), coupon("k2", own(FixedPrice(500), "b", scope=FOOD))]

    found = best(basket, *gifts, coupon("k3", own(PercentOff(Fraction(10)), "c")))

    assert (found.coupon_ids, found.quote.payable_minor) == (("k1", "k2", "k3"), 4950)

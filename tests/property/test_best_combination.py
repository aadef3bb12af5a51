"""The best combination against all subsets: same amount to pay, same coupons, whatever the rules are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.domain.basket import MILLI, Line
from app.domain.benefits import UnitBenefit
from app.domain.best import best_combination
from app.domain.best_runs import runs_of
from app.domain.best_search import rank
from app.domain.facts import CouponFacts, OrderFacts
from app.domain.pricing import Board, price
from app.domain.rules import Rule, Scope
from app.domain.stacking import keep_first_scanned
from tests.examples import share
from tests.property.orders import orders, rules


def legal_subsets(facts: OrderFacts) -> Iterator[tuple[int, tuple[CouponFacts, ...]]]:
    """Yield each subset that `price` uses whole, with what the order then costs.

    Coupons that do not go together are not priced, which only saves time: `price` would refuse one of them.
    """
    for size in range(len(facts.coupons) + 1):
        for chosen in combinations(facts.coupons, size):
            if keep_first_scanned(chosen)[1]:
                continue
            quote = price(replace(facts, coupons=chosen))
            if len(quote.used) == size:
                yield quote.payable_minor, chosen


@given(orders(max_coupons=7))
def test_it_is_the_first_of_all_legal_subsets(facts: OrderFacts) -> None:
    best = best_combination(facts)

    first = min(legal_subsets(facts), key=lambda subset: rank(*subset))
    assert (best.quote.payable_minor, set(best.coupon_ids)) == (first[0], {coupon.id for coupon in first[1]})
    assert best.exact
    assert best.coupon_ids == best.quote.used


@settings(max_examples=share(1 / 3))
@given(orders(max_coupons=9))
def test_it_is_the_first_of_all_legal_subsets_of_many_coupons(facts: OrderFacts) -> None:
    best = best_combination(facts)

    first = min(legal_subsets(facts), key=lambda subset: rank(*subset))
    assert (best.quote.payable_minor, set(best.coupon_ids)) == (first[0], {coupon.id for coupon in first[1]})


@given(orders(max_coupons=6))
def test_the_order_of_scanning_has_no_say(facts: OrderFacts) -> None:
    backwards = best_combination(replace(facts, coupons=facts.coupons[::-1]))

    assert best_combination(facts).coupon_ids == backwards.coupon_ids


@given(orders(max_coupons=6))
def test_scanning_all_coupons_is_never_cheaper_than_the_best(facts: OrderFacts) -> None:
    assert best_combination(facts).quote.payable_minor <= price(facts).payable_minor


@given(rules(), st.integers(0, 1200), st.integers(0, 1200), st.integers(1, 5))
def test_no_coupons_of_a_run_take_more_off_a_smaller_net_than_the_bound_on_a_larger(
    rule: Rule, net_minor: int, less_minor: int, count: int
) -> None:
    assume(not isinstance(rule.benefit, UnitBenefit))
    board = Board.of((Line(1, "sku1", 1200, 9 * MILLI, "food"),), [])
    runs = runs_of([CouponFacts("k1", "c1", replace(rule, scope=Scope(), min_qty=0))], board)
    run = runs[0]

    each_minor = run.most(net_minor)
    taken: list[int] = []
    for _ in range(count):
        taken.append(run.off(max(0, net_minor - less_minor) - sum(taken)))

    assert max(taken) <= each_minor
    assert sum(taken) <= run.most_of(count, net_minor, each_minor=each_minor)

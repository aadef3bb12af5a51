"""Each benefit of RULES: what it takes off, from which line, and when it takes nothing."""

from fractions import Fraction

import pytest

from app.domain.benefits import (
    AmountOff,
    Benefit,
    BuyXGetY,
    Every,
    FixedPrice,
    PercentOff,
    Tier,
    Tiered,
    amount,
    lay,
    most_off,
    stage,
)
from app.domain.refusals import RefusalCode
from tests.unit.domain.shop import code

TIERS = Tiered((Tier(10_000, 1000), Tier(20_000, 3000)))


def laid(benefit: Benefit, nets: list[int], units: list[int] | None = None, *, base: int | None = None) -> list[int]:
    found = lay(benefit, nets, units or [1] * len(nets), base_minor=sum(nets) if base is None else base)
    assert isinstance(found, tuple), found
    return list(found)


def refusal(benefit: Benefit, nets: list[int], units: list[int] | None = None) -> tuple[RefusalCode, dict[str, object]]:
    found = lay(benefit, nets, units or [1] * len(nets), base_minor=sum(nets))
    return code(found), dict(found.facts)


@pytest.mark.parametrize(
    ("benefit", "place"),
    [
        (FixedPrice(0), 0),
        (BuyXGetY(1, 1), 0),
        (PercentOff(Fraction(5)), 1),
        (AmountOff(1), 2),
        (TIERS, 2),
        (Every(1, 1), 2),
    ],
)
def test_units_come_before_percent_and_percent_before_amounts(benefit: Benefit, place: int) -> None:
    assert stage(benefit) == place


# ---- amount_off


def test_an_amount_is_shared_out_by_what_the_lines_cost() -> None:
    assert laid(AmountOff(1000), [3000, 1000]) == [750, 250]


@pytest.mark.parametrize(("amount_minor", "off_minor"), [(3999, 3999), (4000, 4000), (4001, 4000)])
def test_an_amount_takes_at_most_what_is_left(amount_minor: int, off_minor: int) -> None:
    assert sum(laid(AmountOff(amount_minor), [3000, 1000])) == off_minor


def test_nothing_left_is_nothing_eligible() -> None:
    assert refusal(AmountOff(1000), [0, 0]) == (RefusalCode.NOTHING_ELIGIBLE, {})


# ---- percent_off


def test_eight_and_a_half_zhe_is_fifteen_percent() -> None:
    assert laid(PercentOff(Fraction(15)), [10_000]) == [1500]


def test_a_percentage_is_rounded_half_up_once_on_the_total() -> None:
    # 12.5 % of 1.00 and 1.00 is 0.25; rounded line by line it would be 0.26.
    assert laid(PercentOff(Fraction("12.5")), [100, 100]) == [13, 12]
    assert laid(PercentOff(Fraction(50)), [1]) == [1]


def test_less_than_half_a_fen_is_nothing() -> None:
    assert refusal(PercentOff(Fraction(49)), [1]) == (RefusalCode.NOTHING_ELIGIBLE, {})


@pytest.mark.parametrize(("cap_minor", "off_minor"), [(1999, 1999), (2000, 2000), (2001, 2000), (None, 2000)])
def test_a_percentage_is_capped_after_rounding(cap_minor: int | None, off_minor: int) -> None:
    assert sum(laid(PercentOff(Fraction(20), cap_minor), [7000, 3000])) == off_minor


def test_a_hundred_percent_takes_everything() -> None:
    assert laid(PercentOff(Fraction(100)), [7001, 2999]) == [7001, 2999]


# ---- tiered


@pytest.mark.parametrize(("net_minor", "off_minor"), [(10_000, 1000), (19_999, 1000), (20_000, 3000), (90_000, 3000)])
def test_the_highest_tier_reached_counts(net_minor: int, off_minor: int) -> None:
    assert laid(TIERS, [net_minor]) == [off_minor]


def test_one_fen_below_the_first_tier_names_that_fen() -> None:
    assert refusal(TIERS, [9999]) == (RefusalCode.BELOW_MINIMUM, {"missing_minor": 1})


def test_a_tier_takes_at_most_what_is_left() -> None:
    assert laid(Tiered((Tier(0, 5000),)), [3000]) == [3000]
    assert laid(TIERS, [500, 400], base=20_000) == [500, 400]


# ---- every


@pytest.mark.parametrize(("net_minor", "off_minor"), [(5000, 500), (9999, 500), (10_000, 1000), (14_999, 1000)])
def test_every_full_minimum_counts(net_minor: int, off_minor: int) -> None:
    assert laid(Every(5000, 500), [net_minor]) == [off_minor]


def test_one_fen_below_one_full_minimum_names_that_fen() -> None:
    assert refusal(Every(5000, 500), [4999]) == (RefusalCode.BELOW_MINIMUM, {"missing_minor": 1})


@pytest.mark.parametrize(("net_minor", "off_minor"), [(10_000, 1000), (15_000, 1500), (20_000, 1500)])
def test_every_counts_at_most_max_times(net_minor: int, off_minor: int) -> None:
    assert laid(Every(5000, 500, max_times=3), [net_minor]) == [off_minor]


def test_every_takes_at_most_what_is_left() -> None:
    assert laid(Every(1000, 900), [2000], base=9000) == [2000]


def test_thresholds_look_at_the_base_and_amounts_at_the_net() -> None:
    assert amount(TIERS, net_minor=100, base_minor=20_000) == 100
    assert amount(Every(5000, 500), net_minor=8000, base_minor=10_000) == 1000
    assert amount(PercentOff(Fraction(10)), net_minor=8000, base_minor=10_000) == 800
    assert amount(AmountOff(9000), net_minor=8000, base_minor=10_000) == 8000


# ---- fixed_price


def test_the_dearest_unit_is_sold_at_the_price() -> None:
    assert laid(FixedPrice(1000), [5000, 9000, 7000]) == [0, 8000, 0]


def test_a_gift_is_a_price_of_nothing() -> None:
    assert laid(FixedPrice(0), [5000]) == [5000]


def test_of_equally_dear_units_the_earlier_line_goes_first() -> None:
    assert laid(FixedPrice(1000), [5000, 5000]) == [4000, 0]
    assert laid(FixedPrice(1000), [10_000, 5000], [2, 1]) == [4000, 0]


def test_as_many_units_as_the_quantity_says() -> None:
    assert laid(FixedPrice(1000, qty=3), [10_000, 7000, 6000], [2, 1, 1]) == [4000, 6000, 5000]
    assert laid(FixedPrice(1000, qty=2), [10_000, 7000, 6000], [2, 1, 1]) == [0, 6000, 5000]
    assert laid(FixedPrice(1000, qty=9), [10_000, 7000], [2, 1]) == [8000, 6000]


def test_a_unit_cheaper_than_the_price_is_left_alone() -> None:
    assert laid(FixedPrice(5000, qty=3), [9000, 5000, 4000]) == [4000, 0, 0]
    assert refusal(FixedPrice(5000), [5000]) == (RefusalCode.NOTHING_ELIGIBLE, {})
    assert laid(FixedPrice(5000), [5001]) == [1]


def test_units_are_compared_by_their_exact_price() -> None:
    # 33.34 each against 100.01 / 3 = 33.3366... each.
    assert laid(FixedPrice(0), [10_001, 3334], [3, 1]) == [0, 3334]
    assert laid(FixedPrice(0), [10_001, 3333], [3, 1]) == [3334, 0]
    # One fen apart at a size where a float no longer tells them apart.
    assert laid(FixedPrice(0), [10**17, 10**17 + 1]) == [0, 10**17 + 1]


def test_a_unit_benefit_is_rounded_half_up_once_on_its_total() -> None:
    # One of two units that cost 0.01 together; then two thirds of a fen and one third of a fen.
    assert laid(FixedPrice(0), [1], [2]) == [1]
    assert laid(FixedPrice(0, qty=3), [2, 1], [3, 3]) == [2, 0]
    assert laid(FixedPrice(0, qty=4), [2, 1], [3, 3]) == [2, 0]
    assert laid(FixedPrice(0, qty=5), [2, 1], [3, 3]) == [2, 1]
    assert laid(FixedPrice(0), [5], [2]) == [3]
    assert laid(FixedPrice(0), [4], [3]) == [1]


def test_goods_by_weight_are_no_units() -> None:
    assert laid(FixedPrice(0), [9000, 5000], [0, 1]) == [0, 5000]
    assert refusal(FixedPrice(0), [9000], [0]) == (RefusalCode.NOTHING_ELIGIBLE, {})
    assert refusal(BuyXGetY(1, 1), [9000], [0]) == (RefusalCode.BELOW_MINIMUM, {"missing_units": 2})


def test_goods_by_weight_add_nothing_to_what_is_rounded() -> None:
    assert refusal(BuyXGetY(1, 1, Fraction(49)), [1, 1, 900], [1, 1, 0]) == (RefusalCode.NOTHING_ELIGIBLE, {})
    assert laid(BuyXGetY(1, 1, Fraction(50)), [1, 1, 900], [1, 1, 0]) == [0, 1, 0]


# ---- buy_x_get_y


@pytest.mark.parametrize(("units", "free"), [(11, 1), (12, 2), (13, 3), (14, 3), (23, 3), (24, 4), (26, 6), (27, 6)])
def test_a_group_that_is_not_full_gives_what_it_has(units: int, free: int) -> None:
    assert laid(BuyXGetY(10, 3), [units * 100], [units]) == [free * 100]


@pytest.mark.parametrize("units", [9, 10])
def test_who_buys_no_more_than_x_gets_nothing(units: int) -> None:
    assert refusal(BuyXGetY(10, 3), [units * 100], [units]) == (
        RefusalCode.BELOW_MINIMUM,
        {"missing_units": 11 - units},
    )


def test_missing_units_are_counted_over_all_lines() -> None:
    assert refusal(BuyXGetY(5, 1), [100, 100], [2, 1]) == (RefusalCode.BELOW_MINIMUM, {"missing_units": 3})


def test_units_are_grouped_from_the_dearest() -> None:
    assert laid(BuyXGetY(2, 1), [1000, 3000, 2000]) == [1000, 0, 0]
    assert laid(BuyXGetY(1, 1), [1000, 4000, 3000, 2000]) == [1000, 0, 3000, 0]


def test_of_equally_dear_units_those_of_the_earlier_line_are_bought() -> None:
    assert laid(BuyXGetY(1, 1), [3000, 3000]) == [0, 3000]


def test_the_units_after_x_get_the_percentage() -> None:
    assert laid(BuyXGetY(1, 1, Fraction(50)), [3000, 2000]) == [0, 1000]
    assert laid(BuyXGetY(1, 1, Fraction("12.5")), [100, 100, 100, 100]) == [0, 13, 0, 12]


@pytest.mark.parametrize(("times", "off_minor"), [(1, 800), (2, 1400), (3, 1600), (None, 1600)])
def test_groups_are_counted_from_the_dearest(times: int | None, off_minor: int) -> None:
    # Pairs (10, 8), (7, 6), (5, 2), and 1 alone.
    nets = [1000, 800, 700, 600, 500, 200, 100]

    assert sum(laid(BuyXGetY(1, 1, max_times=times), nets)) == off_minor


def test_a_group_that_is_not_full_counts_among_the_groups() -> None:
    assert laid(BuyXGetY(1, 2, max_times=2), [5 * 100], [5]) == [300]
    assert laid(BuyXGetY(1, 2, max_times=1), [5 * 100], [5]) == [200]
    assert laid(BuyXGetY(1, 2, max_times=1), [3 * 100], [3]) == [200]
    assert laid(BuyXGetY(1, 2, max_times=1), [2 * 100], [2]) == [100]


def test_a_line_of_many_units_is_cut_into_groups_too() -> None:
    assert laid(BuyXGetY(2, 1), [600, 2000], [6, 4]) == [200, 500]
    assert laid(BuyXGetY(2, 1), [50_000_000], [50_000]) == [16_666_000]


def test_what_is_free_already_gives_nothing() -> None:
    assert refusal(BuyXGetY(1, 1), [500, 0]) == (RefusalCode.NOTHING_ELIGIBLE, {})


def test_shares_lie_on_the_lines_of_the_units_that_are_discounted() -> None:
    assert laid(BuyXGetY(1, 1), [101, 101], [2, 2]) == [51, 50]


@pytest.mark.parametrize(
    ("benefit", "most"),
    [
        (AmountOff(700), 700),
        (PercentOff(Fraction(10), 3000), 3000),
        (PercentOff(Fraction(10)), None),
        (Tiered((Tier(5000, 500), Tier(10_000, 3000), Tier(20_000, 1000))), 3000),
        (Every(3000, 400, 3), 1200),
        (Every(3000, 400), None),
        (FixedPrice(100), None),
        (BuyXGetY(1, 1, max_times=2), None),
    ],
)
def test_the_most_that_a_benefit_takes_off_whatever_is_bought(benefit: Benefit, most: int | None) -> None:
    assert most_off(benefit) == most


@pytest.mark.parametrize("benefit", [AmountOff(700), PercentOff(Fraction(50), 3000), TIERS, Every(3000, 400, 3)])
def test_no_order_gets_more_than_the_most(benefit: Benefit) -> None:
    most = most_off(benefit)

    assert most is not None and sum(laid(benefit, [900_000, 100_000])) == most

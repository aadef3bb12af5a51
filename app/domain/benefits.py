"""Say what a campaign takes off: one frozen class and one rule for each benefit of RULES, "Benefits".

A benefit sees the eligible lines as they stand at its place in the pipeline (`nets` holds the money still on each line,
`units` its whole units, 0 where it is sold by weight) and answers with a share for each of them, or with a refusal.
It changes nothing itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from app.domain.money import divide_half_up, largest_remainder, prorate
from app.domain.refusals import Refusal, RefusalCode, refuse


@dataclass(frozen=True, slots=True)
class AmountOff:
    """Take off a fixed amount, at most the eligible net."""

    amount_minor: int


@dataclass(frozen=True, slots=True)
class PercentOff:
    """Take off `percent` (above 0, up to 100) of the eligible net, rounded half up once, then capped."""

    percent: Fraction
    max_discount_minor: int | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """Take off `off_minor` from an eligible amount of `min_minor` on."""

    min_minor: int
    off_minor: int


@dataclass(frozen=True, slots=True)
class Tiered:
    """Take off what the highest tier reached gives; `tiers` are sorted by `min_minor`."""

    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """Take off `off_minor` for each full `min_minor`, at most `max_times` times (None = without limit)."""

    min_minor: int
    off_minor: int
    max_times: int | None = None


@dataclass(frozen=True, slots=True)
class FixedPrice:
    """Sell the dearest `qty` eligible units at `price_minor`; cheaper units are left alone."""

    price_minor: int
    qty: int = 1


@dataclass(frozen=True, slots=True)
class BuyXGetY:
    """In each group of `buy + get` units, dearest first, take `percent` off those after the first `buy`."""

    buy: int
    get: int
    percent: Fraction = Fraction(100)
    max_times: int | None = None


AmountBenefit = AmountOff | PercentOff | Tiered | Every
UnitBenefit = FixedPrice | BuyXGetY
Benefit = AmountBenefit | UnitBenefit
Shares = tuple[int, ...]


def stage(benefit: Benefit) -> int:
    """Return the place among coupons: 0 units, 1 percent, 2 amounts (RULES, "Order of evaluation")."""
    if isinstance(benefit, FixedPrice | BuyXGetY):
        return 0
    return 1 if isinstance(benefit, PercentOff) else 2


def most_off(benefit: Benefit) -> int | None:
    """Return the most that one order can get of it, whatever is in the basket; None = nothing in the rule bounds it."""
    if isinstance(benefit, AmountOff):
        return benefit.amount_minor
    if isinstance(benefit, PercentOff):
        return benefit.max_discount_minor
    if isinstance(benefit, Tiered):
        return max(tier.off_minor for tier in benefit.tiers)
    if isinstance(benefit, Every):
        return None if benefit.max_times is None else benefit.max_times * benefit.off_minor
    return None


def lay(benefit: Benefit, nets: Sequence[int], units: Sequence[int], *, base_minor: int) -> Shares | Refusal:
    """Return the share of each line in minor units (sum > 0, none above its net), or why there is none.

    `base_minor` is the eligible amount that tiers and thresholds look at: net or gross, as the campaign says.
    Refusals: `below_minimum` (facts `missing_minor` or `missing_units`), `nothing_eligible`.
    """
    if isinstance(benefit, FixedPrice):
        shares = _fixed_price(benefit, nets, units)
    elif isinstance(benefit, BuyXGetY):
        if sum(units) <= benefit.buy:
            return refuse(RefusalCode.BELOW_MINIMUM, missing_units=benefit.buy + 1 - sum(units))
        shares = _buy_x_get_y(benefit, nets, units)
    else:
        off_minor = amount(benefit, net_minor=sum(nets), base_minor=base_minor)
        if isinstance(off_minor, Refusal):
            return off_minor
        shares = prorate(off_minor, nets)
    if not any(shares):
        return refuse(RefusalCode.NOTHING_ELIGIBLE)
    return tuple(shares)


def amount(benefit: AmountBenefit, *, net_minor: int, base_minor: int) -> int | Refusal:
    """Return what a benefit that looks at sums alone takes off in all (0 up to `net_minor`), or `below_minimum`."""
    if isinstance(benefit, AmountOff):
        return min(benefit.amount_minor, net_minor)
    if isinstance(benefit, PercentOff):
        off_minor = divide_half_up(benefit.percent.numerator * net_minor, 100 * benefit.percent.denominator)
        return off_minor if benefit.max_discount_minor is None else min(off_minor, benefit.max_discount_minor)
    if isinstance(benefit, Tiered):
        reached = [tier for tier in benefit.tiers if tier.min_minor <= base_minor]
        if not reached:
            return refuse(RefusalCode.BELOW_MINIMUM, missing_minor=benefit.tiers[0].min_minor - base_minor)
        return min(reached[-1].off_minor, net_minor)
    times = base_minor // benefit.min_minor
    if times == 0:
        return refuse(RefusalCode.BELOW_MINIMUM, missing_minor=benefit.min_minor - base_minor)
    if benefit.max_times is not None:
        times = min(times, benefit.max_times)
    return min(times * benefit.off_minor, net_minor)


def _dearest_first(nets: Sequence[int], units: Sequence[int]) -> tuple[list[int], int]:
    """Return the lines with units, the dearest unit first (tie: earlier line), and a common multiple of their units.

    Unit nets are fractions; over the common multiple they are whole numbers, compared and shared out exactly.
    """
    common = lcm(*(count for count in units if count))
    with_units = [i for i, count in enumerate(units) if count]
    return sorted(with_units, key=lambda i: -nets[i] * (common // units[i])), common


def _fixed_price(benefit: FixedPrice, nets: Sequence[int], units: Sequence[int]) -> list[int]:
    order, common = _dearest_first(nets, units)
    exact = [0] * len(nets)
    left = benefit.qty
    for i in order:
        taken = min(left, units[i])
        exact[i] = max(0, nets[i] - benefit.price_minor * units[i]) * taken * (common // units[i])
        left -= taken
    return largest_remainder(exact, common)


def _buy_x_get_y(benefit: BuyXGetY, nets: Sequence[int], units: Sequence[int]) -> list[int]:
    order, common = _dearest_first(nets, units)
    exact = [0] * len(nets)
    passed = 0
    for i in order:
        # Whole lines at a time: the units of a line are alike, and a line may hold thousands.
        given = _units_given(benefit, passed + units[i]) - _units_given(benefit, passed)
        exact[i] = nets[i] * given * benefit.percent.numerator * (common // units[i])
        passed += units[i]
    return largest_remainder(exact, 100 * benefit.percent.denominator * common)


def _units_given(benefit: BuyXGetY, units: int) -> int:
    """Count the discounted units among the `units` dearest."""
    group = benefit.buy + benefit.get
    full, rest = divmod(units, group)
    if benefit.max_times is not None and full >= benefit.max_times:
        return benefit.max_times * benefit.get
    return full * benefit.get + max(0, rest - benefit.buy)

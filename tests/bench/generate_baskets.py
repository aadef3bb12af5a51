"""Make baskets with coupons from a seed: the same seed gives the same basket on every machine.

What a basket is made of (`Shape` says how much of it):

- Lines: goods of 6 categories and 8 brands at 5.00 to 400.00, mostly 1 to 3 units, every tenth sold by weight.
- Campaigns: amount_off 25 %, percent_off 20 %, tiered 15 %, every 10 %, fixed_price 15 %, buy_x_get_y 15 %. Of them
  40 % hold for all goods, 40 % for one or two categories, 20 % for a brand. Half ask for a spend of 10 to 90 % of their
  eligible amount, so that earlier discounts decide over later ones. 15 % allow 2 or 3 of their own, 10 % have a budget
  that may run out, 5 % are exclusive, 5 % take no promotions, 10 % look at the gross.
- Coupons: each of one campaign, drawn evenly, so most campaigns have several; they end on ten different days.
- Promotions: a member price on a category and a happy hour on all goods, in two of three baskets each.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from app.domain.basket import MILLI, Cover, Line, line_gross
from app.domain.benefits import AmountOff, Benefit, BuyXGetY, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.rules import Kind, Rule, Scope, Selection

NOW = datetime(2026, 6, 1, 2, tzinfo=UTC)
CATEGORIES = ("food", "toy", "litter", "care", "snack", "cage")
BRANDS = tuple(f"brand{n}" for n in range(8))
BENEFITS = {"amount": 25, "percent": 20, "tiered": 15, "every": 10, "fixed": 15, "buy": 15}


@dataclass(frozen=True, slots=True)
class Shape:
    """Say how large a basket is; `groups` = 0 gives each campaign a group of its own, so that all may be combined."""

    name: str
    coupons: int = 50
    lines: int = 50
    campaigns: int = 25
    groups: int = 5


def make_basket(seed: int, shape: Shape) -> OrderFacts:
    """Return the facts of one order."""
    chance = random.Random(f"{shape.name}/{seed}")
    lines = tuple(_line(chance, number) for number in range(1, shape.lines + 1))
    rules = [_rule(chance, lines, index, shape=shape) for index in range(shape.campaigns)]
    coupons = tuple(_coupon(chance, rules, number) for number in range(shape.coupons))
    promotions = (
        ("member-price", Scope(Selection(categories=frozenset({"food"}))), Fraction(5)),
        ("happy-hour", Scope(), Fraction(3)),
    )
    covers, cards = _covers(chance, lines)
    return OrderFacts(
        order_id="o1",
        lines=lines,
        place=Place("s1", UTC),
        now=NOW,
        member=MemberFacts("m1"),
        coupons=coupons,
        covers=covers,
        cards=cards,
        promotions=tuple(
            PromotionFacts(name, Rule(PercentOff(percent), kind=Kind.AUTOMATIC, scope=scope))
            for name, scope, percent in promotions
            if chance.random() < 2 / 3
        ),
    )


def _line(chance: random.Random, number: int) -> Line:
    by_weight = chance.random() < 0.1
    return Line(
        number=number,
        sku=f"sku{chance.randrange(200)}",
        price_minor=chance.choice((500, 990, 1290, 1900, 2580, 3900, 5980, 8800, 12900, 19900, 40000)),
        qty_milli=chance.randrange(100, 3000) if by_weight else chance.choice((1, 1, 1, 2, 2, 3, 6)) * MILLI,
        category=chance.choice(CATEGORIES),
        brand=chance.choice(BRANDS),
        by_weight=by_weight,
    )


def _scope(chance: random.Random) -> Scope:
    kind = chance.random()
    if kind < 0.4:
        return Scope()
    if kind < 0.8:
        return Scope(Selection(categories=frozenset(chance.sample(CATEGORIES, chance.choice((1, 2))))))
    return Scope(Selection(brands=frozenset({chance.choice(BRANDS)})))


def _benefit(chance: random.Random, eligible_minor: int) -> Benefit:
    def part(low: float, high: float) -> int:
        """Return a share of the eligible amount in whole yuan, 1.00 at least."""
        return max(1, round(eligible_minor * chance.uniform(low, high) / 100)) * 100

    match chance.choices(list(BENEFITS), list(BENEFITS.values()))[0]:
        case "amount":
            return AmountOff(part(0.01, 0.15))
        case "percent":
            return PercentOff(Fraction(chance.randrange(5, 35)), chance.choice((None, None, part(0.02, 0.1))))
        case "tiered":
            mins = sorted({part(0.1, 0.5), part(0.3, 0.7), part(0.5, 0.95)})
            return Tiered(tuple(Tier(minimum, max(100, minimum // 10 // 100 * 100)) for minimum in mins))
        case "every":
            return Every(part(0.05, 0.3), part(0.005, 0.03), chance.choice((None, 1, 3)))
        case "fixed":
            return FixedPrice(chance.choice((0, 100, 990)), chance.choice((1, 1, 2)))
        case _:
            return BuyXGetY(
                chance.choice((1, 2, 3)), 1, Fraction(chance.choice((50, 100))), max_times=chance.choice((1, 2, None))
            )


def _rule(chance: random.Random, lines: tuple[Line, ...], index: int, *, shape: Shape) -> Rule:
    scope = _scope(chance)
    eligible_minor = sum(line_gross(line.price_minor, line.qty_milli) for line in lines if scope.holds(line))
    return Rule(
        benefit=_benefit(chance, eligible_minor),
        scope=scope,
        min_spend_minor=round(eligible_minor * chance.uniform(0.1, 0.9)) if chance.random() < 0.5 else 0,
        group=f"group{chance.randrange(shape.groups)}" if shape.groups else f"group{index}",
        max_per_order=chance.choice((2, 3)) if chance.random() < 0.15 else 1,
        budget_minor=round(eligible_minor * chance.uniform(0.01, 0.2)) + 1 if chance.random() < 0.1 else None,
        exclusive=chance.random() < 0.05,
        no_promotions=chance.random() < 0.05,
        gross_threshold=chance.random() < 0.1,
        priority=chance.choice((0, 0, 0, 1)),
    )


def _coupon(chance: random.Random, rules: list[Rule], number: int) -> CouponFacts:
    campaign = chance.randrange(len(rules))
    return CouponFacts(
        id=f"coupon{number:03d}",
        campaign_id=f"campaign{campaign:03d}",
        rule=rules[campaign],
        member_id="m1",
        valid_until_at=NOW + timedelta(days=chance.randrange(1, 11)),
        budget_left_minor=rules[campaign].budget_minor,
    )


def _covers(chance: random.Random, lines: tuple[Line, ...]) -> tuple[tuple[Cover, ...], dict[str, CardFacts]]:
    """Let a punch card cover one unit in every other basket."""
    whole = [line for line in lines if not line.by_weight]
    if not whole or chance.random() < 0.5:
        return (), {}
    line = chance.choice(whole)
    return (Cover("card1", line.number),), {"card1": CardFacts("card1", "m1", line.sku, uses_left=5)}

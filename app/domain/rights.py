"""Name what can be countable value, and say what an order draws on; till and server read both the same.

An account is named by its kind and its owner: `stock:<campaign>` in coupons, `budget:<campaign>` in minor units of
discount, `value:<member>` in minor units, `uses:<card>` in uses, `risk:<till>` in minor units that the till may give
away without a right.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STOCK, BUDGET, VALUE, USES, RISK = "stock", "budget", "value", "uses", "risk"
KINDS = (STOCK, BUDGET, VALUE, USES, RISK)


def stock_id(campaign_id: str) -> str:
    """Name the account of a campaign's stock, in coupons."""
    return f"{STOCK}:{campaign_id}"


def budget_id(campaign_id: str) -> str:
    """Name the account of a campaign's budget, in minor units of discount."""
    return f"{BUDGET}:{campaign_id}"


def value_id(member_id: str) -> str:
    """Name the account of a member's stored value, in minor units."""
    return f"{VALUE}:{member_id}"


def uses_id(card_id: str) -> str:
    """Name the account of a punch card, in uses."""
    return f"{USES}:{card_id}"


def risk_id(till_id: str) -> str:
    """Name the account of a till's risk budget, in minor units."""
    return f"{RISK}:{till_id}"


@dataclass(frozen=True, slots=True)
class Rights:
    """List coupons, and the amount of each account, that an order draws on (minor units, or uses)."""

    coupons: frozenset[str]
    amounts: Mapping[str, int]

    def __bool__(self) -> bool:
        """Tell whether there is anything that only its arbiter may decide."""
        return bool(self.coupons or self.amounts)

    def less(self, other: "Rights") -> "Rights":
        """Return what is left of these when the others are taken off."""
        left = {name: amount - other.amounts.get(name, 0) for name, amount in self.amounts.items()}
        return Rights(self.coupons - other.coupons, {name: amount for name, amount in left.items() if amount > 0})


def rights_of(
    discounts: Iterable[tuple[str, str | None, int]],
    *,
    cards: Iterable[str],
    value: tuple[str | None, int],
    budgeted: Iterable[str],
) -> Rights:
    """Return what an order draws on.

    `discounts` are campaign, coupon and amount of each stage; `cards` names one card for each use; `value` is the
    member and the amount of stored value; `budgeted` are the campaigns that have a budget.
    """
    stages, with_budget = list(discounts), set(budgeted)
    amounts: Counter[str] = Counter()
    for campaign_id, _, discount_minor in stages:
        if campaign_id in with_budget:
            amounts[budget_id(campaign_id)] += discount_minor
    amounts.update(map(uses_id, cards))
    member_id, value_minor = value
    if value_minor:
        amounts[value_id(member_id or "")] += value_minor
    return Rights(frozenset(c for _, c, _ in stages if c is not None), {k: v for k, v in sorted(amounts.items()) if v})

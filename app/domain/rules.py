"""Hold the rule of a campaign: what it takes off, for whom, when, and what it goes together with.

A rule is frozen into a coupon's snapshot at the claim (RULES, "Coupon life cycle"), so it is one immutable value that
reads back from the JSON that it writes (`app/domain/rule_json.py`).
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.basket import Line
from app.domain.benefits import Benefit


class Kind(StrEnum):
    """Tell a right in someone's hand from a promotion that needs no code."""

    COUPON = "coupon"
    AUTOMATIC = "automatic"


class RefundPolicy(StrEnum):
    """Choose what a partial return pays back: the net of what returns, or the difference to a fresh price."""

    KEEP = "keep"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class Selection:
    """Name goods by sku, category or brand; a line matches when any of them names it. Empty sets name nothing."""

    skus: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    brands: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        """Tell whether nothing is named."""
        return not (self.skus or self.categories or self.brands)

    def names(self, line: Line) -> bool:
        """Tell whether the line is named by its sku, its category or its brand."""
        return line.sku in self.skus or line.category in self.categories or line.brand in self.brands


@dataclass(frozen=True, slots=True)
class Scope:
    """Choose eligible lines: those included (an empty selection includes all) and not excluded."""

    include: Selection = field(default_factory=Selection)
    exclude: Selection = field(default_factory=Selection)

    def holds(self, line: Line) -> bool:
        """Tell whether the line is in scope."""
        return (self.include.empty or self.include.names(line)) and not self.exclude.names(line)


@dataclass(frozen=True, slots=True)
class Hours:
    """Limit the time of day in the store's zone, in minutes from midnight: `start` inclusive, `end` exclusive.

    `start` > `end` crosses midnight. `end` may be 1440.
    """

    start_min: int
    end_min: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Hold every condition and stacking key of RULES; None means "no such limit".

    `from_at`, `until_at`, `use_from_at` are UTC instants. `weekdays` counts Monday as 0; empty = every day. `stores`
    and `tiers` empty = all. `per_member` limits claims. `budget_minor` bounds the sum of discounts given. `name` and
    `name_en` are what screens and receipts call the campaign.
    """

    benefit: Benefit
    kind: Kind = Kind.COUPON
    name: str = ""
    name_en: str = ""
    scope: Scope = field(default_factory=Scope)
    min_spend_minor: int = 0
    min_qty: int = 0
    stores: frozenset[str] = frozenset()
    tiers: frozenset[str] = frozenset()
    from_at: datetime | None = None
    until_at: datetime | None = None
    use_from_at: datetime | None = None
    valid_days: int | None = None
    weekdays: frozenset[int] = frozenset()
    hours: Hours | None = None
    first_order: bool = False
    per_member: int = 1
    per_member_per_day: int | None = None
    budget_minor: int | None = None
    group: str = "coupon"
    max_per_order: int = 1
    exclusive: bool = False
    no_promotions: bool = False
    priority: int = 0
    bearer: bool = False
    gross_threshold: bool = False
    refund_policy: RefundPolicy = RefundPolicy.KEEP

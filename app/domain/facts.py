"""Hold what a decision may look at: every fact gathered beforehand, none fetched in the middle of a rule.

Till and server fill the same values from their own databases and call the same functions (STYLE, lesson 3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from app.domain.basket import Cover, Line
from app.domain.refusals import Refusal
from app.domain.risk import RiskRoom
from app.domain.rules import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """Say where the order is: the store, and the zone in which its hours and weekdays count."""

    store_id: str
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Describe the member on the order.

    `has_ordered`: another order of this member is paid or being paid (not cancelled, not refunded whole).
    """

    id: str
    tier: str = "basic"
    has_ordered: bool = False


@dataclass(frozen=True, slots=True)
class CouponFacts:
    """Describe one coupon as its arbiter (or the till's copy) knows it.

    `state` is a state of the coupon life cycle. `member_id` is None for a bearer coupon, which binds nobody.
    `order_id` is the order that holds (FROZEN) or used (USED) it; `state_facts` say where and when. `blocked` is a
    reason outside of the rule itself (`needs_online`, `leased_elsewhere`); it goes right behind state, window and
    pause. `valid_until_at` is the end fixed at the claim (None = no end). `budget_left_minor` None = no budget. `risk`
    bounds what a coupon takes off that is used without a right, on somebody's word; None = it needs nobody's.
    """

    id: str
    campaign_id: str
    rule: Rule
    state: str = "ISSUED"
    member_id: str | None = None
    valid_until_at: datetime | None = None
    campaign_state: str = "ACTIVE"
    order_id: str | None = None
    state_facts: Mapping[str, object] = field(default_factory=dict)
    budget_left_minor: int | None = None
    blocked: Refusal | None = None
    risk: RiskRoom | None = None


@dataclass(frozen=True, slots=True)
class PromotionFacts:
    """Describe an automatic promotion; `blocked` as for a coupon (a till offline holds no right to its budget)."""

    campaign_id: str
    rule: Rule
    campaign_state: str = "ACTIVE"
    budget_left_minor: int | None = None
    blocked: Refusal | None = None


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Describe a punch card: it covers units of the sku `service`; `until_at` None = no end."""

    id: str
    member_id: str
    service: str
    uses_left: int
    until_at: datetime | None = None
    blocked: Refusal | None = None


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """Gather everything that prices one order.

    `coupons` stand in the order in which they were scanned (a coupon twice counts once). `cards` describes the cards
    that `covers` names; `unknown` has the reason of each coupon or card that was named and is not here. `member` is the
    member whom `effective_member_id` names, None when there is none.
    """

    order_id: str
    lines: tuple[Line, ...]
    place: Place
    now: datetime
    member: MemberFacts | None = None
    coupons: tuple[CouponFacts, ...] = ()
    covers: tuple[Cover, ...] = ()
    cards: Mapping[str, CardFacts] = field(default_factory=dict)
    promotions: tuple[PromotionFacts, ...] = ()
    unknown: Mapping[str, Refusal] = field(default_factory=dict)

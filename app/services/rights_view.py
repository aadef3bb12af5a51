"""Hold what a till's own rights look like to people, and what a closing of the day says of itself.

Frozen, as in `api.py`. Amounts are minor units, instants UTC.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class OwnRight:
    """Show what this till may spend of one account without asking: `left` of `qty` (coupons, uses, minor units).

    `owner` is the masked label of the member whose it is, "" for a campaign's. `title` and `title_en` name the
    campaign, or the service of a card; "" for stored value.
    """

    account_id: str
    owner: str
    title: str
    title_en: str
    left: int
    qty: int


@dataclass(frozen=True, slots=True)
class RightsOfKind:
    """Show the rights of one kind (`app.domain.rights`) with most left; `count`, `left` and `qty` are those of all."""

    kind: str
    rights: tuple[OwnRight, ...]
    count: int
    left: int
    qty: int


@dataclass(frozen=True, slots=True)
class HomesHere:
    """Count the coupons that this till alone may use, and those that orders under way hold.

    `next_until_at` is when the first of the free ones ends, None where none does; the titles are its campaign's.
    """

    count: int
    held: int
    next_until_at: datetime | None = None
    title: str = ""
    title_en: str = ""


@dataclass(frozen=True, slots=True)
class RiskHere:
    """Show the till's risk budget: what is left of it here, and what is spent or held by open orders."""

    limit_minor: int
    left_minor: int
    spent_minor: int


@dataclass(frozen=True, slots=True)
class RightsView:
    """Show what this till may do by itself, with or without a line, and what closing the day would give back.

    `kinds` are those of which something is here. `risk` None = no risk budget. `last_sync_at` is how old the copy is,
    None = there is none yet. `asked_count` leases have no answer yet. `day_closed`: no right is asked for before the
    store's tomorrow. `free_leases` and `free_coupons` would go back; `kept` are held by orders under way, of which
    `waiting_orders` wait for their payment, and of `unknown_payments` the terminal did not say whether it took them.
    """

    kinds: tuple[RightsOfKind, ...]
    homes: HomesHere
    risk: RiskHere | None
    last_sync_at: datetime | None
    asked_count: int
    day_closed: bool
    free_leases: int
    free_coupons: int
    kept: int
    waiting_orders: int
    unknown_payments: int


class DayStep(StrEnum):
    """Name how far the closing of a day is, in this order (`app.services.closing`)."""

    TELLING = "telling"
    ASKING = "asking"
    GIVING_BACK = "giving_back"
    SENDING = "sending"


@dataclass(frozen=True, slots=True)
class DayEnd:
    """Count what a closing gave back: leases, coupons; `kept` are held by orders under way.

    `waiting_count` entries have not reached the server yet; they go with the next session.
    """

    closed: int
    returned: int
    kept: int
    waiting_count: int

"""Name the states and events of coupons, orders, campaigns and batch issues that the code speaks of.

The code owns these words, the tables in `resources/lifecycles` own what leads where (`lifecycle`).
Source: RULES, "Coupon / Order / Campaign life cycle".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

WINDOW_OVER = "window_over"
"""The guard that answers yes where `now` is at or after the end of the coupon's own window."""


class CouponState(StrEnum):
    """Name the states of a coupon; FROZEN is held by an order."""

    ISSUED = "ISSUED"
    FROZEN = "FROZEN"
    USED = "USED"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


class CouponEvent(StrEnum):
    """Name what happens to a coupon; those of an order carry that order's id."""

    LOCK = "lock"
    PAY_SUCCESS = "pay_success"
    PAY_FAILED = "pay_failed"
    PAY_TIMEOUT = "pay_timeout"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REVOKE = "revoke"
    RETURN = "return"


class OrderState(StrEnum):
    """Name the states of an order; UNKNOWN waits for a terminal's answer and keeps its rights."""

    OPEN = "OPEN"
    HELD = "HELD"
    UNKNOWN = "UNKNOWN"
    PAID = "PAID"
    PARTLY_REFUNDED = "PARTLY_REFUNDED"
    REFUNDED = "REFUNDED"
    CANCELLED = "CANCELLED"


class OrderEvent(StrEnum):
    """Name what happens to an order."""

    HOLD = "hold"
    PAY_SUCCESS = "pay_success"
    PAY_FAILED = "pay_failed"
    CANCEL = "cancel"
    PAY_TIMEOUT = "pay_timeout"
    NO_ANSWER = "no_answer"
    PAID = "paid"
    NOT_PAID = "not_paid"
    REFUND_SOME = "refund_some"
    REFUND_ALL = "refund_all"


class CampaignState(StrEnum):
    """Name the states of a campaign; PAUSED stops claims and use at once."""

    DRAFT = "DRAFT"
    SCHEDULED = "SCHEDULED"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


class CampaignEvent(StrEnum):
    """Name what happens to a campaign."""

    SCHEDULE = "schedule"
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    END = "end"


class IssueState(StrEnum):
    """Name the states of a batch issue; LOADING has not its whole list of members yet."""

    LOADING = "LOADING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class IssueEvent(StrEnum):
    """Name what happens to a batch issue."""

    LOAD = "load"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FINISH = "finish"


class FindingState(StrEnum):
    """Name the states of a finding; DECIDED waits for what was decided to be done."""

    OPEN = "OPEN"
    DECIDED = "DECIDED"
    CLOSED = "CLOSED"


class FindingEvent(StrEnum):
    """Name what happens to a finding; `resolve`: its cause went away by itself, `recur`: that cause is back."""

    DECIDE = "decide"
    CLOSE = "close"
    RESOLVE = "resolve"
    RECUR = "recur"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """List what the code can fire (`events`), decide (`guards`) and names itself (`states`; a table may have more)."""

    states: frozenset[str]
    events: frozenset[str]
    guards: frozenset[str] = frozenset()


VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {
        "coupon": Vocabulary(frozenset(CouponState), frozenset(CouponEvent), frozenset({WINDOW_OVER})),
        "order": Vocabulary(frozenset(OrderState), frozenset(OrderEvent)),
        "campaign": Vocabulary(frozenset(CampaignState), frozenset(CampaignEvent)),
        "issue": Vocabulary(frozenset(IssueState), frozenset(IssueEvent)),
        "finding": Vocabulary(frozenset(FindingState), frozenset(FindingEvent)),
    }
)

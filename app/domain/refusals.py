"""Name every business "no" of Pawtill: a closed set of codes, each a value with its facts.

A refusal is turned into words only at the screen (`resources/translations`), so it carries facts, never sentences.
Source: RULES, "Refusals".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class RefusalCode(StrEnum):
    """List the stable codes; they travel on the wire and are stored, so a name never changes its meaning."""

    UNKNOWN_CODE = "unknown_code"
    UNREADABLE_CODE = "unreadable_code"
    FORGED_CODE = "forged_code"
    NOT_STARTED = "not_started"
    EXPIRED = "expired"
    REVOKED = "revoked"
    CAMPAIGN_PAUSED = "campaign_paused"
    CAMPAIGN_ENDED = "campaign_ended"
    ALREADY_USED = "already_used"
    FROZEN = "frozen"
    WRONG_STORE = "wrong_store"
    WRONG_MEMBER = "wrong_member"
    WRONG_TIER = "wrong_tier"
    WRONG_TIME = "wrong_time"
    BELOW_MINIMUM = "below_minimum"
    NOTHING_ELIGIBLE = "nothing_eligible"
    NOT_STACKABLE = "not_stackable"
    ALREADY_CLAIMED = "already_claimed"
    LIMIT_REACHED = "limit_reached"
    OUT_OF_STOCK = "out_of_stock"
    BUDGET_SPENT = "budget_spent"
    NOT_FIRST_ORDER = "not_first_order"
    NEEDS_MEMBER = "needs_member"
    BUSY = "busy"
    INVALID_QUANTITY = "invalid_quantity"
    INVALID_AMOUNT = "invalid_amount"
    INSUFFICIENT_BALANCE = "insufficient_balance"
    INSUFFICIENT_USES = "insufficient_uses"
    NEEDS_ONLINE = "needs_online"
    LEASED_ELSEWHERE = "leased_elsewhere"
    ILLEGAL_TRANSITION = "illegal_transition"
    NOT_ALLOWED = "not_allowed"
    NEEDS_APPROVAL = "needs_approval"
    NOT_REFUNDABLE = "not_refundable"
    PAYMENT_MISMATCH = "payment_mismatch"
    RATE_LIMITED = "rate_limited"
    INVALID_CAMPAIGN = "invalid_campaign"
    DUPLICATE_MISMATCH = "duplicate_mismatch"
    RISK_SPENT = "risk_spent"
    RISK_LIMIT = "risk_limit"
    WRONG_PIN = "wrong_pin"
    PIN_LOCKED = "pin_locked"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Say no, with the facts that a person needs (which coupon, which order, how much is missing).

    `facts` holds JSON values only: strings, integers, lists of them. Amounts are minor units under names that end in
    `_minor`, instants are ISO 8601 strings in UTC under names that end in `_at`.
    """

    code: RefusalCode
    facts: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return `{"code": str, "facts": {...}}`, the shape on the wire and in the ledger."""
        return {"code": self.code.value, "facts": dict(self.facts)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Refusal":
        """Read what `to_json` wrote; a code that this version does not know raises ValueError."""
        facts = data.get("facts")
        return cls(RefusalCode(str(data["code"])), dict(facts) if isinstance(facts, Mapping) else {})


def refuse(code: RefusalCode, **facts: object) -> Refusal:
    """Make a refusal with its facts as keywords."""
    return Refusal(code, facts)


def unknown(kind: str, name: str) -> Refusal:
    """Refuse a name that nothing here has; `kind` says what it should name (order, member, product, ...)."""
    return refuse(RefusalCode.UNKNOWN_CODE, kind=kind, id=name)

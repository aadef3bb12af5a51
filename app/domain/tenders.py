"""Settle what is left to pay: tenders that add up, rounding of cash, change on cash only.

Source: RULES, "Money and quantity" (cash_rounding) and "Order of evaluation", step 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.money import round_to_step
from app.domain.refusals import Refusal, RefusalCode, refuse


class TenderType(StrEnum):
    """List the ways to pay; `ROUNDING` is the difference that cash rounding makes, never entered by hand."""

    STORED_VALUE = "stored_value"
    CARD = "card"
    WALLET = "wallet"
    CASH = "cash"
    ROUNDING = "rounding"


BY_TERMINAL = frozenset({TenderType.CARD, TenderType.WALLET})
"""What a payment terminal takes; it may give no answer."""


@dataclass(frozen=True, slots=True)
class Tender:
    """Pay `amount_minor` in one way; negative only for `ROUNDING` (the customer paid more than was due)."""

    type: TenderType
    amount_minor: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """Tell what the shop keeps: `tenders` add up to the payable amount exactly; `change_minor` goes back in cash."""

    tenders: tuple[Tender, ...]
    change_minor: int


def cash_due(payable_minor: int, *, others_minor: int = 0, cash_step_minor: int = 0) -> int:
    """Return what is to be paid in cash after the other tenders, rounded to the chain's step (0 = no rounding)."""
    due = max(0, payable_minor - others_minor)
    return round_to_step(due, cash_step_minor) if cash_step_minor else due


def stored_value_reason(amount_minor: int, *, payable_minor: int, member_id: str | None) -> Refusal | None:
    """Return why an order cannot be paid with this much stored value, whatever the balance; None = it can, or is 0."""
    if amount_minor == 0:
        return None
    if amount_minor < 0:
        return refuse(RefusalCode.INVALID_AMOUNT, stored_value_minor=amount_minor)
    if member_id is None:
        return refuse(RefusalCode.NEEDS_MEMBER, tender=TenderType.STORED_VALUE.value)
    if amount_minor > payable_minor:
        return refuse(RefusalCode.PAYMENT_MISMATCH, due_minor=payable_minor, given_minor=amount_minor)
    return None


def settle(payable_minor: int, given: Sequence[Tender], *, cash_step_minor: int = 0) -> Settlement | Refusal:
    """Match what was given against what is due.

    Refuses amounts that are not above 0 (`invalid_amount`), too little, and too much in anything but cash
    (`payment_mismatch`, facts: `due_minor`, `given_minor`).
    """
    if any(t.amount_minor <= 0 or t.type is TenderType.ROUNDING for t in given):
        return refuse(RefusalCode.INVALID_AMOUNT, tenders=[t.type.value for t in given])
    others = tuple(t for t in given if t.type is not TenderType.CASH)
    others_minor = sum(t.amount_minor for t in others)
    cash_given = sum(t.amount_minor for t in given if t.type is TenderType.CASH)
    cash_exact = payable_minor - others_minor
    # Nothing given at all is a payment in cash too: 0.02 rounds to nothing where the smallest coin is 0.05.
    step_minor = 0 if others and not cash_given else cash_step_minor
    due = cash_due(payable_minor, others_minor=others_minor, cash_step_minor=step_minor)
    if cash_exact < 0 or cash_given < due:
        return refuse(RefusalCode.PAYMENT_MISMATCH, due_minor=payable_minor, given_minor=others_minor + cash_given)
    kept = list(others)
    if due:
        kept.append(Tender(TenderType.CASH, due))
    if cash_exact != due:
        kept.append(Tender(TenderType.ROUNDING, cash_exact - due))
    return Settlement(tuple(kept), cash_given - due)

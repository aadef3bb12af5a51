"""A manager in memory, for the till in memory: who may approve, with which PIN, and what was approved."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import Approved, Approver


class Manager:
    """The part of a till that takes a manager's word; the till says what is blocked without one."""

    block: Callable[[], object]
    calls: list[str]
    elsewhere: dict[str, Refusal]

    def __init__(self) -> None:
        self.at_risk: dict[str, int] = {}  # by coupon's id: what it may cost while the line is down
        self.pins = {"meg": "270581"}
        self.managers = (Approver("meg", "梅姐"),)
        self.approved: dict[tuple[str, str], tuple[str, str]] = {}  # by order and coupon: who, why

    def _blocked(self, **facts: object) -> Refusal | None:
        raise NotImplementedError

    def _coupon_blocked(self, coupon_id: str, order_id: str) -> Refusal | None:
        blocked = self.elsewhere.get(coupon_id) or self._blocked(coupon=coupon_id)
        if blocked is None or (order_id, coupon_id) in self.approved:
            return None
        max_minor = self.at_risk.get(coupon_id)
        return blocked if max_minor is None else refuse(RefusalCode.NEEDS_APPROVAL, max_minor=max_minor)

    def approvers(self) -> tuple[Approver, ...]:
        return self.managers

    def approve_risk(self, order_id: str, coupon_id: str, *, by: str, pin: str, reason: str) -> Approved | Refusal:
        self.block()
        self.calls.append(f"approve {coupon_id} by {by}: {reason}")
        if self.pins[by] != pin:
            return refuse(RefusalCode.WRONG_PIN)
        self.approved[order_id, coupon_id] = (by, reason)
        return Approved(coupon_id, by, max_minor=self.at_risk[coupon_id])

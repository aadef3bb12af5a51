"""Say what a server may find that came back from a backup: only what lacked there, and nobody could tell again."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Row

from server.simulation.truth import Truth


class Lacked:
    """Know what a run's backups lacked.

    `coupons` are those in the books in the end, `unbacked` those that were forgotten; `leases` those with a claim in a
    finding instead of the books, `lent` the account of each that a till has.
    """

    def __init__(
        self,
        truth: Truth,
        *,
        coupons: Mapping[str, Row[Any]],
        unbacked: Collection[str],
        leases: Collection[str],
        lent: Mapping[str, str],
    ) -> None:
        self._truth, self._coupons, self._unbacked = truth, coupons, unbacked
        self._leases, self._lent = leases, lent

    def explains(self, found: Row[Any]) -> bool:
        """Tell whether it speaks of what the server alone knew: a hold, a decision over a refund, a coupon, money."""
        if not self._truth.set_backs:
            return False
        detail, truth = found.detail, self._truth
        match found.kind:
            case "quarantined":
                # It waited for what another till would tell, and was judged.
                return bool(found.state == "CLOSED")
            case "no_hold":
                return self._since(detail["order"])
            case "hold_mismatch":
                # Its till had told that the payment had no answer, and so it was known again, without its hold.
                return self._since(detail["order"]) and not any(detail["held"].values())
            case "double_redemption":
                return self._changed_hands(detail["subject"]) or self._got_it(detail["subject"], detail["order"])
            case "home_mismatch":
                # A home that could not be taken over when it was told, or of a coupon that nobody knows any more.
                return found.state == "CLOSED" or detail["coupon"] not in self._coupons
            case "unknown_claim":
                # By a rule, or of a stock, that headquarters had made since.
                return detail["campaign"] in truth.edited
            case "lease_mismatch":
                lease = found.key.partition("/")[0]
                return lease in self._leases or self._is_of_a_new_account(lease)
            case "unknown_refund":
                back = truth.refunds.get(detail["refund"])
                return back is not None and back.decided_by == "server"
            case "invalid_redemption":
                return detail["subject"] not in truth.given_at or detail["subject"] in self._unbacked
            case "overdraft":
                return "lent" in detail or "order" in detail
        return False

    def _since(self, order_id: str) -> bool:
        """Tell whether an order was paid behind a backup."""
        at_ms = self._truth.paid_at_ms.get(order_id)
        return at_ms is not None and any(at_ms >= back.since_ms for back in self._truth.set_backs)

    def _is_of_a_new_account(self, lease: str) -> bool:
        """Tell whether a lease is of a budget or stock that headquarters may have given a campaign since."""
        kind, _, campaign = self._lent.get(lease, "").partition(":")
        return kind in ("budget", "stock") and campaign in self._truth.edited

    def _got_it(self, coupon_id: str, order_id: str) -> bool:
        """Tell whether an order has its coupon in the end: its hold was over in a history that is forgotten."""
        coupon = self._coupons.get(coupon_id)
        return coupon is not None and coupon.order_id == order_id and self._since(order_id)

    def _changed_hands(self, coupon_id: str) -> bool:
        """Tell whether one order had let go of a coupon for the next, and that was forgotten."""
        given_back = any(coupon_id in done.refund.returned for done in self._truth.refunds.values())
        return given_back or any(coupon_id in back.frozen for back in self._truth.set_backs)

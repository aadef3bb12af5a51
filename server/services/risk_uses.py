"""Judge what a till accepted without a right: nobody had used the coupon, or the store has lost its value.

It is never refused: the goods are gone. What was drawn on the risk budget stands spent by then; of a coupon that was
free it goes back, and of one that was not it stays, with a finding that shows both sides (PROTOCOL 1.2, I14).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert

from app.domain.rights import RISK, risk_id
from server.db import schema
from server.services import accounts, evidence, feed_records
from server.services.entries import RiskBody, SaleBody, discounts
from server.services.rights import Excess, Record
from server.services.risk_back import LOSS, give_back
from server.services.verdicts import Told


def taken(sale: SaleBody) -> dict[str, int]:
    """Return what each coupon took off that was accepted without a right; the price says how much, not the till."""
    named = {each["coupon"] for each in _named(sale)}
    off = {coupon_id: minor for _, coupon_id, minor in discounts(sale["quote"]) if coupon_id in named}
    return {name: minor for name, minor in off.items() if minor > 0}


def _named(sale: SaleBody) -> Sequence[RiskBody]:
    return sale["rights"].get("risks", ()) if "rights" in sale else ()


def amounts(sale: SaleBody, told: Told) -> dict[str, int]:
    """Return what the sale draws on its till's risk budget, by account; {} = nothing."""
    total_minor = sum(taken(sale).values())
    return {risk_id(told.till_id): total_minor} if total_minor else {}


def prepare(conn: Connection, told: Told, sale: SaleBody) -> None:
    """Make sure that there is an account to draw on: a till that never had a budget overdraws it, and that is seen."""
    for account_id in amounts(sale, told):
        accounts.open_account(conn, account_id, kind=RISK, total=0, now=told.now)


def book(
    conn: Connection, told: Told, sale: SaleBody, *, excess: Sequence[Excess]
) -> tuple[list[Excess], list[Record]]:
    """Give back what was drawn for coupons that were free; what was lost is named as such in place of its excess.

    Returns the excess anew, and the feed's records that changed.
    """
    drawn = taken(sale)
    if not drawn:
        return list(excess), []
    lost = {each.subject for each in excess if each.lost}
    account_id = risk_id(told.till_id)
    for coupon_id, minor in drawn.items():
        if coupon_id not in lost:
            give_back(conn, account_id, order_id=sale["order"], coupon_id=coupon_id, minor=minor, now=told.now)
    by_coupon = {each["coupon"]: each for each in _named(sale)}
    rows = [
        {
            "order_id": sale["order"],
            "coupon_id": coupon_id,
            "till_id": told.till_id,
            "amount_minor": minor,
            "approval_id": by_coupon[coupon_id]["approval"],
            "approved_by": by_coupon[coupon_id]["by"],
            "reason": by_coupon[coupon_id]["reason"],
            "lost": coupon_id in lost,
            "told_at": told.now,
        }
        for coupon_id, minor in drawn.items()
    ]
    conn.execute(insert(schema.risk_use), rows)
    anew = [replace(each, kind=LOSS) if each.lost and each.subject in drawn else each for each in excess]
    return anew, [(feed_records.RISK, told.till_id)]


def both_sides(conn: Connection, sale: SaleBody, coupon_id: str) -> Mapping[str, Any]:
    """Show both sides of a loss: who accepted it here and why, and who had used it, as far as the books say."""
    here = next(each for each in _named(sale) if each["coupon"] == coupon_id)
    ours = {
        "till": sale["till"],
        "store": sale["store"],
        "operator": sale["operator"],
        "sold_at": sale["at"].isoformat(),
        "approved_by": here["by"],
        "approval": here["approval"],
        "reason": here["reason"],
    }
    return {"accepted": ours, "used": evidence.of_coupon(conn, coupon_id)}

"""State the invariants of what is lent to tills as queries: leases, their accounts, and homes (PROTOCOL 8, I1 to I4).

As in `audit_checks`, each query returns the rows that break its invariant, with their `subject` and the evidence.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, case, exists, func, literal, not_, or_, select

from app.domain.states import CouponState
from server.db.schema import account, coupon, lease, lease_coupon, till, transfer
from server.services import accounts, leases


def lease_checks() -> Iterator[tuple[str, Select[Any]]]:
    """Yield the kind of each violation with the query that finds it."""
    yield "account_leased", _account_lent(account.c.leased, lease.c.stranded_at.is_(None))
    yield "account_stranded", _account_lent(account.c.stranded, lease.c.stranded_at.is_not(None))
    yield "lease_stranded", _lease_stranded()
    yield "lease_used", _lease_used()
    yield "lease_transfers", _lease_transfers()
    yield "lease_coupons", _lease_coupons()
    yield "coupon_home", _coupon_home()


def _account_lent(compartment: Column[Any], which: ColumnElement[bool]) -> Select[Any]:
    """What an account has leased is what its open leases have left, and what it has stranded that of lost tills'."""
    left = (
        select(lease.c.account_id, func.sum(lease.c.qty - lease.c.used).label("amount"))
        .where(lease.c.state == leases.OPEN, which)
        .group_by(lease.c.account_id)
        .subquery()
    )
    amount = func.coalesce(left.c.amount, 0)
    return (
        select(account.c.id.label("subject"), compartment, amount.label("lent"))
        .outerjoin(left, left.c.account_id == account.c.id)
        .where(compartment != amount)
    )


def _lease_stranded() -> Select[Any]:
    """A till that was declared lost has no lease whose rest is not set aside."""
    return (
        select(lease.c.id.label("subject"), lease.c.till_id, lease.c.account_id)
        .join(till, till.c.id == lease.c.till_id)
        .where(lease.c.state == leases.OPEN, lease.c.stranded_at.is_(None), till.c.lost_at.is_not(None))
    )


def _lease_used() -> Select[Any]:
    return select(lease.c.id.label("subject"), lease.c.qty, lease.c.used).where(
        or_(lease.c.used < 0, lease.c.used > lease.c.qty)
    )


def _lease_transfers() -> Select[Any]:
    """A lease was lent once, was used as its transfers say, and has nothing set aside for it once it is over."""

    def amount(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, transfer.c.amount), else_=0)), 0)

    lent = amount(transfer.c.target == accounts.LEASED)
    kept = lent - amount(transfer.c.source == accounts.LEASED)
    aside = amount(transfer.c.target == accounts.STRANDED) - amount(transfer.c.source == accounts.STRANDED)
    spent = amount(transfer.c.target == accounts.SPENT)
    left = case((lease.c.state == leases.OPEN, lease.c.qty - lease.c.used), else_=0)
    is_aside = lease.c.stranded_at.is_not(None)
    return (
        select(
            lease.c.id.label("subject"),
            lease.c.state,
            lease.c.qty,
            lease.c.used,
            lent.label("lent"),
            kept.label("kept"),
            aside.label("aside"),
            spent.label("spent"),
        )
        .outerjoin(transfer, and_(transfer.c.lease_id == lease.c.id, transfer.c.account_id == lease.c.account_id))
        .group_by(lease.c.id, lease.c.state, lease.c.qty, lease.c.used, lease.c.stranded_at)
        .having(
            or_(
                lent != lease.c.qty,
                spent != lease.c.used,
                kept != case((is_aside, 0), else_=left),
                aside != case((is_aside, left), else_=0),
            )
        )
    )


def _lease_coupons() -> Select[Any]:
    """A leased stock has a coupon for each of its units."""
    stock = literal(f"{accounts.STOCK}:")
    minted = func.count(lease_coupon.c.coupon_id)
    return (
        select(lease.c.id.label("subject"), lease.c.qty.label("wanted"), minted.label("found"))
        .outerjoin(lease_coupon, lease_coupon.c.lease_id == lease.c.id)
        .where(func.substr(lease.c.account_id, 1, func.length(stock)) == stock)
        .group_by(lease.c.id, lease.c.qty)
        .having(minted != lease.c.qty)
    )


def _coupon_home() -> Select[Any]:
    """What is at home at a till is ISSUED, and the till exists: only its home may do anything with it."""
    known = exists().where(till.c.id == coupon.c.home)
    return select(coupon.c.id.label("subject"), coupon.c.home, coupon.c.state).where(
        coupon.c.home.is_not(None), or_(coupon.c.state != CouponState.ISSUED, not_(known))
    )

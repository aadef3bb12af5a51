"""State what bounds the risk that tills take without a right (PROTOCOL 8, I14); see `audit_checks`."""

from typing import Any

from sqlalchemy import Select, Subquery, func, literal, select

from server.db.schema import lease, risk_use, transfer
from server.services import accounts

_PREFIX = literal(f"{accounts.RISK}:")


def risk_lost() -> Subquery:
    """Return what each till has lost: what stays spent of its budget."""
    return (
        select((_PREFIX + risk_use.c.till_id).label("account_id"), func.sum(risk_use.c.amount_minor).label("amount"))
        .where(risk_use.c.lost.is_(True))
        .group_by(risk_use.c.till_id)
        .subquery()
    )


def risk_bound() -> Select[Any]:
    """What a till accepted without a right is at most what was leased to it for that, and an overdraft that is seen.

    An overdraft that was paid back since was an overdraft all the same: its transfers count.
    """
    taken = (
        select(risk_use.c.till_id, func.sum(risk_use.c.amount_minor).label("minor"))
        .group_by(risk_use.c.till_id)
        .subquery()
    )
    lent = (
        select(lease.c.account_id, func.sum(lease.c.qty).label("minor"))
        .where(lease.c.account_id.startswith(f"{accounts.RISK}:"))
        .group_by(lease.c.account_id)
        .subquery()
    )
    over = _overdrawn()
    account_id = _PREFIX + taken.c.till_id
    bound = func.coalesce(lent.c.minor, 0) + func.coalesce(over.c.minor, 0)
    return (
        select(taken.c.till_id.label("subject"), taken.c.minor.label("accepted"), bound.label("leased"))
        .select_from(taken)
        .outerjoin(lent, lent.c.account_id == account_id)
        .outerjoin(over, over.c.account_id == account_id)
        .where(taken.c.minor > bound)
    )


def _overdrawn() -> Subquery:
    """Return what was ever drawn beyond what there was, by account: each has its finding."""
    return (
        select(transfer.c.account_id, func.sum(transfer.c.amount).label("minor"))
        .where(transfer.c.source == accounts.OVER)
        .group_by(transfer.c.account_id)
        .subquery()
    )

"""State the invariants as queries: each returns the rows that break it, none in a sound database.

Set by set, so that the database does the work and memory stays flat whatever the chain's size (PROTOCOL 8, I1 to I9,
I13). Every row names its `subject`; its other columns are the evidence.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    Subquery,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    union_all,
)

from app.domain.states import CouponState, OrderState
from server.db.schema import (
    COMPARTMENTS,
    account,
    coupon,
    finding,
    ledger_entry,
    order_tender,
    orders,
    punch_use,
    redemption,
    snapshot,
    transfer,
)
from server.services import accounts
from server.services.audit_grants import grant_checks
from server.services.audit_leases import lease_checks
from server.services.audit_orders import known_bad, order_checks, paid_back
from server.services.audit_risk import risk_bound, risk_lost

LOST_KINDS = ("double_redemption", "invalid_redemption", "risk_loss")
HOLDING = (OrderState.HELD, OrderState.UNKNOWN)


@cache
def checks() -> tuple[tuple[str, Select[Any]], ...]:
    """Return the kind of each violation with the query that finds it; to put them together takes 20 ms, so once."""
    return tuple(_checks())


def _checks() -> Iterator[tuple[str, Select[Any]]]:
    yield "account_equation", _account_equation()
    yield "account_transfers", _account_transfers()
    yield "stock_granted", _stock_granted()
    yield "budget_spent", _spent_differs(accounts.BUDGET, _discounts_given())
    yield "uses_spent", _spent_differs(accounts.USES, _uses_made())
    yield "risk_spent", _spent_differs(accounts.RISK, risk_lost())
    yield "risk_bound", risk_bound()
    yield "value_spent", _spent_differs(accounts.VALUE, _value_paid())
    yield from lease_checks()
    yield "pending_without_hold", _pending_without_hold()
    yield "coupon_frozen", _frozen_without_hold()
    yield "coupon_used", _used_without_redemption()
    yield "redemption_without_coupon", _redemption_without_coupon()
    yield from grant_checks()
    yield "member_limit", _member_limit()
    yield "member_day_limit", _member_day_limit()
    yield from order_checks()
    yield "overdraft_unseen", _overdraft_unseen()
    yield "overdraft_unpaid", _overdraft_unpaid()
    yield "conflict_unseen", _conflict_unseen()


# ------------------------------------------------------------------ accounts


def _account_equation() -> Select[Any]:
    right = sum((account.c[name] for name in COMPARTMENTS), literal(0))
    negative = or_(*(account.c[name] < 0 for name in (*COMPARTMENTS, "total", "over")))
    left = account.c.total + account.c.over
    return select(account.c.id.label("subject"), left.label("left"), right.label("right")).where(
        or_(left != right, negative)
    )


def _account_transfers() -> Select[Any]:
    """Every compartment is the sum of what the transfers moved in, less what they moved out."""
    posted = transfer.c.state == "POSTED"
    sits_in = case((posted, transfer.c.target), else_=accounts.HELD)

    def moved(name: str) -> Label[Any]:
        came = case((sits_in == name, transfer.c.amount), else_=0)
        went = case((transfer.c.source == name, transfer.c.amount), else_=0)
        return func.sum(came - went).label(name)

    def grown(name: str, source: str) -> Label[Any]:
        grew = case((transfer.c.source == source, transfer.c.amount), else_=0)
        shrank = case((sits_in == source, transfer.c.amount), else_=0)
        return func.sum(grew - shrank).label(name)

    sums = (
        select(
            transfer.c.account_id,
            grown("total", accounts.OUTSIDE),
            grown("over", accounts.OVER),
            *map(moved, COMPARTMENTS),
        )
        .where(transfer.c.state != "VOIDED")
        .group_by(transfer.c.account_id)
        .subquery()
    )
    names = ("total", "over", *COMPARTMENTS)
    differs = or_(*(account.c[name] != func.coalesce(sums.c[name], 0) for name in names))
    evidence = [
        column
        for name in names
        for column in (account.c[name].label(name), func.coalesce(sums.c[name], 0).label(f"{name}_moved"))
    ]
    return (
        select(account.c.id.label("subject"), *evidence)
        .outerjoin(sums, sums.c.account_id == account.c.id)
        .where(differs)
    )


def _stock_granted() -> Select[Any]:
    coupons = (
        select(
            (literal(f"{accounts.STOCK}:") + coupon.c.campaign_id).label("account_id"), func.count().label("granted")
        )
        .group_by(coupon.c.campaign_id)
        .subquery()
    )
    granted = func.coalesce(coupons.c.granted, 0)
    return (
        select(account.c.id.label("subject"), account.c.spent, granted.label("coupons"))
        .outerjoin(coupons, coupons.c.account_id == account.c.id)
        .where(account.c.kind == accounts.STOCK, account.c.spent != granted)
    )


def _spent_differs(kind: str, given: Subquery) -> Select[Any]:
    """Compare what accounts of a kind have spent with `given` (`account_id`, `amount`)."""
    amount = func.coalesce(given.c.amount, 0)
    return (
        select(account.c.id.label("subject"), account.c.spent, amount.label("given"))
        .outerjoin(given, given.c.account_id == account.c.id)
        .where(account.c.kind == kind, account.c.spent != amount)
    )


def _discounts_given() -> Subquery:
    return (
        select(
            (literal(f"{accounts.BUDGET}:") + redemption.c.campaign_id).label("account_id"),
            func.sum(redemption.c.discount_minor).label("amount"),
        )
        .where(redemption.c.reversed.is_(False))
        .group_by(redemption.c.campaign_id)
        .subquery()
    )


def _uses_made() -> Subquery:
    return (
        select((literal(f"{accounts.USES}:") + punch_use.c.card_id).label("account_id"), func.count().label("amount"))
        .where(punch_use.c.reversed.is_(False))
        .group_by(punch_use.c.card_id)
        .subquery()
    )


def _value_paid() -> Subquery:
    name = (literal(f"{accounts.VALUE}:") + orders.c.member_id).label("account_id")
    value, back = "stored_value", paid_back()
    paid = (
        select(name, order_tender.c.amount_minor.label("amount"))
        .join(orders, orders.c.id == order_tender.c.order_id)
        .where(order_tender.c.type == value)
    )
    returned = (
        select(name, (-back.c.amount_minor).label("amount"))
        .join(orders, orders.c.id == back.c.order_id)
        .where(back.c.type == value)
    )
    both = union_all(paid, returned).subquery()
    return select(both.c.account_id, func.sum(both.c.amount).label("amount")).group_by(both.c.account_id).subquery()


def _pending_without_hold() -> Select[Any]:
    live = exists().where(
        orders.c.id == transfer.c.order_id, orders.c.attempt == transfer.c.attempt, orders.c.state.in_(HOLDING)
    )
    return select(transfer.c.id.label("subject"), transfer.c.order_id, transfer.c.attempt, transfer.c.amount).where(
        transfer.c.state == "PENDING", not_(live)
    )


# ------------------------------------------------------------------ coupons


def _frozen_without_hold() -> Select[Any]:
    live = exists().where(
        orders.c.id == coupon.c.order_id, orders.c.attempt == coupon.c.attempt, orders.c.state.in_(HOLDING)
    )
    return select(coupon.c.id.label("subject"), coupon.c.order_id, coupon.c.attempt).where(
        coupon.c.state == CouponState.FROZEN, not_(live)
    )


def _used_without_redemption() -> Select[Any]:
    """A used coupon has one live use, in an order that is paid and still has what the coupon discounted."""
    sound = or_(
        orders.c.state.in_((OrderState.PAID, OrderState.PARTLY_REFUNDED)),
        and_(orders.c.state == OrderState.REFUNDED, known_bad(orders.c.id)),
    )
    live = (
        select(func.count())
        .select_from(redemption)
        .join(orders, orders.c.id == redemption.c.order_id)
        .where(
            redemption.c.coupon_id == coupon.c.id,
            redemption.c.order_id == coupon.c.order_id,
            redemption.c.reversed.is_(False),
            redemption.c.conflict.is_(False),
            sound,
        )
        .scalar_subquery()
    )
    return select(coupon.c.id.label("subject"), coupon.c.order_id, live.label("live_uses")).where(
        coupon.c.state == CouponState.USED, live != 1
    )


def _redemption_without_coupon() -> Select[Any]:
    """A live use has its coupon; one without a right leaves none that another order could use beside it."""
    lost = or_(coupon.c.state.is_(None), coupon.c.state != CouponState.USED, coupon.c.order_id != redemption.c.order_id)
    return (
        select(
            redemption.c.coupon_id.label("subject"),
            redemption.c.order_id,
            func.coalesce(coupon.c.state, "unknown").label("state"),
            coupon.c.order_id.label("coupon_order"),
        )
        .outerjoin(coupon, coupon.c.id == redemption.c.coupon_id)
        .where(
            redemption.c.coupon_id.is_not(None),
            redemption.c.reversed.is_(False),
            case(
                (redemption.c.conflict, and_(coupon.c.state == CouponState.ISSUED, coupon.c.home.is_(None))), else_=lost
            ),
        )
    )


def _member_limit() -> Select[Any]:
    """No member has more coupons of a campaign than its most generous version ever allowed."""
    per_member = func.coalesce(snapshot.c.rule["per_member"].as_integer(), 1)
    limits = (
        select(snapshot.c.campaign_id, func.max(per_member).label("allowed"))
        .group_by(snapshot.c.campaign_id)
        .subquery()
    )
    return (
        select(
            (coupon.c.campaign_id + literal("/") + coupon.c.member_id).label("subject"),
            func.count().label("coupons"),
            limits.c.allowed,
        )
        .join(limits, limits.c.campaign_id == coupon.c.campaign_id)
        .group_by(coupon.c.campaign_id, coupon.c.member_id, limits.c.allowed)
        .having(func.count() > limits.c.allowed, not_(_told_over_limit()))
    )


def _told_over_limit() -> ColumnElement[bool]:
    """Tell whether a finding says that the member got too many by several ways: it is surfaced, so no violation."""
    prefix = coupon.c.campaign_id + literal("/") + coupon.c.member_id + literal("/")
    begins = func.substr(finding.c.key, literal_column("1"), func.length(prefix)) == prefix
    return exists().where(finding.c.kind == "member_limit", begins)


def _member_day_limit() -> Select[Any]:
    """Likewise for one day; a campaign that had a version without such a limit has none."""
    per_day = snapshot.c.rule["per_member_per_day"].as_integer()
    limits = (
        select(snapshot.c.campaign_id, func.max(per_day).label("allowed"))
        .group_by(snapshot.c.campaign_id)
        .having(func.count(per_day) == func.count())
        .subquery()
    )
    return (
        select(
            (coupon.c.campaign_id + literal("/") + coupon.c.member_id).label("subject"),
            coupon.c.granted_on,
            func.count().label("coupons"),
            limits.c.allowed,
        )
        .join(limits, limits.c.campaign_id == coupon.c.campaign_id)
        .group_by(coupon.c.campaign_id, coupon.c.member_id, coupon.c.granted_on, limits.c.allowed)
        .having(func.count() > limits.c.allowed, not_(_told_over_limit()))
    )


# ------------------------------------------------------------------ what is wrong is seen


def _overdraft_unseen() -> Select[Any]:
    prefix = account.c.id + literal("/")
    begins = func.substr(finding.c.key, literal_column("1"), func.length(prefix)) == prefix
    seen = exists().where(finding.c.kind == "overdraft", begins)
    return select(account.c.id.label("subject"), account.c.over).where(account.c.over > 0, not_(seen))


def _overdraft_unpaid() -> Select[Any]:
    """What an account has pays its overdraft before anyone may have it."""
    both = and_(account.c.over > 0, account.c.available > 0)
    return select(account.c.id.label("subject"), account.c.over, account.c.available).where(both)


def _conflict_unseen() -> Select[Any]:
    """Every entry that was not in order, and every use without a right, stands in a finding."""
    shown = finding.c.kind + literal(" ") + finding.c.kind + literal(" ") + finding.c.key
    entry = select(
        (ledger_entry.c.till_id + literal("/") + ledger_entry.c.seq.cast(Text)).label("subject"),
        ledger_entry.c.detail,
    ).where(ledger_entry.c.result != "OK", not_(exists().where(shown == ledger_entry.c.detail)))
    named = redemption.c.coupon_id + literal("/") + redemption.c.order_id
    use = select(redemption.c.coupon_id.label("subject"), redemption.c.order_id.label("detail")).where(
        redemption.c.conflict.is_(True),
        not_(exists().where(finding.c.kind.in_(LOST_KINDS), finding.c.key == named)),
    )
    both = union_all(entry, use).subquery()
    return select(both.c.subject, both.c.detail)

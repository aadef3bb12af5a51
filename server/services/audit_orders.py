"""State the invariants of orders and refunds as queries; see `audit_checks`."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    Case,
    Column,
    ColumnElement,
    Select,
    Subquery,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    union_all,
)

from app.domain.states import OrderState
from server.db.portable import json_field, json_rows
from server.db.schema import finding, ledger_entry, order_line, order_tender, orders, punch_use, redemption, refund
from server.services.audit_copies import order_copies

SOLD = (OrderState.PAID, OrderState.PARTLY_REFUNDED, OrderState.REFUNDED)


def order_checks() -> Iterator[tuple[str, Select[Any]]]:
    """Yield the kind of each violation with the query that finds it."""
    yield "hold_deadline", _hold_deadline()
    yield "unsold_parts", _unsold_parts()
    yield "line_net", _line_net()
    yield "order_lines", _order_lines()
    yield "order_tenders", _order_tenders()
    yield "order_discounts", _order_discounts()
    yield "order_copies", order_copies(and_(orders.c.state.in_(SOLD), not_(known_bad(orders.c.id))))
    yield "order_state", _order_state()
    yield "refund_amount", _refund_amount()
    yield "refund_quantity", _refund_quantity()
    yield "refund_tenders", _refund_tenders()
    yield "refund_entry", _refund_entry()


# ------------------------------------------------------------------ orders


def _hold_deadline() -> Select[Any]:
    """A held order has a time at which it ends by itself; no other order has one."""
    return select(orders.c.id.label("subject"), orders.c.state).where(
        (orders.c.state == OrderState.HELD) != orders.c.held_until_at.is_not(None)
    )


def _unsold_parts() -> Select[Any]:
    """What was not paid has no lines, tenders, uses or refunds in the books."""
    parts = (
        select(table.c.order_id.label("subject"), orders.c.state, literal(table.name).label("part"))
        .join(orders, orders.c.id == table.c.order_id)
        .where(orders.c.state.not_in(SOLD))
        for table in (order_line, order_tender, redemption, punch_use, refund)
    )
    found = union_all(*parts).subquery()
    return select(found.c.subject, found.c.state, found.c.part).distinct()


def _line_net() -> Select[Any]:
    net = order_line.c.gross_minor - order_line.c.discount_minor
    return select(_line_name().label("subject"), order_line.c.net_minor, net.label("gross_less_discount")).where(
        or_(order_line.c.net_minor != net, order_line.c.net_minor < 0)
    )


def _line_name() -> ColumnElement[str]:
    return order_line.c.order_id + literal("/") + order_line.c.number.cast(Text)


def known_bad(order_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Tell whether a finding says already that the order's sums are bad: it is surfaced, so no violation."""
    return exists().where(finding.c.kind == "bad_sums", finding.c.key == order_id)


def _sums(table: Any, column: ColumnElement[Any]) -> Subquery:
    return select(table.c.order_id, func.sum(column).label("amount")).group_by(table.c.order_id).subquery()


def _sold_differs(sums: Subquery, wanted: ColumnElement[Any], *more: Subquery) -> Select[Any]:
    statement = select(
        orders.c.id.label("subject"),
        wanted.label("order_minor"),
        func.coalesce(sums.c.amount, 0).label("parts_minor"),
    ).outerjoin(sums, sums.c.order_id == orders.c.id)
    for other in more:
        statement = statement.outerjoin(other, other.c.order_id == orders.c.id)
    return statement.where(
        orders.c.state.in_(SOLD), func.coalesce(sums.c.amount, 0) != wanted, not_(known_bad(orders.c.id))
    )


def _order_lines() -> Select[Any]:
    return _sold_differs(_sums(order_line, order_line.c.net_minor), orders.c.payable_minor)


def _order_tenders() -> Select[Any]:
    return _sold_differs(_sums(order_tender, order_tender.c.amount_minor), orders.c.payable_minor)


def _order_discounts() -> Select[Any]:
    lines = _sums(order_line, order_line.c.discount_minor)
    stages = _sums(redemption, redemption.c.discount_minor)
    return _sold_differs(stages, func.coalesce(lines.c.amount, 0), lines)


def _order_state() -> Select[Any]:
    """PAID has nothing back, REFUNDED everything, PARTLY_REFUNDED something between."""
    back = func.coalesce(func.sum(order_line.c.refunded_milli), 0)
    whole = func.coalesce(func.sum(order_line.c.qty_milli), 0)
    state: Case[Any] = case(
        (back == 0, OrderState.PAID.value),
        (back < whole, OrderState.PARTLY_REFUNDED.value),
        else_=OrderState.REFUNDED.value,
    )
    return (
        select(orders.c.id.label("subject"), orders.c.state, state.label("by_its_lines"))
        .outerjoin(order_line, order_line.c.order_id == orders.c.id)
        .where(orders.c.state.in_(SOLD))
        .group_by(orders.c.id, orders.c.state)
        .having(orders.c.state != state)
    )


# ------------------------------------------------------------------ refunds


def _parts_of(path: str, *fields: Column[Any]) -> Subquery:
    """Open the list at `path` in the bodies of refunds, one row for each element; its fields are named as columns."""
    each = json_rows(refund.c.body, path, name=f"each_{path}")
    columns = [json_field(each.c.value, field.name, field.type).label(field.name) for field in fields]
    return (
        select(refund.c.id.label("refund_id"), refund.c.order_id, *columns)
        .select_from(refund.join(each, true()))
        .subquery()
    )


def paid_back() -> Subquery:
    """Return the tenders of every refund: `refund_id`, `order_id`, `type`, `amount_minor`."""
    return _parts_of("tenders", order_tender.c.type, order_tender.c.amount_minor)


def _refund_amount() -> Select[Any]:
    """What an order gave back is the sum of its refunds, and no more than was paid."""
    sums = _sums(refund, refund.c.amount_minor)
    back = func.coalesce(sums.c.amount, 0)
    return (
        select(orders.c.id.label("subject"), orders.c.refunded_minor, back.label("refunds"), orders.c.payable_minor)
        .outerjoin(sums, sums.c.order_id == orders.c.id)
        .where(or_(orders.c.refunded_minor != back, back > orders.c.payable_minor))
    )


def _refund_quantity() -> Select[Any]:
    parts = _parts_of("lines", order_line.c.number, order_line.c.qty_milli)
    sums = (
        select(parts.c.order_id, parts.c.number, func.sum(parts.c.qty_milli).label("milli"))
        .group_by(parts.c.order_id, parts.c.number)
        .subquery()
    )
    back = func.coalesce(sums.c.milli, 0)
    return (
        select(_line_name().label("subject"), order_line.c.refunded_milli, back.label("refunds_milli"))
        .outerjoin(sums, and_(sums.c.order_id == order_line.c.order_id, sums.c.number == order_line.c.number))
        .where(or_(order_line.c.refunded_milli != back, order_line.c.refunded_milli > order_line.c.qty_milli))
    )


def _refund_tenders() -> Select[Any]:
    """No tender gets back more than it paid; rounding has either sign and is left out."""
    back = paid_back()
    given = (
        select(back.c.order_id, back.c.type, func.sum(back.c.amount_minor).label("back"))
        .where(back.c.type != "rounding")
        .group_by(back.c.order_id, back.c.type)
        .subquery()
    )
    paid = (
        select(order_tender.c.order_id, order_tender.c.type, func.sum(order_tender.c.amount_minor).label("paid"))
        .group_by(order_tender.c.order_id, order_tender.c.type)
        .subquery()
    )
    kept = func.coalesce(paid.c.paid, 0)
    return (
        select(given.c.order_id.label("subject"), given.c.type, given.c.back, kept.label("paid"))
        .outerjoin(paid, and_(paid.c.order_id == given.c.order_id, paid.c.type == given.c.type))
        .where(given.c.back > kept)
    )


def _refund_entry() -> Select[Any]:
    return select(refund.c.id.label("subject"), refund.c.entry_id).where(
        refund.c.entry_id.is_not(None), not_(exists().where(ledger_entry.c.entry_id == refund.c.entry_id))
    )

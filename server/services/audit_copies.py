"""Compare what an order says of itself with its parts: a return is decided by the one, sums are made of the other.

The order's row keeps quote and tenders as they came, in JSON; lines and tenders stand in tables of their own too. Both
were written together and are never written again, so they say the same for ever.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, literal, or_, select, true, union_all

from server.db.portable import json_field, json_rows
from server.db.schema import order_line, order_tender, orders

_LINE = ("sku", "qty_milli", "gross_minor", "discount_minor", "net_minor")


def order_copies(sold: ColumnElement[bool]) -> Select[Any]:
    """Return what differs in the orders that `sold` chooses, named order/line or order/tender."""
    both = union_all(_lines(sold), _tenders(sold)).subquery()
    return select(both.c.subject, both.c.order_says, both.c.table_says)


def _lines(sold: ColumnElement[bool]) -> Select[Any]:
    each = json_rows(orders.c.quote, "lines", name="each_line")
    told = {name: json_field(each.c.value, name, order_line.c[name].type) for name in ("number", *_LINE)}
    same_line = and_(order_line.c.order_id == orders.c.id, order_line.c.number == told["number"])
    differs = or_(order_line.c.number.is_(None), *(order_line.c[name] != told[name] for name in _LINE))
    return _differences(
        orders.join(each, true()).outerjoin(order_line, same_line),
        told["number"],
        says=(told["net_minor"], order_line.c.net_minor),
        where=and_(sold, differs),
    )


def _tenders(sold: ColumnElement[bool]) -> Select[Any]:
    each = json_rows(orders.c.tenders, name="each_tender")
    kind, minor = (json_field(each.c.value, name, order_tender.c[name].type) for name in ("type", "amount_minor"))
    same_tender = and_(order_tender.c.order_id == orders.c.id, order_tender.c.position == each.c.key)
    differs = or_(order_tender.c.type.is_(None), order_tender.c.type != kind, order_tender.c.amount_minor != minor)
    return _differences(
        orders.join(each, true()).outerjoin(order_tender, same_tender),
        kind,
        says=(minor, order_tender.c.amount_minor),
        where=and_(sold, differs),
    )


def _differences(
    source: Any, part: ColumnElement[Any], *, says: tuple[ColumnElement[Any], ColumnElement[Any]], where: Any
) -> Select[Any]:
    return (
        select(
            (orders.c.id + literal("/") + part.cast(Text)).label("subject"),
            says[0].label("order_says"),
            says[1].label("table_says"),
        )
        .select_from(source)
        .where(where)
    )

"""Keep orders and refunds: what is open here, and the projection of what the ledger says of the rest.

A row with an entry says nothing that its entries do not say (`app/store/projections.py` builds it anew from them), but
for whether its receipt was shown. Rows that are OPEN or HELD are work under way and stand in no entry yet.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.store.driver import run, run_each
from app.store.meta import instant, instant_ms

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OrderRow:
    """Hold one order of this till.

    `attempt` counts from 1 and fences. `held`: the server holds, or may hold, rights for it. `content` is the SHA-256
    of what was asked for; `request` the same written out, None once a sale tells what came of it. `lines`, `quote`
    and `tenders` are as `app.domain.quote_json` writes them; `tenders` and `change_minor` are set before the payment
    begins. `payment` is the charge at the terminal, made or under way: `{"id", "type", "amount_minor"}`. `rights` are
    the till's own that it draws on, `{"leases": [{"lease", "amount"}], "coupons": [{"coupon", "version"}]}`, and
    `risks` where it takes any (`app.store.rights`), None where it needs none or the server holds them. `entry_seq` is
    that of its sale.
    """

    id: str
    attempt: int
    state: str
    held: bool = False
    held_until_at: datetime | None = None
    content: bytes = b""
    request: Json | None = None
    member_id: str | None = None
    lines: Sequence[Json] = ()
    quote: Json | None = None
    tenders: Sequence[Json] = ()
    change_minor: int = 0
    payment: Json | None = None
    rights: Json | None = None
    entry_seq: int | None = None
    entry_epoch: int | None = None
    receipt_shown: bool = False
    updated_at: datetime | None = None


_COLUMNS = (
    "id, attempt, state, held, held_until_at, content, request, member_id, lines, quote, tenders, change_minor, "
    "payment, rights, entry_seq, entry_epoch, receipt_shown, updated_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM orders "
_PUT = (
    f"INSERT INTO orders ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS.split(", ")[1:])
)


def dump(data: object) -> str:
    """Write JSON for a column: compact, keys sorted, so that equal data is equal text."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _load(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def load_rights(text: str | None) -> Json:
    """Read the column `rights`, {} where the order draws on nothing of this till's own."""
    return _load(text) or {}


def _row(row: Sequence[Any]) -> OrderRow:
    quote = _load(row[9])
    return OrderRow(
        row[0],
        row[1],
        row[2],
        held=bool(row[3]),
        held_until_at=None if row[4] is None else instant(row[4]),
        content=row[5],
        request=_load(row[6]),
        member_id=row[7],
        lines=_load(row[8]),
        quote=quote or None,
        tenders=_load(row[10]),
        change_minor=row[11],
        payment=_load(row[12]),
        rights=_load(row[13]),
        entry_seq=row[14],
        entry_epoch=row[15],
        receipt_shown=bool(row[16]),
        updated_at=instant(row[17]),
    )


def get(conn: Connection, order_id: str) -> OrderRow | None:
    """Return an order of this till."""
    row = run(conn, _SELECT + "WHERE id = ?", (order_id,)).fetchone()
    return _row(row) if row else None


def put(tx: Connection, order: OrderRow, *, now: datetime) -> None:
    """Write the whole row; `now` becomes its `updated_at`."""
    run(
        tx,
        _PUT,
        (
            order.id,
            order.attempt,
            order.state,
            order.held,
            None if order.held_until_at is None else instant_ms(order.held_until_at),
            order.content,
            None if order.request is None else dump(order.request),
            order.member_id,
            dump(list(order.lines)),
            dump(order.quote or {}),
            dump(list(order.tenders)),
            order.change_minor,
            None if order.payment is None else dump(order.payment),
            None if order.rights is None else dump(order.rights),
            order.entry_seq,
            order.entry_epoch,
            order.receipt_shown,
            instant_ms(now),
        ),
    )


def put_sold(tx: Connection, order: OrderRow, *, now: datetime) -> None:
    """Write what a sale changes of the row; what was asked for, lines and price stand there already."""
    run(
        tx,
        "UPDATE orders SET attempt = ?, state = ?, held = ?, held_until_at = NULL, request = NULL, member_id = ?, "
        "tenders = ?, change_minor = ?, payment = NULL, entry_seq = ?, entry_epoch = ?, receipt_shown = 0, "
        "updated_at = ? WHERE id = ?",
        (
            order.attempt,
            order.state,
            order.held,
            order.member_id,
            dump(list(order.tenders)),
            order.change_minor,
            order.entry_seq,
            order.entry_epoch,
            instant_ms(now),
            order.id,
        ),
    )


def forget(tx: Connection, order_id: str) -> None:
    """Delete an order that was never more than a basket."""
    run(tx, "DELETE FROM orders WHERE id = ?", (order_id,))


def open_ones(conn: Connection) -> list[OrderRow]:
    """Return every order that is OPEN, HELD or UNKNOWN, the oldest first."""
    rows = run(conn, _SELECT + "WHERE state IN ('OPEN', 'HELD', 'UNKNOWN') ORDER BY updated_at, id")
    return [_row(row) for row in rows]


def has_local_order(conn: Connection, member_id: str, *, other_than: str, behind: tuple[int, int]) -> bool:
    """Tell whether this till has an order of the member that the server's copy cannot know of yet.

    Counted are orders being paid, and sales that the server has not acknowledged: `behind` is the epoch, and the number
    that it has acknowledged in it.
    """
    row = run(
        conn,
        "SELECT 1 FROM orders WHERE member_id = ? AND id != ? AND (state IN ('HELD', 'UNKNOWN') OR "
        "(state IN ('PAID', 'PARTLY_REFUNDED') AND entry_epoch = ? AND entry_seq > ?)) LIMIT 1",
        (member_id, other_than, *behind),
    ).fetchone()
    return row is not None


def set_receipt_shown(tx: Connection, order_id: str) -> None:
    """Note that the receipts of an order and of its refunds were shown."""
    run(tx, "UPDATE orders SET receipt_shown = 1 WHERE id = ?", (order_id,))
    run(tx, "UPDATE refund SET receipt_shown = 1 WHERE order_id = ? AND entry_seq IS NOT NULL", (order_id,))


# ------------------------------------------------------------------ refunds


@dataclass(frozen=True, slots=True)
class RefundRow:
    """Hold one refund.

    `request` is what was asked for, `{"lines": [...] or null}`, None once decided. `body` is the decision as
    `write_refund` writes it with `state`, `uses_after` and `decided_by` added, None while the server is asked.
    """

    id: str
    order_id: str
    content: bytes
    request: Json | None = None
    body: Json | None = None
    entry_seq: int | None = None
    entry_epoch: int | None = None
    receipt_shown: bool = False
    updated_at: datetime | None = None


_REFUND_COLUMNS = "id, order_id, content, request, body, entry_seq, entry_epoch, receipt_shown, updated_at"
_REFUND_SELECT = f"SELECT {_REFUND_COLUMNS} FROM refund "
_REFUND_PUT = (
    f"INSERT INTO refund ({_REFUND_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _REFUND_COLUMNS.split(", ")[1:])
)


def _refund_row(row: Sequence[Any]) -> RefundRow:
    return RefundRow(
        row[0],
        row[1],
        row[2],
        request=_load(row[3]),
        body=_load(row[4]),
        entry_seq=row[5],
        entry_epoch=row[6],
        receipt_shown=bool(row[7]),
        updated_at=instant(row[8]),
    )


def get_refund(conn: Connection, request_id: str) -> RefundRow | None:
    """Return a refund by its request."""
    row = run(conn, _REFUND_SELECT + "WHERE id = ?", (request_id,)).fetchone()
    return _refund_row(row) if row else None


def refunds_of(conn: Connection, order_id: str) -> list[RefundRow]:
    """Return the decided refunds of an order, in the order of their entries."""
    rows = run(
        conn,
        _REFUND_SELECT + "WHERE order_id = ? AND entry_seq IS NOT NULL ORDER BY entry_epoch, entry_seq",
        (order_id,),
    )
    return [_refund_row(row) for row in rows]


def unanswered_refunds(conn: Connection) -> list[RefundRow]:
    """Return the refunds that the server was asked about and whose answer is not known."""
    rows = run(conn, _REFUND_SELECT + "WHERE body IS NULL ORDER BY updated_at, id")
    return [_refund_row(row) for row in rows]


def put_refund(tx: Connection, refund: RefundRow, *, now: datetime) -> None:
    """Write the whole row; `now` becomes its `updated_at`."""
    run(
        tx,
        _REFUND_PUT,
        (
            refund.id,
            refund.order_id,
            refund.content,
            None if refund.request is None else dump(refund.request),
            None if refund.body is None else dump(refund.body),
            refund.entry_seq,
            refund.entry_epoch,
            refund.receipt_shown,
            instant_ms(now),
        ),
    )


def forget_refund(tx: Connection, request_id: str) -> None:
    """Delete a request that the server refused: nothing came of it, and the server remembers its answer."""
    run(tx, "DELETE FROM refund WHERE id = ? AND body IS NULL", (request_id,))


def set_states(tx: Connection, states: Iterable[tuple[str, str]], *, now: datetime) -> None:
    """Write new states of orders that are here, given as (order, state)."""
    rows = [(state, instant_ms(now), order_id) for order_id, state in states]
    run_each(tx, "UPDATE orders SET state = ?, updated_at = ? WHERE id = ?", rows)

"""Take goods back. The server decides, from the moment on which this till began to send the sale; before, the till.

`meta.sent_seq` is stored before each push, and both it and the refund's entry are written under the database's one
write lock, so the two cannot pass each other: either the sale was not sent, and the refund stands behind it in the same
ledger, or it was, and the server is asked.

A request to the server is durable before it leaves (`refund.body` NULL), so that a till that died asks again under the
same id and gets the first answer. What a refund here gives back of the till's own rights goes home to the server with
it: coupons, uses and value that were used are never the till's again.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from app.domain.quote_json import read_line, read_quote, read_refund, read_tenders, write_refund
from app.domain.refunds import Refund, RefundLine, SoldOrder, decide_refund
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.states import OrderState
from app.services.api import RefundDone
from app.services.asking import digest, refund_from_json, refund_to_json
from app.services.parts import Parts
from app.services.ports import Busy, Offline, RefundGranted, RefundRequest
from app.services.receipts import refund_receipt
from app.services.recording import append_refund
from app.store import catalog, meta, orders
from app.store.catalog import Chain
from app.store.orders import OrderRow, RefundRow

Lines = tuple[RefundLine, ...] | None


def refund(parts: Parts, request_id: str, order_id: str, *, lines: Lines) -> RefundDone | Refusal:
    """Take goods back; see `Till.refund`."""
    asked = refund_to_json(lines)
    content = digest({"order": order_id, **asked})
    with parts.database.read() as conn:
        before = orders.get_refund(conn, request_id)
    if before is not None and before.content != content:
        return refuse(RefusalCode.DUPLICATE_MISMATCH, request=request_id)
    if before is not None and before.body is not None:
        return _done(parts, before)
    row = RefundRow(request_id, order_id, content, request=asked)
    if before is None:
        decided = _decide_here(parts, row)
        if decided is not None:
            return decided
    return _ask(parts, row)


def resume(parts: Parts) -> tuple[RefundDone, ...]:
    """Ask again about every refund whose answer never came; return those that are decided now."""
    with parts.database.read() as conn:
        waiting = orders.unanswered_refunds(conn)
    answers = (_ask(parts, row) for row in waiting)
    return tuple(answer for answer in answers if isinstance(answer, RefundDone))


# ------------------------------------------------------------------ by this till


def _decide_here(parts: Parts, row: RefundRow) -> RefundDone | Refusal | None:
    """Decide over a sale that was never sent; None = the server decides (or nobody, offline)."""
    now = parts.now()
    with parts.recording() as tx:
        order = orders.get(tx, row.order_id)
        if order is None or order.held or not _is_ours(tx, order):
            return None
        chain = catalog.chain(tx)
        assert chain is not None, "nothing was sold before the first pull"
        decision = decide_refund(
            _sold(tx, order, chain), refund_from_json(row.request or {}), cash_step_minor=chain.cash_step_minor
        )
        if isinstance(decision, Refusal):
            return decision
        state = OrderState.REFUNDED if decision.whole else OrderState.PARTLY_REFUNDED
        done, _ = append_refund(
            tx,
            parts,
            row,
            decision={
                "body": write_refund(decision),
                "state": state.value,
                "uses_after": {},
                "decided_by": "till",
            },
            attempt=order.attempt,
            now=now,
        )
    return _done(parts, done)


def _is_ours(tx: Connection, order: OrderRow) -> bool:
    """Tell whether this till is the arbiter: the sale is in this ledger, and no push of it ever began."""
    if order.entry_seq is None:
        # Not sold: nobody decides over it but the life cycle, and that is the same everywhere.
        return order.state in (OrderState.OPEN, OrderState.HELD, OrderState.UNKNOWN)
    known = meta.load(tx)
    return order.entry_epoch == known.epoch and order.entry_seq > known.sent_seq


def _sold(conn: Connection, order: OrderRow, chain: Chain) -> SoldOrder:
    assert order.quote is not None, "an order was priced before it was paid"
    done = [read_refund(row.body["body"]) for row in orders.refunds_of(conn, order.id) if row.body]
    return SoldOrder(
        order.id,
        order.state,
        tuple(read_line(line) for line in order.lines),
        quote=read_quote(order.quote, chain.currency),
        tenders=read_tenders(order.tenders),
    ).after(done)


# ------------------------------------------------------------------ by the server


def _ask(parts: Parts, row: RefundRow) -> RefundDone | Refusal:
    """Ask the server, with the request on disk before it leaves."""
    cannot = parts.push_first(refund_of=row.order_id)
    if cannot is not None:
        return cannot
    with parts.database.write() as tx:
        orders.put_refund(tx, row, now=parts.now())
    assert row.request is not None, "a request that is not decided says what was asked for"
    question = RefundRequest(row.id, row.order_id, refund_from_json(row.request))
    try:
        answer = parts.head_office.refund(question)
    except Offline:
        # It may be decided: the request stays, and the same id gets the same answer.
        return refuse(RefusalCode.NEEDS_ONLINE, refund_of=row.order_id, request=row.id)
    except Busy as busy:
        return refuse(busy.code, order=row.order_id, retry_after_s=busy.retry_after_s)
    if isinstance(answer, Refusal):
        with parts.database.write() as tx:
            orders.forget_refund(tx, row.id)
        return answer
    return _granted(parts, row, answer)


def _granted(parts: Parts, row: RefundRow, answer: RefundGranted) -> RefundDone:
    decision: dict[str, Any] = {
        "body": dict(answer.refund),
        "state": answer.state,
        "uses_after": dict(answer.uses_after),
        "decided_by": "server",
    }
    with parts.recording() as tx:
        order = orders.get(tx, row.order_id)
        done, _ = append_refund(
            tx, parts, row, decision=decision, attempt=order.attempt if order else 1, now=parts.now()
        )
    parts.push_soon()
    return _done(parts, done)


def _done(parts: Parts, row: RefundRow) -> RefundDone:
    """Show a decided refund, with its receipt."""
    assert row.body is not None and row.entry_seq is not None, "a decided refund has its entry"
    body: Mapping[str, Any] = row.body
    with parts.database.read() as conn:
        entry = parts.database.ledger.entry(conn, row.entry_seq, epoch=row.entry_epoch)
        assert entry is not None, "the ledger has no gaps"
        order = orders.get(conn, row.order_id)
        receipt = refund_receipt(conn, parts, entry, lines=order.lines if order else ())
    given_back: Refund = read_refund(body["body"])
    return RefundDone(
        row.id,
        row.order_id,
        given_back,
        state=body["state"],
        uses_after=dict(body["uses_after"]),
        decided_by=body["decided_by"],
        receipt=receipt,
    )

"""Hold an order with all of its rights or none, and give them back: cancel, no answer, timeout.

The server knows an order from its hold, or from the till's ledger. `attempt` is the fencing token: the till counts the
attempts of its order, so what carries an attempt that is over revives nothing (PROTOCOL, "Holes", 2). What an
attempt holds is moved by `rights`; the row here says in which state the order is and until when it is held.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, insert, or_, select, tuple_, update

from app.domain.facts import CouponFacts, OrderFacts, PromotionFacts
from app.domain.ledger import CARRY
from app.domain.lifecycle import Step
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.quote_json import write_line, write_quote
from app.domain.receipt_number import ReceiptNumber
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import Rights, rights_of
from app.domain.states import CouponEvent, OrderEvent, OrderState
from app.domain.tenders import stored_value_reason
from resources.lifecycles import load
from server.db import schema
from server.services import accounts, feed, feed_records, history, rights, timely
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.facts import Basket, gather
from server.services.idempotency import once
from server.services.rights import Attempt, LostRace, Record

LOOKS = 3
"""How often a hold looks again after a rival was quicker, before it asks the till to come back."""

EMPTY_QUOTE: Mapping[str, Any] = {}
"""The quote of an order that the server knows by name alone: cancelled or unknown before its hold arrived."""

_ORDER = select(schema.orders).where(schema.orders.c.id == bindparam("of"))
_MOVED = update(schema.orders).where(
    schema.orders.c.id == bindparam("of"),
    schema.orders.c.attempt == bindparam("before"),
    schema.orders.c.state == bindparam("from"),
)

_COUPON_EVENT = {
    OrderEvent.CANCEL: CouponEvent.CANCEL,
    OrderEvent.PAY_FAILED: CouponEvent.PAY_FAILED,
    OrderEvent.NOT_PAID: CouponEvent.PAY_FAILED,
    OrderEvent.PAY_TIMEOUT: CouponEvent.PAY_TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Ask for all rights of a basket.

    `attempt` counts from 1 in the life of the order. `stored_value_minor` is what the member pays from stored value.
    `payable_minor` is the amount that the cashier was shown: another one now goes back to the cashier.
    """

    basket: Basket
    attempt: int
    stored_value_minor: int
    payable_minor: int

    def content(self) -> dict[str, Any]:
        """Return what makes two requests the same."""
        basket = self.basket
        return {
            "store": basket.store_id,
            "member": basket.member_id,
            "lines": [[line.number, line.sku, line.qty_milli] for line in basket.lines],
            "use": list(basket.use),
            "cards": [[cover.card_id, cover.line] for cover in basket.covers],
            "promotions": basket.promotions,
            "stored_value_minor": self.stored_value_minor,
            "payable_minor": self.payable_minor,
        }


def hold(conn: Connection, context: Context, asked: HoldRequest) -> Answer:
    """Hold the order: `{"outcome": "ok", "attempt", "held_until_at", "quote"}`, or the first reason against it.

    The same attempt with the same content gets the first answer. Refuses an attempt that is not newer than what is
    known of the order, or an order that is under way (`illegal_transition`); whatever `price` refuses, in the order of
    `use`; another amount than the one shown (`payment_mismatch`, facts `shown_minor`, `now_minor`); stored value that
    is not there. A refused hold leaves the order as it was.
    """
    request_id = f"hold:{asked.basket.order_id}:{asked.attempt}"
    content = {"till": context.actor.till_id, **asked.content()}
    return once(conn, request_id, content, decide=lambda: _hold(conn, context, asked), now=context.now)


def _hold(conn: Connection, context: Context, asked: HoldRequest) -> Answer:
    if (later := context.not_now()) is not None:
        return refused(later)
    _end_earlier(conn, context, asked)
    for _ in range(LOOKS):
        plan = plan_hold(conn, context, asked)
        if isinstance(plan, Refusal):
            return refused(plan)
        savepoint = conn.begin_nested()
        try:
            record_hold(conn, plan)
        except LostRace:
            savepoint.rollback()
        else:
            savepoint.commit()
            written = write_quote(plan.quote, context.chain.currency)
            return ok(attempt=asked.attempt, held_until_at=plan.held_until_at.isoformat(), quote=written)
    return refused(refuse(RefusalCode.BUSY, retry_after_s=1))


def _end_earlier(conn: Connection, context: Context, asked: HoldRequest) -> None:
    """Cancel an attempt that its own till has given up: else it had not begun another."""
    row = find(conn, asked.basket.order_id)
    if row is None or row.state != OrderState.HELD or row.till_id != context.actor.till_id:
        return
    step = load("order").step(row.state, OrderEvent.CANCEL)
    if asked.attempt > row.attempt and isinstance(step, Step):
        attempt = Attempt(row.id, row.attempt, context.now, till_id=context.actor.till_id)
        end(conn, attempt, row, step=step, reason=f"attempt {asked.attempt} began")


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """Hold what was decided and is to be recorded; `before` is the attempt of the CANCELLED row, None = no row yet."""

    attempt: Attempt
    step: Step
    before: int | None
    quote: Quote
    rights: Rights
    values: Mapping[str, Any]
    held_until_at: datetime


def plan_hold(conn: Connection, context: Context, asked: HoldRequest) -> HoldPlan | Refusal:
    """Gather and decide; write nothing but the history of a refused move."""
    basket = asked.basket
    attempt = Attempt(basket.order_id, asked.attempt, context.now, till_id=context.actor.till_id)
    row = find(conn, basket.order_id)
    step = _may_hold(conn, attempt, row)
    if isinstance(step, Refusal):
        return step
    facts = gather(conn, context, basket)
    if isinstance(facts, Refusal):
        return facts
    quote = price(facts)
    reason = quote.first_refusal(basket.use, basket.covers) or _payment_reason(conn, asked, quote)
    if reason is not None:
        return reason
    held_until_at = context.now + context.chain.lock_timeout
    return HoldPlan(
        attempt=attempt,
        step=step,
        before=None if row is None else row.attempt,
        quote=quote,
        rights=_rights(facts, quote, asked),
        values={
            "attempt": asked.attempt,
            "state": step.to,
            "store_id": basket.store_id,
            "till_id": context.actor.till_id or "",
            "member_id": quote.member_id,
            "lines": [write_line(line) for line in facts.lines],
            "quote": write_quote(quote, context.chain.currency),
            "payable_minor": quote.payable_minor,
            "held_until_at": held_until_at,
            "received_at": context.now,
        },
        held_until_at=held_until_at,
    )


def record_hold(conn: Connection, plan: HoldPlan) -> None:
    """Write the order and take its rights; raises LostRace when a rival was quicker, and the savepoint undoes all."""
    attempt, orders = plan.attempt, schema.orders
    if plan.before is None:
        conn.execute(insert(orders).values(id=attempt.order_id, **plan.values))
    else:
        move(conn, attempt.order_id, plan.before, step=plan.step, values=plan.values)
    touched = rights.freeze(conn, attempt, plan.rights)
    timely.announce(conn, timely.HOLD_TIMEOUTS, [plan.held_until_at], now=attempt.now)
    history.record(conn, [attempt.event(history.ORDER, attempt.order_id, plan.step)], attempt.now)
    feed.touch(conn, [*touched, *member_records(plan.quote.member_id)])


def cancel(conn: Connection, attempt: Attempt, *, reason: str) -> Answer:
    """Give an attempt back at once: `{"outcome": "ok", "state": "CANCELLED"}`, or `illegal_transition`.

    `reason` is `cancelled`, `pay_failed`, `no_answer` or `interrupted`. An order that the server has not seen becomes
    a CANCELLED tombstone, so that its hold, should it come late, is refused. An attempt that is over changes nothing.
    """
    row = find(conn, attempt.order_id)
    if row is None:
        _remember(conn, attempt, state=OrderState.CANCELLED, reason=reason)
        return ok(state=OrderState.CANCELLED)
    if attempt.number < row.attempt:
        return ok(state=row.state)
    if row.state == OrderState.CANCELLED:
        if attempt.number > row.attempt:
            _fence(conn, attempt, row.attempt)
        return ok(state=row.state)
    if row.till_id != (attempt.till_id or row.till_id):
        return refused(_illegal(conn, attempt, row.state, event=OrderEvent.CANCEL, why="another till holds it"))
    event = _cancel_event(row.state, reason)
    step = load("order").step(row.state, event)
    if isinstance(step, Refusal) or (row.state == OrderState.UNKNOWN and attempt.number > row.attempt):
        return refused(_illegal(conn, attempt, row.state, event=event, why=reason))
    end(conn, attempt, row, step=step, reason=reason)
    return ok(state=step.to)


def end(conn: Connection, attempt: Attempt, row: Row[Any], *, step: Step, reason: str) -> None:
    """Take a held order to CANCELLED and thaw what its live attempt holds.

    `attempt` may be newer than the live one: its till has given the live one up, else it had not gone on.
    """
    live = Attempt(
        attempt.order_id,
        row.attempt,
        attempt.now,
        till_id=attempt.till_id,
        till_at=attempt.till_at,
        operator=attempt.operator,
    )
    values = {"attempt": attempt.number, "held_until_at": None}
    move(conn, row.id, row.attempt, step=step, values=values)
    touched = rights.thaw(conn, live, _COUPON_EVENT[OrderEvent(step.event)])
    history.record(conn, [attempt.event(history.ORDER, row.id, step, reason=reason)], attempt.now)
    feed.touch(conn, [*touched, *member_records(row.member_id)])


def payment_unknown(conn: Connection, attempt: Attempt) -> Answer:
    """Keep an order whose payment got no answer: it holds its rights, whatever the clock says, until it is resolved."""
    row = find(conn, attempt.order_id)
    if row is None:
        _remember(conn, attempt, state=OrderState.UNKNOWN, reason="no answer from the terminal")
        return ok(state=OrderState.UNKNOWN)
    if attempt.number < row.attempt or (row.state == OrderState.UNKNOWN and attempt.number == row.attempt):
        return ok(state=row.state)
    if row.state == OrderState.CANCELLED and attempt.number > row.attempt:
        step = Step(row.state, OrderEvent.NO_ANSWER, OrderState.UNKNOWN)
    else:
        found = load("order").step(row.state, OrderEvent.NO_ANSWER)
        if isinstance(found, Refusal) or row.attempt != attempt.number or row.till_id != attempt.till_id:
            return refused(_illegal(conn, attempt, row.state, event=OrderEvent.NO_ANSWER, why="payment unknown"))
        step = found
    move(conn, row.id, row.attempt, step=step, values={"attempt": attempt.number, "held_until_at": None})
    history.record(conn, [attempt.event(history.ORDER, row.id, step)], attempt.now)
    feed.touch(conn, member_records(row.member_id))
    return ok(state=step.to)


def show(conn: Connection, order_id: str) -> Answer:
    """Show an order with everything that was sold and what came back of it, in the shapes of the ledger's bodies.

    The number of its receipt will do. Refuses an order that the server has never heard of (`unknown_code`). `quote` is
    empty where only its name is known.
    """
    row = find(conn, order_id) or _of_receipt(conn, order_id)
    if row is None:
        return refused(unknown("order", order_id))
    refund = schema.refund
    bodies = conn.execute(
        select(refund.c.body).where(refund.c.order_id == row.id).order_by(refund.c.decided_at, refund.c.id)
    ).scalars()
    return ok(
        order=row.id,
        state=row.state,
        attempt=row.attempt,
        store=row.store_id,
        till=row.till_id,
        member=row.member_id,
        operator=row.operator,
        lines=row.lines,
        quote=row.quote,
        tenders=row.tenders,
        payable_minor=row.payable_minor,
        refunded_minor=row.refunded_minor,
        held_until_at=row.held_until_at.isoformat() if row.held_until_at else None,
        sold_at=row.sold_at.isoformat() if row.sold_at else None,
        refunds=list(bodies),
    )


def _of_receipt(conn: Connection, text: str) -> Row[Any] | None:
    """Find an order by the number of its receipt, which names the entry of its sale; None for any other text."""
    number = ReceiptNumber.read(text)
    if number is None:
        return None
    entry, till = schema.ledger_entry, schema.till
    row = conn.execute(
        select(entry.c.kind, entry.c.body)
        .join(till, till.c.id == entry.c.till_id)
        .where(func.lower(till.c.id) == number.till_id.lower(), _stands_at(number))
    ).first()
    order_id = None if row is None else _order_of(row.kind, row.body)
    return find(conn, order_id) if order_id is not None else None


def _stands_at(number: ReceiptNumber) -> ColumnElement[bool]:
    """Choose the entry of this number, or the one that carried it into a later epoch."""
    entry, carried = schema.ledger_entry, schema.carried_entry
    brought = select(carried.c.in_epoch, carried.c.in_seq).where(
        carried.c.till_id == entry.c.till_id, carried.c.epoch == number.epoch, carried.c.seq == number.seq
    )
    here = and_(entry.c.epoch == number.epoch, entry.c.seq == number.seq)
    return or_(here, tuple_(entry.c.epoch, entry.c.seq).in_(brought))


def _order_of(kind: str, body: bytes) -> str | None:
    try:
        data = json.loads(body)
        order_id = (json.loads(base64.b64decode(data["body"])) if kind == CARRY else data)["order"]
    except (ValueError, TypeError, KeyError):
        return None
    return order_id if isinstance(order_id, str) else None


def time_out(conn: Connection, context: Context, *, limit: int = 200) -> int:
    """Cancel up to `limit` orders that are HELD beyond their time; returns how many. UNKNOWN waits for an answer.

    None while a till may have to tell again that it was paid (`services/restoring.py`).
    """
    if context.waits:
        return 0
    orders, now = schema.orders, context.now
    due = conn.execute(
        select(orders)
        .where(orders.c.state == OrderState.HELD, orders.c.held_until_at <= now)
        .order_by(orders.c.held_until_at, orders.c.id)
        .limit(limit)
    ).all()
    for row in due:
        step = load("order").step(row.state, OrderEvent.PAY_TIMEOUT)
        assert isinstance(step, Step), "the table lets a held order time out"
        end(conn, Attempt(row.id, row.attempt, now), row, step=step, reason="not paid in time")
    return len(due)


def find(conn: Connection, order_id: str) -> Row[Any] | None:
    """Return the order's row, None where the server has never heard of it."""
    return conn.execute(_ORDER, {"of": order_id}).one_or_none()


def move(conn: Connection, order_id: str, attempt: int, *, step: Step, values: Mapping[str, Any]) -> None:
    """Write one step of an order if it still stands where the step begins, in that attempt; else raise LostRace."""
    place = {"of": order_id, "before": attempt, "from": step.frm}
    moved = conn.execute(_MOVED, {**place, **values, "state": step.to})
    if moved.rowcount != 1:
        raise LostRace(f"order {order_id} moved meanwhile")


def member_records(member_id: str | None) -> list[Record]:
    """Return the feed record of the member on an order: "has ordered" may have changed."""
    return [] if member_id is None else [(feed_records.MEMBER, member_id)]


def _may_hold(conn: Connection, attempt: Attempt, row: Row[Any] | None) -> Step | Refusal:
    """Look the step up; an attempt that is over, or an order under way, refuses it, and that is remembered."""
    if row is None:
        step = load("order").step(OrderState.OPEN, OrderEvent.HOLD)
    elif attempt.number <= row.attempt:
        return _illegal(conn, attempt, row.state, event=OrderEvent.HOLD, why=f"attempt {row.attempt} is known")
    else:
        step = load("order").step(row.state, OrderEvent.HOLD)
    if isinstance(step, Refusal):
        return _illegal(conn, attempt, row.state if row else OrderState.OPEN, event=OrderEvent.HOLD, why="")
    return step


def _payment_reason(conn: Connection, asked: HoldRequest, quote: Quote) -> Refusal | None:
    if quote.payable_minor != asked.payable_minor:
        return refuse(RefusalCode.PAYMENT_MISMATCH, shown_minor=asked.payable_minor, now_minor=quote.payable_minor)
    value_minor = asked.stored_value_minor
    reason = stored_value_reason(value_minor, payable_minor=quote.payable_minor, member_id=quote.member_id)
    if reason is not None or quote.member_id is None or not value_minor:
        return reason
    account_id = accounts.value_id(quote.member_id)
    found = accounts.read(conn, [account_id]).get(account_id)
    if found is None or found.available < value_minor:
        return refuse(
            RefusalCode.INSUFFICIENT_BALANCE,
            member=quote.member_id,
            balance_minor=found.available if found else 0,
            asked_minor=value_minor,
        )
    return None


def _rights(facts: OrderFacts, quote: Quote, asked: HoldRequest) -> Rights:
    sources: list[CouponFacts | PromotionFacts] = [*facts.coupons, *facts.promotions]
    return rights_of(
        [(stage.campaign_id, stage.coupon_id, stage.discount_minor) for stage in quote.laid],
        cards=[cover.card_id for cover in quote.covers],
        value=(quote.member_id, asked.stored_value_minor),
        budgeted=[source.campaign_id for source in sources if source.budget_left_minor is not None],
    )


def _cancel_event(state: str, reason: str) -> OrderEvent:
    if state == OrderState.UNKNOWN:
        return OrderEvent.NOT_PAID
    return OrderEvent.PAY_FAILED if reason == "pay_failed" else OrderEvent.CANCEL


def _illegal(conn: Connection, attempt: Attempt, state: str, *, event: str, why: str) -> Refusal:
    """Refuse a step and remember that it was refused (REQUIREMENTS B2)."""
    refusal = refuse(
        RefusalCode.ILLEGAL_TRANSITION,
        order=attempt.order_id,
        state=str(state),
        event=str(event),
        attempt=attempt.number,
    )
    remember_refused(conn, attempt, state, event=event, why=why)
    return refusal


def remember_refused(conn: Connection, attempt: Attempt, state: str, *, event: str, why: str) -> None:
    """Write a move that was refused into the order's history."""
    told = history.Event(
        history.ORDER,
        attempt.order_id,
        event=event,
        from_state=state,
        to_state=None,
        reason=why,
        till_at=attempt.till_at,
        till_id=attempt.till_id,
        operator=attempt.operator,
    )
    history.record(conn, [told], attempt.now)


def _remember(conn: Connection, attempt: Attempt, *, state: OrderState, reason: str) -> None:
    """Write an order that the server knows by name alone, so that what comes late finds it."""
    conn.execute(
        insert(schema.orders).values(
            id=attempt.order_id,
            attempt=attempt.number,
            state=state,
            store_id="",
            till_id=attempt.till_id or "",
            lines=[],
            quote=dict(EMPTY_QUOTE),
            payable_minor=0,
            received_at=attempt.now,
        )
    )
    event = OrderEvent.CANCEL if state is OrderState.CANCELLED else OrderEvent.NO_ANSWER
    step = Step(OrderState.OPEN, event, state)
    history.record(conn, [attempt.event(history.ORDER, attempt.order_id, step, reason=reason)], attempt.now)


def _fence(conn: Connection, attempt: Attempt, before: int) -> None:
    """Raise the attempt of a CANCELLED order to one that was given up before its hold arrived."""
    step = load("order").step(OrderState.CANCELLED, OrderEvent.CANCEL)
    assert isinstance(step, Step), "cancelling a cancelled order is fine"
    move(conn, attempt.order_id, before, step=step, values={"attempt": attempt.number})

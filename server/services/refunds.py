"""Decide refunds and give everything back: coupons, card uses, stored value, budgets (RULES, "Refunds").

The server decides over every order that it knows; a till decides alone only over a sale that it never sent, and tells.
Between the two stands what a till has told of and not sent yet: among it may be a refund of a sale that is here already
(a batch ended between them), so until it is here, nobody else gets that sale refunded.
Both ways end in `_record`: one transaction, every write conditional on what the decision saw.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, insert, or_, select, update

from app.domain.basket import Cover
from app.domain.lifecycle import Step
from app.domain.quote_json import read_line, read_quote, read_refund, read_tenders, write_refund
from app.domain.refunds import Refund, RefundLine, SoldOrder, covers_back, decide_refund
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import CouponEvent, OrderEvent, OrderState
from app.domain.tenders import Tender, TenderType
from resources.lifecycles import load
from server.db import schema
from server.services import accounts, evidence, feed, history, orders, rights
from server.services.answers import Answer, ok, refused
from server.services.context import Chain, Context
from server.services.entries import RefundBody
from server.services.idempotency import once
from server.services.rights import Attempt, LostRace, Record
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

RETRY_AFTER_S = 5
"""When to ask again for a refund that another till may have decided; a till that is online syncs this often."""
_SHRUNK = (
    update(schema.orders)
    .where(
        schema.orders.c.id == bindparam("of"),
        schema.orders.c.state == bindparam("from"),
        schema.orders.c.refunded_minor == bindparam("before"),
    )
    .values(state=bindparam("to"), refunded_minor=schema.orders.c.refunded_minor + bindparam("amount"))
)
_LINE_SHRUNK = (
    update(schema.order_line)
    .where(
        schema.order_line.c.order_id == bindparam("of"),
        schema.order_line.c.number == bindparam("line"),
        schema.order_line.c.refunded_milli + bindparam("qty") <= schema.order_line.c.qty_milli,
    )
    .values(refunded_milli=schema.order_line.c.refunded_milli + bindparam("qty"))
)


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """Ask for a return; `lines` None = all that is left of the order. `request_id` makes a repeat known."""

    request_id: str
    order_id: str
    lines: tuple[RefundLine, ...] | None


def refund(conn: Connection, context: Context, asked: RefundRequest) -> Answer:
    """Decide and give back: `{"outcome": "ok", "refund", "state", "uses_after"}`, or the reason against it.

    `refund` is `quote_json.write_refund`; `uses_after` is what each card has after it. The same request gets the first
    answer. Refuses an order that the server does not know (`unknown_code`) or that is not paid (`illegal_transition`),
    and what `decide_refund` refuses; `busy` (facts `till`) while the till that sold it may have decided already.
    """
    lines = None if asked.lines is None else [[line.number, line.qty_milli] for line in asked.lines]
    content = {"order": asked.order_id, "lines": lines}
    return once(
        conn,
        f"refund:{asked.request_id}",
        content,
        decide=lambda: _refund(conn, context, asked),
        now=context.now,
    )


def _refund(conn: Connection, context: Context, asked: RefundRequest) -> Answer:
    if (later := context.not_now()) is not None:
        return refused(later)
    row = orders.find(conn, asked.order_id)
    if row is None:
        return refused(unknown("order", asked.order_id))
    if row.till_id != context.actor.till_id and _may_be_decided(conn, row):
        return refused(refuse(RefusalCode.BUSY, till=row.till_id, retry_after_s=RETRY_AFTER_S))
    attempt = Attempt(row.id, row.attempt, context.now, till_id=context.actor.till_id)
    decided = _decide(conn, context.chain, row, lines=asked.lines)
    if isinstance(decided, Refusal):
        orders.remember_refused(conn, attempt, row.state, event="refund", why=decided.code.value)
        return refused(decided)
    origin = _Origin(asked.request_id, "server", context.now)
    state = _record(conn, attempt, row, decided=decided, origin=origin)
    cards = accounts.read(conn, map(accounts.uses_id, decided.refund.uses))
    uses_after = {account_id.partition(":")[2]: card.standing for account_id, card in cards.items()}
    return ok(refund=write_refund(decided.refund), state=state, uses_after=uses_after)


def _may_be_decided(conn: Connection, row: Row[Any]) -> bool:
    """Tell whether the till that sold the order has told of entries beyond those that are here.

    An order that the server held its till never decides over alone; one paid with the till's own rights it may.
    """
    till = schema.till
    ends = conn.execute(select(till.c.acked_seq, till.c.tail_seq).where(till.c.id == row.till_id)).one_or_none()
    return ends is not None and ends.tail_seq > ends.acked_seq and bool(row.quote) and not _was_held(conn, row)


def _was_held(conn: Connection, row: Row[Any]) -> bool:
    event = schema.history
    paid = select(event.c.id).where(
        event.c.subject == history.ORDER,
        event.c.subject_id == row.id,
        event.c.from_state == OrderState.HELD,
        event.c.to_state == OrderState.PAID,
    )
    return conn.execute(paid.limit(1)).first() is not None


def judge_refund(conn: Connection, chain: Chain, told: Told, *, body: RefundBody) -> Verdict:
    """Take a refund entry in: link it to the server's decision, or decide after the till and compare."""
    known = conn.execute(select(schema.refund).where(schema.refund.c.id == body["refund"])).one_or_none()
    if known is not None:
        return _link(conn, told, body, known=known)
    row = orders.find(conn, body["order"])
    if row is None:
        return _mismatch(conn, told, body, why="the order is not known")
    if body["decided_by"] == "till" and row.till_id != told.till_id:
        # What it decided over is its own sale under that id, which stands in a finding, and not this one.
        return _mismatch(conn, told, body, why="another till sold the order")
    lines = tuple(RefundLine(line["number"], line["qty_milli"]) for line in body["body"]["lines"])
    decided = _decide(conn, chain, row, lines=lines)
    if isinstance(decided, Refusal):
        return _mismatch(conn, told, body, why=f"refused: {decided.code.value}")
    theirs = replace(read_refund(body["body"]), returned=decided.refund.returned)
    if not _same(theirs, decided.refund) and not _by_other_coins(conn, row, theirs=theirs, ours=decided.refund):
        return _mismatch(conn, told, body, why="the server decides otherwise")
    decided = replace(decided, refund=theirs)
    origin = _Origin(body["refund"], body["decided_by"], told.now, entry_id=told.entry_id, paid_at=body["at"])
    _record(conn, told.attempt(body), row, decided=decided, origin=origin)
    if body["decided_by"] == "till":
        return IN_ORDER
    detail = {"order": row.id, "refund": body["refund"]}
    return conflict(
        conn,
        told,
        "unknown_refund",
        key=body["refund"],
        amount_minor=decided.refund.amount_minor,
        detail={**detail, "why": "the server has no such decision of its own", "here": evidence.of_order(row)},
    )


def _same(theirs: Refund, ours: Refund) -> bool:
    return write_refund(theirs) == write_refund(ours)


def _by_other_coins(conn: Connection, row: Row[Any], *, theirs: Refund, ours: Refund) -> bool:
    """Tell whether the till decided as we do, but for the coins: it did not know yet that the chain has others now.

    What it paid out in cash is then a fact, as long as it is no more than the cash that was paid.
    """
    if not _same(replace(theirs, tenders=ours.tenders), ours):
        return False
    earlier = conn.execute(select(schema.refund.c.body).where(schema.refund.c.order_id == row.id)).scalars()
    gone = sum(_cash(read_refund(body).tenders) for body in earlier)
    others = [[tender for tender in refund.tenders if tender.type not in _COINS] for refund in (theirs, ours)]
    adds_up = sum(tender.amount_minor for tender in theirs.tenders) == ours.amount_minor
    return others[0] == others[1] and adds_up and 0 <= _cash(theirs.tenders) <= _cash(read_tenders(row.tenders)) - gone


_COINS = frozenset({TenderType.CASH, TenderType.ROUNDING})


def _cash(tenders: Iterable[Tender]) -> int:
    return sum(tender.amount_minor for tender in tenders if tender.type is TenderType.CASH)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Say where a refund comes from: its request, who decided it when, and the entry that told it (None = not yet).

    `paid_at` is the till's clock in that entry.
    """

    request_id: str
    decided_by: str
    decided_at: datetime
    entry_id: str | None = None
    paid_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Decided:
    """Hold a decision: what is given back, and the coupons whose use in this order is over, `returned` or not.

    `covers` are the punch-card uses that come back, each with its number (`refunds.covers_back`).
    """

    refund: Refund
    coupons_over: tuple[str, ...]
    covers: Sequence[tuple[Cover, int]]


def _decide(conn: Connection, chain: Chain, row: Row[Any], *, lines: Sequence[RefundLine] | None) -> _Decided | Refusal:
    """Decide from the books; a coupon whose use was in conflict was not this order's, so it is not given back."""
    sold = _sold(conn, chain, row)
    if isinstance(sold, Refusal):
        return sold
    decided = decide_refund(sold, lines, cash_step_minor=chain.cash_step_minor)
    if isinstance(decided, Refusal):
        return decided
    redemption, named = schema.redemption, decided.returned
    rows = conn.execute(
        select(redemption.c.coupon_id).where(
            redemption.c.order_id == row.id,
            redemption.c.coupon_id.in_(named),
            redemption.c.conflict.is_(False),
            redemption.c.reversed.is_(False),
        )
    )
    live = set(rows.scalars())
    return _Decided(
        replace(decided, returned=tuple(name for name in named if name in live)),
        coupons_over=named,
        covers=covers_back(sold, {line.number: line.qty_milli for line in decided.lines}),
    )


def _sold(conn: Connection, chain: Chain, row: Row[Any]) -> SoldOrder | Refusal:
    if not row.quote:
        # Known by name alone (a tombstone): there is nothing in it, and its state refuses any refund.
        empty = read_quote(
            {"lines": [], "laid": [], "covers": [], "refused": {}, "skipped": {}, "member": None}, chain.currency
        )
        return SoldOrder(row.id, row.state, (), empty, ())
    earlier = conn.execute(select(schema.refund.c.body).where(schema.refund.c.order_id == row.id)).scalars()
    try:
        quote = read_quote(row.quote, chain.currency)
    except (KeyError, TypeError, ValueError):
        # It was sold by a rule of a later version, say; it is in the books as it came, and a person decides.
        return refuse(RefusalCode.NOT_REFUNDABLE, order=row.id, reason="unreadable")
    sold = SoldOrder(
        row.id, row.state, tuple(map(read_line, row.lines)), quote=quote, tenders=read_tenders(row.tenders)
    )
    return sold.after([read_refund(body) for body in earlier])


def _record(conn: Connection, attempt: Attempt, row: Row[Any], *, decided: _Decided, origin: _Origin) -> str:
    """Write a refund and give back what it names; returns the order's state. Raises LostRace for a quicker rival."""
    refund = decided.refund
    step = load("order").step(row.state, OrderEvent.REFUND_ALL if refund.whole else OrderEvent.REFUND_SOME)
    assert isinstance(step, Step), "what decide_refund allows, the table allows"
    conn.execute(
        insert(schema.refund).values(
            id=origin.request_id,
            order_id=row.id,
            till_id=attempt.till_id or "",
            amount_minor=refund.amount_minor,
            body=write_refund(refund),
            decided_by=origin.decided_by,
            decided_at=origin.decided_at,
            entry_id=origin.entry_id,
            paid_at=origin.paid_at,
        )
    )
    _shrink(conn, row, step=step, refund=refund)
    touched = [
        *_return_coupons(conn, attempt, decided),
        *_return_uses(conn, attempt, decided, request_id=origin.request_id),
        *_return_amounts(conn, attempt, row, refund=refund, request_id=origin.request_id),
        *orders.member_records(row.member_id),
    ]
    told = [attempt.event(history.ORDER, row.id, step, reason=f"refund {origin.request_id}")]
    history.record(conn, told, attempt.now)
    feed.touch(conn, touched)
    return step.to


def _shrink(conn: Connection, row: Row[Any], *, step: Step, refund: Refund) -> None:
    """Take what returns off the order and its lines, if they still stand as the decision saw them."""
    place = {"of": row.id, "from": step.frm, "before": row.refunded_minor}
    moved = conn.execute(_SHRUNK, {**place, "to": step.to, "amount": refund.amount_minor})
    if moved.rowcount != 1:
        raise LostRace(f"order {row.id} moved meanwhile")
    for part in refund.lines:
        taken = conn.execute(_LINE_SHRUNK, {"of": row.id, "line": part.number, "qty": part.qty_milli})
        if taken.rowcount != 1:
            raise LostRace(f"order {row.id} was refunded meanwhile")


def _return_coupons(conn: Connection, attempt: Attempt, decided: _Decided) -> list[Record]:
    """Give coupons back, and note of every stage whose lines are all back that its discount is given no more."""
    refund, coupon, redemption = decided.refund, schema.coupon, schema.redemption
    promotion = and_(redemption.c.coupon_id.is_(None), redemption.c.campaign_id.in_(refund.budget_minor))
    conn.execute(
        update(redemption)
        .where(
            redemption.c.order_id == attempt.order_id, or_(redemption.c.coupon_id.in_(decided.coupons_over), promotion)
        )
        .values(reversed=True)
    )
    if not refund.returned:
        return []
    rows = conn.execute(select(coupon.c.id, coupon.c.valid_until_at).where(coupon.c.id.in_(refund.returned)))
    back = rights.leave(conn, attempt, {row.id: row.valid_until_at for row in rows}, event=CouponEvent.RETURN)
    rights.pass_on(conn, refund.returned, attempt.now)
    return back


def _return_uses(conn: Connection, attempt: Attempt, decided: _Decided, *, request_id: str) -> list[Record]:
    use = schema.punch_use
    for cover, number in decided.covers:
        conn.execute(
            update(use)
            .where(
                use.c.card_id == cover.card_id,
                use.c.order_id == attempt.order_id,
                use.c.line == cover.line,
                use.c.number == number,
            )
            .values(reversed=True)
        )
    amounts = {accounts.uses_id(card_id): count for card_id, count in decided.refund.uses.items()}
    return _give_back(conn, attempt, amounts, request_id=request_id)


def _return_amounts(
    conn: Connection, attempt: Attempt, row: Row[Any], *, refund: Refund, request_id: str
) -> list[Record]:
    amounts = {accounts.budget_id(campaign_id): minor for campaign_id, minor in refund.budget_minor.items()}
    value_minor = sum(t.amount_minor for t in refund.tenders if t.type is TenderType.STORED_VALUE)
    if value_minor and row.member_id is not None:
        amounts[accounts.value_id(row.member_id)] = value_minor
    return _give_back(conn, attempt, amounts, request_id=request_id)


def _give_back(conn: Connection, attempt: Attempt, amounts: Mapping[str, int], *, request_id: str) -> list[Record]:
    """Move amounts from spent back to available; what comes back pays an overdraft first (PROTOCOL 1.3).

    A campaign without a budget has no account, and an account that is younger than the sale may have less to give back.
    """
    there = accounts.read(conn, amounts)
    for account_id, found in there.items():
        name = f"refund:{request_id}:{account_id}"
        amount = min(amounts[account_id], found.spent)
        if amount == 0:
            continue
        back = accounts.Move(
            name,
            account_id,
            accounts.SPENT,
            target=accounts.AVAILABLE,
            amount=amount,
            reason="refund",
            order_id=attempt.order_id,
            attempt=attempt.number,
        )
        if not accounts.post(conn, back, attempt.now):
            raise LostRace(f"account {account_id} moved meanwhile")
        accounts.pay_back_overdraft(
            conn, f"net:{name}", account_id=account_id, reason="overdraft paid back", now=attempt.now
        )
    return rights.account_records(there)


def _link(conn: Connection, told: Told, body: RefundBody, *, known: Row[Any]) -> Verdict:
    """Note that the till paid out what was decided; a second entry for one refund is money paid twice."""
    if known.order_id != body["order"] or known.amount_minor != body["body"]["amount_minor"]:
        return _mismatch(conn, told, body, why="another amount or order was decided")
    table = schema.refund
    linked = conn.execute(
        update(table)
        .where(table.c.id == known.id, table.c.entry_id.is_(None))
        .values(entry_id=told.entry_id, paid_at=body["at"])
    )
    return IN_ORDER if linked.rowcount == 1 else _mismatch(conn, told, body, why="paid out before")


def _mismatch(conn: Connection, told: Told, body: RefundBody, *, why: str) -> Verdict:
    """Keep a refund that does not fit the books, for a person; nothing else changes."""
    parts = body["body"]
    here = evidence.of_order(orders.find(conn, body["order"]))
    detail = {"order": body["order"], "refund": body["refund"], "at": body["at"].isoformat(), "why": why, "here": here}
    return conflict(
        conn,
        told,
        "refund_mismatch",
        key=f"{body['refund']}/{told.entry_id}",
        amount_minor=parts["amount_minor"],
        detail={**detail, "tenders": parts["tenders"], "lines": parts["lines"]},
    )

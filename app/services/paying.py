"""Take the payment of an order, and append the sale: charge, commit, and only then show.

Cash is appended at once. A card or wallet is charged outside of any transaction, under a payment id that was made
durable before; whatever happens, that id is asked about and never charged again:

| the terminal's answer | entry | the order |
| --- | --- | --- |
| paid | `sale` | PAID |
| not paid | `cancel` (`pay_failed`) | CANCELLED, everything is given back |
| none | `payment_unknown` | UNKNOWN, keeps its rights until the terminal or a person says more |
| the till dies meanwhile | after the restart `resolve` asks, then one of these | |

Several tenders may go through the terminal, one charge after the other, each durable before it is made (`taken` lists
those that took money). Where a later one fails, the order is off and the money taken is told as a late payment, so that
a person gives it back: nothing here can.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.quote import Quote
from app.domain.quote_json import read_quote, write_quote, write_tenders
from app.domain.refunds import REFUNDABLE
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import OrderEvent, OrderState
from app.domain.tenders import BY_TERMINAL, Settlement, Tender, TenderType, cash_due, settle
from app.services.api import Cancelled, PaidOrder, PaymentPending, Receipt
from app.services.checkout import checkout_again, own_rights, price_again, stored_value_of
from app.services.gathering import Site, gather_site, products
from app.services.parts import Parts
from app.services.ports import Busy, NotPaid, Offline, Paid, PaymentAnswer
from app.services.receipts import product_title, read_receipt, sale_receipt
from app.services.recording import append_cancel, append_late_payment, append_sale, append_unknown
from app.store import orders, rights
from app.store.orders import OrderRow
from resources import lifecycles

Outcome = PaidOrder | Cancelled | PaymentPending | Refusal

Charge = dict[str, Any]
"""`{"id", "type", "amount_minor"}`, and perhaps `taken`, the charges before it."""


def pay(parts: Parts, order_id: str, tenders: tuple[Tender, ...] | None) -> Outcome:
    """Take the payment; see `Till.pay`."""
    with parts.recording() as tx:
        row = orders.get(tx, order_id)
        site = gather_site(tx, parts)
        if row is None:
            return unknown("order", order_id)
        if isinstance(site, Refusal):
            return site
        if row.state == OrderState.OPEN and row.held:
            # It was asked for, and the answer could not be written down (a full disk, a locked file): nobody knows
            # whether it holds anything. The next checkout gives it up and asks anew.
            return _too_late(row, 0)
        is_live = not _is_over(row) and not _is_overdue(row, site)
        begun = _begin(tx, parts, row, tenders=tenders, site=site) if is_live else None
    if isinstance(begun, OrderRow):
        return _charge(parts, begun)
    if begun is not None:
        return begun
    if is_live:
        return _pay_with_rights(parts, row, tenders)
    return _pay_overdue(parts, row, tenders, site=site) if not _is_over(row) else _over(parts, row, tenders, site=site)


def _is_over(row: OrderRow) -> bool:
    """Tell whether there is nothing to pay any more, or a charge that must be asked about first."""
    return row.state in REFUNDABLE or row.state == OrderState.CANCELLED or row.payment is not None


def _is_overdue(row: OrderRow, site: Site) -> bool:
    return row.held_until_at is not None and site.now >= row.held_until_at


def _over(parts: Parts, row: OrderRow, tenders: tuple[Tender, ...] | None, *, site: Site) -> Outcome:
    if row.state in REFUNDABLE:
        return _paid_before(parts, row, tenders, site=site)
    if row.state == OrderState.CANCELLED:
        return _late(parts, row, tenders, site=site)
    return resolve(parts, row.id)


def _begin(
    tx: Connection, parts: Parts, row: OrderRow, *, tenders: Sequence[Tender] | None, site: Site
) -> PaidOrder | OrderRow | Refusal | None:
    """Sell for cash at once, or make the first charge durable and return the order that waits for it.

    None = nothing was begun: the order needs rights by now that this till has not, and holds none.
    """
    settlement = _settle(row, tenders, site=site)
    if isinstance(settlement, Refusal):
        return settlement
    planned = replace(row, tenders=write_tenders(settlement.tenders), change_minor=settlement.change_minor)
    priced = _at_this_price(tx, parts, planned, site=site)
    if priced is None or isinstance(priced, Refusal):
        return priced
    fresh, quote = priced
    if fresh.rights is not None and fresh.state == OrderState.OPEN:
        kept = rights.hold(tx, fresh.rights, fresh.id)
        assert kept, "they were found free in this transaction"
    if not _for_terminal(fresh):
        return _sell_for_cash(tx, parts, fresh, quote=quote, site=site)
    # From here on the order waits for an answer, as HELD does, whether the server holds anything for it or not.
    under_way = replace(fresh, state=OrderState.HELD, payment=_next_charge(parts, fresh, taken=[]))
    orders.put(tx, under_way, now=parts.now())
    return under_way


def _pay_overdue(parts: Parts, row: OrderRow, tenders: tuple[Tender, ...] | None, *, site: Site) -> Outcome:
    """Pay an order whose time is over, where the server says that it still holds its rights."""
    settlement = _settle(row, tenders, site=site)
    if isinstance(settlement, Refusal):
        return settlement
    gone = _ask_for_hold(parts, row, settlement)
    if gone is not None:
        return gone
    with parts.recording() as tx:
        begun = _begin(tx, parts, row, tenders=tenders, site=site)
    assert begun is not None, "what was held is not priced anew"
    return _charge(parts, begun) if isinstance(begun, OrderRow) else begun


def _pay_with_rights(parts: Parts, row: OrderRow, tenders: tuple[Tender, ...] | None) -> Outcome:
    """Get what the order has come to need since its checkout (a promotion in it has got a budget), then pay it."""
    opened = checkout_again(parts, row)
    return opened if isinstance(opened, Refusal) else pay(parts, row.id, tenders)


# ------------------------------------------------------------------ what is due


def _default_tenders(row: OrderRow, payable_minor: int, cash_step_minor: int) -> tuple[Tender, ...]:
    stored_minor = stored_value_of(row)
    cash_minor = cash_due(payable_minor, others_minor=stored_minor, cash_step_minor=cash_step_minor)
    given = (Tender(TenderType.STORED_VALUE, stored_minor), Tender(TenderType.CASH, cash_minor))
    return tuple(tender for tender in given if tender.amount_minor)


def _settle(row: OrderRow, tenders: Sequence[Tender] | None, *, site: Site) -> Settlement | Refusal:
    """Match what is given against what is due, and against the stored value that the order was checked out with."""
    assert row.quote is not None, "an order that can be paid was priced"
    payable_minor, step_minor = row.quote["payable_minor"], site.chain.cash_step_minor
    given = _default_tenders(row, payable_minor, step_minor) if tenders is None else tenders
    stored_minor = sum(tender.amount_minor for tender in given if tender.type is TenderType.STORED_VALUE)
    if stored_minor != stored_value_of(row):
        return refuse(
            RefusalCode.PAYMENT_MISMATCH, stored_value_minor=stored_value_of(row), given_stored_value_minor=stored_minor
        )
    return settle(payable_minor, given, cash_step_minor=step_minor)


def _paid_before(parts: Parts, row: OrderRow, tenders: tuple[Tender, ...] | None, *, site: Site) -> Outcome:
    """Answer a repeat with what was answered first; other tenders are another payment, which this order cannot take."""
    settlement = _settle(row, tenders, site=site)
    if isinstance(settlement, Refusal):
        return settlement
    same = write_tenders(settlement.tenders) == row.tenders and settlement.change_minor == row.change_minor
    return paid_order(parts, row) if same else refuse(RefusalCode.DUPLICATE_MISMATCH, order=row.id)


def paid_order(parts: Parts, row: OrderRow) -> PaidOrder:
    """Show a paid order's row, with its receipt."""
    assert row.quote is not None and row.entry_seq is not None, "a paid order has its entry"
    with parts.database.read() as conn:
        entry = parts.database.ledger.entry(conn, row.entry_seq, epoch=row.entry_epoch)
        assert entry is not None, "the ledger has no gaps"
        quote, receipt = read_receipt(conn, parts, entry)
    return _paid(row, quote, receipt)


def _paid(row: OrderRow, quote: Quote, receipt: Receipt) -> PaidOrder:
    return PaidOrder(
        row.id,
        row.attempt,
        row.state,
        quote=quote,
        tenders=receipt.tenders,
        change_minor=row.change_minor,
        receipt=receipt,
    )


# ------------------------------------------------------------------ cash


def _sell_for_cash(tx: Connection, parts: Parts, row: OrderRow, *, quote: Quote, site: Site) -> PaidOrder:
    """Append the sale. Its receipt is made of what is at hand, and shown to nobody before the commit."""
    sold = append_sale(tx, parts, row, now=parts.now())
    known = products(tx, site, [line.sku for line in quote.lines])
    titles = {line.sku: product_title(parts, known[line.sku]) for line in quote.lines if line.sku in known}
    receipt = sale_receipt(parts, sold.entry, body=sold.body, quote=quote, currency=site.chain.currency, titles=titles)
    return _paid(sold.row, quote, receipt)


def _at_this_price(
    tx: Connection, parts: Parts, row: OrderRow, *, site: Site
) -> tuple[OrderRow, Quote] | Refusal | None:
    """Price an OPEN order anew within the commit; where the total changed, it goes back to the cashier.

    None = the total is the same, but the order needs rights for it by now that this till has not. What the
    server holds was priced by the server and stays as it is.
    """
    assert row.quote is not None
    if row.state != OrderState.OPEN or row.held:
        return row, read_quote(row.quote, site.chain.currency)
    quote = price_again(tx, parts, row, site=site)
    if isinstance(quote, Refusal):
        return quote
    shown_minor = row.quote["payable_minor"]
    if quote.payable_minor != shown_minor:
        return refuse(
            RefusalCode.PAYMENT_MISMATCH, order=row.id, shown_minor=shown_minor, now_minor=quote.payable_minor
        )
    draws = own_rights(tx, parts, row.id, quote=quote, stored_value_minor=stored_value_of(row))
    if draws is None:
        return None
    written, own = write_quote(quote, site.chain.currency), draws or None
    if (written, own) == (row.quote, row.rights):
        return row, quote
    # The same total on other grounds: a promotion began that another one had matched, say.
    fresh = replace(row, quote=written, member_id=quote.member_id, rights=own)
    orders.put(tx, fresh, now=parts.now())
    return fresh, quote


# ------------------------------------------------------------------ card and wallet


def _for_terminal(row: OrderRow) -> list[Charge]:
    return [tender for tender in row.tenders if tender["type"] in BY_TERMINAL]


def _next_charge(parts: Parts, row: OrderRow, *, taken: list[Charge]) -> Charge:
    """Make the charge behind those that took money; `taken` is left out while there are none."""
    charge = {"id": parts.ids.new(), **_for_terminal(row)[len(taken)]}
    return {**charge, "taken": taken} if taken else charge


def _charge(parts: Parts, row: OrderRow) -> Outcome:
    assert row.payment is not None, "a charge is durable before it is made"
    payment = row.payment
    answer = parts.payments.charge(payment["id"], TenderType(payment["type"]), payment["amount_minor"])
    return _answered(parts, row, answer)


def _answered(parts: Parts, row: OrderRow, answer: PaymentAnswer) -> Outcome:
    """Write down what the terminal said, and go on to the next charge where there is one."""
    assert row.payment is not None, "an answer belongs to a charge"
    if isinstance(answer, NotPaid):
        return _not_paid(parts, row, answer)
    if isinstance(answer, Paid):
        done = {name: row.payment[name] for name in ("id", "type", "amount_minor")}
        taken = [*row.payment.get("taken", ()), done]
        if len(taken) < len(_for_terminal(row)):
            further = replace(row, payment=_next_charge(parts, row, taken=taken))
            with parts.database.write() as tx:
                orders.put(tx, further, now=parts.now())
            return _charge(parts, further)
        with parts.recording() as tx:
            sold = append_sale(tx, parts, row, now=parts.now())
        return paid_order(parts, sold.row)
    if row.state != OrderState.UNKNOWN:
        with parts.recording() as tx:
            row = append_unknown(tx, parts, row, now=parts.now())
        parts.push_soon()
    return pending(row)


def _not_paid(parts: Parts, row: OrderRow, answer: NotPaid) -> Cancelled:
    """Call the order off; what earlier charges took is money that came for an order that is off."""
    assert row.payment is not None
    taken = [Tender(TenderType(each["type"]), each["amount_minor"]) for each in row.payment.get("taken", ())]
    now = parts.now()
    with parts.recording() as tx:
        after = append_cancel(tx, parts, row, reason="pay_failed", now=now)
        _append_late(tx, parts, after, tenders=taken, now=now)
    parts.push_soon()
    return Cancelled(after.id, after.attempt, "pay_failed", answer.reason)


def pending(row: OrderRow) -> PaymentPending:
    """Show an order whose payment nobody knows of."""
    assert row.payment is not None, "only a charge can stay without an answer"
    payment = row.payment
    return PaymentPending(
        row.id, row.attempt, payment["id"], kind=TenderType(payment["type"]), amount_minor=payment["amount_minor"]
    )


def resolve(parts: Parts, order_id: str) -> Outcome:
    """Ask the terminal what became of a charge; see `Till.resolve`."""
    row = _get(parts, order_id)
    if isinstance(row, Refusal):
        return row
    if row.state in REFUNDABLE:
        return paid_order(parts, row)
    if row.state == OrderState.CANCELLED:
        return Cancelled(row.id, row.attempt, "cancelled")
    if row.payment is None:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order_id, state=row.state, event=OrderEvent.PAID.value)
    return _answered(parts, row, parts.payments.query(row.payment["id"]))


def decide_payment(parts: Parts, order_id: str, *, paid: bool) -> Outcome:
    """Settle an UNKNOWN order by a person's word; see `Till.decide_payment`."""
    row = _get(parts, order_id)
    if isinstance(row, Refusal):
        return row
    step = lifecycles.load("order").step(row.state, OrderEvent.PAID if paid else OrderEvent.NOT_PAID)
    if isinstance(step, Refusal):
        return Refusal(step.code, {"order": order_id, **step.facts})
    return _answered(parts, row, Paid() if paid else NotPaid())


def _get(parts: Parts, order_id: str) -> OrderRow | Refusal:
    with parts.database.read() as conn:
        row = orders.get(conn, order_id)
    return row or unknown("order", order_id)


# ------------------------------------------------------------------ too late


def _ask_for_hold(parts: Parts, row: OrderRow, settlement: Settlement) -> Outcome | None:
    """Ask the server whether an overdue hold still stands; None = it does, go on.

    Where it does not, nothing is charged, and cash that was given is written down as a late payment.
    """
    try:
        known = parts.head_office.order(row.id)
    except Offline:
        return refuse(RefusalCode.NEEDS_ONLINE, order=row.id)
    except Busy as busy:
        return refuse(busy.code, order=row.id, retry_after_s=busy.retry_after_s)
    if isinstance(known, Refusal):
        return known
    if known.state == OrderState.HELD and known.attempt == row.attempt:
        return None
    now = parts.now()
    with parts.recording() as tx:
        off = append_cancel(tx, parts, row, reason="cancelled", now=now)
        recorded_minor = _append_late(tx, parts, off, tenders=_in_hand(settlement.tenders), now=now)
    parts.push_soon()
    return _too_late(row, recorded_minor)


def _in_hand(tenders: Sequence[Tender]) -> Sequence[Tender]:
    """Return what was handed over by a customer whose order turns out to be off; with a card, nothing was yet."""
    return () if any(tender.type in BY_TERMINAL for tender in tenders) else tenders


def _late(parts: Parts, row: OrderRow, tenders: tuple[Tender, ...] | None, *, site: Site) -> Refusal:
    """Refuse a payment for an order that is off; cash that was given for it is written down.

    Nothing is charged. Money that a terminal took all the same is told by `late_payment`.
    """
    if row.quote is None:
        return _too_late(row, 0)
    payable_minor, step_minor = row.quote["payable_minor"], site.chain.cash_step_minor
    given = _default_tenders(row, payable_minor, step_minor) if tenders is None else tenders
    settlement = settle(payable_minor, given, cash_step_minor=step_minor)
    kept = given if isinstance(settlement, Refusal) else settlement.tenders
    return late_payment(parts, row.id, _in_hand(kept))


def late_payment(parts: Parts, order_id: str, tenders: Sequence[Tender]) -> Refusal:
    """Record money that came for a cancelled order; see `Till.late_payment`."""
    row = _get(parts, order_id)
    if isinstance(row, Refusal):
        return row
    recorded_minor = 0
    if row.state == OrderState.CANCELLED:
        with parts.recording() as tx:
            recorded_minor = _append_late(tx, parts, row, tenders=tenders, now=parts.now())
        parts.push_soon()
    return _too_late(row, recorded_minor)


def _append_late(tx: Connection, parts: Parts, row: OrderRow, *, tenders: Sequence[Tender], now: datetime) -> int:
    """Append what came in money and return its sum; stored value is none: its hold went back with the order."""
    money = [tender for tender in tenders if tender.type is not TenderType.STORED_VALUE]
    if money:
        append_late_payment(tx, parts, row, tenders=write_tenders(money), now=now)
    return sum(tender.amount_minor for tender in money)


def _too_late(row: OrderRow, recorded_minor: int) -> Refusal:
    return refuse(
        RefusalCode.ILLEGAL_TRANSITION,
        order=row.id,
        state=row.state if row.state != OrderState.HELD else OrderState.CANCELLED.value,
        event=OrderEvent.PAY_SUCCESS.value,
        recorded_minor=recorded_minor,
    )

"""Turn a basket into an order that can be paid: price it, and get from the server every right that it needs.

An order that needs none (no coupon, punch card, stored value, nor promotion with a budget) is OPEN and asks nobody, nor
does one all of whose rights this till has itself (`app/store/rights.py`). Where it has some of them, they go home
first, and the server decides over all. What the server decides is asked for under an `attempt` that was made durable
before, so that whatever becomes of the answer, the server can be told which attempt is off:

| the server's answer | what the till does |
| --- | --- |
| granted | HELD |
| a refusal | nothing was held, nor ever is under that attempt; the id stays free (CANCELLED, without an entry) |
| that the till itself is a coupon's home | takes it there, and tries anew: it came home while the till asked |
| none | appends `cancel` (`no_answer`): if it was granted, it is given back with the next push |
| "busy" | the same: it decided nothing and remembers nothing, so a late copy of the question would be granted |
| granted, and the till dies before it writes that down | the restart appends `cancel` (`interrupted`) |
"""

from dataclasses import replace

from sqlalchemy import Connection

from app.domain.facts import OrderFacts
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.quote_json import read_quote, write_line, write_quote
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import Rights, rights_of, risk_id, value_id
from app.domain.states import OrderEvent, OrderState
from app.domain.tenders import stored_value_reason
from app.services import leasing, risks
from app.services.api import AtHome, BasketRequest, OpenOrder
from app.services.asking import Asked
from app.services.gathering import Site, gather, gather_site
from app.services.parts import Parts
from app.services.ports import Busy, HoldGranted, HoldLine, HoldRequest, Offline
from app.services.recording import append_cancel, used_coupons
from app.store import catalog, coupons, orders, rights
from app.store.orders import OrderRow
from app.store.rights import Draws
from resources import lifecycles


def checkout(parts: Parts, order_id: str, basket: BasketRequest, *, stored_value_minor: int = 0) -> OpenOrder | Refusal:
    """Price the basket and get its rights; see `Till.checkout`."""
    assert 0 < len(order_id) <= 64, "an order's id fits the wire"
    opened = _checkout(parts, order_id, basket, stored_value_minor=stored_value_minor)
    for _ in basket.use:
        if not _came_home(parts, opened):
            break
        opened = _checkout(parts, order_id, basket, stored_value_minor=stored_value_minor)
    return opened


def _came_home(parts: Parts, opened: OpenOrder | Refusal) -> bool:
    """Take a coupon that the server refuses because this till is its home: it came home while the till asked."""
    if not isinstance(opened, Refusal) or opened.code is not RefusalCode.LEASED_ELSEWHERE:
        return False
    if opened.facts.get("till") != parts.till_id:
        return False
    return isinstance(leasing.take_home(parts, str(opened.facts["coupon"])), AtHome)


def _checkout(parts: Parts, order_id: str, basket: BasketRequest, *, stored_value_minor: int) -> OpenOrder | Refusal:
    asked = Asked.of(basket, stored_value_minor)
    with parts.database.read() as conn:
        before = orders.get(conn, order_id)
    if before is not None and before.state == OrderState.OPEN and before.held:
        before = give_up(parts, before, reason="no_answer")
    if before is not None and before.state == OrderState.HELD and before.payment is None:
        before = _unless_timed_out(parts, before)
    if before is not None and before.state != OrderState.CANCELLED:
        if before.content != asked.content:
            return refuse(RefusalCode.DUPLICATE_MISMATCH, order=order_id)
        if before.state != OrderState.OPEN:
            return open_order(parts, before)
    priced = _priced(parts, asked, order_id)
    if isinstance(priced, Refusal):
        return priced
    facts, quote = priced
    row = _row(parts, asked, facts, quote=quote, attempt=_attempt(before))
    if not row.held:
        with parts.database.write() as tx:
            orders.put(tx, row, now=parts.now())
        return open_order(parts, row)
    return _hold(parts, row, asked)


def _unless_timed_out(parts: Parts, row: OrderRow) -> OrderRow:
    """Take an overdue hold as off where the server says that it is; the order may then be tried again."""
    with parts.database.read() as conn:
        site = gather_site(conn, parts)
    if isinstance(site, Refusal) or row.held_until_at is None or site.now < row.held_until_at or not site.online:
        return row
    try:
        known = parts.head_office.order(row.id)
    except (Offline, Busy):
        return row
    if isinstance(known, Refusal) or known.state != OrderState.CANCELLED:
        return row
    return give_up(parts, row, reason="cancelled")


def park(parts: Parts, order_id: str) -> OpenOrder | Refusal:
    """Let an order wait for its payment; see `Till.park`."""
    with parts.database.read() as conn:
        row = orders.get(conn, order_id)
    if row is None:
        return unknown("order", order_id)
    if row.state == OrderState.HELD:
        return open_order(parts, row)
    step = lifecycles.load("order").step(row.state, OrderEvent.HOLD)
    if isinstance(step, Refusal) or row.request is None:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order_id, state=row.state, event=OrderEvent.HOLD.value)
    if row.rights is None and not row.held and parts.head_office.online:
        return _hold(parts, replace(row, held=True), Asked.from_json(row.request))
    waiting = None if row.held else _let_wait(parts, row)
    if waiting is not None:
        return waiting
    # Nobody knows what it holds (the answer could not be written down), or its rights left this till since.
    opened = checkout_again(parts, row)
    return park(parts, order_id) if isinstance(opened, OpenOrder) and opened.state == OrderState.OPEN else opened


def _let_wait(parts: Parts, row: OrderRow) -> OpenOrder | None:
    """Keep what an order has of the till's own: no hold at the server, so only this till ends it. None = it is gone."""
    waiting = replace(row, state=OrderState.HELD)
    with parts.database.write() as tx:
        savepoint = tx.begin_nested()
        if row.rights is not None and not rights.hold(tx, row.rights, row.id):
            savepoint.rollback()
            return None
        orders.put(tx, waiting, now=parts.now())
    return open_order(parts, waiting)


def checkout_again(parts: Parts, row: OrderRow) -> OpenOrder | Refusal:
    """Check an order out anew, with the rights of now; where its total is another one, it goes back to the cashier."""
    assert row.request is not None and row.quote is not None, "an order that is OPEN says what was asked for"
    asked, shown_minor = Asked.from_json(row.request), row.quote["payable_minor"]
    opened = checkout(parts, row.id, asked.basket, stored_value_minor=asked.stored_value_minor)
    if isinstance(opened, Refusal) or opened.quote.payable_minor == shown_minor:
        return opened
    now_minor = opened.quote.payable_minor
    return refuse(RefusalCode.PAYMENT_MISMATCH, order=row.id, shown_minor=shown_minor, now_minor=now_minor)


def _attempt(before: OrderRow | None) -> int:
    """Return the number of this attempt: an OPEN order is still at its first try, a cancelled one tries again."""
    if before is None:
        return 1
    return before.attempt + 1 if before.state == OrderState.CANCELLED else before.attempt


def _row(parts: Parts, asked: Asked, facts: OrderFacts, *, quote: Quote, attempt: int) -> OrderRow:
    with parts.database.read() as conn:
        chain = catalog.chain(conn)
        draws = own_rights(conn, parts, facts.order_id, quote=quote, stored_value_minor=asked.stored_value_minor)
    assert chain is not None, "it was there when the facts were gathered"
    return OrderRow(
        facts.order_id,
        attempt,
        OrderState.OPEN,
        held=draws is None,
        rights=draws or None,
        content=asked.content,
        request=asked.to_json(),
        member_id=quote.member_id,
        lines=[write_line(line) for line in facts.lines],
        quote=write_quote(quote, chain.currency),
    )


def needed(quote: Quote, stored_value_minor: int = 0) -> Rights:
    """Return everything that the order uses and that has an arbiter."""
    return rights_of(
        [(stage.campaign_id, stage.coupon_id, stage.discount_minor) for stage in quote.laid],
        cards=[cover.card_id for cover in quote.covers],
        value=(quote.member_id, stored_value_minor),
        budgeted=[stage.campaign_id for stage in quote.laid if stage.rule.budget_minor is not None],
    )


def own_rights(conn: Connection, parts: Parts, order_id: str, *, quote: Quote, stored_value_minor: int) -> Draws | None:
    """Return what the order draws on of this till's own rights, empty where it needs none; None = not all are here.

    What it takes at a risk it pays from the till's risk budget.
    """
    uses = needed(quote, stored_value_minor)
    risked = risks.taken(conn, parts, order_id, quote=quote)
    if risked:
        cost = {risk_id(parts.till_id): sum(each["amount_minor"] for each in risked)}
        uses = Rights(uses.coupons - {each["coupon"] for each in risked}, {**uses.amounts, **cost})
    draws = rights.plan(conn, uses) if uses else {}
    return {**draws, "risks": risked} if draws and risked else draws


def open_order(parts: Parts, row: OrderRow) -> OpenOrder:
    """Show an order's row as what a checkout answers."""
    assert row.quote is not None, "an order that was checked out was priced"
    with parts.database.read() as conn:
        chain = catalog.chain(conn)
    assert chain is not None, "nothing is checked out before the first pull"
    return OpenOrder(
        row.id,
        row.attempt,
        row.state,
        quote=read_quote(row.quote, chain.currency),
        held=row.held,
        held_until_at=row.held_until_at,
        stored_value_minor=stored_value_of(row),
    )


def stored_value_of(row: OrderRow) -> int:
    """Return the stored value of an order: what was asked for, or once it is settled what was paid with it."""
    if row.request is not None:
        return int(row.request["stored_value_minor"])
    return sum(tender["amount_minor"] for tender in row.tenders if tender["type"] == "stored_value")


# ------------------------------------------------------------------ pricing


_OF_THE_BASKET = frozenset(
    {RefusalCode.INVALID_QUANTITY, RefusalCode.INVALID_AMOUNT, RefusalCode.PAYMENT_MISMATCH, RefusalCode.NEEDS_MEMBER}
)
"""Reasons that no newer copy of the server's data would change."""


def _priced(parts: Parts, asked: Asked, order_id: str) -> tuple[OrderFacts, Quote] | Refusal:
    """Price from the copy; where it says no, pull once and price again, since the copy may be behind."""
    priced = _price_once(parts, asked, order_id)
    if isinstance(priced, Refusal) and priced.code not in _OF_THE_BASKET and parts.head_office.online:
        parts.push_soon()
        parts.pull_now()
        priced = _price_once(parts, asked, order_id)
    if isinstance(priced, Refusal) and priced.code is RefusalCode.LEASED_ELSEWHERE:
        return _fetched(parts, asked, order_id, refusal=priced)
    return priced


def _fetched(parts: Parts, asked: Asked, order_id: str, *, refusal: Refusal) -> tuple[OrderFacts, Quote] | Refusal:
    """Ask for a coupon that another till has: it is asked back there, and the answer says when to try again."""
    taken = leasing.take_home(parts, str(refusal.facts["coupon"]))
    if isinstance(taken, Refusal):
        return taken if taken.code is RefusalCode.LEASED_ELSEWHERE else refusal
    return _price_once(parts, asked, order_id)


def _price_once(parts: Parts, asked: Asked, order_id: str) -> tuple[OrderFacts, Quote] | Refusal:
    with parts.database.read() as conn:
        facts = gather(conn, parts, asked.basket, order_id=order_id)
    if isinstance(facts, Refusal):
        return facts
    quote = price(facts)
    reason = quote.first_refusal(asked.basket.use, asked.basket.covers) or _stored_value_reason(parts, asked, quote)
    return reason or (facts, quote)


def _stored_value_reason(parts: Parts, asked: Asked, quote: Quote) -> Refusal | None:
    amount_minor = asked.stored_value_minor
    reason = stored_value_reason(amount_minor, payable_minor=quote.payable_minor, member_id=quote.member_id)
    if reason is not None or not amount_minor or parts.head_office.online:
        return reason
    with parts.database.read() as conn:
        lent_minor = rights.left(conn, value_id(quote.member_id or ""))
    if lent_minor is None:
        return refuse(RefusalCode.NEEDS_ONLINE, tender="stored_value", member=quote.member_id)
    if lent_minor < amount_minor:
        return refuse(
            RefusalCode.INSUFFICIENT_BALANCE,
            member=quote.member_id,
            balance_minor=lent_minor,
            asked_minor=amount_minor,
        )
    return None


def price_again(conn: Connection, parts: Parts, row: OrderRow, *, site: Site) -> Quote | Refusal:
    """Price an OPEN order with the facts of this moment, for the commit (DESIGN, "Three returns are on purpose")."""
    assert row.request is not None, "an order that is OPEN says what was asked for"
    asked = Asked.from_json(row.request)
    facts = gather(conn, parts, asked.basket, order_id=row.id, site=site)
    if isinstance(facts, Refusal):
        return facts
    quote = price(facts)
    return quote.first_refusal(asked.basket.use, asked.basket.covers) or quote


# ------------------------------------------------------------------ holding


def _hold(parts: Parts, row: OrderRow, asked: Asked) -> OpenOrder | Refusal:
    """Ask for the rights, with the attempt on disk before the question leaves."""
    send_home(parts, row, asked)
    # What an earlier attempt gave back must be known to the server before this one asks for it.
    cannot = parts.push_first(order=row.id)
    if cannot is not None:
        return cannot
    with parts.database.write() as tx:
        orders.put(tx, row, now=parts.now())
    assert row.quote is not None
    try:
        answer = parts.head_office.hold(_question(parts, row, asked))
    except Offline:
        give_up(parts, row, reason="no_answer")
        return refuse(RefusalCode.NEEDS_ONLINE, order=row.id)
    except Busy as busy:
        give_up(parts, row, reason="no_answer")
        return refuse(busy.code, order=row.id, retry_after_s=busy.retry_after_s)
    if isinstance(answer, Refusal):
        _not_held(parts, row)
        if answer.code is RefusalCode.PAYMENT_MISMATCH:
            parts.pull_now()
        return answer
    parts.probe("hold_answered")
    return _held(parts, row, answer)


def send_home(parts: Parts, row: OrderRow, asked: Asked) -> None:
    """Give the server back what this till has of the rights that it will be asked for: it decides over all or none."""
    if not parts.head_office.online or row.quote is None:
        return
    with parts.database.read() as conn:
        chain = catalog.chain(conn)
        assert chain is not None, "it was there when the order was priced"
        uses = needed(read_quote(row.quote, chain.currency), asked.stored_value_minor)
    leasing.give_back(parts, uses)


def _question(parts: Parts, row: OrderRow, asked: Asked) -> HoldRequest:
    assert row.quote is not None
    basket = asked.basket
    return HoldRequest(
        order_id=row.id,
        attempt=row.attempt,
        store_id=parts.store_id,
        member_id=basket.member_id,
        lines=tuple(HoldLine(n, line.sku, line.qty_milli) for n, line in enumerate(basket.lines, start=1)),
        use=basket.use,
        covers=basket.covers,
        stored_value_minor=asked.stored_value_minor,
        promotions=basket.promotions,
        payable_minor=row.quote["payable_minor"],
    )


def _held(parts: Parts, row: OrderRow, granted: HoldGranted) -> OpenOrder | Refusal:
    """Write the hold down. A total other than the one that was shown is given back: nobody agreed to it."""
    assert row.quote is not None
    if granted.quote["payable_minor"] != row.quote["payable_minor"]:
        give_up(parts, row, reason="cancelled")
        parts.push_soon()
        parts.pull_now()
        return refuse(
            RefusalCode.PAYMENT_MISMATCH,
            order=row.id,
            shown_minor=row.quote["payable_minor"],
            now_minor=granted.quote["payable_minor"],
        )
    held = replace(
        row,
        state=OrderState.HELD,
        held_until_at=granted.held_until_at,
        quote=dict(granted.quote),
        member_id=granted.quote["member"],
    )
    now = parts.now()
    with parts.database.write() as tx:
        orders.put(tx, held, now=now)
        used = used_coupons(held.quote)
        coupons.mark(tx, used, state="FROZEN", order_id=row.id, store_id=parts.store_id, at=now)
    parts.probe("after_hold")
    return open_order(parts, held)


def _not_held(parts: Parts, row: OrderRow) -> None:
    """Free the order's id, and keep the attempt: its number was used and is never used again."""
    with parts.database.write() as tx:
        orders.put(tx, replace(row, state=OrderState.CANCELLED, held=False, request=None), now=parts.now())


def give_up(parts: Parts, row: OrderRow, *, reason: str) -> OrderRow:
    """Append that an attempt is off of which the server may hold rights; return the order's row after it."""
    with parts.recording() as tx:
        return append_cancel(tx, parts, row, reason=reason, now=parts.now())

"""Do what a scenario's steps say at the counter: quote, checkout, pay, cancel, refund.

The runner is the cashier's fingers: it counts the tenders together before it asks for any right, as a person does
before pressing "pay", and calls an order off whose payment is refused.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.domain.basket import Cover, parse_qty
from app.domain.quote import Quote
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import BY_TERMINAL, Tender, TenderType, settle
from app.services.api import BasketLine, BasketRequest, Cancelled, OpenOrder, PaidOrder, PaymentPending
from app.services.till import Till
from server.scenario import steps
from server.scenario.comparing import Came
from server.scenario.values import Minor
from server.scenario.verbs_coupons import refusal_came
from server.scenario.world import Asked, World
from server.services import accounts


def quote(world: World, args: steps.Quote) -> Came:
    """Price a basket at a till."""
    part = world.till(args.till)
    part.catch_up()
    request = _basket(world, part.till, args)
    if isinstance(request, Refusal):
        return refusal_came(request)
    priced = part.till.quote(request)
    return refusal_came(priced) if isinstance(priced, Refusal) else {"outcome": "ok", **_priced(world, args, priced)}


def checkout(world: World, args: steps.Checkout) -> Came:
    """Sell a basket, or hold it, or have its payment fail."""
    with world.acting(args.till) as part:
        tenders = _tenders(world, args.tenders)
        request = _basket(world, part.till, args)
        if isinstance(request, Refusal):
            return refusal_came(request)
        again = part.order_state(args.order) not in (None, "CANCELLED")
        priced = part.till.quote(request, order_id=args.order)
        shown = {} if isinstance(priced, Refusal) or again else _priced(world, args, priced)
        refusal = None if again or isinstance(priced, Refusal) else _tender_refusal(world, priced, tenders)
        if refusal is not None:
            return refusal_came(refusal) | shown
        stored = 0 if isinstance(tenders, Refusal) else _stored_minor(tenders)
        world.orders[args.order] = Asked(part.id, args.tenders, request, stored)
        opened = part.till.checkout(args.order, request, stored_value_minor=stored)
        if not isinstance(opened, Refusal) and args.pay == "hold" and opened.state == "OPEN":
            opened = part.till.park(args.order)
        if isinstance(opened, Refusal):
            return refusal_came(opened) | shown
        return _settled(world, args, part.till, opened=opened)


def _settled(world: World, args: steps.Checkout, till: Till, *, opened: OpenOrder) -> Came:
    """Go on with an order that can be paid, as the step's `pay` says."""
    shown = {"state": opened.state, **_priced(world, args, opened.quote)}
    if args.pay == "hold":
        return {"outcome": "ok", **shown}
    tenders = _tenders(world, args.tenders)
    if isinstance(tenders, Refusal):
        return refusal_came(tenders) | shown
    given = tenders or ()
    if args.pay == "fail" and not any(tender.type in BY_TERMINAL for tender in given):
        off = till.cancel(opened.order_id, reason="pay_failed")
        return (refusal_came(off) if isinstance(off, Refusal) else {"outcome": "ok"}) | shown | _state(off)
    terminal = world.till(args.till).terminal
    terminal.declines = args.pay == "fail"
    try:
        done = till.pay(opened.order_id, tenders)
    finally:
        terminal.declines = False
    if isinstance(done, Refusal):
        till.cancel(opened.order_id)
        return refusal_came(done) | shown
    return {"outcome": "ok"} | shown | _state(done)


def pay(world: World, args: steps.Pay) -> Came:
    """Pay an order that is held; money for one that is off has come all the same, and is told."""
    asked = world.orders.get(args.order)
    with world.acting(args.till or (asked.till_id if asked else None)) as part:
        tenders = _tenders(world, args.tenders if args.tenders is not None or asked is None else asked.tenders)
        if isinstance(tenders, Refusal):
            return refusal_came(tenders)
        before = part.till.order(args.order)
        state = None if isinstance(before, Refusal) else before.state
        if asked is not None and tenders is not None and state in ("OPEN", "HELD"):
            refusal = _hold_anew(world, part.till, args.order, tenders=tenders)
            if refusal is not None:
                return refusal_came(refusal) | {"state": state}
        done = part.till.pay(args.order, tenders)
        if not isinstance(done, Refusal):
            return {"outcome": "ok"} | _state(done)
        by_terminal = any(tender.type in BY_TERMINAL for tender in tenders or ())
        if state == "CANCELLED" and done.code is RefusalCode.ILLEGAL_TRANSITION and by_terminal:
            part.till.late_payment(args.order, tenders or ())
        return refusal_came(done) | {"state": state}


def _hold_anew(world: World, till: Till, order_id: str, *, tenders: tuple[Tender, ...]) -> Refusal | None:
    """Go back and hold the order with another amount of stored value, as a cashier does whose customer decides late.

    Tenders that do not add up are left to `pay`. Where the new hold is refused, the order is held as it was.
    """
    asked = world.orders[order_id]
    stored = _stored_minor(tenders)
    if stored == asked.stored_minor or asked.basket is None:
        return None
    priced = till.quote(asked.basket, order_id=order_id)
    step_minor = world.table.chain.cash_rounding
    if isinstance(priced, Refusal) or isinstance(
        settle(priced.payable_minor, tenders, cash_step_minor=step_minor), Refusal
    ):
        return None
    till.cancel(order_id)
    opened = till.checkout(order_id, asked.basket, stored_value_minor=stored)
    if not isinstance(opened, Refusal):
        world.orders[order_id] = replace(asked, stored_minor=stored)
        return None
    if not isinstance(till.checkout(order_id, asked.basket, stored_value_minor=asked.stored_minor), Refusal):
        till.park(order_id)
    return opened


def cancel(world: World, args: steps.Cancel) -> Came:
    """Call an order off."""
    asked = world.orders.get(args.order)
    with world.acting(args.till or (asked.till_id if asked else None)) as part:
        done = part.till.cancel(args.order)
        return refusal_came(done) if isinstance(done, Refusal) else {"outcome": "ok", "state": done.state}


def refund(world: World, args: steps.Refund) -> Came:
    """Take goods back."""
    with world.acting(args.till) as part:
        lines: tuple[RefundLine, ...] | None = None
        if args.lines is not None:
            read = [(line.line, parse_qty(line.qty, by_weight=True)) for line in args.lines]
            wrong = next((qty for _, qty in read if isinstance(qty, Refusal)), None)
            if wrong is not None:
                return refusal_came(wrong)
            lines = tuple(RefundLine(number, qty) for number, qty in read if isinstance(qty, int))
        done = part.till.refund(args.request or f"refund-{world.ids.new()}", args.order, lines)
        if isinstance(done, Refusal):
            return refusal_came(done)
        back = done.refund
        return {
            "outcome": "ok",
            "amount": Minor(back.amount_minor),
            "tenders": {tender.type.value: Minor(tender.amount_minor) for tender in back.tenders},
            "returned": [world.names.name(coupon_id) for coupon_id in back.returned],
            "uses": _uses(world) | dict(done.uses_after),
        }


# ------------------------------------------------------------------ reading the step


def _basket(world: World, till: Till, args: steps.Quote) -> BasketRequest | Refusal:
    """Return what the step puts on the counter; `best` lets the till choose the coupons."""
    lines = []
    for number, line in enumerate(args.lines, start=1):
        qty_milli = parse_qty(line.qty, by_weight=True)
        if isinstance(qty_milli, Refusal):
            return Refusal(qty_milli.code, {"line": number, **qty_milli.facts})
        lines.append(BasketLine(line.sku, qty_milli))
    use = tuple(world.names.id(name) for name in args.use)
    covers = tuple(Cover(card.card, card.line) for card in args.cards)
    request = BasketRequest(args.member, tuple(lines), use, covers=covers)
    if not args.best:
        return request
    best = till.best(request)
    if isinstance(best, Refusal):
        return best
    return BasketRequest(args.member, tuple(lines), best.coupon_ids, covers=covers)


def _tenders(world: World, asked: Sequence[steps.TenderArg] | None) -> tuple[Tender, ...] | Refusal | None:
    """Return the tenders of a step; None = cash to the amount."""
    if asked is None:
        return None
    tenders = []
    for tender in asked:
        amount_minor = world.currency.parse(tender.amount)
        if isinstance(amount_minor, Refusal):
            return amount_minor
        tenders.append(Tender(TenderType(tender.type), amount_minor))
    return tuple(tenders)


def _tender_refusal(world: World, priced: Quote, tenders: tuple[Tender, ...] | Refusal | None) -> Refusal | None:
    """Count the tenders together; None = they add up, or a coupon or card is refused before anyone counts."""
    if priced.refused or tenders is None:
        return None
    if isinstance(tenders, Refusal):
        return tenders
    settled = settle(priced.payable_minor, tenders, cash_step_minor=world.table.chain.cash_rounding)
    return settled if isinstance(settled, Refusal) else None


def _stored_minor(tenders: tuple[Tender, ...] | None) -> int:
    return sum(tender.amount_minor for tender in tenders or () if tender.type is TenderType.STORED_VALUE)


# ------------------------------------------------------------------ telling what came


def _priced(world: World, args: steps.Quote, priced: Quote) -> dict[str, Any]:
    names = {world.names.id(name): name for name in reversed(args.use)}
    return {
        "gross": Minor(priced.gross_minor),
        "discount": Minor(priced.discount_minor),
        "payable": Minor(priced.payable_minor),
        "used": [names.get(coupon_id, world.names.name(coupon_id)) for coupon_id in priced.used],
        "refused": {
            names.get(name, world.names.name(name)): refusal.code.value for name, refusal in priced.refused.items()
        },
        "lines": [
            {"gross": Minor(line.gross_minor), "discount": Minor(line.discount_minor), "net": Minor(line.net_minor)}
            for line in priced.lines
        ],
    }


def _state(done: PaidOrder | Cancelled | PaymentPending | Refusal) -> Came:
    if isinstance(done, Refusal):
        return {}
    change = {"change": Minor(done.change_minor)} if isinstance(done, PaidOrder) else {}
    return {"state": done.state, **change}


def _uses(world: World) -> dict[str, int]:
    """Return what every punch card of the file has now, at the server."""
    cards = {accounts.uses_id(card.id): card.id for card in world.table.punch_card}
    found = world.server.services.read(lambda conn, _ctx: accounts.read(conn, cards))
    return {cards[account_id]: account.standing for account_id, account in found.items()}

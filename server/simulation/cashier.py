"""Act at a till as cashiers and customers do; what they see goes into the truth.

Each operation decides by the event's own generator. What may go wrong in one (no line, a full disk, the power) ends it,
and is no violation; the books are held against the truth for that.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.domain.basket import Cover
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import Tender, TenderType
from app.services.api import (
    BasketLine,
    BasketRequest,
    Cancelled,
    Interrupted,
    InterruptedKind,
    OpenOrder,
    PaidOrder,
    PaymentPending,
    RefundDone,
)
from app.services.paying import paid_order
from app.services.ports import Busy, Offline
from app.store import orders
from app.store.errors import StoreError
from app.store.orders import OrderRow
from server.scenario.crash import ProcessDied
from server.simulation import shop
from server.simulation.lending import Lending, OwnRights
from server.simulation.plan import Event
from server.simulation.stage import Part, Stage, print_receipt
from server.simulation.truth import AskedRefund, Basket, hold
from sync.hello import SyncStopped

Outcome = PaidOrder | Cancelled | PaymentPending | Refusal
ASKS_FIRST = frozenset({"lease", "take_home", "renew", "refund_elsewhere"})
"""What is done while the line is good, or not at all."""


class Cashiers(Lending):
    """Act at every till of a chain.

    `unsaved` are tills that could not save something since they were switched on, perhaps that a hold is off.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.unsaved: set[str] = set()

    # -------------------------------------------------------------- one thing at a time

    def begin(self, part: Part, event: Event) -> None:
        """Do what an event says at a till, now."""
        rng = random.Random(event.seed)
        part.line.rng = part.terminal.rng = rng
        if event.what in ASKS_FIRST and not part.engine.status.online and rng.random() < 0.7:
            # In a shop the background sync has tried again by now.
            self.safely(part, "sync", lambda: self.sync(part))
        do: Callable[[Part, random.Random, Event], None] = getattr(self, f"_{event.what}")
        if part.is_running():
            self.safely(part, event.what, lambda: do(part, rng, event))

    def safely(self, part: Part, what: str, do: Callable[[], None]) -> bool:
        """Do it; returns whether it came to its end."""
        try:
            do()
        except (Offline, Busy, StoreError) as trouble:
            why = f" {trouble}" if isinstance(trouble, Offline) else ""
            self.stage.note(part.id, what, f"{type(trouble).__name__}{why}")
            if isinstance(trouble, StoreError):
                self.unsaved.add(part.id)
            return False
        return True

    def clear_up(self, part: Part) -> None:
        """Bring to an end what a restart found half done."""
        for each in part.till.interrupted():
            self.stage.note(part.id, "interrupted", each.kind.value)
            if each.kind is InterruptedKind.RECEIPT_NOT_SHOWN:
                row = self.row(part, each.order_id)
                assert row is not None
                self._paid(part, each.order_id, paid_order(part.till._parts, row))
            elif each.kind is InterruptedKind.PAYMENT_UNKNOWN:
                self._ask_terminal(part, each.order_id)
            elif each.request_id is not None:
                self.ask_refund(part, each.request_id)

    # -------------------------------------------------------------- selling

    def _basket(self, part: Part, rng: random.Random) -> BasketRequest:
        own, elsewhere = self.own_rights(part), self.at_home_elsewhere(part)
        if elsewhere and rng.random() < 0.15:
            # Its owner has shown it there, and comes here.
            return self._coupon_basket(elsewhere[-1], rng)
        if own.any and rng.random() < 0.7:
            return self._own_basket(own, rng)
        member = rng.choice([None, *shop.MEMBERS])
        lines = _lines([rng.choice("AABBCWWS") for _ in range(rng.randint(1, 4))], rng)
        covers = tuple(
            Cover(card, number)
            for number, line in enumerate(lines, start=1)
            for card, who, sku, _ in shop.CARDS
            if sku == line.sku and who == member and rng.random() < 0.5
        )
        return BasketRequest(member, lines, self._coupons(part, rng, member), covers=covers)

    def _own_basket(self, own: OwnRights, rng: random.Random) -> BasketRequest:
        """Fill a basket for which the till needs nobody: a coupon that is at home there, a card or value lent to it."""
        kind = rng.choice([each for each in ("coupons", "cards", "members") if getattr(own, each)])
        if kind == "coupons":
            return self._coupon_basket(rng.choice(own.coupons), rng)
        promotions = rng.random() < 0.5
        skus = [rng.choice("AABBCWW") for _ in range(rng.randint(1, 3))]
        if kind == "members":
            return BasketRequest(rng.choice(list(own.members)), _lines(skus, rng), promotions=promotions)
        card, member, sku, _ = rng.choice([each for each in shop.CARDS if each[0] in own.cards])
        lines = (BasketLine(sku, 1000), *_lines(skus, rng))
        return BasketRequest(member, lines, covers=(Cover(card, 1),), promotions=promotions)

    def _coupon_basket(self, coupon: str, rng: random.Random) -> BasketRequest:
        whose = {each.coupon_id: each.member_id for each in self.truth.promised.values()}
        skus = [rng.choice("AABBCWW") for _ in range(rng.randint(1, 3))]
        return BasketRequest(whose.get(coupon), _lines(skus, rng), (coupon,), promotions=rng.random() < 0.5)

    def _coupons(self, part: Part, rng: random.Random, member: str | None) -> tuple[str, ...]:
        """Choose coupons that the customer has on the phone; now and then one that is somebody else's, or used."""
        if rng.random() < 0.45:
            return ()
        fresh = [each for each in self.truth.promised.values() if each.coupon_id not in self.truth.revoked]
        usable = [each.coupon_id for each in fresh[-40:] if each.bearer or each.member_id == member]
        here = [name for name, (till_id, _) in self.truth.given_at.items() if till_id == part.id and name in usable]
        use = rng.sample(usable, min(len(usable), rng.randint(1, 2)))
        use += here[-1:] if rng.random() < 0.5 else []
        if self.truth.promised and rng.random() < 0.05:
            use.append(rng.choice(list(self.truth.promised)))
        return tuple(dict.fromkeys(use))

    def _sell(self, part: Part, rng: random.Random, event: Event) -> None:
        request = self._basket(part, rng)
        priced = part.till.quote(request)
        if isinstance(priced, Refusal):
            self.stage.note(part.id, "quote", priced.code.value)
            return
        if priced.refused:
            # The cashier takes out what does not apply, and goes on.
            for name, reason in priced.refused.items():
                self.stage.note(part.id, "quote", f"{'coupon' if name in request.use else 'card'} {reason.code.value}")
            use = tuple(name for name in request.use if name not in priced.refused)
            covers = tuple(cover for cover in request.covers if cover.card_id not in priced.refused)
            request = replace(request, use=use, covers=covers)
            again = part.till.quote(request)
            priced = priced if isinstance(again, Refusal) else again
        stored = 0
        lent_minor = self.own_rights(part).members.get(request.member_id or "", 0)
        if request.member_id is not None and priced.payable_minor and rng.random() < (0.7 if lent_minor else 0.3):
            stored = rng.choice([priced.payable_minor, rng.randint(1, priced.payable_minor)])
            stored = min(stored, lent_minor or stored)
        order_id = f"o{event.number}"
        self.truth.lay(order_id, Basket(part.id, request, stored))
        self._checkout(part, order_id, rng)

    def _checkout(self, part: Part, order_id: str, rng: random.Random) -> None:
        basket = self.truth.baskets[order_id]
        opened = part.till.checkout(order_id, basket.request, stored_value_minor=basket.stored_minor)
        if not isinstance(opened, OpenOrder):
            self.stage.note(part.id, "checkout", opened.code.value)
            if opened.code is RefusalCode.NEEDS_ONLINE and self.row(part, order_id) and rng.random() < 0.3:
                # Nobody answered; as soon as the line is good again, it is tried again.
                self.sync(part)
                self._checkout(part, order_id, rng)
            return
        row = self.row(part, order_id)
        own = "own rights" if row is not None and row.rights else "no rights"
        self.stage.note(part.id, "checkout", f"{opened.state} {'held' if opened.held else own}")
        what = rng.random()
        if what < 0.08:
            part.till.park(order_id)
        elif what < 0.85:
            self._take_money(part, order_id, rng)

    def _checkout_again(self, part: Part, rng: random.Random, _event: Event) -> None:
        order_id = self._one_of(part, rng)
        if order_id is None:
            return
        row = self.row(part, order_id)
        if (row is None or row.state == "CANCELLED") and rng.random() < 0.3:
            self.truth.lay(order_id, Basket(part.id, self._basket(part, rng), 0))
        self._checkout(part, order_id, rng)

    def _one_of(self, part: Part, rng: random.Random) -> str | None:
        """Choose one of the last orders that wait at this till."""
        mine = [order_id for order_id, basket in self.truth.baskets.items() if basket.till_id == part.id][-12:]
        return rng.choice(mine) if mine else None

    def row(self, part: Part, order_id: str) -> OrderRow | None:
        """Return the order as the till has it."""
        with part.database.read() as conn:
            return orders.get(conn, order_id)

    def _pay(self, part: Part, rng: random.Random, _event: Event) -> None:
        order_id = self._one_of(part, rng)
        if order_id is not None:
            self._take_money(part, order_id, rng)

    def _take_money(self, part: Part, order_id: str, rng: random.Random) -> None:
        row = self.row(part, order_id)
        if row is None or row.quote is None:
            return
        tenders = _tenders(rng, row.quote["payable_minor"], self.truth.baskets[order_id].stored_minor)
        part.terminal.order_id = order_id
        self._or_unsure(order_id, lambda: self._paid(part, order_id, part.till.pay(order_id, tenders)))

    def _or_unsure(self, order_id: str, do: Callable[[], None]) -> None:
        """Where the till dies with cash in its hands, nobody knows whether it noted the cash as too late."""
        try:
            do()
        except (ProcessDied, StoreError):
            self.truth.doubt(order_id)
            raise

    def _paid(self, part: Part, order_id: str, done: Outcome) -> None:
        """Hand the receipt over, or put aside the cash that came too late."""
        if isinstance(done, PaidOrder):
            self.stage.note(part.id, "pay", "PAID", detail=done.receipt.mark)
            self.truth.receipt(done, part.id, self.stage.now_ms)
            print_receipt(part, done)
            return
        self.stage.note(part.id, "pay", done.code.value if isinstance(done, Refusal) else type(done).__name__)
        if isinstance(done, Refusal):
            recorded = done.facts.get("recorded_minor", 0)
            assert isinstance(recorded, int)
            self.truth.late(order_id, recorded)

    def _cancel(self, part: Part, rng: random.Random, _event: Event) -> None:
        order_id = self._one_of(part, rng)
        if order_id is not None:
            done = part.till.cancel(order_id, reason=rng.choice(["cancelled", "pay_failed"]))
            self.stage.note(part.id, "cancel", done.code.value if isinstance(done, Refusal) else done.state)

    def _resolve(self, part: Part, rng: random.Random, _event: Event) -> None:
        order_id = self._one_of(part, rng)
        row = self.row(part, order_id) if order_id is not None else None
        if row is not None and row.payment is not None:
            self._ask_terminal(part, row.id)

    def _ask_terminal(self, part: Part, order_id: str) -> None:
        """Ask what became of a payment; a person may read it from the terminal's own slip as well."""
        row, terminal = self.row(part, order_id), part.terminal
        terminal.order_id = order_id
        charge = terminal.charges.get(row.payment["id"]) if row is not None and row.payment is not None else None
        if row is not None and row.state == "UNKNOWN" and charge is not None and terminal.rng.random() < 0.3:
            self._paid(part, order_id, part.till.decide_payment(order_id, paid=charge.taken))
        else:
            self._paid(part, order_id, part.till.resolve(order_id))

    def _late_money(self, part: Part, rng: random.Random, _event: Event) -> None:
        order_id = self._one_of(part, rng)
        row = self.row(part, order_id) if order_id is not None else None
        if row is not None and row.state == "CANCELLED":
            money = (Tender(TenderType.CASH, 100),)
            self._or_unsure(row.id, lambda: self._paid(part, row.id, part.till.late_payment(row.id, money)))

    # -------------------------------------------------------------- taking back

    def _refund(self, part: Part, rng: random.Random, event: Event) -> None:
        mine = [name for name, till_id in self.truth.till_of.items() if till_id == part.id]
        known = mine if rng.random() < 0.7 else list(self.truth.receipts)
        if not known:
            return
        order_id = rng.choice(known[-8:])
        lines = None
        if rng.random() < 0.6:
            sold = self.truth.receipts[order_id].quote.lines
            some = rng.sample(sold, rng.randint(1, len(sold)))
            lines = tuple(RefundLine(each.number, rng.choice([each.qty_milli, 1000, 100])) for each in some)
        request = f"r{event.number}"
        self.truth.ask_back(request, AskedRefund(part.id, order_id, lines))
        self.ask_refund(part, request)

    def _refund_elsewhere(self, part: Part, rng: random.Random, event: Event) -> None:
        """Bring goods back that were brought back at another till a moment ago."""
        others = [done for name, done in self.truth.refunds.items() if self.truth.refund_till[name] != part.id]
        if others:
            request = f"r{event.number}"
            self.truth.ask_back(request, AskedRefund(part.id, rng.choice(others[-2:]).order_id, None))
            self.ask_refund(part, request)

    def _refund_again(self, part: Part, rng: random.Random, _event: Event) -> None:
        mine = [request for request, asked in self.truth.asked.items() if asked.till_id == part.id]
        if mine:
            self.ask_refund(part, rng.choice(mine[-20:]))

    def ask_refund(self, part: Part, request: str) -> None:
        """Ask for a refund under an id that may have been asked before."""
        asked = self.truth.asked[request]
        done = part.till.refund(request, asked.order_id, asked.lines)
        if isinstance(done, Refusal):
            self.stage.note(part.id, "refund", done.code.value)
            return
        assert isinstance(done, RefundDone)
        self.stage.note(part.id, "refund", f"decided by {done.decided_by}")
        self.truth.refund(done, part.id)
        print_receipt(part, done)

    # -------------------------------------------------------------- sync

    def _sync(self, part: Part, _rng: random.Random, _event: Event) -> None:
        self.sync(part)

    def sync(self, part: Part) -> None:
        """Run a whole session, which finds no difference between both sides."""
        report = part.engine.run_once()
        excused = part.id in self.truth.disasters
        hold(excused or report.differences == (), "I11", f"{part.id}: {report.differences}")
        self.stage.note(part.id, "sync", f"ok, {report.conflicts} conflicts" if report.conflicts else "ok")

    # -------------------------------------------------------------- the end of the day

    def finish(self, part: Part) -> None:
        """Bring everything to an end that waits at a till, once nothing is wrong any more."""
        self.close(part)
        # What is printed now may meet an empty roll, once.
        for _ in range(2):
            self.clear_up(part)
        # A till whose disk was rolled back asks the server nothing any more, so its refunds wait for a person.
        stranded = self.truth.disaster_of(part.id).since_ms is not None
        for each in part.till.interrupted():
            waits = stranded or each.kind is InterruptedKind.OPEN_HOLD or self._waits_for_another(each)
            hold(waits, "I16", f"{part.id}: {each} stays")
            if each.kind is InterruptedKind.OPEN_HOLD:
                part.till.cancel(each.order_id)
        self._resume(part, part.line.rng, LAST)
        for request in self.wanted_gifts(part):
            self.ask_gift(part, request)

    def _waits_for_another(self, each: Interrupted) -> bool:
        """Tell whether it waits for the till that sold the goods, which is stopped until a person has looked at it."""
        seller = self.truth.order_till.get(each.order_id, "")
        return each.kind is InterruptedKind.REFUND_UNANSWERED and self.truth.disaster_of(seller).since_ms is not None

    def give_back(self, part: Part) -> None:
        """Give back every right that a till has, as at the end of the day."""
        with part.database.read() as conn:
            accounts = conn.exec_driver_sql("SELECT DISTINCT account_id FROM lease WHERE state = 'OPEN'").fetchall()
            coupons = conn.exec_driver_sql("SELECT coupon_id FROM home WHERE state = 'HOME'").fetchall()
        if self.stage.closes_day:
            part.till.close_day()
        else:
            for (account_id,) in accounts:
                part.till.unlease(account_id)
            for (coupon_id,) in coupons:
                part.till.return_home(coupon_id)
        self.close(part)

    def close(self, part: Part) -> None:
        """Sync where nothing is wrong with the line: what keeps a till from it is a disaster, and known."""
        try:
            self.sync(part)
        except SyncStopped as stopped:
            rolled_back = part.id in self.truth.disasters and self.truth.disasters[part.id].since_ms is not None
            hold(rolled_back, "I16", f"{part.id} stopped: {stopped}")
            self.stage.note(part.id, "sync", f"stopped {stopped}")


LAST = Event(-1, 0, "resume", 0, 0)


def _lines(skus: Sequence[str], rng: random.Random) -> tuple[BasketLine, ...]:
    return tuple(
        BasketLine(sku, rng.choice([123, 735, 2500]) if sku == "W" else rng.choice([1, 1, 2, 3]) * 1000) for sku in skus
    )


def _tenders(rng: random.Random, payable: int, stored: int) -> tuple[Tender, ...] | None:
    """Choose what the customer pays with; it need not add up. None = cash to the amount."""
    rest, what = payable - stored, rng.random()
    if what < 0.35:
        return None
    given = [Tender(TenderType.STORED_VALUE, stored)] if stored else []
    if rest > 0 and what < 0.65:
        given.append(Tender(rng.choice([TenderType.CARD, TenderType.WALLET]), rest))
    elif rest > 1 and what < 0.78:
        first = rng.randint(1, rest - 1)
        second = rng.choice([TenderType.WALLET, TenderType.CASH])
        given += [Tender(TenderType.CARD, first), Tender(second, rest - first)]
    elif rest > 0:
        given.append(Tender(TenderType.CASH, rest + rng.choice([0, 4, 50, 1000])))
    return tuple(given)

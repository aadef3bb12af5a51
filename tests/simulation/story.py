"""Play one seed: cashiers, customers and headquarters do anything in any order, and whatever may go wrong does.

Real tills on their own files, their real sync, the real server over its HTTP interface; everything in one process, one
thing at a time, but others act in the middle of what a till does: while a request is on its way, while the terminal
works. The same seed gives the same story.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from app.domain.basket import Cover
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import Tender, TenderType
from app.services.api import (
    BasketLine,
    BasketRequest,
    Cancelled,
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
from server.jobs import run_due
from server.scenario.crash import SERVER_POINTS, ProcessDied
from server.scenario.till_part import TillPart
from server.scenario.world import Workshop, World
from tests.simulation import shop
from tests.simulation.books import Books, compare
from tests.simulation.office import Office
from tests.simulation.weather import Cable, Terminal, Weather, bad_disks, short_pushes

TILL_POINTS = ("hold_answered", "after_hold", "before_commit", "after_commit", "before_ack")
VERBS = {
    "claim": 14,
    "sell": 30,
    "pay": 12,
    "cancel": 4,
    "resolve": 5,
    "refund": 14,
    "refund_again": 3,
    "checkout_again": 4,
    "money_too_late": 2,
    "look": 3,
    "sync": 8,
    "deliver_late": 5,
    "unplug": 2,
    "plug": 8,
    "wait": 6,
    "jobs": 6,
    "headquarters": 10,
    "turn_the_clock": 2,
    "switch_off": 3,
}
DEPTH_MAX = 2
Outcome = PaidOrder | Cancelled | PaymentPending | Refusal


def play(workshop: Workshop, seed: int, *, steps: int) -> Story:
    """Play a story to its end, heal everything, and assert that every promise was kept."""
    rng = random.Random(seed)
    with workshop.world(shop.draw(rng, f"seed {seed}")) as world:
        story = Story(world, rng)
        with bad_disks(story.weather, rng), short_pushes(rng):
            for _ in range(steps):
                story.step()
        story.heal()
        compare(story.books, world, story.terminals.values())
        return story


class Story:
    """Hold a world and what people know of it. `trace` tells what was done, `seen` counts how it ended."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng, self.books = world, rng, Books()
        self.trace: list[str] = []
        self.seen: Counter[str] = Counter()
        self.cables: dict[str, Cable] = {}
        self.terminals: dict[str, Terminal] = {}
        self.baskets: dict[str, tuple[str, BasketRequest, int]] = {}
        """Orders that are not paid yet: at which till, what is on the counter, how much of it from stored value."""
        self.office = Office(world, rng, self.books)
        self.claims: dict[str, dict[str, str]] = {}
        self.asked: dict[str, tuple[str, str, tuple[RefundLine, ...] | None]] = {}
        self._answers: dict[str, Any] = {}
        self._busy: list[str] = []
        self._ids: Counter[str] = Counter()
        self.weather = Weather()
        for part in world.tills.values():
            self._connect(part)
        self.weather = Weather.draw(rng)
        for cable in self.cables.values():
            cable._weather = self.weather
        for terminal in self.terminals.values():
            terminal._weather = self.weather

    def _connect(self, part: TillPart) -> None:
        def meanwhile() -> None:
            self._meanwhile(part.id)

        self.cables[part.id] = Cable(self.world.server, self.weather, self.rng, meanwhile)
        self.terminals[part.id] = Terminal(self.weather, self.rng, meanwhile)
        part.link._wire = self.cables[part.id]
        part.fuse._points = dict(zip(TILL_POINTS, TILL_POINTS, strict=True))
        part.terminal = self.terminals[part.id]  # type: ignore[assignment]
        part.restart()
        part.engine.run_once()

    def _new(self, what: str) -> str:
        self._ids[what] += 1
        return f"{what}{self._ids[what]}"

    # -------------------------------------------------------------- one thing at a time

    def step(self) -> None:
        """Let one till do one thing, and whoever comes in between."""
        for part in self.world.tills.values():
            self._wake(part)
        server = self.world.server
        if server.fuse.died and self.rng.random() < 0.7:
            server.restart()
        if self.rng.random() < self.weather.death:
            server.fuse.arm(self.rng.choice(list(SERVER_POINTS)))
        self._act(self.rng.choice(list(self.world.tills.values())))
        self.world.disarm()
        assert server.bugs == []

    def _act(self, part: TillPart) -> None:
        verb = self.rng.choices(list(VERBS), list(VERBS.values()))[0]
        if self.rng.random() < self.weather.death:
            part.fuse.arm(self.rng.choice(TILL_POINTS))
        with self.world.server.fuse.lit(), part.fuse.lit():
            self._safely(part, verb, lambda: getattr(self, f"_{verb}")(part))

    def _safely(self, part: TillPart, verb: str, do: Callable[[], None]) -> bool:
        """Do it; what may go wrong there is no bug. Returns whether it came to its end."""
        try:
            do()
        except ProcessDied as death:
            part.fuse.died = True
            self._note(part, verb, f"died {death}")
        except (Offline, Busy, StoreError) as trouble:
            self._note(part, verb, type(trouble).__name__)
        else:
            return True
        return False

    def _meanwhile(self, busy: str) -> None:
        """Let somebody else act while this till waits."""
        if len(self._busy) == DEPTH_MAX or self.rng.random() >= self.weather.between:
            return
        self._busy.append(busy)
        try:
            free = [part for part in self.world.tills.values() if part.id not in self._busy and not part.fuse.died]
            if free:
                self._act(self.rng.choice(free))
            else:
                self.rng.choice([self._wait, self._headquarters])(next(iter(self.world.tills.values())))
        finally:
            self._busy.pop()

    def _note(self, part: TillPart, verb: str, how: object) -> None:
        self.seen[f"{verb} {how}"] += 1
        self.trace.append(f"{part.id} {verb} {how}")

    def _wake(self, part: TillPart) -> None:
        """Start a till again that is off, and let the cashier answer what it asks."""
        while part.fuse.died:
            worse, self.weather.disk = self.weather.disk, 0.0
            part.restart()
            self.weather.disk = worse
            with part.fuse.lit():
                self._safely(part, "wake", lambda: self._clear_up(part))

    def _clear_up(self, part: TillPart) -> None:
        for each in part.till.interrupted():
            if each.kind is InterruptedKind.RECEIPT_NOT_SHOWN:
                row = self._row(part, each.order_id)
                assert row is not None
                self._paid(part, each.order_id, paid_order(part.till._parts, row))
            elif each.kind is InterruptedKind.PAYMENT_UNKNOWN:
                self._ask_terminal(part, each.order_id)
            elif each.request_id is not None:
                self._ask_refund(part, each.request_id)

    # -------------------------------------------------------------- coupons

    def _claim(self, part: TillPart) -> None:
        if self.claims and self.rng.random() < 0.25:
            request = self.rng.choice(list(self.claims))
        else:
            request = self._new("q")
            campaigns = [each.id for each in self.world.table.campaign if each.rule.get("kind") != "automatic"]
            campaign, member = self.rng.choice(campaigns), self.rng.choice(shop.MEMBERS)
            self.claims[request] = {"request": request, "campaign": campaign, "member": member, "source": "app"}
        body = self.claims[request]
        if self.rng.random() < 0.5:
            answer = self.world.server.call("POST", "/v1/claims", key=self.world.keys.app, body=body)
        else:
            answer = part.app_client.post("/v1/claims", body)
        if isinstance(answer, Refusal) or "coupon" in answer:
            self._claimed(part, body, answer)

    def _claimed(self, part: TillPart, body: dict[str, str], answer: dict[str, Any] | Refusal) -> None:
        self._note(part, "claim", answer.code.value if isinstance(answer, Refusal) else "ok")
        if isinstance(answer, Refusal) and answer.code is RefusalCode.BUSY:
            return
        first = self._answers.setdefault(body["request"], answer)
        assert first == answer, "the same request gets the same answer"
        if not isinstance(answer, Refusal):
            rule = next(each.rule for each in self.world.table.campaign if each.id == body["campaign"])
            self.books.promised[answer["coupon"]] = {**body, "bearer": bool(rule.get("bearer"))}

    # -------------------------------------------------------------- selling

    def _basket(self, part: TillPart) -> BasketRequest:
        rng = self.rng
        member = rng.choice([None, *shop.MEMBERS])
        skus = [rng.choice("AABBCWWS") for _ in range(rng.randint(1, 4))]
        lines = tuple(
            BasketLine(sku, rng.choice([123, 735, 2500]) if sku == "W" else rng.choice([1, 1, 2, 3]) * 1000)
            for sku in skus
        )
        usable = [name for name, each in self.books.promised.items() if each["member"] == member or each["bearer"]]
        use = rng.sample(usable, min(len(usable), rng.randint(1, 3))) if rng.random() < 0.8 else []
        if self.books.promised and rng.random() < 0.05:
            use.append(rng.choice(list(self.books.promised)))
        covers = [
            Cover(card, number)
            for number, line in enumerate(lines, start=1)
            for card, who, sku, _ in shop.CARDS
            if (who, sku) == (member, line.sku) and rng.random() < 0.5
        ]
        request = BasketRequest(member, lines, tuple(use), covers=tuple(covers))
        if member is not None and rng.random() < 0.15:
            best = part.till.best(request)
            if not isinstance(best, Refusal):
                return BasketRequest(member, lines, best.coupon_ids, covers=tuple(covers))
        return request

    def _sell(self, part: TillPart) -> None:
        request = self._basket(part)
        priced = part.till.quote(request)
        if isinstance(priced, Refusal):
            self._note(part, "quote", priced.code.value)
            return
        stored = 0
        if request.member_id is not None and priced.payable_minor and self.rng.random() < 0.3:
            stored = self.rng.choice([priced.payable_minor, self.rng.randint(1, priced.payable_minor)])
        order_id = self._new("o")
        self.baskets[order_id] = (part.id, request, stored)
        self._checkout(part, order_id)

    def _checkout(self, part: TillPart, order_id: str) -> None:
        _, request, stored = self.baskets[order_id]
        opened = part.till.checkout(order_id, request, stored_value_minor=stored)
        self._note(part, "checkout", opened.code.value if isinstance(opened, Refusal) else opened.state)
        if not isinstance(opened, OpenOrder):
            return
        what = self.rng.random()
        if what < 0.1:
            part.till.park(order_id)
        elif what < 0.75:
            self._take_money(part, order_id)

    def _checkout_again(self, part: TillPart) -> None:
        order_id = self._one_of(part)
        if order_id is None:
            return
        row = self._row(part, order_id)
        if (row is None or row.state == "CANCELLED") and self.rng.random() < 0.3:
            self.baskets[order_id] = (part.id, self._basket(part), 0)
        self._checkout(part, order_id)

    def _one_of(self, part: TillPart) -> str | None:
        """Choose one of the orders that wait at this till."""
        mine = [order_id for order_id, (till_id, *_) in self.baskets.items() if till_id == part.id]
        return self.rng.choice(mine) if mine else None

    def _row(self, part: TillPart, order_id: str) -> OrderRow | None:
        with part.database.read() as conn:
            return orders.get(conn, order_id)

    def _pay(self, part: TillPart) -> None:
        order_id = self._one_of(part)
        if order_id is not None:
            self._take_money(part, order_id)

    def _take_money(self, part: TillPart, order_id: str) -> None:
        row = self._row(part, order_id)
        if row is None or row.quote is None:
            return
        tenders = self._tenders(row.quote["payable_minor"], self.baskets[order_id][2])
        self.terminals[part.id].order_id = order_id
        self._or_unsure(order_id, lambda: self._paid(part, order_id, part.till.pay(order_id, tenders)))

    def _or_unsure(self, order_id: str, do: Callable[[], None]) -> None:
        """Where the till dies with cash in its hands, nobody knows whether it noted the cash as too late."""
        try:
            do()
        except (ProcessDied, StoreError):
            self.books.unsure.add(order_id)
            raise

    def _tenders(self, payable: int, stored: int) -> tuple[Tender, ...] | None:
        """Choose what the customer pays with; it need not add up. None = cash to the amount."""
        rng, rest = self.rng, payable - stored
        what = rng.random()
        if what < 0.35:
            return None
        given = [Tender(TenderType.STORED_VALUE, stored)] if stored else []
        if rest > 0 and what < 0.6:
            given.append(Tender(rng.choice([TenderType.CARD, TenderType.WALLET]), rest))
        elif rest > 1 and what < 0.75:
            first = rng.randint(1, rest - 1)
            second = rng.choice([TenderType.WALLET, TenderType.CASH])
            given += [Tender(TenderType.CARD, first), Tender(second, rest - first)]
        elif rest > 0:
            given.append(Tender(TenderType.CASH, rest + rng.choice([0, 4, 50, 1000])))
        return tuple(given)

    def _paid(self, part: TillPart, order_id: str, done: Outcome) -> None:
        """Hand the receipt over, or put aside the cash that came too late."""
        if isinstance(done, PaidOrder):
            self._note(part, "pay", "PAID")
            self.books.receipt(done, part.id)
            self.baskets.pop(order_id, None)
            part.till.receipt_shown(order_id)
            return
        self._note(part, "pay", done.code.value if isinstance(done, Refusal) else type(done).__name__)
        if isinstance(done, Refusal):
            recorded = done.facts.get("recorded_minor", 0)
            assert isinstance(recorded, int)
            self.books.late_cash[order_id] += recorded

    def _cancel(self, part: TillPart) -> None:
        order_id = self._one_of(part)
        if order_id is not None:
            part.till.cancel(order_id, reason=self.rng.choice(["cancelled", "pay_failed"]))

    def _resolve(self, part: TillPart) -> None:
        order_id = self._one_of(part)
        row = self._row(part, order_id) if order_id is not None else None
        if row is not None and row.payment is not None:
            self._ask_terminal(part, row.id)

    def _ask_terminal(self, part: TillPart, order_id: str) -> None:
        """Ask what became of a payment; a person may read it from the terminal's own slip as well."""
        row, terminal = self._row(part, order_id), self.terminals[part.id]
        terminal.order_id = order_id
        charge = terminal.charges.get(row.payment["id"]) if row is not None and row.payment is not None else None
        if row is not None and row.state == "UNKNOWN" and charge is not None and self.rng.random() < 0.3:
            self._paid(part, order_id, part.till.decide_payment(order_id, paid=charge.taken))
        else:
            self._paid(part, order_id, part.till.resolve(order_id))

    def _money_too_late(self, part: TillPart) -> None:
        order_id = self._one_of(part)
        row = self._row(part, order_id) if order_id is not None else None
        if row is not None and row.state == "CANCELLED":
            money = (Tender(TenderType.CASH, 100),)
            self._or_unsure(row.id, lambda: self._paid(part, row.id, part.till.late_payment(row.id, money)))

    # -------------------------------------------------------------- taking back

    def _refund(self, part: TillPart) -> None:
        if not self.books.receipts:
            return
        rng = self.rng
        order_id = rng.choice(list(self.books.receipts))
        seller = self.books.till_of[order_id]
        if rng.random() < 0.6 and seller not in self._busy:
            part = self.world.till(seller)
        lines = None
        if rng.random() < 0.6:
            sold = self.books.receipts[order_id].quote.lines
            some = rng.sample(sold, rng.randint(1, len(sold)))
            lines = tuple(RefundLine(each.number, rng.choice([each.qty_milli, 1000, 100])) for each in some)
        request = self._new("r")
        self.asked[request] = (part.id, order_id, lines)
        self._ask_refund(part, request)

    def _refund_again(self, part: TillPart) -> None:
        mine = [request for request, (till_id, *_) in self.asked.items() if till_id == part.id]
        if mine:
            self._ask_refund(part, self.rng.choice(mine))

    def _ask_refund(self, part: TillPart, request: str) -> None:
        _, order_id, lines = self.asked[request]
        done = part.till.refund(request, order_id, lines)
        self._note(part, "refund", done.code.value if isinstance(done, Refusal) else "ok")
        if isinstance(done, RefundDone):
            self.books.refund(done)
            part.till.receipt_shown(order_id)

    # -------------------------------------------------------------- around it

    def _look(self, part: TillPart) -> None:
        """Look at whatever can be looked at: that changes nothing, and never fails."""
        part.till.usable_coupons(self._basket(part))
        part.till.status()
        if self.books.receipts:
            part.till.order(self.rng.choice(list(self.books.receipts)))

    def _sync(self, part: TillPart) -> None:
        assert part.engine.run_once().differences == ()

    def _deliver_late(self, part: TillPart) -> None:
        self.cables[part.id].deliver_late()

    def _unplug(self, part: TillPart) -> None:
        part.link.faults.offline = True

    def _plug(self, part: TillPart) -> None:
        part.link.faults.offline = False
        if self.rng.random() < 0.5:
            self._sync(part)

    def _wait(self, _part: TillPart) -> None:
        minutes = self.rng.choice([0.4, 1, 10, 16, 300, 1620])
        self.world.clock.advance(timedelta(minutes=minutes))

    def _jobs(self, part: TillPart) -> None:
        if not self.world.server.fuse.died:
            try:
                run_due(self.world.server.services)
            except ProcessDied:
                self._note(part, "jobs", "the server died")

    def _turn_the_clock(self, part: TillPart) -> None:
        by = self.rng.choice([timedelta(minutes=7), timedelta(hours=2), timedelta(days=400)])
        part.clock.skew(self.rng.choice([by, -by]))

    def _switch_off(self, part: TillPart) -> None:
        fuse = self.rng.choice([part.fuse, self.world.server.fuse])
        fuse.died = True

    def _headquarters(self, part: TillPart) -> None:
        self._note(part, "headquarters", self.office.act())

    # -------------------------------------------------------------- the end

    def heal(self) -> None:
        """Put everything right, let everybody finish what was begun, and let all timers run out."""
        server, tills = self.world.server, list(self.world.tills.values())
        self.weather.heal()
        if server.fuse.died:
            server.restart()
        for part in tills:
            part.clock.skew(-part.clock.error)
            part.link.faults.offline = False
            self._wake(part)
            while self.cables[part.id].late:
                self.cables[part.id].deliver_late()
        for part in tills:
            self._sync(part)
            self._clear_up(part)
            for each in part.till.interrupted():
                assert each.kind is InterruptedKind.OPEN_HOLD, each
                part.till.cancel(each.order_id)
        for body in self.claims.values():
            answer = server.call("POST", "/v1/claims", key=self.world.keys.app, body=body)
            self._claimed(tills[0], body, answer)
        for _ in range(2):
            self.world.clock.advance(timedelta(hours=1))
            run_due(server.services)
            for part in tills:
                self._sync(part)
        assert server.bugs == []

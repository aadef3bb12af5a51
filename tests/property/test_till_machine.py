"""Sell, cancel, refund, lose the line, die and start again, in any order: the till agrees with a model of the counter.

The model knows what was handed over at the counter and nothing of how the till keeps it. Checked after every step: the
chain is whole, each order is in the ledger once or not at all, orders and refunds are what the entries say, the
terminal took what the entries say it took, and whatever the server holds belongs to an order that is still open.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal
from app.services.api import Cancelled, OpenOrder, PaidOrder, PaymentPending, RefundDone
from app.store import projections
from tests.examples import share
from tests.fakes.shop import K1, Shop, basket, card
from tests.fakes.terminal import Habit

ORDERS = st.sampled_from(["o1", "o2", "o3"])
BASKETS = {
    "plain": basket("A", ("B", 2000)),
    "coupon": basket("A", "B", member="m1", use=["k1"]),
    "weight": basket(("TEA", 735), "GUM"),
}
POINTS = ["hold_answered", "after_hold", "before_commit", "after_commit"]


class ProcessDied(BaseException):
    """The process is gone."""


class TillMachine(RuleBasedStateMachine):
    """Run one till against one head office."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pawtill-machine-"))
        self.shop = Shop(self.folder)
        self.shop.coupon("k1", K1)
        self.shop.server.members["m1"]["balance_minor"] = 5_000
        self.shop.till.head_office.refresh()
        self.paid: dict[str, int] = {}
        self.refunded: Counter[str] = Counter()
        self.requests = 0

    def teardown(self) -> None:
        if hasattr(self, "shop"):
            self.shop.close()
            shutil.rmtree(self.folder)

    # ------------------------------------------------------------ at the counter

    @rule(order=ORDERS, kind=st.sampled_from(sorted(BASKETS)), stored=st.sampled_from([0, 0, 500]))
    def checkout(self, order: str, kind: str, stored: int) -> None:
        stored = stored if kind == "coupon" else 0
        answer = self.shop.till.checkout(order, BASKETS[kind], stored_value_minor=stored)

        if isinstance(answer, OpenOrder):
            assert answer.held == (kind == "coupon") or order in self.paid
            assert (answer.state in ("PAID", "PARTLY_REFUNDED", "REFUNDED")) == (order in self.paid)

    @rule(order=ORDERS, by_card=st.booleans(), habit=st.sampled_from(Habit))
    def pay(self, order: str, by_card: bool, habit: Habit) -> None:
        self.shop.terminal.next(habit)
        shown = self.shop.till.order(order)
        tenders = None
        if by_card and not isinstance(shown, Refusal) and shown.quote is not None:
            tenders = (card(shown.quote.payable_minor),)

        answer = self.shop.till.pay(order, tenders)

        if isinstance(answer, PaidOrder):
            if order in self.paid:
                assert answer.quote.payable_minor == self.paid[order], "a repeat gets the first answer"
            self.handed_over(answer)
        else:
            assert isinstance(answer, (Cancelled, PaymentPending, Refusal))
            assert order not in self.paid or isinstance(answer, Refusal)

    @rule(order=ORDERS)
    def resolve(self, order: str) -> None:
        answer = self.shop.till.resolve(order)

        if isinstance(answer, PaidOrder):
            self.handed_over(answer)

    def handed_over(self, answer: PaidOrder) -> None:
        assert sum(tender.amount_minor for tender in answer.tenders) == answer.quote.payable_minor
        self.paid[answer.order_id] = answer.quote.payable_minor
        self.shop.till.receipt_shown(answer.order_id)

    @rule(order=ORDERS, reason=st.sampled_from(["cancelled", "pay_failed"]))
    def cancel(self, order: str, reason: str) -> None:
        answer = self.shop.till.cancel(order, reason=reason)

        assert not (isinstance(answer, Cancelled) and order in self.paid)

    @rule(order=ORDERS, part=st.booleans())
    def refund(self, order: str, part: bool) -> None:
        self.requests += 1
        request = f"r{self.requests}"
        lines = (RefundLine(2, 1000),) if part else None

        answer = self.shop.till.refund(request, order, lines)

        if isinstance(answer, RefundDone):
            assert order in self.paid
            self.refunded[order] += answer.refund.amount_minor
            assert self.shop.till.refund(request, order, lines) == answer
            assert (answer.state == "REFUNDED") <= (self.refunded[order] == self.paid[order])

    # ------------------------------------------------------------ around it

    @rule()
    def unplug(self) -> None:
        self.shop.unplug()

    @rule()
    def plug(self) -> None:
        self.shop.plug()

    @rule()
    def lose_an_answer(self) -> None:
        self.shop.cable.lose = 1

    @rule()
    def sync(self) -> None:
        self.shop.till._parts.push_soon()
        self.shop.till._parts.pull_now()

    @rule()
    def restart(self) -> None:
        self.reopen()

    @rule(point=st.sampled_from(POINTS), order=ORDERS, kind=st.sampled_from(sorted(BASKETS)), by_card=st.booleans())
    def die(self, point: str, order: str, kind: str, by_card: bool) -> None:
        def probe(passed: str) -> None:
            if passed == point:
                raise ProcessDied

        self.shop.probe = probe
        died = False
        try:
            opened = self.shop.till.checkout(order, BASKETS[kind])
            if isinstance(opened, OpenOrder):
                due = (card(opened.quote.payable_minor - opened.stored_value_minor),)
                answer = self.shop.till.pay(order, due if by_card and not opened.stored_value_minor else None)
                if isinstance(answer, PaidOrder):
                    self.paid[order] = answer.quote.payable_minor
        except ProcessDied:
            died = True
        self.shop.probe = lambda _: None
        if died:
            self.reopen()

    def reopen(self) -> None:
        """Start again, and do what a cashier does then: show what was not shown, ask about what is not known."""
        self.shop.cable.lose = 0
        self.shop.restart()
        for each in self.shop.till.interrupted():
            if each.kind.value == "receipt_not_shown":
                answer = self.shop.till.resolve(each.order_id)
                assert isinstance(answer, PaidOrder)
                self.handed_over(answer)
            elif each.kind.value == "payment_unknown":
                self.resolve(each.order_id)

    @precondition(lambda self: self.shop.cable.plugged)
    @rule(minutes=st.sampled_from([1, 20]))
    def time_passes(self, minutes: int) -> None:
        self.shop.clock.pass_time(minutes=minutes)
        self.shop.server.time_out()
        self.shop.till._parts.pull_now()

    # ------------------------------------------------------------ what always holds

    @invariant()
    def the_chain_is_whole(self) -> None:
        assert self.shop.verify() == []

    @invariant()
    def each_order_is_there_once_and_only_if_it_was_handed_over(self) -> None:
        with self.shop.till.database.read() as conn:
            entries = [entry for entry, _ in self.shop.till.database.ledger.every(conn)]
        sales = Counter(entry.read()["order"] for entry in entries if entry.kind == "sale")
        assert dict(sales) == dict.fromkeys(self.paid, 1)
        back = Counter[str]()
        for entry in entries:
            if entry.kind == "refund":
                back[entry.read()["order"]] += entry.read()["body"]["amount_minor"]
        assert all(back[order] >= self.refunded[order] for order in self.paid)
        assert all(back[order] <= self.paid[order] for order in back)

    @invariant()
    def the_terminal_took_what_the_ledger_says(self) -> None:
        with self.shop.till.database.read() as conn:
            bodies = [(entry.kind, entry.read()) for entry, _ in self.shop.till.database.ledger.every(conn)]
            open_orders = conn.exec_driver_sql("SELECT payment ->> '$.amount_minor' FROM orders").scalars().all()
        sold = sum(
            t["amount_minor"] for kind, b in bodies if kind == "sale" for t in b["tenders"] if t["type"] == "card"
        )
        waiting = sum(int(minor) for minor in open_orders if minor is not None)
        assert sold <= sum(self.shop.terminal.taken.values()) <= sold + waiting

    @invariant()
    def orders_and_refunds_are_what_the_ledger_says(self) -> None:
        with self.shop.till.database.write() as tx:
            assert projections.rebuild(tx, self.shop.till.database.ledger) == []


TestTillMachine = TillMachine.TestCase
TestTillMachine.settings = settings(
    max_examples=share(1 / 2),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Take coupons at a risk, lose the line, die, cancel, sync, be given another budget, in any order: the bound holds.

Whatever happens, what was ever handed over without a right is at most what was leased for it (PROTOCOL 8, I14), and no
limit is passed: ten in a row and three of one member without the server. The model counts what the counter handed over,
and the server what it lent; neither asks the till's own books.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.codes import damm_digit
from app.domain.pins import peppered
from app.domain.risk import IN_A_ROW_MAX, PER_MEMBER_MAX
from app.services.api import Approved, Cancelled, OpenOrder, PaidOrder, PaymentPending
from app.store import projections
from tests.examples import share
from tests.fakes.memory_world import CODE_KEY
from tests.fakes.shop import Shop, basket, card
from tests.fakes.terminal import Habit

PIN, RISK = "270581", "risk:T1"
COUPONS = 16
VERIFIER = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=8).derive_phc_encoded(
    peppered(CODE_KEY, PIN)
)


class ProcessDied(BaseException):
    """The process is gone."""


class RiskMachine(RuleBasedStateMachine):
    """Run one till that takes risks; coupons of 5.00 belong to two members in turn."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pawtill-risk-"))
        self.shop = Shop(self.folder)
        server = self.shop.server
        server.member("m2")
        server.manager("meg", "Meg", verifier=VERIFIER)
        benefit = {"type": "amount_off", "amount": "5.00"}
        server.campaign("c", offline="risk", risk_max_minor=500, benefit=benefit, max_per_order=9)
        self.member = {f"k{n}": f"m{n % 2 + 1}" for n in range(COUPONS)}
        for number, (name, member) in enumerate(self.member.items()):
            digits = f"9{number + 500:014}"
            server.coupon(name, digits + damm_digit(digits), "c", member=member)
        server.risk_budget("T1", 2_000)
        self.lent = 0
        self.orders = 0
        self.unheard: list[str] = []
        self.waiting: dict[str, list[str]] = {}
        self.handed_over_minor = 0
        self._renew()
        self.shop.unplug()

    def teardown(self) -> None:
        if hasattr(self, "shop"):
            self.shop.close()
            shutil.rmtree(self.folder)

    def _renew(self) -> None:
        self.shop.notice()
        before = self.shop.server.lendable[RISK]
        self.shop.till.renew_rights()
        self.lent += before - self.shop.server.lendable[RISK]

    def _taken(self, coupons: list[str]) -> None:
        """Count what the customer has left with."""
        self.handed_over_minor += 500 * len(coupons)
        self.unheard += coupons

    # ------------------------------------------------------------ at the counter

    @rule(
        data=st.data(),
        habit=st.sampled_from([None, Habit.PAYS, Habit.DECLINES, Habit.PAYS_IN_SILENCE]),
        dies=st.sampled_from(["", "", "", "before_commit", "after_commit"]),
    )
    def sell(self, data: st.DataObject, habit: Habit | None, dies: str) -> None:
        self.orders += 1
        order = f"o{self.orders}"
        member = data.draw(st.sampled_from(["m1", "m2"]))
        mine = sorted(name for name, owner in self.member.items() if owner == member)
        wanted = data.draw(st.lists(st.sampled_from(mine), min_size=1, max_size=3, unique=True))
        offline = not self.shop.till.head_office.online
        approved = [
            name
            for name in wanted
            if isinstance(self.shop.till.approve_risk(order, name, by="meg", pin=PIN, reason="x"), Approved)
        ]
        request = basket("A", member=member, use=approved)
        opened = self.shop.till.checkout(order, request)
        if not isinstance(opened, OpenOrder):
            return
        if habit is not None:
            self.shop.terminal.next(habit)
        tenders = None if habit is None else (card(opened.quote.payable_minor),)
        answer = self._pay(order, tenders, dies=dies)
        if offline and isinstance(answer, PaidOrder):
            self._taken(approved)
        elif offline and isinstance(answer, PaymentPending):
            self.waiting[order] = approved
        elif answer is None:
            sold = self.shop.till.order(order).state in ("PAID", "UNKNOWN")  # type: ignore[union-attr]
            if offline and sold and self.shop.till.order(order).state == "PAID":  # type: ignore[union-attr]
                self._taken(approved)
            elif offline:
                self.waiting[order] = approved

    def _pay(self, order: str, tenders: object, *, dies: str) -> object:
        """Pay; None = the till died over it and lives again."""

        def probe(passed: str) -> None:
            if passed == dies:
                raise ProcessDied

        self.shop.probe = probe
        try:
            return self.shop.till.pay(order, tenders)  # type: ignore[arg-type]
        except ProcessDied:
            self.shop.probe = lambda _point: None
            self.shop.restart()
            return None
        finally:
            self.shop.probe = lambda _point: None

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), paid=st.booleans())
    def decide(self, data: st.DataObject, paid: bool) -> None:
        order = data.draw(st.sampled_from(sorted(self.waiting)))
        coupons = self.waiting.pop(order)
        state = self.shop.till.order(order).state  # type: ignore[union-attr]
        if state in ("UNKNOWN", "HELD"):
            answer = (
                self.shop.till.decide_payment(order, paid=paid) if state == "UNKNOWN" else self.shop.till.resolve(order)
            )
            assert isinstance(answer, PaidOrder | Cancelled | PaymentPending)
            if isinstance(answer, PaymentPending):
                self.waiting[order] = coupons
                return
        if self.shop.till.order(order).state == "PAID":  # type: ignore[union-attr]
            self._taken(coupons)

    # ------------------------------------------------------------ the line, and headquarters

    @rule()
    def sync(self) -> None:
        self.shop.plug()
        self.shop.till.head_office.flush()
        self.unheard.clear()
        self._renew()
        self.shop.unplug()

    @rule(minor=st.sampled_from([0, 700, 2_000]))
    def headquarters_grants(self, minor: int) -> None:
        self.shop.server.risk_budget("T1", minor)

    @rule()
    def time_passes(self) -> None:
        self.shop.clock.at += timedelta(hours=1)

    # ------------------------------------------------------------ what must hold

    @invariant()
    def never_more_than_was_leased(self) -> None:
        assert self.handed_over_minor <= self.lent
        with self.shop.till.database.read() as conn:
            told = [entry.read() for entry, _ in self.shop.till.database.ledger.every(conn) if entry.kind == "sale"]
        risks = [each for body in told for each in (body.get("rights") or {}).get("risks", ())]
        assert sum(each["amount_minor"] for each in risks) == self.handed_over_minor
        assert all((each["by"], each["reason"]) == ("meg", "x") for each in risks)
        assert max(Counter(each["coupon"] for each in risks).values(), default=0) <= 1

    @invariant()
    def never_past_a_limit(self) -> None:
        assert len(self.unheard) <= IN_A_ROW_MAX
        of_member = Counter(self.member[name] for name in self.unheard)
        assert max(of_member.values(), default=0) <= PER_MEMBER_MAX

    @invariant()
    def the_books_are_what_the_ledger_says(self) -> None:
        with self.shop.till.database.write() as tx:
            assert projections.rebuild(tx, self.shop.till.database.ledger) == []


TestRiskMachine = RiskMachine.TestCase
TestRiskMachine.settings = settings(
    max_examples=share(1 / 8),
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

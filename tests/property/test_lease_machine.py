"""Lend, spend offline, close, push late, ask twice, strand, reclaim, begin anew, in any order: nothing gets lost.

The model knows what was spent at the counters, and nothing of how the server keeps it. Checked after every step: the
audit is clean, a lease that nobody reclaimed is never overdrawn, and no finding tells of what was in order. At the end,
when every till has told everything: all that was spent is booked, and what was spent twice is an overdraft.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.ledger import CARRY
from server.services import accounts
from tests.examples import share
from tests.fakes.counter import Counter, cash, findings, furnish, stored_value, violations
from tests.fakes.headquarters import Headquarters

TOTAL, PRICE = 5_000, 10_000
VALUE = "value:m1"
TILLS = ("t1", "t2")


@dataclass
class Held:
    """A lease as its till keeps it."""

    till: str
    qty: int
    used: int = 0
    is_open: bool = True


class LeaseMachine(RuleBasedStateMachine):
    """Run two tills against one server, over one member's stored value."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pawtill-leases-")
        self.hq = Headquarters(Path(self.folder.name))
        self.hq.furnish()
        furnish(self.hq)
        self.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
        self.tills = {name: Counter(self.hq, name) for name in TILLS}
        self.leases: dict[str, Held] = {}
        self.answers: dict[str, tuple[str, int, dict[str, Any]]] = {}
        self.spent, self.orders, self.reclaims = 0, 0, 0
        self.lost: set[str] = set()
        self.epochs = 0
        self.given_up: set[str] = set()

    def teardown(self) -> None:
        if not hasattr(self, "hq"):
            return
        try:
            self._tell_everything()
        finally:
            self.hq.close()
            self.folder.cleanup()

    def _tell_everything(self) -> None:
        for name, held in self.leases.items():
            if held.is_open:
                self._close(name, held)
        for till in self.tills.values():
            till.push()
        for name in sorted(self.given_up):
            self.hq.call("POST", f"/v1/tills/{name}/reclaim", {"reason": "its ledger was cut"}, status=200)
        assert "tail_lost" not in findings(self.hq)
        found = self._account()
        assert (found.spent, found.leased, found.stranded) == (self.spent, 0, 0)
        assert found.over == max(0, self.spent - TOTAL) and found.total == TOTAL
        assert violations(self.hq) == []

    def _account(self) -> accounts.Account:
        return self.hq.services.read(lambda conn, _: accounts.read(conn, [VALUE]))[VALUE]

    def _order(self) -> str:
        self.orders += 1
        return f"o{self.orders}"

    def _close(self, name: str, held: Held) -> None:
        till = self.tills[held.till]
        till.append("lease_close", till.told(lease=name, used=held.used))
        held.is_open = False

    # ------------------------------------------------------------ what happens

    @rule(till=st.sampled_from(TILLS), amount=st.integers(1, TOTAL))
    def ask(self, till: str, amount: int) -> None:
        name = f"l{len(self.answers)}"
        available = self._account().available
        answer = self.tills[till].lease("value", "m1", amount, lease=name, status=None)
        self.answers[name] = (till, amount, answer)
        if till in self.lost:
            assert answer["outcome"] == "not_allowed"
        elif available:
            assert answer["amount"] == min(amount, available)
            self.leases[name] = Held(till, answer["amount"])
        else:
            assert answer["outcome"] == "insufficient_balance"

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def ask_again_late(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.answers)))
        till, amount, first = self.answers[name]

        assert self.tills[till].lease("value", "m1", amount, lease=name, status=None) == first

    @precondition(lambda self: any(each.is_open and each.used < each.qty for each in self.leases.values()))
    @rule(data=st.data())
    def spend_offline(self, data: st.DataObject) -> None:
        usable = sorted(name for name, each in self.leases.items() if each.is_open and each.used < each.qty)
        name = data.draw(st.sampled_from(usable))
        held = self.leases[name]
        amount = data.draw(st.integers(1, held.qty - held.used))
        till = self.tills[held.till]
        tenders = [stored_value(amount), cash(PRICE - amount)]
        till.sell_by_rights(till.basket(self._order(), "A", member="m1"), tenders=tenders, leases={name: amount})
        held.used += amount
        self.spent += amount

    @precondition(lambda self: any(each.is_open for each in self.leases.values()))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, each in self.leases.items() if each.is_open)))
        self._close(name, self.leases[name])

    @rule(till=st.sampled_from(TILLS))
    def push(self, till: str) -> None:
        self.tills[till].push()

    @rule(till=st.sampled_from(TILLS), amount=st.integers(1, TOTAL))
    def spend_online(self, till: str, amount: int) -> None:
        counter = self.tills[till]
        basket = counter.basket(self._order(), "A", member="m1")
        available = self._account().available
        answer = counter.hold(basket, value_minor=amount)
        if available < amount:
            assert answer["outcome"] == "insufficient_balance"
            return
        lines, quote = counter.price(basket)
        tenders = [stored_value(amount), cash(PRICE - amount)]
        counter.append("sale", counter.sale_body(lines, quote, basket, tenders=tenders, held=True))
        counter.push()
        self.spent += amount

    @rule(till=st.sampled_from(TILLS))
    def strand(self, till: str) -> None:
        shown = self.hq.call("GET", f"/v1/tills/{till}/rights", status=200)
        body = {"reason": "stolen", "exposure": shown["exposure"]}
        self.hq.call("POST", f"/v1/tills/{till}/strand", body, status=200)
        self.lost.add(till)

    @rule(till=st.sampled_from(TILLS))
    def find(self, till: str) -> None:
        self.hq.call("POST", f"/v1/tills/{till}/found", {"reason": "it was in the van"}, status=200)
        self.lost.discard(till)

    @precondition(lambda self: self.reclaims < 2)
    @rule(till=st.sampled_from(TILLS))
    def reclaim(self, till: str) -> None:
        self.hq.call("POST", f"/v1/tills/{till}/reclaim", {"reason": "lost"}, status=200)
        self.reclaims += 1

    @rule(till=st.sampled_from(TILLS), whole=st.booleans())
    def begin_epoch(self, till: str, whole: bool) -> None:
        """Carry over what was not told; a ledger that is not whole gives its leases up, and they stay out."""
        counter = self.tills[till]
        if any(each.kind == CARRY for each in counter.entries[counter.acked :]):
            counter.push()
        left = counter.entries[counter.acked :]
        self.epochs += 1
        counter.renew_key()
        counter.enrol(f"n{self.epochs}")
        for each in left:
            counter.carry(each)
        for name, held in self.leases.items():
            if held.till != till or not held.is_open:
                continue
            if whole:
                self._close(name, held)
            else:
                held.is_open = False
                self.given_up.add(till)

    # ------------------------------------------------------------ what always holds

    @invariant()
    def the_audit_is_clean(self) -> None:
        if hasattr(self, "hq"):
            assert violations(self.hq) == []

    @invariant()
    def nothing_is_overdrawn_that_nobody_took_back(self) -> None:
        if hasattr(self, "hq") and not self.reclaims:
            found = self._account()
            assert found.over == 0 and self.spent <= TOTAL
            assert set(findings(self.hq)) <= {"tail_lost"}, "until it is carried over"


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(
    max_examples=share(1 / 5),
    stateful_step_count=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Claim, hold, pay, cancel, refund, move homes, push late and again, let time run out, in any order: one use for each.

The model knows what customers were given, and nothing of how the server keeps it. Two tills want the same coupons.
Checked after every step: the audit is clean, the stock is what was claimed, and a coupon is used by one order at most
and by the one whose customer had it. At the end, when both tills have told everything, every coupon and order is what
the counters know; money that came for an order whose time was over is the only thing that people must look at.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from server.jobs.holds import time_out_holds
from server.services.facts import Basket
from tests.examples import share
from tests.fakes.counter import Counter, coupon_state, findings, furnish, violations
from tests.fakes.headquarters import Headquarters

STOCK, PER_MEMBER = 3, 2
TILLS, MEMBERS = ("t1", "t2"), ("m1", "m2")
TIMEOUT_MINUTES = 16


@dataclass
class Order:
    """An order as its till knows it."""

    till: str
    basket: Basket
    state: str = "HELD"


class ServerMachine(RuleBasedStateMachine):
    """Run two tills and the chain's app against one server, over the coupons of one campaign."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pawtill-server-")
        self.hq = Headquarters(Path(self.folder.name))
        self.hq.furnish(members=len(MEMBERS))
        furnish(self.hq)
        self.hq.campaign("c1", stock=STOCK, per_member=PER_MEMBER)
        self.app_key = self.hq.new_key("app")
        self.tills = {name: Counter(self.hq, name) for name in TILLS}
        self.coupons: dict[str, str] = {}  # whose each is
        self.claims: dict[str, tuple[str, object]] = {}
        self.orders: dict[str, Order] = {}
        self.homes: dict[str, tuple[str, int]] = {}
        self.asked, self.late = 0, 0

    def teardown(self) -> None:
        if not hasattr(self, "hq"):
            return
        try:
            self._tell_everything()
        finally:
            self.hq.close()
            self.folder.cleanup()

    def _tell_everything(self) -> None:
        for till in self.tills.values():
            till.push()
        assert violations(self.hq) == []
        used = {name: order for order in self.orders.values() if order.state == "PAID" for name in order.basket.use}
        for name in self.coupons:
            held = any(each.state == "HELD" and name in each.basket.use for each in self.orders.values())
            assert coupon_state(self.hq, name) == ("USED" if name in used else "FROZEN" if held else "ISSUED")
        for name, order in self.orders.items():
            assert self.tills[order.till].state(name) == order.state
        assert dict(findings(self.hq)) == ({"late_payment": self.late} if self.late else {})

    def _number(self) -> str:
        self.asked += 1
        return f"o{self.asked}"

    def _holders(self, name: str) -> list[str]:
        """Return the orders that hold a coupon or have used it."""
        live = ("HELD", "PAID")
        return [number for number, each in self.orders.items() if each.state in live and name in each.basket.use]

    # ------------------------------------------------------------ what people do

    @rule(member=st.sampled_from(MEMBERS))
    def claim(self, member: str) -> None:
        request = f"r{len(self.claims)}"
        mine = sum(owner == member for owner in self.coupons.values())

        answer = self._ask(request, member)

        if mine == PER_MEMBER:
            assert answer["outcome"] == "limit_reached"
        elif len(self.coupons) == STOCK:
            assert answer["outcome"] == "out_of_stock"
        else:
            self.coupons[str(answer["coupon"])] = member
        self.claims[request] = (member, answer)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def claim_again(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.claims)))
        member, first = self.claims[request]

        assert self._ask(request, member) == first

    def _ask(self, request: str, member: str) -> dict[str, object]:
        body = {"request": request, "campaign": "c1", "member": member}
        answer: dict[str, object] = self.hq.call("POST", "/v1/claims", body, key=self.app_key)
        return answer

    @precondition(lambda self: self.coupons)
    @rule(data=st.data(), till=st.sampled_from(TILLS))
    def hold(self, data: st.DataObject, till: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.coupons)))
        counter = self.tills[till]
        counter.push()  # as every till does before it asks
        number = self._number()
        basket = counter.basket(number, "A", member=self.coupons[name], use=(name,))
        free = not self._holders(name) and name not in self.homes

        answer = counter.hold(basket, payable_minor=9_000)

        assert (answer["outcome"] == "ok") == free, answer
        if free:
            self.orders[number] = Order(till, basket)

    @precondition(lambda self: self.coupons)
    @rule(data=st.data(), till=st.sampled_from(TILLS))
    def take_home(self, data: st.DataObject, till: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.coupons)))
        free = not self._holders(name) and self.homes.get(name, (till, 0))[0] == till

        counter = self.tills[till]
        counter.push()

        answer = counter.take_home(name, request=self.hq.ids.new(), status=None)

        assert (answer["outcome"] == "ok") == free, answer
        if free:
            self.homes[name] = (till, answer["version"])

    @precondition(lambda self: self.homes)
    @rule(data=st.data(), used=st.booleans())
    def use_or_return_home(self, data: st.DataObject, used: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.homes)))
        till, version = self.homes.pop(name)
        counter = self.tills[till]
        if used:
            number = self._number()
            basket = counter.basket(number, "A", member=self.coupons[name], use=(name,))
            counter.sell_by_rights(basket, coupons={name: version})
            self.orders[number] = Order(till, basket, "PAID")
        else:
            counter.append("coupon_return", counter.told(coupon=name, version=version))
            counter.push()

    @precondition(lambda self: any(each.state == "HELD" for each in self.orders.values()))
    @rule(data=st.data(), paid=st.sampled_from(["in time", "told too late", "not"]))
    def end_a_hold(self, data: st.DataObject, paid: str) -> None:
        number = data.draw(st.sampled_from(sorted(each for each, o in self.orders.items() if o.state == "HELD")))
        order = self.orders[number]
        counter = self.tills[order.till]
        if paid != "not":
            lines, quote = counter.price_at_home(order.basket)
            counter.append("sale", counter.sale_body(lines, quote, order.basket, held=True))
            order.state = "PAID"
            if paid == "told too late":
                self.time_runs_out()
        else:
            counter.cancel(number)
            order.state = "CANCELLED"
            counter.push()

    @precondition(lambda self: self.orders)
    @rule()
    def time_runs_out(self) -> None:
        """Let every hold be over; what was paid in time, and is told too late, is money that a person must see to."""
        told = {number: self.tills[each.till].acked for number, each in self.orders.items()}
        self.hq.clock.pass_time(minutes=TIMEOUT_MINUTES)
        time_out_holds(self.hq.services)
        for number, order in self.orders.items():
            was_held = order.state == "HELD"
            paid_untold = order.state == "PAID" and self._is_untold_hold(number, told[number])
            if was_held or paid_untold:
                order.state = "CANCELLED"
                self.late += paid_untold

    def _is_untold_hold(self, number: str, acked: int) -> bool:
        order = self.orders[number]
        waiting = self.tills[order.till].entries[acked:]
        return any(b'"held":true' in entry.body and f'"{number}"'.encode() in entry.body for entry in waiting)

    @precondition(lambda self: any(each.state == "PAID" for each in self.orders.values()))
    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(each for each, o in self.orders.items() if o.state == "PAID")))
        order = self.orders[number]
        counter = self.tills[order.till]
        counter.push()

        answer = counter.refund(number, request=f"back-{number}")

        assert answer["outcome"] == "ok", answer
        order.state = "REFUNDED"

    @rule(till=st.sampled_from(TILLS), again=st.booleans())
    def push(self, till: str, again: bool) -> None:
        counter = self.tills[till]
        counter.push()
        if again:
            results = counter.push(counter.entries)["results"]
            assert all(row["result"] in ("DUP", "CONFLICT") for row in results)

    # ------------------------------------------------------------ what always holds

    @invariant()
    def the_audit_is_clean(self) -> None:
        if hasattr(self, "hq"):
            assert violations(self.hq) == []

    @invariant()
    def as_many_are_out_as_were_claimed(self) -> None:
        if hasattr(self, "hq"):
            stock = self.hq.stock()
            assert (stock["available"], stock["granted"]) == (STOCK - len(self.coupons), len(self.coupons))

    @invariant()
    def each_is_used_once_at_most(self) -> None:
        if hasattr(self, "hq"):
            assert all(len(self._holders(name)) <= 1 for name in self.coupons)


TestServerMachine = ServerMachine.TestCase
TestServerMachine.settings = settings(
    max_examples=share(1 / 5),
    stateful_step_count=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""The scripts against a model in Python: any order of any calls conserves stock, limits and the queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from server.stock import scripts
from server.stock.pipeline import BlockingStock
from server.stock.scripts import End, Fault, No, Refused, Repeated, Reserved, Told, Why
from tests.examples import share
from tests.fakes.redis_server import RedisServer, acquainted
from tests.integration.stock.sale import KEYS, NOW, configuration, open_sale, reservation, standing

MEMBERS = [f"m{n}" for n in range(4)]
REQUESTS = [f"r{n}" for n in range(8)]
LIMIT, STOCK = 3, 6


@dataclass
class Model:
    """Do the same as the scripts, in a few lines and with no regard for others."""

    generation: int = 1
    available: int = STOCK
    total: int = STOCK
    limit: int = LIMIT
    is_open: bool = True
    version: int = 1
    installed: int = 1
    config: int = 1
    held: dict[str, int] = field(default_factory=dict)
    open: dict[str, tuple[str, int, str]] = field(default_factory=dict)  # request -> member, qty, token

    def reserve(self, request: str, member: str, qty: int) -> str:
        if request in self.open:
            same = self.open[request][:2] == (member, qty)
            return "DUP" if same else "KEY_REUSE"
        if not self.is_open:
            return "CLOSED"
        if self.held.get(member, 0) + qty > self.limit:
            return "LIMIT"
        if self.available < qty:
            return "SOLD_OUT"
        self.available -= qty
        self.held[member] = self.held.get(member, 0) + qty
        return "OK"


class Machine(RuleBasedStateMachine):
    """Call the scripts and the model side by side."""

    stock: BlockingStock

    def __init__(self) -> None:
        super().__init__()
        self.stock.client.flushall()
        self.model = Model()
        self.granted: dict[str, int] = {}
        self.tokens: list[tuple[str, str]] = []
        open_sale(self.stock, total=STOCK, limit=LIMIT)

    @rule(
        asked=strategies.lists(
            strategies.tuples(
                strategies.sampled_from(REQUESTS), strategies.sampled_from(MEMBERS), strategies.integers(1, 4)
            ),
            min_size=1,
            max_size=4,
        )
    )
    def reserve(self, asked: list[tuple[str, str, int]]) -> None:
        """Reserve for several at once, which goes as one after the other."""
        calls = [
            scripts.reserve(KEYS, self.model.generation, reservation(request, member, qty=qty))
            for request, member, qty in asked
        ]
        for (request, member, qty), answer in zip(asked, self.stock.run_all(calls), strict=True):
            expected = self.model.reserve(request, member, qty)
            if expected == "OK":
                assert isinstance(answer, Reserved) and answer.available == self.model.available
                self.model.open[request] = (member, qty, answer.token)
                self.tokens.append((request, answer.token))
            elif expected == "DUP":
                assert answer == Repeated(self.model.open[request][2], NOW + 5000)
            else:
                assert answer == Refused(No(expected))

    @rule(data=strategies.data(), granted=strategies.booleans())
    def end(self, data: Any, granted: bool) -> None:
        """Close reservations that ever were, several at once, also twice, also under a token that is in force no more.

        Together they go as one after the other.
        """
        if not self.tokens:
            return
        closed = data.draw(strategies.lists(strategies.sampled_from(self.tokens), min_size=1, max_size=4))
        script = scripts.confirm if granted else scripts.release
        answer = self.stock.run(script(KEYS, self.model.generation, closed))
        assert answer == [self._expect_end(request, token, granted=granted) for request, token in closed]

    def _expect_end(self, request: str, token: str, *, granted: bool) -> End:
        if request not in self.model.open:
            return End.UNKNOWN
        member, qty, current = self.model.open[request]
        if token != current:
            return End.WRONG_STATE
        del self.model.open[request]
        if granted:
            self.granted[member] = self.granted.get(member, 0) + qty
        else:
            self.model.available += qty
            self.model.held[member] -= qty
        return End.OK

    @rule(member=strategies.sampled_from(MEMBERS), qty=strategies.integers(-2, 3), late=strategies.booleans())
    def other_way(self, member: str, qty: int, late: bool) -> None:
        """Grant or take back elsewhere; `late` tells what the last rebuild has read already."""
        model = self.model
        held = model.held.get(member, 0)
        reserved = sum(n for who, n, _ in model.open.values() if who == member)
        qty = max(qty, reserved - held)
        version = model.installed if late else model.version + 1
        answer = self.stock.run(scripts.adjust(KEYS, version=version, units=-qty, members={member: qty}))
        if late:
            assert answer == Told.KNOWN
            return
        assert answer == Told.OK
        model.version = version
        model.available -= qty
        model.held[member] = held + qty

    @rule(total=strategies.integers(0, 12), limit=strategies.integers(0, 4), is_open=strategies.booleans())
    def edit(self, total: int, limit: int, is_open: bool) -> None:
        model = self.model
        model.version, model.config = model.version + 1, model.config + 1
        new = configuration(config=model.config, stock=model.version, total=total, limit=limit, is_open=is_open)
        assert self.stock.run(scripts.configure(KEYS, model.generation, new)) == Told.OK
        model.available += total - model.total
        model.total, model.limit, model.is_open = total, limit, is_open

    @rule()
    def stale(self) -> None:
        answer = self.stock.run(scripts.reserve(KEYS, self.model.generation + 1, reservation("r9")))
        assert answer == Fault(Why.STALE_GENERATION, str(self.model.generation))

    @rule()
    def rebuild(self) -> None:
        """Forget the reservations that nobody landed; what was granted stays granted."""
        model = self.model
        available = model.available + sum(qty for _, qty, _ in model.open.values())
        if available < 0:
            return  # no database says so: nobody takes there what is not there
        for member, qty, _ in model.open.values():
            model.held[member] -= qty
        model.available = available
        model.open.clear()
        model.held = {member: count for member, count in model.held.items() if count}
        model.generation += 1
        model.installed = model.version
        open_sale(
            self.stock,
            generation=model.generation,
            total=model.total,
            available=model.available,
            held=model.held,
            version=model.version,
            config=model.config,
            limit=model.limit,
            is_open=model.is_open,
        )

    @invariant()
    def stands_as_the_model_says(self) -> None:
        now = standing(self.stock)
        assert isinstance(now, scripts.Standing), now
        model, units = self.model, sum(qty for _, qty, _ in self.model.open.values())
        assert (now.available, now.units, now.total) == (model.available, units, model.total)
        held = {key.decode(): int(value) for key, value in self.stock.client.hgetall(KEYS.key("u")).items()}
        assert held == {member: count for member, count in model.held.items() if count}

    @invariant()
    def the_stream_is_the_open_reservations(self) -> None:
        entries = self.stock.client.xrange(KEYS.key("s"))
        queue = {e[b"request"].decode(): (e[b"member"].decode(), int(e[b"qty"])) for _, e in entries}
        assert len(queue) == len(entries)
        assert queue == {request: value[:2] for request, value in self.model.open.items()}


@pytest.fixture
def machine(redis_server: RedisServer) -> Iterator[type[Machine]]:
    class OnThisServer(Machine):
        stock = acquainted(redis_server.address)[0]

    yield OnThisServer


def test_any_order_of_calls_does_as_the_model(machine: type[Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=share(1 / 3), stateful_step_count=40))

"""The server dies at every named point: asked again, it gives the first answer, and everything is there once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.services.audit import audit
from tests.fakes.counter import balance, coupon, coupon_state, open_counter
from tests.fakes.headquarters import Headquarters


class ProcessDied(BaseException):
    """End the request as a kill would: the answer is never sent."""


class Grave:
    """Let the process die once at the point that is armed."""

    def __init__(self) -> None:
        self.armed: str | None = None

    def __call__(self, point: str) -> None:
        if point == self.armed:
            self.armed = None
            raise ProcessDied(point)


class World:
    """Hold a server that may die and come back on the same data, and a counter."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.grave = folder, Grave()
        self.hq = Headquarters(folder, probe=self.grave)
        self.hq.furnish()
        self.counter = open_counter(self.hq)
        self.hq.campaign(budget="100.00")
        self.mine = coupon(self.hq)
        self.basket = self.counter.basket("o1", "A", member="m1", use=(self.mine,))

    def dies_at(self, point: str, act: Callable[[], Any]) -> Any:
        """Act, die at the point, start again, and act once more; returns the second answer."""
        self.grave.armed = point
        with pytest.raises(ProcessDied):
            act()
        assert self.grave.armed is None
        self._restart()
        return act()

    def _restart(self) -> None:
        clock, ids, key = self.hq.clock, self.hq.ids, self.hq.key
        self.hq.close()
        again = Headquarters(self.folder, probe=self.grave)
        self.hq.__dict__.update(again.__dict__)
        self.hq.clock.at, self.hq.key = clock.at, key
        self.hq.ids.__dict__.update(ids.__dict__)

    def audit(self) -> list[str]:
        return [str(violation) for violation in self.hq.services.read(audit).violations]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.hq.close()


@pytest.mark.parametrize("point", ["after_reserve", "after_commit"])
def test_a_hold_whose_answer_died_is_there_once(world: World, point: str) -> None:
    answer = world.dies_at(point, lambda: world.counter.hold(world.basket, payable_minor=9000))

    assert answer["outcome"] == "ok"
    assert answer["held_until_at"] == "2026-06-01T02:15:00+00:00"
    assert coupon_state(world.hq, world.mine) == "FROZEN"
    assert balance(world.hq, "budget:c1") == (9000, 1000, 0)
    assert world.audit() == []


@pytest.mark.parametrize("point", ["after_reserve", "after_commit"])
def test_a_refused_hold_whose_answer_died_is_refused_the_same_way(world: World, point: str) -> None:
    answer = world.dies_at(point, lambda: world.counter.hold(world.basket, payable_minor=1))

    assert answer == {"outcome": "payment_mismatch", "facts": {"shown_minor": 1, "now_minor": 9000}}
    assert coupon_state(world.hq, world.mine) == "ISSUED"


@pytest.mark.parametrize("point", ["before_ack", "after_commit"])
def test_a_push_whose_answer_died_is_taken_once(world: World, point: str) -> None:
    world.counter.hold_and_sell(world.basket)
    world.counter.sell(world.counter.basket("o2", "B"))

    answer = world.dies_at(point, world.counter.push)

    assert [row["result"] for row in answer["results"]] == ["DUP", "DUP"]
    assert answer["acked"][0] == 2
    assert coupon_state(world.hq, world.mine) == "USED"
    assert balance(world.hq, "budget:c1") == (9000, 0, 1000)
    assert world.audit() == []


def test_a_refund_whose_answer_died_gives_everything_back_once(world: World) -> None:
    world.counter.hold_and_sell(world.basket)
    world.counter.push()

    answer = world.dies_at("after_commit", lambda: world.counter.refund("o1", request="r1"))

    assert (answer["refund"]["amount_minor"], answer["refund"]["returned"]) == (9000, [world.mine])
    assert coupon_state(world.hq, world.mine) == "ISSUED"
    assert balance(world.hq, "budget:c1") == (10000, 0, 0)
    assert world.audit() == []


def test_a_cancel_whose_answer_died_is_done_once(world: World) -> None:
    world.counter.hold(world.basket)

    answer = world.dies_at("after_commit", lambda: world.counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}))

    assert answer == {"outcome": "ok", "state": "CANCELLED"}
    assert coupon_state(world.hq, world.mine) == "ISSUED"
    assert world.audit() == []


def test_what_is_held_survives_the_server(world: World) -> None:
    world.counter.hold(world.basket)

    world.dies_at("after_commit", world.counter.hello)

    assert world.counter.state("o1") == "HELD"
    assert coupon_state(world.hq, world.mine) == "FROZEN"

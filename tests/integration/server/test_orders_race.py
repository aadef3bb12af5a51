"""Rivals for one right: threads at real barriers, and a control that must fail once the guard is taken out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select, true

from server.db.schema import coupon as coupon_table
from server.services import orders, rights
from server.services.context import Actor
from server.services.orders import HoldPlan, HoldRequest
from server.services.rights import LostRace
from tests.fakes.counter import (
    Counter,
    coupon,
    coupon_state,
    covers,
)
from tests.fakes.headquarters import Headquarters


def _together(*runs: Callable[[], Any]) -> list[Any]:
    """Run in threads that start at one barrier; return what each returned or raised."""
    barrier = threading.Barrier(len(runs))
    answers: list[Any] = [None] * len(runs)

    def one(place: int) -> None:
        barrier.wait(10)
        try:
            answers[place] = runs[place]()
        except Exception as error:
            answers[place] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


def _actor(till: str) -> Actor:
    return Actor("till", "k", till_id=till, store_id="s1")


def _asked(counter: Counter, order: str, mine: str) -> HoldRequest:
    basket = counter.basket(order, "A", member="m1", use=(mine,))
    return HoldRequest(basket, 1, stored_value_minor=0, payable_minor=9000)


def test_of_many_tills_that_hold_one_coupon_exactly_one_gets_it(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(per_member=20, max_per_order=20)
    for turn in range(20):
        mine = coupon(headquarters, request=f"r{turn}")

        def hold(till: int, turn: int = turn, mine: str = mine) -> Any:
            asked = _asked(counter, f"o{turn}-{till}", mine)
            return headquarters.services.write(lambda conn, ctx: orders.hold(conn, ctx, asked), _actor(f"t{till}"))

        answers = _together(*(lambda till=till: hold(till) for till in range(4)))  # type: ignore[misc]

        assert sorted(answer["outcome"] for answer in answers) == ["frozen", "frozen", "frozen", "ok"]


def _race_with_stale_looks(headquarters: Headquarters, counter: Counter, mine: str) -> list[Any]:
    """Let two tills look at the same moment, then write: what rivals in two processes would do."""
    looked = threading.Barrier(2)

    def hold(till: str, order: str) -> Any:
        def look(conn: Any, ctx: Any) -> HoldPlan:
            plan = orders.plan_hold(conn, ctx, _asked(counter, order, mine))
            assert isinstance(plan, HoldPlan)
            return plan

        plan = headquarters.services.read(look, _actor(till))
        looked.wait(10)
        headquarters.services.write(lambda conn, _: orders.record_hold(conn, plan), _actor(till))
        return "held"

    return _together(lambda: hold("t1", "o1"), lambda: hold("t2", "o2"))


def test_of_two_that_saw_the_coupon_free_only_one_can_write(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)

    answers = _race_with_stale_looks(headquarters, counter, mine)

    assert sorted(type(answer).__name__ for answer in answers) == ["LostRace", "str"]
    held = headquarters.services.read(
        lambda conn, _: conn.execute(select(func.count()).where(orders.schema.orders.c.state == "HELD")).scalar()
    )
    assert held == 1


def test_control_without_the_condition_of_the_write_both_get_the_coupon(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    monkeypatch.setattr(rights, "_may", lambda event: true())

    answers = _race_with_stale_looks(headquarters, counter, mine)

    assert answers == ["held", "held"], "the race does not happen, so the test above shows nothing"


def test_a_hold_that_lost_a_race_looks_again(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    real = orders.record_hold

    def rival_first(conn: Any, plan: HoldPlan) -> None:
        monkeypatch.setattr(orders, "record_hold", real)
        taken = coupon_table.update().where(coupon_table.c.id == mine)
        conn.execute(taken.values(state="FROZEN", order_id="rival", attempt=1))
        real(conn, plan)

    monkeypatch.setattr(orders, "record_hold", rival_first)
    # The rival's write is inside the savepoint that is undone, so the second look finds the coupon free.
    answer = counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), payable_minor=9000, status=200)

    assert answer["outcome"] == "ok"
    assert coupon_state(headquarters, mine) == "FROZEN"


def test_a_hold_that_keeps_losing_asks_to_come_back_and_decides_nothing(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))

    def lose(conn: Any, plan: HoldPlan) -> None:
        raise LostRace("always")

    with monkeypatch.context() as patched:
        patched.setattr(orders, "record_hold", lose)
        busy = counter.hold(basket, status=503)
    again = counter.hold(basket, status=200)

    assert busy == {"outcome": "busy", "facts": {"retry_after_s": 1}}
    assert again["outcome"] == "ok"


def test_the_last_use_of_a_card_goes_to_one_of_two_orders(headquarters: Headquarters, counter: Counter) -> None:
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 1}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)

    def hold(till: str, order: str) -> Any:
        basket = counter.basket(order, "WASH", member="m1", covers=covers("p1", 1))
        asked = HoldRequest(basket, 1, stored_value_minor=0, payable_minor=0)
        return headquarters.services.write(lambda conn, ctx: orders.hold(conn, ctx, asked), _actor(till))

    answers = _together(lambda: hold("t1", "o1"), lambda: hold("t2", "o2"))

    assert sorted(answer["outcome"] for answer in answers) == ["insufficient_uses", "ok"]


def test_the_last_of_a_balance_goes_to_one_of_two_orders(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "100.00"}, status=200)

    def hold(till: str, order: str) -> Any:
        basket = counter.basket(order, "A", member="m1")
        asked = HoldRequest(basket, 1, stored_value_minor=10000, payable_minor=10000)
        return headquarters.services.write(lambda conn, ctx: orders.hold(conn, ctx, asked), _actor(till))

    answers = _together(lambda: hold("t1", "o1"), lambda: hold("t2", "o2"))

    assert sorted(answer["outcome"] for answer in answers) == ["insufficient_balance", "ok"]


def test_the_last_of_a_budget_goes_to_one_of_two_orders(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(budget="15.00", per_member=2)
    first, second = coupon(headquarters, request="r1"), coupon(headquarters, request="r2")

    def hold(till: str, order: str, mine: str) -> Any:
        asked = _asked(counter, order, mine)
        return headquarters.services.write(lambda conn, ctx: orders.hold(conn, ctx, asked), _actor(till))

    answers = _together(lambda: hold("t1", "o1", first), lambda: hold("t2", "o2", second))

    assert sorted(answer["outcome"] for answer in answers) == ["budget_spent", "ok"]

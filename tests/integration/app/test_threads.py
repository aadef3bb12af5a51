"""The counter never waits: reading goes on while an order waits for server or terminal, and orders take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from sqlalchemy import Connection

from app.services import gathering
from app.services.api import OpenOrder, PaidOrder
from app.services.ports import PaymentAnswer
from app.store import catalog
from app.store.catalog import Product
from tests.fakes.shop import K1, Shop, basket, card
from tests.fakes.terminal import FakeTerminal

WITH_COUPON = basket("A", member="m1", use=["k1"])


class Gate:
    """Let a call in, and let it out when the test says so."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()

    def hold(self, ask: Callable[[], Any]) -> Any:
        self.entered.set()
        assert self.leave.wait(20)
        return ask()


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def test_reading_goes_on_while_a_hold_waits_for_the_server(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    gate, hold = Gate(), shop.server.hold
    shop.server.hold = lambda request: gate.hold(lambda: hold(request))  # type: ignore[method-assign]
    thread, answers = in_thread(lambda: shop.till.checkout("o1", WITH_COUPON))
    assert gate.entered.wait(20)

    scanned, quoted, status = shop.till.scan(K1), shop.till.quote(WITH_COUPON), shop.till.status()

    assert (scanned.id, quoted.payable_minor, status.online) == ("k1", 9_000, True)  # type: ignore[union-attr]
    gate.leave.set()
    thread.join()
    assert isinstance(answers[0], OpenOrder)


def test_reading_and_writing_go_on_while_a_payment_waits_for_the_terminal(shop: Shop) -> None:
    gate = Gate()

    class SlowTerminal(FakeTerminal):
        def charge(self, payment_id: str, kind: Any, amount_minor: int) -> PaymentAnswer:
            answer: PaymentAnswer = gate.hold(lambda: super(SlowTerminal, self).charge(payment_id, kind, amount_minor))
            return answer

    shop.terminal = SlowTerminal()
    shop.restart()
    shop.till.checkout("o1", basket("A"))
    thread, answers = in_thread(lambda: shop.till.pay("o1", (card(10_000),)))
    assert gate.entered.wait(20)

    shop.server.product("C", 100)
    shop.till.head_office.refresh()

    assert shop.till.scan("C").price_minor == 100
    gate.leave.set()
    thread.join()
    assert isinstance(answers[0], PaidOrder)


def test_a_double_click_pays_once(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    clicks = [in_thread(lambda: shop.till.pay("o1")) for _ in range(4)]
    for thread, _ in clicks:
        thread.join()

    receipts = {answers[0].receipt.mark for _, answers in clicks}
    assert len(receipts) == 1
    assert shop.kinds() == ["sale"]


def test_a_second_click_waits_while_the_terminal_is_asked_and_sells_nothing_twice(shop: Shop) -> None:
    gate, asked_again = Gate(), threading.Event()

    class SlowTerminal(FakeTerminal):
        def charge(self, payment_id: str, kind: Any, amount_minor: int) -> PaymentAnswer:
            took = super().charge(payment_id, kind, amount_minor)
            answer: PaymentAnswer = gate.hold(lambda: took)
            return answer

        def query(self, payment_id: str) -> PaymentAnswer:
            asked_again.set()
            return super().query(payment_id)

    shop.terminal = SlowTerminal()
    shop.restart()
    shop.till.checkout("o1", basket("A"))
    first, _ = in_thread(lambda: shop.till.pay("o1", (card(10_000),)))
    assert gate.entered.wait(20)
    second, answers = in_thread(lambda: shop.till.pay("o1", (card(10_000),)))

    assert not asked_again.wait(0.3), "two use cases worked on one order"
    gate.leave.set()
    first.join()
    second.join()

    assert isinstance(answers[0], PaidOrder)
    assert (shop.kinds(), shop.terminal.charges) == (["sale"], 1)


def test_goods_that_another_thread_let_go_of_are_priced_all_the_same(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "KEPT_PRODUCTS", 1)
    shop.till.quote(basket("A"))
    look = catalog.products

    def look_while_others_fill_the_memory(conn: Connection, skus: Iterable[str]) -> dict[str, Product]:
        monkeypatch.setattr(catalog, "products", look)
        for other in ("GUM", ("TEA", 500)):
            in_thread(lambda other=other: shop.till.quote(basket(other)))[0].join()
        return look(conn, skus)

    monkeypatch.setattr(catalog, "products", look_while_others_fill_the_memory)

    assert shop.till.quote(basket("A", "B")).payable_minor == 16_000  # type: ignore[union-attr]


def test_pulls_and_sales_at_once_lose_nothing(shop: Shop) -> None:
    def pull() -> None:
        for number in range(40):
            shop.server.product("A", 10_000 if number % 2 else 9_000)
            shop.till.head_office.refresh()

    thread, _ = in_thread(pull)
    sold = 0
    for number in range(40):
        shop.till.checkout(f"o{number}", basket("A"))
        sold += isinstance(shop.till.pay(f"o{number}"), PaidOrder)
    thread.join()

    assert len(shop.kinds()) == sold
    assert shop.verify() == []

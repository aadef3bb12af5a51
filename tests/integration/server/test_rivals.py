"""Rivals in another process: someone changes what was looked at, just before it is written.

One process has one writer, so in it nothing of this happens; over a database that several share it would. Each
conditional write says what it was decided on, gives way where that has changed, and nothing of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from app.domain.states import CouponEvent
from server.services import rights
from server.services.rights import Attempt
from tests.fakes.counter import Counter, cash, coupon, coupon_state, covers, open_counter, stored_value
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    """Open a counter; member m1 has a coupon of 10.00, two washes on card p1 and 50.00 of stored value."""
    opened = open_counter(headquarters)
    headquarters.campaign()
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 2}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    return opened


@contextmanager
def rival(headquarters: Headquarters, before: str, write: str) -> Iterator[None]:
    """Let another process write, each time just before a statement that begins so."""
    struck = []

    def strike(_conn: Any, cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith(before):
            struck.append(statement)
            cursor.connection.execute(write)

    engine = headquarters.database._store.writers
    event.listen(engine, "before_cursor_execute", strike)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", strike)
    assert struck, "the rival never came to write"


# ---- what is done: each returns how to do it, with everything before it done


def a_hold(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    basket = counter.basket("o1", "A", "WASH", member="m1", use=(coupon(headquarters),), covers=covers("p1", 2))
    return lambda status: counter.hold(basket, value_minor=5000, status=status)


def a_hold_of_a_cancelled_order(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    basket = counter.basket("o1", "A")
    counter.hold(basket, status=200)
    counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)
    return lambda status: counter.hold(basket, attempt=2, status=status)


def a_cancel(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    a_hold(headquarters, counter)(200)
    return lambda status: counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=status)


def a_sale_of_what_is_held(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(coupon(headquarters),)))
    return lambda status: counter.push(status=status)


def a_sale_of_what_nobody_holds(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    basket = counter.basket("o1", "A", "WASH", member="m1", use=(coupon(headquarters),), covers=covers("p1", 2))
    counter.sell(basket)
    return lambda status: counter.push(status=status)


def a_refund(headquarters: Headquarters, counter: Counter) -> Callable[[int], Any]:
    basket = counter.basket("o1", ("A", 2000), member="m1", use=(coupon(headquarters),))
    counter.hold_and_sell(basket, tenders=[stored_value(5000), cash(14000)])
    assert counter.verdicts() == [("OK", "")]
    return lambda status: counter.refund("o1", request=f"r{status}", status=status)


LOST = [
    (a_hold, "UPDATE coupon", "UPDATE coupon SET state = 'REVOKED'"),
    (a_hold, "UPDATE coupon", "UPDATE coupon SET valid_until_at = 1"),
    (a_hold, "UPDATE account", "UPDATE account SET available = 0, spent = total WHERE id = 'uses:p1'"),
    (a_hold, "UPDATE account", "UPDATE account SET available = 0, spent = total WHERE id = 'value:m1'"),
    (a_hold_of_a_cancelled_order, "UPDATE orders", "UPDATE orders SET attempt = 2"),
    (a_hold_of_a_cancelled_order, "UPDATE orders", "UPDATE orders SET state = 'UNKNOWN'"),
    (a_cancel, "UPDATE orders", "UPDATE orders SET state = 'PAID'"),
    (a_cancel, "UPDATE orders", "UPDATE orders SET attempt = 2"),
    (a_cancel, "UPDATE coupon", "UPDATE coupon SET state = 'USED'"),
    (a_cancel, "UPDATE coupon", "UPDATE coupon SET order_id = 'o9'"),
    (a_cancel, "UPDATE coupon", "UPDATE coupon SET attempt = 9"),
    (a_sale_of_what_is_held, "UPDATE orders", "UPDATE orders SET state = 'CANCELLED'"),
    (a_sale_of_what_is_held, "UPDATE coupon", "UPDATE coupon SET state = 'ISSUED', order_id = NULL, attempt = NULL"),
    (a_sale_of_what_nobody_holds, "UPDATE coupon", "UPDATE coupon SET state = 'FROZEN', order_id = 'o9', attempt = 1"),
    (a_sale_of_what_nobody_holds, "UPDATE account", "UPDATE account SET available = 0, spent = 2 WHERE id = 'uses:p1'"),
    (a_refund, "UPDATE orders", "UPDATE orders SET refunded_minor = 1"),
    (a_refund, "UPDATE orders", "UPDATE orders SET state = 'REFUNDED'"),
    (a_refund, "UPDATE order_line", "UPDATE order_line SET refunded_milli = 1"),
    (a_refund, "UPDATE coupon", "UPDATE coupon SET order_id = 'o9'"),
    (a_refund, "UPDATE coupon", "UPDATE coupon SET state = 'FROZEN'"),
    (a_refund, "UPDATE account", "UPDATE account SET spent = 0, available = total WHERE id = 'value:m1'"),
]


@pytest.mark.parametrize(("doing", "before", "write"), LOST)
def test_whoever_was_slower_is_told_to_come_again_and_has_changed_nothing(
    headquarters: Headquarters, counter: Counter, doing: Any, before: str, write: str
) -> None:
    act = doing(headquarters, counter)

    with rival(headquarters, before, write):
        act(503)

    assert act(200)


def test_an_attempt_moves_nothing_of_another(headquarters: Headquarters, counter: Counter) -> None:
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    other = Attempt("o1", 2, headquarters.clock.now())

    held = headquarters.database.read(lambda conn: rights.held(conn, other))
    thawed = headquarters.database.write(lambda conn: rights.thaw(conn, other, CouponEvent.CANCEL))

    assert (bool(held), thawed) == (False, [])
    assert coupon_state(headquarters, mine) == "FROZEN"


# ---- the office's own writes: with one writer a rival is our bug, and still nothing is written over it


@pytest.mark.parametrize(
    ("method", "path", "body", "write"),
    [
        ("POST", "/v1/coupons/{coupon}/revoke", {"reason": "lost"}, "UPDATE coupon SET state = 'EXPIRED'"),
        ("POST", "/v1/campaigns/c1/pause", None, "UPDATE campaign SET state = 'ENDED'"),
        ("PATCH", "/v1/campaigns/c1", {"name": "Other"}, "UPDATE campaign SET version = 7"),
    ],
)
def test_the_office_writes_over_nothing_that_it_did_not_see(
    headquarters: Headquarters, counter: Counter, method: str, path: str, body: Any, write: str
) -> None:
    named = path.format(coupon=coupon(headquarters))
    before = write.partition(" SET")[0]

    with rival(headquarters, before, write), pytest.raises(AssertionError):
        headquarters.call(method, named, body)

    headquarters.call(method, named, body, status=200)

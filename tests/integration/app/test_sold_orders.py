"""What a refund would give back can be worked out from the order as the till shows it."""

from __future__ import annotations

import pytest

from app.domain.refunds import Refund, RefundLine, decide_refund
from app.domain.refusals import RefusalCode
from app.services.api import OpenOrder, OrderView, RefundDone
from tests.fakes.shop import Shop, basket


@pytest.mark.parametrize("plugged", [False, True], ids=["offline, as the till knows it", "online, as the server does"])
def test_a_look_at_a_refund_gives_what_the_refund_then_gives(shop: Shop, plugged: bool) -> None:
    shop.unplug()
    shop.sell("o1", ("A", 3000), ("TEA", 735))
    if plugged:
        shop.plug()
        shop.till.head_office.flush()
    asked = (RefundLine(1, 1000), RefundLine(2, 735))

    view = shop.till.order("o1")

    assert isinstance(view, OrderView) and view.sold is not None
    looked = decide_refund(view.sold, asked)
    done = shop.till.refund("r1", "o1", asked)
    assert isinstance(done, RefundDone) and isinstance(looked, Refund)
    assert looked == done.refund


def test_a_second_look_knows_what_came_back_before(shop: Shop) -> None:
    shop.unplug()
    shop.sell("o1", ("A", 3000))
    shop.till.refund("r1", "o1", (RefundLine(1, 2000),))

    view = shop.till.order("o1")

    assert isinstance(view, OrderView) and view.sold is not None
    rest = decide_refund(view.sold, None)
    assert isinstance(rest, Refund) and rest.lines == (RefundLine(1, 1000),)


def test_an_order_that_was_never_paid_shows_nothing_to_refund(shop: Shop) -> None:
    shop.coupon()
    opened = shop.till.checkout("o1", basket("A", use=("k1",)))

    view = shop.till.order("o1")

    assert isinstance(opened, OpenOrder)
    assert isinstance(view, OrderView) and view.sold is None


def test_a_sale_that_the_server_has_not_heard_of_yet_is_shown_as_sold(shop: Shop) -> None:
    shop.coupon()
    shop.sell("o1", "A", use=("k1",))
    assert shop.server.orders["o1"].state == "HELD"

    view = shop.till.order("o1")

    assert isinstance(view, OrderView) and view.state == "PAID" and view.sold is not None


def test_an_order_is_found_by_the_number_on_its_receipt(shop: Shop) -> None:
    shop.unplug()
    paid = shop.sell("o1", "A")

    view = shop.till.order(f" {paid.receipt.number.lower()} ")

    assert isinstance(view, OrderView) and view.order_id == "o1"


def test_a_receipt_that_this_till_never_gave_is_not_found_without_the_server(shop: Shop) -> None:
    shop.unplug()
    paid = shop.sell("o1", "A")
    till, epoch, seq = paid.receipt.number.rsplit("-", 2)

    answers = [shop.till.order(number) for number in (f"{till}-{epoch}-{int(seq) + 1}", f"other-{epoch}-{seq}")]

    assert [getattr(answer, "code", None) for answer in answers] == [RefusalCode.NEEDS_ONLINE] * 2
    assert [sorted(getattr(answer, "facts", ())) for answer in answers] == [["refund_of"]] * 2, "said as of a refund"

"""Refunds: who decides, what comes back, and what the same request again gets."""

from __future__ import annotations

import pytest

from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal
from app.services.api import InterruptedKind, OrderView, PaymentPending, RefundDone
from app.store import meta
from app.store.errors import DiskFull
from tests.fakes.shop import K1, Shop, basket, card, cash, value
from tests.fakes.terminal import Habit


def refused(answer: object) -> tuple[str, dict[str, object]]:
    assert isinstance(answer, Refusal), answer
    return answer.code.value, dict(answer.facts)


def done(answer: object) -> RefundDone:
    assert isinstance(answer, RefundDone), answer
    return answer


def test_offline_a_sale_that_was_never_sent_is_refunded_by_the_till(shop: Shop) -> None:
    shop.unplug()
    shop.sell("o1", "A", "B", tenders=(card(10_000), cash(6_000)))

    first = done(shop.till.refund("r1", "o1", (RefundLine(2, 1000),)))
    rest = done(shop.till.refund("r2", "o1"))

    assert (first.decided_by, first.state, first.refund.tenders) == ("till", "PARTLY_REFUNDED", (card(6_000),))
    assert (rest.state, rest.refund.tenders) == ("REFUNDED", (card(4_000), cash(6_000)))
    shop.plug()
    shop.till.head_office.flush()
    assert shop.server.orders["o1"].state == "REFUNDED"


def test_offline_a_sale_whose_sending_began_is_not_refunded(shop: Shop) -> None:
    shop.unplug()
    shop.sell("o1", "A")
    with shop.till.database.write() as tx:
        meta.put(tx, sent_seq=1)

    assert refused(shop.till.refund("r1", "o1"))[0] == "needs_online"
    assert shop.kinds() == ["sale"]


def test_what_is_saved_is_told_though_the_disk_is_full_when_the_server_has_answered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell("o1", "A")
    shop.till.head_office.flush()
    shop.till.checkout("o2", basket("A"))
    full = DiskFull(shop.path, "no room")

    def settle(*_: object) -> None:
        raise full

    monkeypatch.setattr(shop.till.database.ledger, "settle", settle)
    refund = shop.till.refund("r1", "o1")
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    pending = shop.till.pay("o2", (card(10_000),))

    assert (done(refund).state, type(pending)) == ("REFUNDED", PaymentPending)
    with pytest.raises(DiskFull):
        shop.till.head_office.flush()


def test_offline_an_order_of_another_till_is_not_refunded(shop: Shop) -> None:
    shop.unplug()

    assert refused(shop.till.refund("r1", "elsewhere"))[0] == "needs_online"


def test_the_server_decides_over_what_it_has_and_gives_the_rights_back(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.card("p1", "m1", "B", uses=3)
    shop.till.head_office.refresh()
    shop.sell("o1", "A", "B", member="m1", use=["k1"], covers=[("p1", 2)], stored_value_minor=5_000)

    covered = done(shop.till.refund("r1", "o1", (RefundLine(2, 1000),)))
    rest = done(shop.till.refund("r2", "o1", (RefundLine(1, 1000),)))

    assert (covered.refund.amount_minor, covered.uses_after, covered.refund.returned) == (0, {"p1": 3}, ())
    assert (rest.refund.tenders, rest.refund.returned) == ((value(5_000), cash(4_000)), ("k1",))
    assert (rest.decided_by, rest.state) == ("server", "REFUNDED")
    assert shop.server.coupons["k1"].state == "ISSUED"
    assert shop.till.scan(K1).state == "ISSUED"


def test_a_held_order_is_never_refunded_by_the_till_alone(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    shop.sell("o1", "A", member="m1", use=["k1"])
    shop.unplug()

    assert refused(shop.till.refund("r1", "o1"))[0] == "needs_online"


@pytest.mark.parametrize("plugged", [True, False], ids=["online", "offline"])
def test_the_same_refund_again_gets_the_same_answer_and_other_content_none(shop: Shop, plugged: bool) -> None:
    if not plugged:
        shop.unplug()
    shop.sell("o1", "A", "B")
    first = shop.till.refund("r1", "o1", (RefundLine(1, 1000),))

    again = shop.till.refund("r1", "o1", (RefundLine(1, 1000),))
    other_lines = shop.till.refund("r1", "o1")
    other_order = shop.till.refund("r1", "o2", (RefundLine(1, 1000),))

    assert again == first
    assert {refused(each)[0] for each in (other_lines, other_order)} == {"duplicate_mismatch"}
    assert shop.kinds() == ["sale", "refund"]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((RefundLine(1, 2000),), "not_refundable"),
        ((RefundLine(9, 1000),), "not_refundable"),
        ((RefundLine(1, 0),), "invalid_quantity"),
        ((RefundLine(1, 500),), "invalid_quantity"),
        ((), "invalid_quantity"),
    ],
    ids=["more than bought", "no such line", "nothing", "half a unit", "no lines"],
)
@pytest.mark.parametrize("plugged", [True, False], ids=["online", "offline"])
def test_what_cannot_come_back_is_refused_and_the_request_stays_free(
    shop: Shop, plugged: bool, lines: tuple[RefundLine, ...], code: str
) -> None:
    if not plugged:
        shop.unplug()
    shop.sell("o1", "A")

    answer = shop.till.refund("r1", "o1", lines)

    assert refused(answer)[0] == code
    assert done(shop.till.refund("r2", "o1")).state == "REFUNDED"


def test_an_order_that_was_never_paid_is_not_refunded(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    assert refused(shop.till.refund("r1", "o1"))[0] == "illegal_transition"


def test_a_refund_whose_answer_was_lost_is_asked_again_by_the_same_id(shop: Shop) -> None:
    shop.sell("o1", "A")
    shop.till.head_office.flush()
    shop.cable.lose = 1

    lost = refused(shop.till.refund("r1", "o1"))
    waiting = [each for each in shop.till.interrupted() if each.kind is InterruptedKind.REFUND_UNANSWERED]
    shop.restart()
    (again,) = shop.till.resume_refunds()
    repeat = shop.till.refund("r1", "o1")

    assert lost[0] == "needs_online"
    assert [(each.request_id, each.order_id) for each in waiting] == [("r1", "o1")]
    assert repeat == again
    assert len(shop.server.orders["o1"].refunds) == 1
    assert shop.kinds() == ["sale", "refund"]


def test_a_busy_server_is_asked_again(shop: Shop) -> None:
    shop.sell("o1", "A")
    shop.till.head_office.flush()
    shop.cable.busy = 1

    busy = refused(shop.till.refund("r1", "o1"))

    assert busy == ("busy", {"order": "o1", "retry_after_s": 7.0})
    assert done(shop.till.refund("r1", "o1")).state == "REFUNDED"


def test_an_order_sold_elsewhere_is_shown_and_refunded_online(shop: Shop) -> None:
    shop.sell("o1", "A")
    shop.till.head_office.flush()
    shop.close()
    shop.path, shop.till_id = shop.path.with_name("other.db"), "T2"
    shop.open()

    shown = shop.till.order("o1")
    back = done(shop.till.refund("r1", "o1"))

    assert isinstance(shown, OrderView)
    assert (shown.local, shown.state, shown.quote and shown.quote.payable_minor) == (False, "PAID", 10_000)
    assert (back.refund.amount_minor, back.receipt.refund_of) == (10_000, "o1")
    assert shop.kinds() == ["refund"]


def test_an_order_is_shown_offline_as_this_till_knows_it(shop: Shop) -> None:
    shop.unplug()
    shop.sell("o1", "A", "B")
    shop.till.refund("r1", "o1", (RefundLine(2, 1000),))

    shown = shop.till.order("o1")
    unknown = shop.till.order("elsewhere")

    assert isinstance(shown, OrderView)
    assert (shown.local, shown.state, len(shown.refunds), shown.titles["A"]) == (True, "PARTLY_REFUNDED", 1, "货A")
    assert refused(unknown)[0] == "needs_online"


def test_a_refund_in_cash_is_rounded_the_way_the_sale_was(shop: Shop) -> None:
    shop.server.publish_chain(cash_step_minor=5)
    shop.till.head_office.refresh()
    shop.unplug()
    shop.sell("o1", "GUM", "A")

    back = done(shop.till.refund("r1", "o1"))

    assert sum(each.amount_minor for each in back.refund.tenders) == 10_002
    assert back.refund.tenders[0] == cash(10_000)

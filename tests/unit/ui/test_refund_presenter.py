"""Refunds without a screen: found by number, chosen by line, shown before they are confirmed."""

from __future__ import annotations

import pytest

from app.domain.basket import Cover
from app.domain.refunds import Refund
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import Tender, TenderType
from app.services.api import BasketLine, BasketRequest
from app.store.errors import DiskFull
from tests.fakes.jobs import Later, Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import FakeTill
from ui.counter.refund_presenter import RefundPresenter
from ui.words import Name, Text


def sold() -> tuple[FakeTill, str]:
    """Sell 2 FOOD (one coupon of 50.00), 3 CAN, 1 WASH by card, 0.735 kg TREAT: by stored value 100.00 and cash."""
    till = pet_shop(cash_step_minor=0)
    request = BasketRequest(
        member_id="M1001",
        lines=(
            BasketLine("FOOD", 2000),
            BasketLine("CAN", 3000),
            BasketLine("WASH", 1000),
            BasketLine("TREAT", 735),
        ),
        use=("c-food",),
        covers=(Cover("P2001", 3),),
    )
    order_id = till.new_order_id()
    till.checkout(order_id, request, stored_value_minor=10000)
    due = till.orders[order_id].quote.payable_minor
    till.pay(order_id, (Tender(TenderType.STORED_VALUE, 10000), Tender(TenderType.CASH, due - 10000)))
    till.calls.clear()
    return till, order_id


def refund_of(till: FakeTill, jobs: Now | None = None) -> RefundPresenter:
    return RefundPresenter(till, jobs or Now(), chain=lambda: till.view, changed=lambda: None)


def found() -> tuple[RefundPresenter, FakeTill, str]:
    till, order_id = sold()
    refund = refund_of(till)
    refund.look_up(f"  {order_id} ")
    return refund, till, order_id


def code(refund: RefundPresenter) -> str:
    verdict = refund.state.verdict
    assert verdict is not None
    return verdict.message.key if isinstance(verdict.message, Text) else verdict.message.code.value


def preview(refund: RefundPresenter) -> Refund:
    assert isinstance(refund.state.preview, Refund)
    return refund.state.preview


def test_a_sold_order_is_found_with_what_may_still_come_back() -> None:
    refund, _till, _order = found()

    assert [(row.sku, row.left_milli, row.back_milli) for row in refund.state.rows] == [
        ("FOOD", 2000, 0),
        ("CAN", 3000, 0),
        ("WASH", 1000, 0),
        ("TREAT", 735, 0),
    ]
    assert not refund.state.confirmable


def test_an_unknown_number_is_refused() -> None:
    refund = refund_of(pet_shop())

    refund.look_up("nowhere")

    assert code(refund) == "unknown_code" and refund.state.order is None


def test_an_order_that_was_not_paid_cannot_come_back() -> None:
    till = pet_shop()
    till.checkout("o9", BasketRequest(lines=(BasketLine("FOOD", 1000),)))
    refund = refund_of(till)

    refund.look_up("o9")

    assert code(refund) == "illegal_transition" and refund.state.rows == ()


def test_what_comes_back_is_shown_before_it_is_confirmed() -> None:
    refund, till, _order = found()

    refund.step(1, 1)

    assert preview(refund).amount_minor == 27400  # half of 2 x 299.00 less 50.00
    assert preview(refund).tenders == (Tender(TenderType.STORED_VALUE, 10000), Tender(TenderType.CASH, 17400))
    assert preview(refund).returned == () and till.calls == []


def test_the_coupon_comes_back_with_the_last_line_that_it_discounted() -> None:
    refund, _till, _order = found()

    refund.step(1, 1)
    refund.step(1, 1)

    assert preview(refund).returned == ("c-food",)
    assert refund.state.names["c-food"] == Name("主粮满199减50", "")


def test_covered_units_come_back_as_uses() -> None:
    refund, _till, _order = found()

    refund.step(3, 1)

    assert preview(refund).amount_minor == 0 and preview(refund).uses == {"P2001": 1}


def test_no_more_comes_back_than_was_bought() -> None:
    refund, _till, _order = found()

    for _ in range(5):
        refund.step(1, 1)
    refusal = refund.enter(2, "4")

    assert refund.state.rows[0].back_milli == 2000
    assert refusal is not None and refusal.code is RefusalCode.NOT_REFUNDABLE and refusal.facts["left_milli"] == 3000


def test_weighed_goods_come_back_whole_by_a_touch() -> None:
    refund, _till, _order = found()

    refund.step(4, 1)
    whole = refund.state.rows[3].back_milli
    refund.step(4, -1)

    assert whole == 735 and refund.state.rows[3].back_milli == 0


@pytest.mark.parametrize("text", ["00", "-1", "1.5", "x", "99999999"])
def test_a_quantity_that_makes_no_sense_changes_nothing(text: str) -> None:
    refund, _till, _order = found()

    refusal = refund.enter(1, text)

    assert refusal is not None and refund.state.rows[0].back_milli == 0 and refund.state.preview is None


def test_a_nought_takes_a_line_off_again() -> None:
    refund, _till, _order = found()
    refund.enter(1, "2")

    refusal = refund.enter(1, " 0 ")

    assert refusal is None and refund.state.rows[0].back_milli == 0 and refund.state.preview is None


def test_everything_and_nothing_at_a_touch() -> None:
    refund, _till, _order = found()

    refund.choose_all()
    whole = preview(refund).whole
    refund.choose_none()

    assert whole and refund.state.preview is None


def test_a_confirmed_refund_is_what_was_shown_and_cannot_be_confirmed_again() -> None:
    refund, till, _order = found()
    refund.step(1, 1)
    shown = preview(refund)

    refund.confirm()
    refund.confirm()

    assert refund.state.done is not None and refund.state.done.refund == shown
    assert sum(call.startswith("refund") for call in till.calls) == 1 and code(refund) == "refund.done"
    assert refund.state.rows[0].left_milli == 1000


def test_a_refund_without_an_answer_is_asked_again_by_the_same_id(tmp_path) -> None:
    refund, till, _order = found()
    refund.step(1, 1)
    till.fail = DiskFull(tmp_path, "no space left")

    refund.confirm()
    failed = code(refund)
    till.fail = None
    refund.confirm()

    asked = [call for call in till.calls if call.startswith("refund")]
    assert failed == "refund.not_done" and len(asked) == 2 and len(set(asked)) == 1


def test_another_choice_is_another_request(tmp_path) -> None:
    refund, till, _order = found()
    refund.step(1, 1)
    till.fail = DiskFull(tmp_path, "no space left")
    refund.confirm()

    till.fail = None
    refund.step(2, 1)
    refund.confirm()

    asked = [call for call in till.calls if call.startswith("refund")]
    assert len(set(asked)) == 2


def test_a_refusal_of_the_head_office_keeps_the_choice() -> None:
    refund, till, _order = found()
    refund.step(1, 1)
    till.refund = lambda *_: Refusal(RefusalCode.NEEDS_ONLINE)  # type: ignore[method-assign]

    refund.confirm()

    assert code(refund) == "needs_online" and refund.state.confirmable


def test_while_it_is_asked_the_page_cannot_be_left() -> None:
    till, order_id = sold()
    jobs = Later()
    refund = refund_of(till, jobs)

    refund.look_up(order_id)

    assert refund.state.busy and not refund.leave()
    jobs.release()
    assert refund.leave() and refund.state.order is None


def test_the_answer_to_a_look_up_that_was_left_is_not_shown() -> None:
    till, order_id = sold()
    jobs = Later()
    refund = refund_of(till, jobs)
    refund.look_up(order_id)

    refund.begin()
    jobs.release()

    assert refund.state.order is None

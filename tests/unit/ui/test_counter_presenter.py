"""The way through the counter: pages, scans on each of them, troubles, and what a restart found."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.tenders import TenderType
from app.services.api import Interrupted, InterruptedKind, TillStatus
from app.services.ports import LineTrouble, NoAnswer, Offline, Paid, PaymentAnswer
from app.store.errors import DiskFull, LedgerBusy, StoreError
from tests.fakes.jobs import Later, Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import NOW, FakeTill
from ui.counter.counter_presenter import CounterPresenter, Page
from ui.words import Text


def counter_of(till: FakeTill | None = None, jobs: Now | None = None) -> CounterPresenter:
    jobs = jobs or Now()
    counter = CounterPresenter(till or pet_shop(), jobs)
    jobs.report = counter.report  # type: ignore[method-assign]
    counter.start()
    return counter


def sell(counter: CounterPresenter, *codes: str) -> str:
    for code in codes or ("FOOD",):
        counter.scan(code)
    order_id = counter.desk.state.basket.order_id
    counter.pay()
    counter.tender.add(TenderType.CASH, "")
    counter.tender.finish()
    return order_id


def key(counter: CounterPresenter) -> str:
    verdict = counter.desk.state.verdict
    assert verdict is not None
    return verdict.message.key if isinstance(verdict.message, Text) else verdict.message.code.value


class Silent:
    """A terminal that does not answer a charge, and says paid when it is asked."""

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        return NoAnswer()

    def query(self, payment_id: str) -> PaymentAnswer:
        return Paid()


def test_a_sale_goes_from_the_desk_by_the_payment_to_the_receipt_and_back() -> None:
    counter = counter_of()
    counter.scan("FOOD")
    pages = [counter.page]
    counter.pay()
    pages.append(counter.page)
    counter.tender.add(TenderType.CASH, "300")
    counter.tender.finish()
    pages.append(counter.page)
    counter.done()
    pages.append(counter.page)

    assert pages == [Page.DESK, Page.TENDER, Page.RECEIPT, Page.DESK]
    assert counter.desk.state.basket.empty


def test_the_receipt_counts_as_shown_only_once_it_is_on_the_screen() -> None:
    till = pet_shop()
    counter = counter_of(till)

    order_id = sell(counter)

    assert till.calls.index(f"shown {order_id}") > till.calls.index("pay")
    assert counter.shown is not None and counter.shown.change_minor == 0


def test_an_empty_basket_is_not_paid() -> None:
    counter = counter_of()

    counter.pay()

    assert counter.page is Page.DESK and key(counter) == "verdict.basket_empty"


def test_a_basket_whose_price_is_on_its_way_is_not_paid_yet() -> None:
    class Never(Now):
        def local(self, job, done, failed=None):
            if held:
                return
            super().local(job, done, failed)

    held: list[int] = []
    jobs = Never()
    counter = counter_of(jobs=jobs)
    counter.scan("FOOD")
    held.append(1)
    counter.desk.step(1)

    counter.pay()

    assert counter.page is Page.DESK and key(counter) == "verdict.pricing"


def test_going_back_keeps_the_basket() -> None:
    counter = counter_of()
    counter.scan("FOOD")
    counter.pay()

    counter.back()

    assert counter.page is Page.DESK and counter.desk.state.payable


def test_a_scan_on_the_receipt_begins_the_next_customer() -> None:
    counter = counter_of()
    sell(counter)

    counter.scan("CAN")

    assert counter.page is Page.DESK and [item.sku for item in counter.desk.state.basket.items] == ["CAN"]


def test_a_scan_on_the_payment_goes_back_and_adds() -> None:
    counter = counter_of()
    counter.scan("FOOD")
    counter.pay()

    counter.scan("CAN")

    assert counter.page is Page.DESK and len(counter.desk.state.basket.items) == 2


def test_a_scan_while_a_payment_is_under_way_changes_nothing() -> None:
    jobs = Later()
    counter = counter_of(jobs=jobs)
    counter.scan("FOOD")
    counter.pay()
    counter.tender.add(TenderType.CASH, "")
    counter.tender.finish()

    counter.scan("CAN")
    counter.back()

    assert counter.page is Page.TENDER and len(counter.desk.state.basket.items) == 1


def test_a_scan_on_the_refund_page_looks_the_order_up() -> None:
    counter = counter_of()
    order_id = sell(counter)
    counter.done()
    counter.open_refund()

    counter.scan(order_id)

    assert counter.refund.state.order is not None and counter.refund.state.order.order_id == order_id


def test_a_scan_while_a_weight_is_asked_for_waits() -> None:
    counter = counter_of()
    counter.scan("TREAT")

    counter.scan("FOOD")

    assert counter.desk.state.basket.items == () and key(counter) == "verdict.answer_first"


def test_the_last_receipt_is_shown_again_without_change_to_give() -> None:
    counter = counter_of()
    order_id = sell(counter)
    counter.done()

    counter.show_last()

    assert counter.page is Page.RECEIPT and counter.shown is not None
    assert counter.shown.receipt.order_id == order_id and counter.shown.change_minor is None


def test_before_the_first_sale_there_is_no_last_receipt() -> None:
    counter = counter_of()

    counter.show_last()

    assert counter.page is Page.DESK and key(counter) == "verdict.no_receipt"


def test_an_unknown_payment_may_be_left_for_the_next_customer_and_seen_to_later() -> None:
    till = pet_shop(terminal=Silent())
    counter = counter_of(till)
    counter.scan("FOOD")
    order_id = counter.desk.state.basket.order_id
    counter.pay()
    counter.tender.add(TenderType.CARD, "")
    counter.tender.finish()
    till.unfinished = [Interrupted(InterruptedKind.PAYMENT_UNKNOWN, order_id, "UNKNOWN", 29900)]

    counter.back()

    assert counter.page is Page.DESK and counter.desk.state.basket.empty and key(counter) == "verdict.left_unknown"
    assert counter.interrupted.state.items
    counter.open_interrupted()
    counter.interrupted.settle(counter.interrupted.state.items[0])
    assert till.orders[order_id].state == "PAID" and counter.interrupted.state.items == ()


# ------------------------------------------------------------------ after a restart


def found(kind: InterruptedKind, till: FakeTill, order_id: str, **keys: object) -> CounterPresenter:
    till.unfinished = [Interrupted(kind, order_id, "", 29900, **keys)]  # type: ignore[arg-type]
    return counter_of(till)


def sold_before() -> tuple[FakeTill, str]:
    till = pet_shop()
    order_id = sell(counter_of(till))
    till.calls.clear()
    return till, order_id


def test_a_till_that_stopped_opens_with_what_was_half_done() -> None:
    till, order_id = sold_before()

    counter = found(InterruptedKind.RECEIPT_NOT_SHOWN, till, order_id)

    assert counter.page is Page.INTERRUPTED


def test_a_quiet_till_opens_at_the_desk() -> None:
    assert counter_of().page is Page.DESK


def test_a_receipt_that_was_not_shown_is_shown_and_ticked_off() -> None:
    till, order_id = sold_before()
    counter = found(InterruptedKind.RECEIPT_NOT_SHOWN, till, order_id)

    counter.interrupted.settle(counter.interrupted.state.items[0])
    shown = counter.page
    counter.done()

    assert shown is Page.RECEIPT and till.calls == [f"shown {order_id}"]
    assert counter.page is Page.INTERRUPTED and counter.interrupted.state.items == ()


def test_an_open_hold_is_cancelled_and_nothing_is_charged() -> None:
    till = pet_shop()
    counter = found(InterruptedKind.OPEN_HOLD, till, "o1")

    counter.interrupted.settle(counter.interrupted.state.items[0])

    assert till.calls == ["cancel"] and counter.interrupted.state.items == ()


def test_a_refund_without_an_answer_is_asked_about_again() -> None:
    till, order_id = sold_before()
    counter = found(InterruptedKind.REFUND_UNANSWERED, till, order_id, request_id="r1")

    counter.interrupted.settle(counter.interrupted.state.items[0])

    assert "resume_refunds" in till.calls and till.orders[order_id].state == "REFUNDED"


def test_a_refund_that_was_not_shown_is_ticked_off() -> None:
    till, order_id = sold_before()
    counter = found(InterruptedKind.REFUND_NOT_SHOWN, till, order_id, request_id="r1")

    counter.interrupted.settle(counter.interrupted.state.items[0])

    assert till.calls == [f"shown {order_id}"] and counter.interrupted.state.items == ()


# ------------------------------------------------------------------ troubles


def damaged(till: FakeTill) -> None:
    till.now_status = TillStatus(True, None, None, None, NOW, damaged="the chain is broken at 17")


def test_a_damaged_till_sells_nothing_and_says_so() -> None:
    till = pet_shop()
    damaged(till)
    counter = counter_of(till)
    counter.scan("FOOD")

    counter.pay()
    counter.open_refund()

    assert counter.page is Page.DESK and not counter.can_pay
    assert counter.trouble is not None and counter.trouble.key == "trouble.ledger_damaged"


def test_a_line_that_no_waiting_mends_is_on_the_banner_and_goods_still_sell() -> None:
    till = pet_shop()
    till.now_status = TillStatus(False, NOW, 3, 0, NOW, trouble=LineTrouble.KEY_REFUSED)
    counter = counter_of(till)
    counter.scan("FOOD")

    counter.pay()

    assert counter.trouble is not None and counter.trouble.key == "line.key_refused"
    assert counter.page is Page.TENDER


def test_a_full_disk_stays_on_the_banner_until_a_sale_is_saved(tmp_path: Path) -> None:
    till = pet_shop()
    counter = counter_of(till)
    counter.scan("FOOD")
    counter.pay()
    counter.tender.add(TenderType.CASH, "")
    till.fail = DiskFull(tmp_path, "no space left")
    counter.tender.finish()
    said = counter.trouble

    till.fail = None
    counter.tender.finish()

    assert said is not None and said.key == "trouble.disk_full"
    assert counter.page is Page.RECEIPT and counter.trouble is None


@pytest.mark.parametrize("kind", StoreError.__subclasses__())
def test_every_trouble_of_the_file_has_words(kind: type[StoreError], tmp_path: Path) -> None:
    counter = counter_of()

    counter.report(kind(tmp_path, "x"))

    assert counter.trouble is not None or key(counter) == f"trouble.{kind.key}"


@pytest.mark.parametrize(("error", "said"), [(Offline(), "error.offline"), (ValueError("bug"), "error.unexpected")])
def test_what_nobody_expected_is_said_and_the_till_goes_on(error: Exception, said: str) -> None:
    counter = counter_of()

    counter.report(error)
    told = key(counter)
    counter.scan("FOOD")

    assert told == said and counter.desk.state.payable


def test_a_busy_file_is_said_beside_the_basket(tmp_path: Path) -> None:
    till = pet_shop()
    counter = counter_of(till)
    till.fail = LedgerBusy(tmp_path, "locked")

    counter.scan("FOOD")

    assert key(counter) == "trouble.ledger_busy" and counter.trouble is None


def test_a_line_that_comes_back_prices_the_basket_anew() -> None:
    till = pet_shop()
    counter = counter_of(till)
    for code in ("FOOD", "K-FOOD"):
        counter.scan(code)
    online = till.now_status
    till.now_status = TillStatus(False, NOW, 1, 0, NOW)
    counter.status.poll()
    away = counter.desk.state.quote

    till.now_status = online
    counter.status.poll()

    assert away is not None and away.payable_minor == 29900
    assert counter.desk.state.quote is not None and counter.desk.state.quote.payable_minor == 24900


# ------------------------------------------------------------------ this till's own rights


def test_a_scan_on_the_page_of_rights_leads_back_to_the_desk() -> None:
    counter = counter_of()
    counter.open_rights()
    page = counter.page

    counter.scan("FOOD")

    assert (page, counter.page) == (Page.RIGHTS, Page.DESK)
    assert [item.sku for item in counter.desk.state.basket.items] == ["FOOD"]


def test_a_scan_while_the_day_is_closed_changes_nothing() -> None:
    jobs = Later()
    counter = counter_of(jobs=jobs)
    counter.open_rights()
    counter.rights.ask()
    counter.rights.close_day()

    counter.scan("FOOD")
    counter.back()
    counter.open_interrupted()
    page = counter.page
    jobs.release()
    counter.back()

    assert (page, counter.page) == (Page.RIGHTS, Page.DESK) and not counter.desk.state.basket.items


def test_what_is_unfinished_is_reached_from_the_page_of_rights() -> None:
    counter = counter_of()
    counter.open_rights()

    counter.open_interrupted()

    assert counter.page is Page.INTERRUPTED


def test_the_day_is_not_closed_with_a_customer_at_the_desk() -> None:
    till = pet_shop()
    counter = counter_of(till)
    counter.scan("FOOD")
    counter.open_rights()

    counter.rights.ask()
    said = counter.rights.state.verdict
    counter.back()

    assert said is not None and isinstance(said.message, Text) and said.message.key == "rights.basket_first"
    assert "end_day" not in till.calls and counter.can_pay


def test_a_damaged_till_shows_no_rights() -> None:
    till = pet_shop()
    till.now_status = TillStatus(False, NOW, None, None, None, damaged="torn")
    counter = counter_of(till)

    counter.open_rights()

    assert counter.page is Page.DESK

"""The window as a cashier uses it: scans and keys go in through the window system, and the screen answers."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.domain.tenders import TenderType
from app.services.api import Interrupted, InterruptedKind, TillStatus
from app.store.errors import DiskFull
from tests.fakes.till import NOW
from tests.gui.conftest import PATIENCE_MS, Driver
from ui.counter.approval_dialog import ApprovalDialog
from ui.counter.confirm_dialog import ConfirmDialog
from ui.counter.counter_presenter import Page
from ui.counter.entry_dialog import EntryDialog
from ui.counter.terminal_dialog import TerminalDialog

Key = Qt.Key


def cell(driver: Driver, row: int, column: int) -> str:
    model = driver.window.desk.table.basket
    return str(model.data(model.index(row, column)))


# ------------------------------------------------------------------ scanning


def test_a_scan_needs_no_focus_and_shows_its_line(driver: Driver) -> None:
    driver.window.desk.pay.setFocus()

    driver.scan("6901234567892")

    driver.basket("FOOD")
    driver.until(lambda: cell(driver, 0, 5) == "¥299.00")
    assert driver.window.desk.payable.text() == "¥299.00"
    assert driver.window.desk.scan_field.text() == ""


def test_a_scan_that_ends_with_enter_does_not_pay(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.window.desk.pay.setFocus()

    driver.scan("6901234567908")

    driver.basket("FOOD", "CAN")
    assert driver.counter.page is Page.DESK


def test_a_code_typed_by_hand_goes_in_with_enter(driver: Driver) -> None:
    driver.type("WASH")
    assert driver.window.desk.scan_field.text() == "WASH"

    driver.key(Key.Key_Return)

    driver.basket("WASH")


def test_typing_beside_the_scan_field_goes_into_it(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.window.desk.pay.setFocus()

    driver.type("CAN")
    driver.key(Key.Key_Return)

    driver.basket("FOOD", "CAN")


def test_a_refused_coupon_is_said_in_words_colour_and_icon(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.scan("K-USED")
    driver.until(lambda: driver.window.desk.verdict._title.text().startswith("已用过"))

    strip = driver.window.desk.verdict

    assert "old-town" in strip._text.text() and "…C3D4E5F6" in strip._text.text()
    assert strip.property("tone") == "refused" and not strip._icon.pixmap().isNull()


def test_keys_of_the_desk_work_on_the_selected_line(driver: Driver) -> None:
    for code in ("FOOD", "6901234567908"):
        driver.scan(code)
    driver.basket("FOOD", "CAN")

    driver.key(Key.Key_Up)
    driver.burst("+")
    driver.until(lambda: driver.desk.state.basket.items[0].qty_milli == 2000)
    driver.burst("-")
    driver.until(lambda: driver.desk.state.basket.items[0].qty_milli == 1000)
    driver.key(Key.Key_F4)

    driver.basket("CAN")


# ------------------------------------------------------------------ dialogs


def test_weighed_goods_ask_for_their_weight_and_say_what_is_wrong(driver: Driver) -> None:
    driver.scan("TREAT")
    dialog = driver.dialog(EntryDialog)

    driver.type("0")
    driver.key(Key.Key_Return)
    wrong = dialog.wrong.text()
    driver.type("0.735")
    driver.key(Key.Key_Return)

    driver.basket("TREAT")
    assert "99999" in wrong and driver.desk.state.basket.items[0].qty_milli == 735


def test_a_scan_over_an_open_question_does_not_become_its_answer(driver: Driver) -> None:
    driver.scan("TREAT")
    dialog = driver.dialog(EntryDialog)

    driver.scan("6901234567892")
    driver.until(lambda: dialog.wrong.text() != "")

    assert dialog.field.text() == "" and driver.desk.state.basket.items == ()


def test_escape_leaves_a_question_without_an_answer(driver: Driver) -> None:
    driver.scan("TREAT")
    driver.until(lambda: driver.window.dialog is not None)

    driver.key(Key.Key_Escape)

    driver.until(lambda: driver.window.dialog is None)
    assert driver.desk.state.asked is None and driver.desk.state.basket.items == ()


def test_clearing_a_basket_is_asked_about_first(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F10)
    driver.dialog(ConfirmDialog)
    driver.key(Key.Key_Return)  # means no
    driver.until(lambda: driver.window.dialog is None)
    kept = driver.desk.state.basket.items

    driver.key(Key.Key_F10)
    driver.until(lambda: driver.window.dialog is not None)
    driver.key(Key.Key_F10)

    driver.until(lambda: driver.desk.state.basket.items == ())
    assert len(kept) == 1


# ------------------------------------------------------------------ paying


def test_a_cash_sale_goes_by_keys_alone(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.type("300")
    driver.key(Key.Key_Return)
    driver.until(driver.window.tender.finish.isEnabled)
    change = driver.window.tender.remaining.text()
    driver.key(Key.Key_F12)
    driver.until_page(Page.RECEIPT)
    receipt = driver.window.receipt.text.toPlainText()

    driver.key(Key.Key_Return)

    driver.until_page(Page.DESK)
    assert change == "¥1.00" and driver.window.receipt.change.text() == "¥1.00"
    assert "北屿成猫粮 2kg" in receipt and "¥299.00" in receipt


def test_a_scan_does_not_become_an_amount(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)

    driver.scan("6901234567908")

    driver.basket("FOOD", "CAN")
    assert driver.counter.page is Page.DESK and driver.window.tender.amount.text() == ""


def test_an_amount_that_was_not_given_is_not_the_next_customers(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.type("400")

    driver.key(Key.Key_Escape)
    driver.until_page(Page.DESK)
    driver.basket("FOOD")
    driver.until(driver.window.desk.pay.isEnabled)
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)

    assert driver.window.tender.amount.text() == ""


@pytest.mark.parametrize("text", ["12.345", "0", "-5", "abc"])
def test_a_wrong_amount_is_marked_and_said(driver: Driver, text: str) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)

    driver.type(text)
    driver.key(Key.Key_F5)
    driver.until(lambda: driver.window.tender.verdict._title.text() == "金额不对")

    assert driver.window.tender.amount.property("wrong") is True
    assert driver.counter.tender.state is not None and driver.counter.tender.state.tenders == ()


def test_the_cashier_answers_for_the_terminal(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F6)
    driver.key(Key.Key_F12)
    driver.dialog(TerminalDialog)

    driver.key(Key.Key_Escape)  # answers nothing
    driver.key(Key.Key_Return)
    still_open = driver.window.dialog is not None
    driver.key(Key.Key_F7)
    driver.until(lambda: driver.window.dialog is None and driver.window.tender.ask_again.isEnabled())
    unknown = driver.window.tender.remaining.text(), driver.window.tender.finish.isVisible()
    driver.key(Key.Key_F2)
    driver.dialog(TerminalDialog)
    driver.key(Key.Key_F5)

    driver.until_page(Page.RECEIPT)
    assert still_open and unknown == ("¥299.00", False)


def test_a_window_is_not_closed_in_the_middle_of_a_payment(driver: Driver) -> None:
    release = threading.Event()
    driver.till.block = release.wait
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F5)
    driver.key(Key.Key_F12)
    driver.until(lambda: driver.counter.tender.state is not None and driver.counter.tender.state.busy)

    closed = driver.window.close()
    release.set()

    driver.until_page(Page.RECEIPT)
    assert not closed and driver.window.isVisible()


# ------------------------------------------------------------------ refunds


def sell(driver: Driver) -> str:
    driver.scan("FOOD")
    driver.scan("K-FOOD")
    driver.until(lambda: driver.desk.state.quote is not None and bool(driver.desk.state.quote.used))
    order_id = driver.desk.state.basket.order_id
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F5)
    driver.key(Key.Key_F12)
    driver.until_page(Page.RECEIPT)
    driver.key(Key.Key_F12)
    driver.until_page(Page.DESK)
    return order_id


def test_an_orders_number_that_is_typed_by_hand_stays_while_the_window_is_drawn_anew(driver: Driver) -> None:
    order_id = sell(driver)
    driver.key(Key.Key_F7)
    driver.until_page(Page.REFUND)

    driver.type(order_id[:3])
    with driver.qtbot.waitSignal(driver.window.drawn, timeout=PATIENCE_MS):
        driver.window._ticked()
    driver.type(order_id[3:])
    driver.key(Key.Key_Return)

    driver.until(lambda: bool(driver.window.refund.fields))
    driver.key(Key.Key_Escape)
    driver.until_page(Page.DESK)
    driver.key(Key.Key_F7)
    driver.until_page(Page.REFUND)
    assert driver.window.refund.number.text() == "", "the next refund begins with no number"


def test_a_refund_is_shown_before_it_is_confirmed(driver: Driver) -> None:
    order_id = sell(driver)
    driver.key(Key.Key_F7)
    driver.until_page(Page.REFUND)

    driver.scan(order_id)
    driver.until(lambda: bool(driver.window.refund.fields))
    driver.key(Key.Key_F2)
    driver.until(driver.window.refund.confirm.isEnabled)
    shown, asked = driver.window.refund.amount.text(), [c for c in driver.till.calls if c.startswith("refund")]
    driver.key(Key.Key_F12)

    driver.until(lambda: driver.counter.refund.state.done is not None)
    assert shown == "¥249.00" and asked == []
    driver.key(Key.Key_Escape)
    driver.until_page(Page.DESK)


def test_a_member_without_a_label_is_called_by_the_id(driver: Driver) -> None:
    driver.till.members["M1001"] = replace(driver.till.members["M1001"], label="")

    driver.scan("M1001")

    driver.until(lambda: driver.window.desk.member._label.text() == "M1001 · 金卡会员")


# ------------------------------------------------------------------ language, status, troubles


def test_the_language_changes_on_every_part_of_the_screen(driver: Driver) -> None:
    driver.scan("FOOD")
    driver.scan("M1001")
    driver.until(lambda: driver.desk.state.member is not None and bool(driver.desk.state.coupons))
    driver.until(lambda: cell(driver, 0, 1) == "北屿成猫粮 2kg")

    driver.key(Key.Key_F9)

    driver.until(lambda: cell(driver, 0, 1) == "Northisle Adult Cat Food 2kg")
    window = driver.window
    assert "Pay" in window.desk.pay.text() and "Gold" in window.desk.member._label.text()
    assert window.status_bar.labels["line"].text() == "Online" and "R1" in window.windowTitle()


def test_the_status_bar_always_tells_how_the_till_stands(driver: Driver, offline: TillStatus) -> None:
    driver.till.now_status = offline

    driver.until(lambda: driver.window.status_bar.labels["line"].text() == "离线，自 14:05")

    texts = {name: label.text() for name, label in driver.window.status_bar.labels.items()}
    assert texts["pending"] == "未同步 14" and texts["parked"] == "搁置 1" and texts["sync"] == "上次同步 14:05"
    assert texts["till"] == "riverside · 收银台 R1" and texts["person"] == "小林" and texts["clock"] == "14:05"


def test_a_damaged_till_says_so_in_a_banner_and_sells_nothing(driver: Driver) -> None:
    driver.till.now_status = TillStatus(True, None, None, None, NOW, damaged="broken")
    driver.until(driver.window.banner.isVisible)
    driver.scan("FOOD")
    driver.basket("FOOD")

    driver.key(Key.Key_F12)

    assert driver.counter.page is Page.DESK and not driver.window.desk.pay.isEnabled()
    assert not driver.window.desk.refund.isEnabled()


def test_a_full_disk_is_a_banner_and_no_sale(driver: Driver, tmp_path: Path) -> None:
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F5)
    driver.till.fail = DiskFull(tmp_path, "no space left")

    driver.key(Key.Key_F12)

    driver.until(driver.window.banner.isVisible)
    assert driver.counter.page is Page.TENDER and driver.till.orders == {}


def test_what_a_restart_found_is_the_first_page(driver: Driver) -> None:
    driver.till.unfinished = [Interrupted(InterruptedKind.OPEN_HOLD, "o1", "HELD", 24900, since_at=NOW)]
    driver.counter.start()
    driver.until_page(Page.INTERRUPTED)

    driver.counter.interrupted.settle(driver.counter.interrupted.state.items[0])
    driver.until(lambda: driver.counter.interrupted.state.items == ())
    driver.key(Key.Key_Escape)

    driver.until_page(Page.DESK)
    assert "cancel" in driver.till.calls


# ------------------------------------------------------------------ nothing blocks


def test_a_scan_answers_within_100_ms_while_every_head_office_call_hangs(driver: Driver) -> None:
    hang = threading.Event()
    driver.desk._refresh = lambda: hang.wait(30) and None
    driver.till.block = lambda: hang.wait(30)
    for _ in range(6):  # more than there are network threads
        driver.window._tasks.network(lambda: hang.wait(30), lambda _none: None)
    driver.window._tasks.network(lambda: driver.till.order("nowhere"), lambda _none: None)
    table = driver.window.desk.table

    try:
        driver.scan("FOOD")  # the first draws what is drawn only once
        driver.basket("FOOD")
        times = []
        for count in range(2, 12):
            began = time.perf_counter()
            driver.scan("6901234567892")
            driver.until(
                lambda count=count: str(table.basket.data(table.basket.index(0, 2))) == str(count), timeout=PATIENCE_MS
            )
            times.append(time.perf_counter() - began)
    finally:
        hang.set()

    assert sorted(times)[len(times) // 2] < 0.1, times
    assert driver.desk.state.quote is not None and driver.desk.state.quote.payable_minor == 11 * 29900


def test_the_screen_goes_on_while_a_payment_waits_for_the_head_office(driver: Driver) -> None:
    release = threading.Event()
    driver.till.block = lambda: release.wait(30)
    driver.scan("FOOD")
    driver.basket("FOOD")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F5)
    driver.key(Key.Key_F12)
    driver.until(lambda: driver.window.tender.verdict._title.text() == "请稍候")

    driver.window.words.speak(driver.window.words.language.other)
    driver.until(lambda: driver.window.tender.verdict._title.text() == "One moment")
    release.set()

    driver.until_page(Page.RECEIPT)


def test_money_beyond_32_bits_is_shown_whole(driver: Driver) -> None:
    driver.till.products["FOOD"] = replace(driver.till.products["FOOD"], price_minor=5_000_000_000)

    driver.scan("FOOD")

    driver.until(lambda: driver.window.desk.payable.text() == "¥50,000,000.00")
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.key(Key.Key_F5)
    driver.until(lambda: driver.counter.tender.state is not None and driver.counter.tender.state.complete)
    state = driver.counter.tender.state
    assert state is not None and state.tenders[0].type is TenderType.CASH
    assert state.tenders[0].amount_minor == 5_000_000_000


def test_a_coupon_goes_through_on_a_managers_pin_while_the_line_is_down(driver: Driver, offline: TillStatus) -> None:
    driver.till.now_status = offline
    driver.till.at_risk = {"c-open": 2_000}
    driver.until(lambda: not driver.counter.status.online)
    assert not driver.window.desk.risk.isVisible()
    for code in ("FOOD", "K-OPEN"):
        driver.scan(code)
    driver.until(driver.window.desk.risk.isVisible)

    driver.key(Key.Key_F6)
    dialog = driver.dialog(ApprovalDialog)
    driver.scan("FOOD")
    driver.until(lambda: bool(dialog.wrong.text()))
    driver.window.draw()
    assert dialog.wrong.text() == driver.window.words.text("verdict.answer_first"), "the next drawing leaves it there"
    dialog.reason.setText("老顾客")
    for pin in ("111111", "270581"):
        assert dialog.pin.displayText() == ""
        driver.type(pin)
        assert pin not in dialog.pin.displayText()
        driver.key(Key.Key_Return)
        driver.until(lambda: "PIN" in dialog.wrong.text() or driver.window.dialog is None)

    driver.until(lambda: driver.desk.state.quote is not None and driver.desk.state.quote.used == ("c-open",))
    driver.until(lambda: driver.window.dialog is None and not driver.window.desk.risk.isVisible())
    assert driver.till.approved[driver.desk.state.basket.order_id, "c-open"] == ("meg", "老顾客")

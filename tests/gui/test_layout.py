"""Every control can be hit by a finger and read in both languages, at the smallest screen and at a large one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QWidget

from app.services.api import Approver, Interrupted, InterruptedKind, TillStatus
from tests.fakes.rights import many_rights
from tests.fakes.till import NOW
from tests.gui.conftest import PATIENCE_MS, Driver
from ui import theme
from ui.counter.approval_dialog import ApprovalDialog
from ui.counter.confirm_dialog import ConfirmDialog
from ui.counter.counter_presenter import Page
from ui.widgets import TOUCH_PX
from ui.words import Language

Key = Qt.Key
SIZES = [(1366, 768), (1920, 1080)]


def shown(driver: Driver, kind: type[QWidget]) -> list[QWidget]:
    found = [widget for widget in driver.window.findChildren(kind) if widget.isVisible()]
    assert found
    return found


def check(driver: Driver) -> None:
    """Check every visible control of the page."""
    window = driver.window
    for button in shown(driver, QAbstractButton):
        assert isinstance(button, QAbstractButton)
        assert button.height() >= TOUCH_PX, button.text()
        assert button.width() >= TOUCH_PX, button.text()
        assert button.width() >= button.sizeHint().width() - 2, f"{button.text()!r} is cut"
    for field in window.findChildren(QLineEdit):
        assert not field.isVisible() or field.height() >= TOUCH_PX
    for label in window.findChildren(QLabel):
        if label.isVisible() and label.text() and not label.wordWrap():
            assert label.width() >= label.sizeHint().width() - 2, f"{label.text()!r} is cut"


def lay_out(driver: Driver, size: tuple[int, int], language: Language) -> None:
    driver.window.resize(*size)
    driver.window.words.speak(language)
    driver.qtbot.waitUntil(lambda: not driver.window._draw_soon.isActive(), timeout=PATIENCE_MS)
    driver.qtbot.wait(20)  # the layout's own posted events


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("language", Language)
def test_every_page_fits(driver: Driver, size: tuple[int, int], language: Language) -> None:
    lay_out(driver, size, language)
    check(driver)
    for code in ("FOOD", "6901234567908", "WASH", "K-FOOD", "P2001"):
        driver.scan(code)
    driver.basket("FOOD", "CAN", "WASH")
    driver.until(lambda: driver.desk.state.fresh and bool(driver.desk.state.coupons))
    lay_out(driver, size, language)
    check(driver)

    order_id = driver.desk.state.basket.order_id
    driver.key(Key.Key_F12)
    driver.until_page(Page.TENDER)
    driver.window.tender.amount.setText("100")
    driver.key(Key.Key_F8)
    lay_out(driver, size, language)
    check(driver)
    driver.key(Key.Key_F5)
    driver.key(Key.Key_F12)
    driver.until_page(Page.RECEIPT)
    lay_out(driver, size, language)
    check(driver)

    driver.key(Key.Key_F12)
    driver.until_page(Page.DESK)
    driver.key(Key.Key_F7)
    driver.until_page(Page.REFUND)
    driver.counter.refund.look_up(order_id)
    driver.until(lambda: bool(driver.window.refund.fields))
    driver.key(Key.Key_F2)
    lay_out(driver, size, language)
    check(driver)

    driver.key(Key.Key_Escape)
    driver.until_page(Page.DESK)
    driver.till.unfinished = [
        Interrupted(kind, "0190f3a2b4c57d1e8f90a1b2c3d4e5f6", "PAID", 29900, since_at=NOW, mark="R1-1-42 9f2c01ab")
        for kind in InterruptedKind
    ]
    driver.counter.open_interrupted()
    driver.until(lambda: driver.counter.page is Page.INTERRUPTED and bool(driver.counter.interrupted.state.items))
    lay_out(driver, size, language)
    check(driver)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("language", Language)
def test_the_rights_and_the_question_before_the_days_end_fit(
    driver: Driver, size: tuple[int, int], language: Language
) -> None:
    driver.till.view_of_rights = many_rights(NOW)
    lay_out(driver, size, language)
    driver.key(Key.Key_F1)
    driver.until_page(Page.RIGHTS)
    driver.until(lambda: driver.counter.rights.state.view is not None)
    lay_out(driver, size, language)
    check(driver)

    driver.key(Key.Key_F12)
    dialog = driver.dialog(ConfirmDialog)
    driver.qtbot.wait(20)

    assert dialog.text.height() >= dialog.text.heightForWidth(dialog.text.width()), "the question is cut"
    check(driver)


def test_a_long_number_is_never_cut_to_another_number(driver: Driver) -> None:
    food = driver.till.products["FOOD"]
    driver.till.products["FOOD"] = replace(food, price_minor=9_999_999_999_99 // 100)
    driver.scan("FOOD")
    driver.until(lambda: driver.window.desk.payable.text() == "¥99,999,999.99")
    table = driver.window.desk.table

    for column in (3, 5):
        text = str(table.basket.data(table.basket.index(0, column)))
        assert table.columnWidth(column) >= table.fontMetrics().horizontalAdvance(text) + 16


@pytest.mark.parametrize("path", sorted((theme.files("resources") / "icons").iterdir(), key=str), ids=lambda p: p.name)
def test_every_icon_can_be_drawn(driver: Driver, path: object) -> None:
    name = str(path).rpartition("/")[2].removesuffix(".svg")

    assert not theme.pixmap(name).isNull()


def test_there_is_a_font_with_chinese(driver: Driver) -> None:
    assert theme.chinese_family() is not None


@pytest.mark.parametrize("language", Language)
def test_the_question_for_a_manager_fits_the_smallest_screen(
    driver: Driver, offline: TillStatus, language: Language
) -> None:
    driver.till.now_status = offline
    driver.till.at_risk = {"c-open": 123_456}
    driver.till.managers = tuple(Approver(f"m{n}", f"Maximiliana Longname {n}" * (1 + n % 2)) for n in range(9))
    lay_out(driver, SIZES[0], language)
    driver.until(lambda: not driver.counter.status.online)
    for code in ("FOOD", "K-OPEN"):
        driver.scan(code)
    driver.until(driver.window.desk.risk.isVisible)

    driver.key(Key.Key_F6)
    dialog = driver.dialog(ApprovalDialog)
    driver.counter.approval.enter("270581", "")  # the longest sentence beside the keys
    driver.until(lambda: bool(dialog.wrong.text()))

    assert dialog.width() <= SIZES[0][0] and dialog.height() <= SIZES[0][1] - 40  # the window's own title
    check(driver)

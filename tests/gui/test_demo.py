"""The demo's panel beside the window, and a till whose file is damaged, opened as `pawtill till` opens it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.services.secrets import DeviceKey, Secrets
from app.store.database import TillDatabase
from tests.gui.conftest import PATIENCE_MS, Driver
from ui.counter.terminal import CashierTerminal
from ui.demo.panel import ScanPanel
from ui.demo.things import DemoCounter, Group, Thing
from ui.desktop import show_till
from ui.running_till import Enrolment, Joined, open_running_till
from ui.words import Name


class _Plug:
    """A cable to nowhere."""

    is_cut = False

    def cut(self) -> None:
        self.is_cut = True

    def mend(self) -> None:
        self.is_cut = False


def _panel(driver: Driver, woken: list[bool]) -> tuple[ScanPanel, _Plug]:
    things = (Thing(Name("猫粮", "Cat food"), "CAT-2KG"), Thing(Name("读错的码", "Misread"), "9612286961081348"))
    plug = _Plug()
    counter = DemoCounter((Group("demo.goods", things),), plug, lambda: woken.append(plug.is_cut))
    panel = ScanPanel(driver.window, counter)
    driver.window.add_side_panel(panel)
    driver.until(panel.isVisible)
    return panel, plug


def _button(panel: ScanPanel, text: str) -> QPushButton:
    return next(button for button in panel.findChildren(QPushButton) if button.text().strip() == text)


def _touch(button: QPushButton) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def test_a_touch_on_a_thing_is_a_scan(driver: Driver) -> None:
    sku = next(iter(driver.till.products))
    panel, _ = _panel(driver, [])
    things = (Thing(Name("试", "Try"), sku),)
    other = ScanPanel(driver.window, DemoCounter((Group("demo.goods", things),), _Plug(), lambda: None))
    driver.window.add_side_panel(other)
    driver.until(other.isVisible)

    _touch(_button(other, "试"))

    driver.basket(sku)
    assert panel.isVisible()


def test_the_plug_is_pulled_and_put_back_and_the_sync_is_woken(driver: Driver) -> None:
    woken: list[bool] = []
    panel, plug = _panel(driver, woken)

    _touch(panel.cable)
    pulled = plug.is_cut, panel.cable.text().strip()
    _touch(panel.cable)

    assert pulled == (True, "插回网线")
    assert (plug.is_cut, panel.cable.text().strip()) == (False, "拔掉网线")
    assert woken == [True, False]


def test_the_panel_speaks_the_language_of_the_window(driver: Driver) -> None:
    panel, _ = _panel(driver, [])

    driver.key(Qt.Key.Key_F9)

    driver.until(lambda: panel.cable.text().strip() == "Pull the cable")
    assert _button(panel, "Cat food").isVisible()


def test_a_till_with_a_damaged_ledger_opens_and_says_that_it_sells_nothing(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "till.db"
    TillDatabase.open(file, till_id="R1", store_id="riverside").close()
    damaged = bytearray(file.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    file.write_bytes(damaged)
    terminal = CashierTerminal()
    granted = Enrolment(
        Joined("http://127.0.0.1:9", "R1", "riverside"), Secrets(bytes(32), DeviceKey("k1", bytes(32), bytes(32), ""))
    )

    with open_running_till(file, granted, payments=terminal) as running:
        window = show_till(running, terminal=terminal, language="en")
        qtbot.addWidget(window)
        qtbot.waitUntil(lambda: window.counter.damaged and window.banner.isVisible(), timeout=PATIENCE_MS)
        banner, can_pay = window._banner_text.text(), window.counter.can_pay
        window.close()

    assert "sells nothing now" in banner
    assert not can_pay
    assert file.read_bytes() == damaged

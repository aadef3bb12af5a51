"""Run the window without a screen, on the till in memory; every window is closed with its threads after its test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QWindow
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from app.services.api import TillStatus
from tests.fakes.clock import SetClock
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import NOW, FakeTill
from ui.bootstrap import open_window
from ui.counter.counter_presenter import Page
from ui.counter.terminal import CashierTerminal
from ui.main_window import MainWindow
from ui.scanner import HOLD_MS
from ui.words import Language

# Before the first QApplication; a run on a real screen sets its own.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

Key = Qt.Key
D = TypeVar("D", bound=QDialog)
PATIENCE_MS = 30_000
"""How long a test waits for what must come; a machine that is busy with other things takes seconds at times."""


class Driver:
    """Press keys as a keyboard does, on whichever window has the focus, and wait for what the cashier then sees."""

    def __init__(self, qtbot: QtBot, window: MainWindow, till: FakeTill) -> None:
        self.qtbot, self.window, self.till = qtbot, window, till
        self.counter, self.desk = window.counter, window.counter.desk

    def handle(self) -> QWindow:
        top = self.window.dialog or self.window
        handle = top.windowHandle()
        assert handle is not None
        return handle

    def key(self, key: Key) -> None:
        """Press a key by hand: no sooner behind a scan than its line end, on a screen that stands still and listens.

        The window system tells a dialog a moment after it is shown that it is in front; its keys do nothing before.
        """
        busy = self.window.scanner._pause, self.window._draw_soon
        self.until(lambda: not any(timer.isActive() for timer in busy))
        self.until(self._listens)
        QTest.keyClick(self.handle(), key)

    def _listens(self) -> bool:
        return (self.window.dialog or self.window).isActiveWindow()

    def type(self, text: str) -> None:
        """Type by hand: each key is let go of before the next is expected."""
        for char in text:
            self.burst(char)
            self.qtbot.waitUntil(lambda: not len(self.window.scanner._burst), timeout=PATIENCE_MS)

    def burst(self, text: str) -> None:
        """Type as a scanner does, with nothing between the keys."""
        self._at_once([*text])

    def scan(self, text: str, end: Key | None = Key.Key_Return) -> None:
        """Scan a code."""
        self._at_once([*text] if end is None else [*text, end])

    def _at_once(self, keys: list[str | Key]) -> None:
        """Press keys with nothing between them: a machine that stalls here puts gaps that no scanner leaves."""
        self.window.scanner.wait_for_keys(100 * HOLD_MS)
        for key in keys:
            # QTest knows characters of a QWindow by their code; the event carries the text all the same.
            QTest.keyClick(self.handle(), key)  # type: ignore[call-overload]
        self.window.scanner.wait_for_keys(4 * HOLD_MS)

    def until(self, holds: Callable[[], bool], timeout: int = PATIENCE_MS) -> None:
        self.qtbot.waitUntil(holds, timeout=timeout)

    def until_page(self, page: Page) -> None:
        self.until(lambda: self.counter.page is page and self.window._page is page)

    def dialog(self, kind: type[D]) -> D:
        """Wait for a dialog of this kind to be open."""
        self.until(lambda: isinstance(self.window.dialog, kind))
        assert isinstance(self.window.dialog, kind)
        return self.window.dialog

    def basket(self, *skus: str) -> None:
        """Wait until these lines stand priced."""
        self.until(lambda: self.desk.state.fresh and tuple(item.sku for item in self.desk.state.basket.items) == skus)


@pytest.fixture
def terminal() -> CashierTerminal:
    return CashierTerminal()


@pytest.fixture
def till(terminal: CashierTerminal) -> FakeTill:
    return pet_shop(terminal=terminal)


@pytest.fixture
def driver(qtbot: QtBot, till: FakeTill, terminal: CashierTerminal) -> Iterator[Driver]:
    window = open_window(till, clock=SetClock(NOW), terminal=terminal, language=Language.ZH)
    qtbot.addWidget(window)
    # The keys of a test come as fast as the machine lets them; beside a whole suite that is no scanner's pace.
    window.scanner.wait_for_keys(4 * HOLD_MS)
    window.activateWindow()
    hands = Driver(qtbot, window, till)
    hands.until(lambda: window.counter.chain.till_id == "R1" and window.counter.status.status is not None)
    yield hands
    if window.dialog is not None:
        window.dialog.reject()
    terminal.close()
    window._tasks.close()
    window.close()


@pytest.fixture
def offline() -> TillStatus:
    return TillStatus(False, NOW, 14, 1, NOW)

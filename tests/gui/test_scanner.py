"""A scanner is told from a typist by its pace; no widget ever sees a scan, and no typed key is lost."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.gui.conftest import PATIENCE_MS
from ui.scanner import MAX_CHARS, MIN_BARE_CHARS, MIN_ENDED_CHARS, Burst, ScanFilter

Key = Qt.Key


class Desk(QWidget):
    """A field, and a button that counts its presses."""

    def __init__(self) -> None:
        super().__init__()
        self.field, self.button = QLineEdit(), QPushButton("x")
        self.presses, self.scans, self.returns = 0, [], 0
        whole = QVBoxLayout(self)
        whole.addWidget(self.field)
        whole.addWidget(self.button)
        self.button.clicked.connect(self._pressed)
        self.field.returnPressed.connect(self._returned)
        self.filter = ScanFilter(self)
        self.filter.scanned.connect(self.scans.append)

    def _pressed(self) -> None:
        self.presses += 1

    def _returned(self) -> None:
        self.returns += 1

    def burst(self, text: str, end: Key | None = None) -> None:
        for char in text:
            QTest.keyClick(self.windowHandle(), char)  # type: ignore[call-overload]
        if end is not None:
            QTest.keyClick(self.windowHandle(), end)


@pytest.fixture
def desk(qtbot: QtBot) -> Desk:
    made = Desk()
    qtbot.addWidget(made)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow, timeout=PATIENCE_MS)
    made.filter.watch(made.windowHandle())
    made.field.setFocus()
    return made


def settle(qtbot: QtBot, desk: Desk) -> None:
    """Wait until nothing is held back any more."""
    qtbot.waitUntil(lambda: not desk.filter._pause.isActive(), timeout=PATIENCE_MS)


@pytest.mark.parametrize("end", [Key.Key_Return, Key.Key_Enter, Key.Key_Tab])
def test_a_burst_with_an_end_is_a_scan_that_no_field_sees(qtbot: QtBot, desk: Desk, end: Key) -> None:
    desk.burst("6901234567892", end)
    settle(qtbot, desk)

    assert desk.scans == ["6901234567892"] and desk.field.text() == "" and desk.returns == 0
    assert desk.field.hasFocus()


def test_a_long_burst_without_an_end_is_a_scan_after_the_pause(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("K-FOOD")
    settle(qtbot, desk)

    assert desk.scans == ["K-FOOD"] and desk.field.text() == ""


def test_a_short_burst_without_an_end_was_typed(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("12345")
    settle(qtbot, desk)

    assert desk.scans == [] and desk.field.text() == "12345"


@pytest.mark.parametrize(("text", "scans", "typed"), [("123", [], "123"), ("1234", ["1234"], "")])
def test_the_shortest_scan_with_an_end(qtbot: QtBot, desk: Desk, text: str, scans: list[str], typed: str) -> None:
    desk.burst(text, Key.Key_Return)
    settle(qtbot, desk)

    assert desk.scans == scans and desk.field.text() == typed and desk.returns == (0 if scans else 1)


def test_keys_typed_one_by_one_reach_the_field_in_order(qtbot: QtBot, desk: Desk) -> None:
    for char in "6901234567892":
        desk.burst(char)
        settle(qtbot, desk)
    desk.burst("", Key.Key_Return)

    assert desk.scans == [] and desk.field.text() == "6901234567892" and desk.returns == 1


def test_a_scan_with_a_space_and_an_enter_presses_no_button(qtbot: QtBot, desk: Desk) -> None:
    desk.button.setFocus()

    desk.burst("12 34 56 78", Key.Key_Return)
    settle(qtbot, desk)

    assert desk.presses == 0 and desk.scans == ["12 34 56 78"]


def test_without_the_filter_that_scan_would_press_the_button(qtbot: QtBot, desk: Desk) -> None:
    desk.windowHandle().removeEventFilter(desk.filter)
    desk.button.setFocus()

    desk.burst("12 34 56 78", Key.Key_Return)

    assert desk.presses > 0


def test_a_space_typed_by_hand_presses_the_button(qtbot: QtBot, desk: Desk) -> None:
    desk.button.setFocus()

    desk.burst(" ")
    settle(qtbot, desk)

    assert desk.presses == 1


def test_a_second_line_end_behind_a_scan_is_swallowed(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("6901234567892", Key.Key_Return)
    desk.burst("", Key.Key_Enter)

    assert desk.scans == ["6901234567892"] and desk.returns == 0


def test_an_enter_by_hand_after_a_scan_is_not_swallowed(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("6901234567892", Key.Key_Return)
    settle(qtbot, desk)

    desk.burst("", Key.Key_Return)

    assert desk.returns == 1


def test_two_scans_at_once_are_two(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("6901234567892", Key.Key_Return)
    desk.burst("6901234567908", Key.Key_Return)

    assert desk.scans == ["6901234567892", "6901234567908"]


def test_keys_held_come_before_the_command_that_follows_them(qtbot: QtBot, desk: Desk) -> None:
    desk.burst("12")
    QTest.keyClick(desk.windowHandle(), Key.Key_Backspace)

    assert desk.field.text() == "1"


@pytest.mark.parametrize(("text", "scans", "typed"), [("400", [], "400"), ("690123", ["690123"], "")])
def test_what_is_held_comes_before_a_shortcut(desk: Desk, text: str, scans: list[str], typed: str) -> None:
    # Qt lets a shortcut act before any filter sees its key: a sum typed just before F5 would come too late for it.
    seen: list[str] = []
    QShortcut(Key.Key_F5, desk).activated.connect(lambda: seen.append(desk.field.text()))

    desk.burst(text, Key.Key_F5)

    assert seen == [typed] and desk.scans == scans


def test_a_command_is_never_held(qtbot: QtBot, desk: Desk) -> None:
    desk.field.setText("6901")
    QTest.keyClick(desk.windowHandle(), Key.Key_A, Qt.KeyboardModifier.ControlModifier)

    assert desk.field.selectedText() == "6901"


def test_a_late_timer_waits_for_keys_still_on_their_way(qtbot: QtBot, desk: Desk) -> None:
    # The window was busy: the timer is due, and the scanner's other keys are still in the queue.
    desk.burst("690")
    QTest.qSleep(150)
    desk.filter._paused()

    desk.burst("1234567892", Key.Key_Return)

    assert desk.scans == ["6901234567892"] and desk.field.text() == ""


def test_a_window_that_closed_gets_no_keys_back(qtbot: QtBot, desk: Desk) -> None:
    other = QWidget()
    other.show()
    desk.filter.watch(other.windowHandle())
    QTest.keyClick(other.windowHandle(), "1")  # type: ignore[call-overload]

    other.close()
    other.destroy()
    settle(qtbot, desk)

    assert desk.scans == []


@pytest.mark.parametrize(
    ("count", "ended", "paused"),
    [
        (MIN_ENDED_CHARS - 1, False, False),
        (MIN_ENDED_CHARS, True, False),
        (MIN_BARE_CHARS - 1, True, False),
        (MIN_BARE_CHARS, True, True),
        (MAX_CHARS, True, True),
        (MAX_CHARS + 1, False, False),
    ],
)
def test_how_many_characters_make_a_scan(count: int, ended: bool, paused: bool) -> None:
    for ending, is_scan in ((Burst.ended, ended), (Burst.paused, paused)):
        burst = Burst()
        for _ in range(count):
            burst.add("1")

        assert (ending(burst) is not None) == is_scan and len(burst) == 0

"""The Qt binding itself: a version that uses up None or True kills the till within minutes."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

CALLS = 500


class Source(QObject):
    fired = Signal(object)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None and True are immortal there (PEP 683)")
def test_calls_into_qt_do_not_use_none_and_true_up(qtbot: QtBot) -> None:
    # PySide6 6.12.0 loses one reference to None or True with each of these calls.
    button, source = QPushButton(), Source()
    qtbot.addWidget(button)
    before = sys.getrefcount(None), sys.getrefcount(True)

    for _ in range(CALLS):
        button.setText("x")
        button.property("nothing")
        source.fired.emit(1)

    lost = before[0] - sys.getrefcount(None), before[1] - sys.getrefcount(True)
    assert max(lost) < CALLS // 10

"""Run the till's window on a desktop: the application object, its end by a signal, messages without a window."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import QMessageLogContext, QSize, QTimer, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from resources.translations import load
from ui.bootstrap import open_window
from ui.counter.terminal import CashierTerminal
from ui.main_window import FIRST_PX, MainWindow
from ui.running_till import RunningTill
from ui.words import Language

TITLE_PX = 48
"""Room for a title bar; the window system tells its real height only when the window is there."""


def application() -> QApplication:
    """Return the process's one application object, made at the first call."""
    known = QApplication.instance()
    if isinstance(known, QApplication):
        return known
    qInstallMessageHandler(_say_what_matters)
    made = QApplication(["pawtill"])
    made.setApplicationName("pawtill")
    return made


def _say_what_matters(_kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
    """Pass on what Qt says, but for what its offscreen platform says of every window."""
    if "propagateSizeHints" not in text:
        sys.stderr.write(text + "\n")


def show_till(running: RunningTill, *, terminal: CashierTerminal, language: str) -> MainWindow:
    """Open the window of a till, start its sync and its upkeep; `application` must have been called."""
    window = open_window(
        running.till,
        clock=running.clock,
        terminal=terminal,
        refresh=running.head_office.refresh,
        language=Language(language),
    )
    running.start()
    return window


def run_until_closed(window: MainWindow, *, wanted_px: tuple[int, int] = FIRST_PX) -> int:
    """Run the event loop until the window is closed, by hand or by SIGINT or SIGTERM; returns Qt's exit code.

    The window gets `wanted_px` where the screen has room for it and its title bar, else it fills the screen.
    """
    room, wanted = window.screen().availableSize(), QSize(*wanted_px)
    window.resize(wanted.boundedTo(room))
    if wanted.width() > room.width() or wanted.height() + TITLE_PX > room.height():
        window.showMaximized()
    with _closed_by_signals(window):
        return application().exec()


@contextmanager
def _closed_by_signals(window: QWidget) -> Iterator[None]:
    """Close the window when the process is told to end: what is under way is finished, nothing is cut off."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda *_: window.close()) for each in signals}
    # Python hears a signal only when it runs, and Qt's loop sits in C++.
    timer = QTimer(window)
    timer.timeout.connect(lambda: None)
    timer.start(200)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def say_trouble(key: str, detail: str, *, language: str, shown: Callable[[], None]) -> None:
    """Say in a message box why the till does not open, until someone closes it.

    `key` as in `trouble.<key>`, `detail` for whoever helps; `shown` is called once the box is there.
    """
    app = application()
    box = QMessageBox(QMessageBox.Icon.Critical, "Pawtill", load(language)[f"trouble.{key}"])
    box.setInformativeText(detail)
    box.finished.connect(app.quit)
    box.open()
    QTimer.singleShot(0, shown)
    with _closed_by_signals(box):
        app.exec()

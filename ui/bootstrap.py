"""Wire the window: the one place that puts till, threads, words and views together."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from PySide6.QtWidgets import QApplication

from app.domain.ports import Clock
from app.services.till import Till
from ui.counter.counter_presenter import NOT_SYNCED, CounterPresenter
from ui.counter.terminal import CashierTerminal
from ui.main_window import MainWindow
from ui.tasks import Tasks
from ui.theme import dress
from ui.words import Language, Words


def spoken(language: Language) -> Words:
    """Return the words of a language, before the chain's currency and the store's zone are known."""
    return Words(language, zone=ZoneInfo(NOT_SYNCED.store_zone), currency=NOT_SYNCED.currency)


def open_window(
    till: Till,
    *,
    clock: Clock,
    terminal: CashierTerminal | None = None,
    refresh: Callable[[], None] | None = None,
    language: Language = Language.ZH,
) -> MainWindow:
    """Make and show the till's window; a QApplication must exist, and its event loop is the caller's to run.

    `terminal` is the `PaymentPort` that the till was opened with, when the cashier answers for it. `refresh` pulls from
    the head office (`HeadOffice.refresh`); without it the window shows what the background sync brought. The till stays
    the caller's to close, after the window has closed.
    """
    application = QApplication.instance()
    assert isinstance(application, QApplication), "a QApplication must exist before any window"
    dress(application)
    words = spoken(language)
    words.watch(lambda: setattr(till, "language", words.language.value))
    tasks = Tasks()
    counter = CounterPresenter(till, tasks, refresh=refresh)
    tasks.on_error = counter.report
    window = MainWindow(counter, words, tasks=tasks, clock=clock, terminal=terminal)
    window.show()
    counter.start()
    return window

"""Work the window as a cashier does: keys through the window system, touches on buttons, eyes on what is shown.

Nothing here calls a presenter to make something happen; presenters are only read, to know when an answer has come.
"""

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPixmap, QWindow
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from ui.counter.counter_presenter import Page
from ui.counter.desk_state import DeskState
from ui.main_window import MainWindow
from ui.scanner import HOLD_MS
from ui.verdict import Tone, Verdict
from ui.widgets import verdict_words
from ui.words import Language, Words

PATIENCE_S = 30.0
HAND_S = 0.05
"""Between two things that a hand does, quicker than any: enough for the window to draw what the first one changed."""
_TURN_MS = 5


class NotShown(Exception):
    """Say that the window did not come to show what it should."""


class Driver:
    """Hold the hands and eyes of a cashier; `shots` is the folder for pictures."""

    def __init__(self, window: MainWindow, shots: Path) -> None:
        self.window = window
        self._shots = shots
        self.pictures = 0
        self._seen: DeskState = window.counter.desk.state

    # ------------------------------------------------------------------ hands

    def scan(self, text: str) -> None:
        """Scan: every key as fast as a scanner gives it, then Enter."""
        target = self._look()
        # A busy machine puts gaps between these keys that no scanner leaves.
        self.window.scanner.wait_for_keys(100 * HOLD_MS)
        for char in text:
            QTest.keyClick(target, ord(char))
        QTest.keyClick(target, Qt.Key.Key_Return)
        self.window.scanner.wait_for_keys(HOLD_MS)
        self._turn()

    def type(self, text: str) -> None:
        """Type by hand: slower than any scanner."""
        for char in text:
            QTest.keyClick(self._look(), ord(char))
            self.pause(HAND_S + HOLD_MS / 1000)

    def press(self, key: Qt.Key) -> None:
        """Press a key."""
        QTest.keyClick(self._look(), key)
        self.pause(HAND_S)

    def touch(self, widget: QWidget) -> None:
        """Press a button by mouse or finger."""
        if not widget.isEnabled() or not widget.isVisible():
            raise NotShown(f"the button {widget.objectName() or type(widget).__name__} cannot be pressed now")
        self._look()
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
        self.pause(HAND_S)

    def _look(self) -> QWindow:
        """Remember the desk as it is before a hand does something, and return the window that gets the keys.

        A busy machine may not have drawn yet what the last key changed, and a button that looks disabled takes no key.
        """
        self.window.draw()
        self._seen = self.window.counter.desk.state
        dialog = self.window.dialog
        target = (dialog if dialog is not None else self.window).windowHandle()
        assert target is not None, "what is on the screen has a window"
        return target

    def switch_language(self) -> None:
        """Change the language where no key does: the desk alone has one."""
        self.window.words.speak(self.window.words.language.other)
        self.pause(HAND_S)

    # ------------------------------------------------------------------ eyes

    def wait(self, what: str, condition: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
        """Let the window work until `condition` holds; raises NotShown, naming `what` and what is shown instead."""
        until = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > until:
                raise NotShown(f"waited for: {what}. Page {self.window.counter.page}, says: {self.says()}")
            self._turn()
        # A state is there a moment before its picture, and hands act on what eyes have seen.
        self.pause(HAND_S)

    def wait_for_page(self, page: Page) -> None:
        """Wait until a page is on the screen."""
        view: QWidget = getattr(self.window, page.value)
        self.wait(f"page {page}", lambda: self.window.counter.page is page and view.isVisible())

    def wait_for_price(self) -> None:
        """Wait until the desk has answered to the last thing done, the basket is priced and nothing is being asked."""

        def settled() -> bool:
            state = self.window.counter.desk.state
            waiting = state.verdict is not None and state.verdict.tone is Tone.WAITING
            return state is not self._seen and state.fresh and not waiting and state.asked is None

        self.wait("a price", settled)

    def verdict(self) -> Verdict | None:
        """Return the verdict on the screen, whichever page it is."""
        counter = self.window.counter
        if counter.page is Page.TENDER:
            return counter.tender.state.verdict if counter.tender.state else None
        if counter.page is Page.RIGHTS:
            return counter.rights.state.verdict
        return counter.refund.state.verdict if counter.page is Page.REFUND else counter.desk.state.verdict

    def says(self, words: Words | None = None) -> str:
        """Return the verdict as it reads on the screen."""
        verdict = self.verdict()
        if verdict is None:
            return "nothing"
        title, text = verdict_words(words or self.window.words, verdict, self.window.counter.desk.state.names)
        return f"{title}: {text}" if text else title

    def status(self) -> str:
        """Return the status bar as it reads."""
        labels = self.window.status_bar.labels
        return " | ".join(labels[name].text() for name in ("line", "pending", "sync"))

    # ------------------------------------------------------------------ pictures

    def shoot(self, name: str) -> None:
        """Save a picture of the window in each language; the language of before is left.

        A dialog speaks the language in which it was opened, so with one in front there is one picture.
        """
        self.pictures += 1
        words, before = self.window.words, self.window.words.language
        for language in Language if self.window.dialog is None else [before]:
            words.speak(language)
            self.window.draw()
            self.pause(0.05)
            path = self._shots / f"{self.pictures:02d}-{name}-{language}.png"
            if not self._picture().save(str(path)):
                raise NotShown(f"the picture {path} cannot be written")
        words.speak(before)
        self.window.draw()

    def _picture(self) -> QPixmap:
        """Return the window as it looks, with the dialog in front of it, which is a window of its own."""
        picture, dialog = self.window.grab(), self.window.dialog
        if dialog is not None:
            painter = QPainter(picture)
            painter.drawPixmap(dialog.pos() - self.window.pos(), dialog.grab())
            painter.end()
        return picture

    # ------------------------------------------------------------------ time

    def pause(self, seconds: float) -> None:
        """Let the window work for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn()

    @staticmethod
    def _turn() -> None:
        """Let the event loop run; unlike `processEvents` this deletes what asked to be deleted."""
        QTest.qWait(_TURN_MS)

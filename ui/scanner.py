"""Tell a scanner from a typist: both are keyboards, only the pace differs.

A scanner types a code with a few milliseconds between keys and mostly ends with Enter. So every printable key is held
for up to 50 ms; if more follow that fast and enough of them, they are one scan, which no widget ever sees: a Space or
Enter in it presses no button. Otherwise the held keys are handed on as if nothing had happened.

The filter sits on windows (QWindow), where each key passes once; an application filter sees it up to five times.
"""

from PySide6.QtCore import QCoreApplication, QElapsedTimer, QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QWindow
from shiboken6 import isValid

HOLD_MS = 50
"""How long a key may be alone before it counts as typed by hand; the slowest scanners (Bluetooth) need about 40 ms."""
MIN_ENDED_CHARS = 4
"""Fewest characters of a scan that ends with Enter or Tab."""
MIN_BARE_CHARS = 6
"""Fewest characters of a scan without an end: nobody types six keys with less than 50 ms between any two."""
MAX_CHARS = 512

_ENDS = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab})
_SHIFTS = frozenset({Qt.Key.Key_Shift, Qt.Key.Key_CapsLock, Qt.Key.Key_NumLock})
_COMMANDS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier


class Burst:
    """Gather characters that follow each other fast, and say whether they are a scan."""

    def __init__(self) -> None:
        self._chars: list[str] = []

    def __len__(self) -> int:
        return len(self._chars)

    def add(self, char: str) -> None:
        """Take the next character; the caller has seen to it that it came in time."""
        self._chars.append(char)

    def ended(self) -> str | None:
        """Give the scan that an Enter or Tab has just ended; None when a hand typed so little."""
        return self._taken(MIN_ENDED_CHARS)

    def paused(self) -> str | None:
        """Give the scan after which nothing came; None when a hand typed so little."""
        return self._taken(MIN_BARE_CHARS)

    def _taken(self, least: int) -> str | None:
        text, self._chars = "".join(self._chars), []
        return text if least <= len(text) <= MAX_CHARS else None


class ScanFilter(QObject):
    """Watch windows for scans; `scanned` carries the text of each."""

    scanned = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hold_ms = HOLD_MS
        self._burst = Burst()
        self._held: list[tuple[QWindow, QKeyEvent]] = []
        self._down: set[int] = set()  # keys whose press was swallowed and whose release is still to come
        self._replaying = False
        self._just_scanned = False  # an Enter now is the scanner's second line end (CR LF)
        self._since = QElapsedTimer()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setTimerType(Qt.TimerType.PreciseTimer)
        self._pause.setInterval(HOLD_MS)
        self._pause.timeout.connect(self._paused)

    def wait_for_keys(self, hold_ms: int) -> None:
        """Hold keys for another time: a machine that stalls needs more, for it spreads the keys of one scan."""
        self._hold_ms = hold_ms
        self._pause.setInterval(hold_ms)

    def watch(self, window: QWindow) -> None:
        """Filter this window's keys from now on."""
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Hold, swallow or let pass a key; everything else passes."""
        if self._replaying or not isinstance(event, QKeyEvent) or not isinstance(watched, QWindow):
            return False
        if event.type() == QEvent.Type.ShortcutOverride:
            return self._may_be_shortcut(event)
        if event.type() == QEvent.Type.KeyPress:
            return self._pressed(watched, event)
        if event.type() == QEvent.Type.KeyRelease:
            return self._released(watched, event)
        return False

    def _may_be_shortcut(self, event: QKeyEvent) -> bool:
        """Let go of what is held before a shortcut acts: Qt asks here first, then never shows the shortcut's key.

        Without this a sum typed just before F5 would come too late for it, and stay for the next customer.
        """
        if not _is_character(event) and event.key() not in _SHIFTS | _ENDS and self._held:
            self._let_go()
        return False

    def _pressed(self, window: QWindow, event: QKeyEvent) -> bool:
        if event.key() in _SHIFTS:
            return False
        if _is_character(event):
            self._hold(window, event)
            self._burst.add(event.text())
            self._restart()
            return True
        if event.key() in _ENDS and not event.modifiers() & _COMMANDS:
            return self._ended(event)
        self._replay()
        return False

    def _ended(self, event: QKeyEvent) -> bool:
        if self._just_scanned:
            self._down.add(event.key())
            return True
        text = self._burst.ended()
        if text is None:
            self._replay()
            return False
        self._down.add(event.key())
        self._scan(text)
        return True

    def _released(self, window: QWindow, event: QKeyEvent) -> bool:
        if event.isAutoRepeat():
            return False
        pressed = any(held.key() == event.key() and held.type() == QEvent.Type.KeyPress for _window, held in self._held)
        if pressed:
            self._hold(window, event)
            return True
        if event.key() in self._down:
            self._down.discard(event.key())
            return True
        return False

    def _hold(self, window: QWindow, event: QKeyEvent) -> None:
        self._just_scanned = False
        self._held.append((window, _copied(event)))

    def _restart(self) -> None:
        self._since.start()
        self._pause.start()

    def _paused(self) -> None:
        if self._since.elapsed() > 2 * self._hold_ms:
            # So late a timer says that the window was busy, not that the scanner paused: its keys may still be queued.
            self._restart()
            return
        self._let_go()

    def _let_go(self) -> None:
        """Give what is held to whom it belongs: a scan to its listeners, typed keys to their window."""
        self._just_scanned = False
        text = self._burst.paused()
        if text is None:
            self._replay()
        else:
            self._scan(text)

    def _scan(self, text: str) -> None:
        for _window, held in self._held:
            (self._down.add if held.type() == QEvent.Type.KeyPress else self._down.discard)(held.key())
        self._held.clear()
        self._just_scanned = True
        self._restart()
        self.scanned.emit(text)

    def _replay(self) -> None:
        held, self._held = self._held, []
        self._burst = Burst()
        self._pause.stop()
        self._just_scanned = False
        self._replaying = True
        try:
            for window, event in held:
                if isValid(window):
                    QCoreApplication.sendEvent(window, event)
        finally:
            self._replaying = False


def _is_character(event: QKeyEvent) -> bool:
    text = event.text()
    typed = len(text) == 1 and text.isprintable()
    return typed and not event.isAutoRepeat() and not event.modifiers() & _COMMANDS


def _copied(event: QKeyEvent) -> QKeyEvent:
    return QKeyEvent(
        event.type(),
        event.key(),
        event.modifiers(),
        event.nativeScanCode(),
        event.nativeVirtualKey(),
        event.nativeModifiers(),
        event.text(),
        event.isAutoRepeat(),
        event.count(),
    )

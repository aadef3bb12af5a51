"""Open the demo's window for a person to use, or let the story play in it."""

import logging
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QTimer

from app.services.ports import Offline, Probe
from ui.counter.terminal import CashierTerminal
from ui.demo.driver import Driver
from ui.demo.panel import ScanPanel
from ui.demo.things import DemoCounter
from ui.desktop import application, run_until_closed, show_till
from ui.main_window import MainWindow
from ui.running_till import RunningTill

OPERATOR = "Lin"
WINDOW_PX = (1600, 900)
OpenTill = Callable[[CashierTerminal, Probe], RunningTill]
LayOut = Callable[[RunningTill], DemoCounter]

_COMMITTED, _ANSWERED = "after_commit", "before_ack"
"""Points of `app.services.ports.Probe`: a sale is durable; a push was answered and nothing of it is stored yet."""


class ProcessDied(BaseException):
    """Stand for a power cut: nothing catches it, the thread ends where it is."""


class DemoTill:
    """Hold the demo's till with its window, and let it die and come back; see `ui.demo.stage.TillInHand`."""

    def __init__(self, open_till: OpenTill, lay_out: LayOut, *, language: str, shots: Path) -> None:
        self._open_till, self._lay_out, self._language = open_till, lay_out, language
        self._shots = shots
        self._harm = ""  # the point at which something is to go wrong
        self._harmed: set[str] = set()
        self._start()

    def _start(self) -> None:
        application()
        terminal = CashierTerminal()
        self._running = self._open_till(terminal, self._probe)
        self._running.till.operator = OPERATOR
        self.window: MainWindow = show_till(self._running, terminal=terminal, language=self._language)
        self.window.add_side_panel(ScanPanel(self.window, self._lay_out(self._running)))
        self.window.resize(*WINDOW_PX)
        self._driver = Driver(self.window, self._shots)

    def _probe(self, point: str) -> None:
        if point != self._harm:
            return
        self._harm = ""
        self._harmed.add(point)
        raise ProcessDied if point == _COMMITTED else Offline("cut")

    @property
    def driver(self) -> Driver:
        """Return hands and eyes for the window that is open now."""
        return self._driver

    def wake(self) -> None:
        """Let the background sync look at the line now."""
        self._running.engine.wake()

    def lose_next_answer(self) -> None:
        """Let the server's answer to the next push get lost: the server has it, the till does not know."""
        self._harm = _ANSWERED

    @property
    def has_lost_answer(self) -> bool:
        """Tell whether that has happened."""
        return _ANSWERED in self._harmed

    def die_after_next_commit(self) -> None:
        """Let the till die at the next sale, when it is in the ledger and nothing has been shown."""
        # The thread that dies would be reported as a bug of ours.
        logging.getLogger("ui.tasks").disabled = True
        self._harm = _COMMITTED

    @property
    def has_died(self) -> bool:
        """Tell whether it has."""
        return _COMMITTED in self._harmed

    def start_again(self) -> None:
        """Start the till anew on the same file."""
        # What the dead till was waiting for never comes, and a window that waits for it would not close.
        self.window.counter.tender.state = None
        count = self._driver.pictures
        self.close()
        logging.getLogger("ui.tasks").disabled = False
        self._harmed.clear()
        self._start()
        self._driver.pictures = count

    def run(self, *, ready: Callable[[], None]) -> int:
        """Let a person use it until the window is closed; `ready` is called once it is there."""
        QTimer.singleShot(0, ready)
        return run_until_closed(self.window, wanted_px=WINDOW_PX)

    def close(self) -> None:
        """Close the window, then the till."""
        self.window.close()
        self.window.deleteLater()
        self._running.close()

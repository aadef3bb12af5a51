"""Look after the till's file beside the counter: a second copy behind every sale, and a whole look each day.

One thread, woken every few seconds; it never holds up a sale, and it counts its turns instead of reading a clock.
"""

import logging
import threading
from collections.abc import Callable

from app.store.database import TillDatabase
from app.store.errors import StoreError
from app.store.second_copy import CopyForeign, SecondCopy

log = logging.getLogger(__name__)

EVERY_S = 2.0
TURNS_OF_A_DAY = round(24 * 3600 / EVERY_S)
FIRST_LOOK = round(300 / EVERY_S)
"""The turn of the first whole look: behind the rush of the start, and long before the till is turned off.

Where that is done each evening no till ever runs for a day.
"""
STOP_WAIT_S = 30.0

Wait = Callable[[threading.Event, float], object]


def wait_for(event: threading.Event, seconds: float) -> object:
    """Wait until the event is set, at most `seconds`."""
    return event.wait(seconds)


class Upkeep:
    """Keep a second copy (None = there is no other disk) and check everything once a day."""

    def __init__(self, database: TillDatabase, copy: SecondCopy | None, *, wait: Wait = wait_for) -> None:
        self._database, self._copy, self._wait = database, copy, wait
        self._turns = 0
        self._compared = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Bring the copy up to date and note its lag; once a day, the first time soon, look at everything."""
        self._turns += 1
        if self._database.damaged:
            return
        try:
            if self._copy is not None:
                self._keep(self._copy)
            if self._turns % TURNS_OF_A_DAY == FIRST_LOOK:
                self._database.check_everything()
        except StoreError:
            log.exception("the file could not be looked after")

    def _keep(self, copy: SecondCopy) -> None:
        """Copy what is not there yet; a copy that knows more than the file is evidence, and is left as it is."""
        database = self._database
        try:
            if not self._compared:
                if further := copy.goes_further(database):
                    database.damaged = f"this disk was set back: {further}"
                    return
                self._compared = True
            copy.catch_up(database)
            database.copy_lag = 0
        except (OSError, CopyForeign) as error:
            log.warning("the second copy is away: %s", error)
            database.copy_lag = self._behind(copy)

    def _behind(self, copy: SecondCopy) -> int:
        """Return how many entries stand on one disk alone: all, where the other disk does not even answer that."""
        try:
            return copy.lag(self._database)
        except (OSError, CopyForeign):
            with self._database.read() as conn:
                return self._database.ledger.count(conn)

    def start(self) -> None:
        """Begin to turn by itself, the first time at once."""
        assert self._thread is None, "started twice"
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="pawtill-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, with a last turn, so that what was sold is on both disks when the till is closed."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(STOP_WAIT_S)
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.turn()
            self._wait(self._stopping, EVERY_S)
        self.turn()

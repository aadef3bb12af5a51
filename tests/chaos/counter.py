"""Run one till of the chain without a window, with the terminal and the wrong clock that stand beside it."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter as Count
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.services.till import Till
from app.store.database import TillDatabase
from cli.till_folder import TILL_FILE, find_enrolment
from server.simulation.cashier import Cashiers
from server.simulation.printer import Printer
from server.simulation.terminal import Charge, Terminal
from sync.engine import SyncEngine
from tests.chaos.journal import SUFFIX, Follower, Journal
from tests.chaos.memory import WrittenTruth
from tests.chaos.world import Ground
from ui.running_till import RunningTill, open_running_till

SILENCE = 0.05
HASTE = 100
"""How much quicker a customer is at the terminal than in the simulator."""


class WrongClock:
    """Tell the machine's time and an error that stands in a file, where the disturber writes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> datetime:
        """Return the instant, as this clock has it."""
        return datetime.now(UTC) + timedelta(milliseconds=self.error_ms)

    @property
    def error_ms(self) -> int:
        """Return by how much it is wrong."""
        try:
            return int(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def skew(self, error_ms: int) -> None:
        """Make it wrong."""
        new = self._file.with_suffix(".new")
        new.write_text(str(error_ms))
        new.replace(self._file)


class KeptTerminal(Terminal):
    """Be a terminal that keeps what it took in a file of its own, before it says so: its till may be killed."""

    def __init__(self, file: Path, silence: float) -> None:
        super().__init__(lambda ms: time.sleep(ms / 1000 / HASTE), silence)
        self._journal = Journal(file)
        for line in Follower(file).lines():
            super().keep(line["payment"], Charge(line["order"], line["kind"], line["minor"], taken=line["taken"]))

    def keep(self, payment_id: str, charge: Charge) -> None:
        """Remember a charge."""
        told = {"order": charge.order_id, "kind": charge.kind, "minor": charge.minor, "taken": charge.taken}
        self._journal.add("charge", payment=payment_id, **told)
        super().keep(payment_id, charge)


@dataclass
class Line:
    """Hold the chance of what is under way."""

    rng: random.Random


class Counter:
    """Be a till that runs."""

    on = True

    def __init__(self, running: RunningTill, terminal: Terminal) -> None:
        self.running, self.terminal = running, terminal
        self.line = Line(random.Random(0))
        self.printer = Printer()

    @property
    def id(self) -> str:
        """Return who it is."""
        return self.running.till.till_id

    @property
    def store_id(self) -> str:
        """Return where it stands."""
        view = self.running.till.chain()
        assert view is not None, "it has synced"
        return view.store_id

    def is_running(self) -> bool:
        """Tell that it does: here whoever is killed does nothing any more."""
        return True

    @property
    def till(self) -> Till:
        """Return its use cases."""
        return self.running.till

    @property
    def database(self) -> TillDatabase:
        """Return its database."""
        return self.running.till.database

    @property
    def engine(self) -> SyncEngine:
        """Return its sync."""
        return self.running.engine


@contextlib.contextmanager
def open_counter(ground: Ground, till_id: str, *, silence: float = SILENCE) -> Iterator[Counter]:
    """Open a till that has enrolled, without starting what it does by itself."""
    folder = ground.till_folder(till_id)
    terminal = KeptTerminal(folder / f"terminal{SUFFIX}", silence)
    copies = folder / "second-copy"
    copies.mkdir(exist_ok=True)
    with open_running_till(
        folder / TILL_FILE,
        find_enrolment(folder),
        payments=terminal,
        clock=WrongClock(folder / "clock"),
        copy_folder=copies,
    ) as running:
        running.till.operator = "chaos"
        yield Counter(running, terminal)


class Place:
    """Be what a cashier sees of the chain; `diary` gets a line for each thing, for people."""

    def __init__(self, ground: Ground, truth: WrittenTruth, diary: Callable[[str], object]) -> None:
        self.truth, self.table, self._ground, self._diary = truth, ground.table(), ground, diary
        self.seen: Count[str] = Count()

    @property
    def now_ms(self) -> int:
        """Return the machine's time."""
        return time.time_ns() // 1_000_000

    @property
    def closes_day(self) -> bool:
        """Tell whether a till gives its rights back all at once in the end, or one by one."""
        return self._ground.seed % 2 == 1

    def note(self, who: str, what: str, how: object, *, detail: str = "") -> None:
        """Write down how something ended."""
        self.seen[f"{what}: {how}"] += 1
        self._diary("\t".join((str(self.now_ms), who, what, str(how), detail)))


class Staff(Cashiers):
    """Act at a till whose process may be killed at any moment."""

    truth: WrittenTruth

    def _or_unsure(self, order_id: str, do: Callable[[], None]) -> None:
        self.truth.count_money(order_id)
        super()._or_unsure(order_id, do)
        self.truth.counted(order_id)

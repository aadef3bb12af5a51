"""Say what cashiers, callers and the checker want of a chain, be it simulated or one of real processes."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from app.domain.refusals import Refusal
from app.services.api import PaidOrder, RefundDone
from app.services.till import Till
from app.store.database import TillDatabase
from server.scenario.tables import WorldTable
from server.simulation.printer import Printer
from server.simulation.terminal import Terminal
from server.simulation.truth import Truth
from sync.engine import SyncEngine


class Chance(Protocol):
    """Decide for the action that is under way."""

    rng: random.Random


class Part(Protocol):
    """Be a till with what stands around it; `on` tells whether it has power."""

    on: bool

    @property
    def id(self) -> str:
        """Return who it is."""

    @property
    def store_id(self) -> str:
        """Return where it stands."""

    def is_running(self) -> bool:
        """Tell whether its process runs."""

    @property
    def till(self) -> Till:
        """Return its use cases."""

    @property
    def database(self) -> TillDatabase:
        """Return its database."""

    @property
    def engine(self) -> SyncEngine:
        """Return its sync."""

    @property
    def terminal(self) -> Terminal:
        """Return its payment terminal."""

    @property
    def printer(self) -> Printer:
        """Return its printer."""

    @property
    def line(self) -> Chance:
        """Return its line to the server."""


def print_receipt(part: Part, done: PaidOrder | RefundDone) -> None:
    """Print it, and let the till know, as whoever stands there does; else it is found not shown later."""
    if part.printer.print(done.receipt.mark):
        part.till.receipt_shown(done.order_id)


class Stage(Protocol):
    """Be the chain that somebody acts in; `now_ms` is its true time, from any beginning."""

    @property
    def truth(self) -> Truth:
        """Return what people saw."""

    @property
    def table(self) -> WorldTable:
        """Return what headquarters founded."""

    @property
    def now_ms(self) -> int:
        """Return the true time."""

    @property
    def closes_day(self) -> bool:
        """Tell whether a till gives its rights back all at once in the end, or one by one."""

    def note(self, who: str, what: str, how: object, *, detail: str = "") -> None:
        """Write down how something ended."""


class Desk(Stage, Protocol):
    """Be a chain whose server can be asked straight."""

    def ask_app(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask as the chain's app; raises Offline for no answer."""

    def ask_office(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask as headquarters; raises Offline for no answer."""

    def run_jobs(self) -> None:
        """Let the server's jobs run, where they do not run by themselves."""


class Settled(Protocol):
    """Be a chain at rest, whose books may be compared; `seen` counts how things ended."""

    @property
    def truth(self) -> Truth:
        """Return what people saw."""

    @property
    def tills(self) -> Sequence[Part]:
        """Return every till, open."""

    @property
    def seen(self) -> Counter[str]:
        """Return the counts."""

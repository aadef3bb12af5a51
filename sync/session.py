"""Hold what every step of a session needs."""

from dataclasses import dataclass, field

from app.domain.ports import Clock, Probe, Progress, no_progress
from app.store.database import TillDatabase
from app.store.ledger import Ledger
from sync.client import ServerClient


@dataclass(slots=True)
class Heard:
    """Remember of the last greeting that was answered in this run of the program its number, 0 = none was.

    `rest_s` is what the server asked for then: how long to rest behind a session, on average.
    """

    contact: int = 0
    rest_s: float = 0


@dataclass(frozen=True, slots=True)
class Session:
    """Name the two ends; `probe` passes the point `before_ack` (a push was answered, nothing of it stored yet).

    `progress` hears how far it is.
    """

    db: TillDatabase
    client: ServerClient
    clock: Clock
    probe: Probe
    heard: Heard = field(default_factory=Heard)
    progress: Progress = no_progress

    @property
    def ledger(self) -> Ledger:
        """Return our ledger."""
        return self.db.ledger

    @property
    def till(self) -> str:
        """Return who we are."""
        return self.db.ledger.till_id

    @property
    def epoch(self) -> int:
        """Return which of our ledgers this is."""
        return self.db.ledger.epoch

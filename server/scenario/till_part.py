"""Be one till of a scenario: its own ledger file, its own sync client on its own cable, its own terminal and clock."""

import shutil
from pathlib import Path

import httpx
from sqlalchemy import create_engine

from app.domain.ports import Ids
from app.services.opening import open_till
from app.services.ports import Busy, Offline
from app.services.till import Till
from app.store import boot, orders
from app.store.database import TillDatabase
from server.scenario.clock import TillClock
from server.scenario.crash import TILL_POINTS, Fuse
from server.scenario.server_part import ADDRESS
from server.scenario.terminal import ScenarioTerminal
from server.scenario.transport import Link
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.head_office import ServerHeadOffice

LEDGER = "till.db"


def make_template(folder: Path) -> None:
    """Make an empty, migrated ledger file, to be copied for each till: migrating takes longer."""
    engine = create_engine(f"sqlite:///{folder / LEDGER}")
    with engine.begin() as tx:
        boot.migrate(tx)
    engine.dispose()


def frozen() -> float:
    """Tell the time for limits on answers: it stands still, so a slow machine changes no outcome."""
    return 0.0


class TillPart:
    """Run the till; after a crash it starts again on what its disk holds.

    `link`, `terminal` and `clock` are outside of it and live on. `app_client` is the chain's own app over this till's
    cable, for claims at the counter.
    """

    def __init__(
        self,
        folder: Path,
        *,
        till_id: str,
        store_id: str,
        key: str,
        app_key: str,
        code_key: bytes,
        wire: httpx.BaseTransport,
        clock: TillClock,
        ids: Ids,
    ) -> None:
        self.id = till_id
        self._store_id, self._key, self._code_key, self._ids = store_id, key, code_key, ids
        self._path = folder / LEDGER
        self.clock = clock
        self.link = Link(wire)
        self.terminal = ScenarioTerminal()
        self.fuse = Fuse(TILL_POINTS)
        self.app_client = ServerClient(ADDRESS, app_key, transport=self.link, monotonic=frozen)
        self._measured = clock.error
        self.database: TillDatabase
        self.engine: SyncEngine
        self.head_office: ServerHeadOffice
        self.till: Till = self._start()

    def _start(self) -> Till:
        return open_till(
            self._path,
            till_id=self.id,
            store_id=self._store_id,
            clock=self.clock,
            ids=self._ids,
            code_key=self._code_key,
            connect=self._connect,
            payments=self.terminal,
            probe=self.fuse,
        )

    def _connect(self, database: TillDatabase) -> ServerHeadOffice:
        self.database = database
        client = ServerClient(ADDRESS, self._key, transport=self.link, monotonic=frozen)
        self.engine = SyncEngine(database, client, clock=self.clock, probe=self.fuse)
        self.head_office = ServerHeadOffice(client, self.engine)
        return self.head_office

    def restart(self) -> None:
        """Drop everything that is only in memory, and start on what the disk holds."""
        self.till.close()
        self.fuse.reset()
        self.till = self._start()

    def stop(self) -> None:
        """End the till."""
        self.till.close()

    def catch_up(self) -> None:
        """Pull what changed, as an online till does by itself every few seconds; offline nothing comes.

        Saying hello measures how wrong the clock is; it is said where somebody has touched the clock. Pushing is left
        to the steps: `sync` counts it.
        """
        with self.link.calm():
            try:
                if self._measured == self.clock.error:
                    self.head_office.refresh()
                else:
                    self.engine.look()
                    self._measured = self.clock.error
            except (Offline, Busy):
                return

    def hand_in(self) -> None:
        """Push what the step appended, as an online till does at once; what does not get through waits for a sync."""
        if self.head_office.online:
            try:
                self.head_office.flush()
            except (Offline, Busy):
                return

    def order_state(self, order_id: str) -> str | None:
        """Return the order's state in this till's own books; None = not in them."""
        with self.database.read() as conn:
            row = orders.get(conn, order_id)
        return None if row is None else row.state


def copy_template(template: Path, folder: Path) -> None:
    """Give a till its empty ledger file."""
    shutil.copy(template / LEDGER, folder / LEDGER)

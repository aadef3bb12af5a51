"""A whole till beside a whole server, in one process: what is on its disk can be copied, restored, and joined anew."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from app.domain.ports import Progress, no_progress
from app.domain.refusals import Refusal
from app.services.api import OpenOrder, PaidOrder
from app.services.epochs import Begun
from app.services.opening import open_till
from app.services.system import SystemIds
from app.store.database import TillDatabase
from server.services import restoring
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.enrol import rejoin
from sync.head_office import ServerHeadOffice
from tests.fakes.headquarters import Headquarters
from tests.fakes.shop import basket
from tests.fakes.terminal import FakeTerminal
from tests.fakes.transport import AsgiLine, FaultyTransport

ADDRESS = "http://server.test"


class Chain:
    """Hold the server, with goods A at 100.00 and B at 60.00, and a member m1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hq = Headquarters(folder)
        self.hq.furnish()
        goods = [{"sku": "A", "price": "100.00"}, {"sku": "B", "price": "60.00"}]
        self.hq.call("POST", "/v1/products", goods, status=200)
        self.wire = AsgiLine(self.hq.app)
        self.stations: list[Station] = []

    def station(self, till_id: str = "t1") -> Station:
        """Set up a till and open it."""
        made = Station(self, self.folder / till_id, till_id)
        made.join()
        return made

    def keep_a_copy(self) -> Path:
        """Back the server's database up, while it runs."""
        copy = self.folder / "backup.db"
        with closing(sqlite3.connect(self.folder / "server.db")) as live, closing(sqlite3.connect(copy)) as target:
            live.backup(target)
        return copy

    def go_back_to(self, copy: Path, *, said: bool = True) -> None:
        """Put a backup back and start on it, with another key for headquarters; `said`: somebody told `restored`."""
        at, key, ids = self.hq.clock.at, self.hq.key, vars(self.hq.ids)
        self.hq.close()
        for end in ("", "-wal", "-shm"):
            (self.folder / f"server.db{end}").unlink(missing_ok=True)
        shutil.copy(copy, self.folder / "server.db")
        self.hq = Headquarters(self.folder)
        self.hq.clock.at, self.hq.key = at, key
        vars(self.hq.ids).update(ids)  # no server makes the same ids again
        if said:
            self.say_restored()
        self.wire.close()
        self.wire = AsgiLine(self.hq.app)
        for station in self.stations:
            station.line.inner = self.wire

    def say_restored(self) -> None:
        """Do what `pawtill restored` does."""
        self.hq.services.write(lambda conn, ctx: restoring.begin(conn, ctx, reason="a test"))

    def order(self, order_id: str) -> Mapping[str, Any]:
        return self.hq.call("GET", f"/v1/orders/{order_id}", status=200)

    def close(self) -> None:
        for station in self.stations:
            station.close()
        self.wire.close()
        self.hq.close()


class Station:
    """Be one till on its own folder, with its own terminal, over a line that may misbehave."""

    def __init__(self, chain: Chain, folder: Path, till_id: str) -> None:
        folder.mkdir(exist_ok=True)
        self.chain, self.path, self.till_id = chain, folder / "till.db", till_id
        self.line = FaultyTransport(chain.wire)
        self.terminal, self.ids = FakeTerminal(), SystemIds()
        self.key = ""
        chain.stations.append(self)

    # ------------------------------------------------------------ its life

    def join(self) -> None:
        """Come newly enrolled."""
        self.key = self.chain.hq.take_in(self.till_id)
        self.open()

    def open(self) -> None:
        def connect(database: TillDatabase) -> ServerHeadOffice:
            self.client = ServerClient(ADDRESS, self.key, transport=self.line)
            self.engine = SyncEngine(database, self.client, clock=self.chain.hq.clock)
            return ServerHeadOffice(self.client, self.engine)

        self.till = open_till(
            self.path,
            till_id=self.till_id,
            store_id="s1",
            clock=self.chain.hq.clock,
            ids=self.ids,
            code_key=self.chain.hq.services.code_key,
            connect=connect,
            payments=self.terminal,
        )
        self.till.operator = "ann"

    def close(self) -> None:
        self.till.close()

    def restart(self) -> None:
        self.close()
        self.open()

    def rejoin(self, progress: Progress = no_progress) -> Begun | None:
        """Enrol anew, and begin a new epoch where that is needed."""
        self.close()
        self.join()
        return rejoin(self.till, self.engine, self.client, progress=progress)

    def keep_a_copy(self, name: str = "copy") -> Path:
        """Copy everything that is on the till's disk, as an image of it would."""
        copy = self.path.with_name(f"{name}.db")
        with closing(sqlite3.connect(self.path)) as live, closing(sqlite3.connect(copy)) as target:
            live.backup(target)
        shutil.copy(self.path.with_name("till.db.lock"), copy.with_name(f"{name}.db.lock"))
        return copy

    def go_back_to(self, copy: Path) -> None:
        """Put a copy of the disk back, and start."""
        self.close()
        self.write_over(copy)
        self.open()

    def write_over(self, copy: Path) -> None:
        for end in ("-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        shutil.copy(copy, self.path)
        shutil.copy(copy.with_name(copy.name + ".lock"), self.path.with_name("till.db.lock"))

    # ------------------------------------------------------------ its work

    def sync(self) -> None:
        self.engine.run_once()

    def sell(self, order_id: str, *skus: str, **keys: Any) -> PaidOrder:
        tenders, stored = keys.pop("tenders", None), keys.pop("stored_value_minor", 0)
        opened = self.till.checkout(order_id, basket(*skus or ("A",), **keys), stored_value_minor=stored)
        assert isinstance(opened, OpenOrder), opened
        paid = self.till.pay(order_id, tenders)
        assert isinstance(paid, PaidOrder), paid
        return paid

    def lent(self, account_id: str, amount: int) -> None:
        lent = self.till.lease(account_id, amount)
        assert not isinstance(lent, Refusal), lent

    def outbox(self) -> list[tuple[int, int, str]]:
        with self.till.database.read() as conn:
            rows = conn.exec_driver_sql("SELECT epoch, seq, state FROM outbox ORDER BY epoch, seq")
            return [(row[0], row[1], row[2]) for row in rows]

    def facts(self) -> list[str]:
        """Return the kinds of all that happened here, each once."""
        with self.till.database.read() as conn:
            return [fact.kind for fact in self.till.database.ledger.facts(conn)]

    def known(self) -> set[str]:
        """Return the ids of all that happened here."""
        with self.till.database.read() as conn:
            return {fact.entry_id for fact in self.till.database.ledger.facts(conn)}

"""One till with its real file, a line that misbehaves by plan, and a server that keeps the protocol."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.services.ports import no_probe
from app.store import meta
from app.store.database import TillDatabase
from app.store.ledger import Stamp
from app.store.second_copy import SecondCopy
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.head_office import ServerHeadOffice
from tests.fakes.server import FakeServer
from tests.fakes.station import Chain
from tests.fakes.transport import FaultyTransport

START = datetime(2026, 6, 1, 2, 0, tzinfo=UTC)
_ids = itertools.count(1)


class HandClock:
    """Show the time that a test set."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at


@dataclass
class Rig:
    """Hold everything of one till; `restart` opens its file again as after a kill."""

    path: Path
    clock: HandClock
    server: FakeServer
    line: FaultyTransport
    db: TillDatabase
    client: ServerClient
    engine: SyncEngine
    office: ServerHeadOffice

    def forward(self, **by: float) -> None:
        """Let time pass at both ends."""
        self.clock.at += timedelta(**by)
        self.server.now_ms += round(timedelta(**by).total_seconds() * 1000)

    def sell(self, count: int = 1, *, kind: str = "sale", **data: Any) -> None:
        for _ in range(count):
            number = next(_ids)
            body = {
                "order": f"o{number}",
                "at": self.clock.now().isoformat(),
                "quote": {"discount_minor": 0},
                "tenders": [{"type": "cash", "amount_minor": 100}],
                **data,
            }
            with self.db.write() as tx:
                self.db.ledger.append(tx, kind, body, stamp=Stamp(f"e{number:08d}", self.clock.now()))

    def known(self) -> meta.Meta:
        with self.db.read() as conn:
            return meta.load(conn)

    def outbox(self) -> list[tuple[int, str, str]]:
        with self.db.read() as conn:
            rows = conn.exec_driver_sql("SELECT seq, state, code FROM outbox ORDER BY seq")
            return [(row[0], row[1], row[2]) for row in rows]

    def states(self) -> set[str]:
        return {state for _, state, _ in self.outbox()}

    def hashes(self) -> list[str]:
        with self.db.read() as conn:
            return [entry.hash.hex() for entry in self.db.ledger.since(conn, 0, limit=10_000)]

    def restart(self, *, probe: Callable[[str], None] = no_probe) -> None:
        self.db.close()
        self.db = TillDatabase.open(self.path, till_id="t1", store_id="s1")
        self.wire(probe=probe)

    def wire(self, *, probe: Callable[[str], None] = no_probe) -> None:
        self.client = ServerClient("http://server.test", "pt_k_secret", transport=self.line)
        self.engine = SyncEngine(self.db, self.client, clock=self.clock, probe=probe)
        self.office = ServerHeadOffice(self.client, self.engine)


def make_rig(path: Path) -> Rig:
    clock, server = HandClock(), FakeServer()
    server.now_ms = round(START.timestamp() * 1000)
    line = FaultyTransport(server)
    db = TillDatabase.open(path, till_id="t1", store_id="s1")
    client = ServerClient("http://server.test", "pt_k_secret", transport=line)
    engine = SyncEngine(db, client, clock=clock)
    return Rig(path, clock, server, line, db, client, engine, ServerHeadOffice(client, engine))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = make_rig(tmp_path / "t1.db")
    made.server.publish("store", "s1", {"id": "s1", "zone": "Asia/Shanghai"})
    yield made
    made.db.close()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Return a real server with its tills."""
    made = Chain(tmp_path)
    yield made
    made.close()


@pytest.fixture
def copy(tmp_path: Path) -> SecondCopy:
    """Return a second copy of t1's ledger on another disk."""
    return SecondCopy(tmp_path / "other disk", "t1")

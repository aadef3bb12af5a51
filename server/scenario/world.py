"""Hold the world of one scenario while it runs: the server, the tills, the time, and the names of the file."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import FastAPI
from sqlalchemy import URL

from app.services.api import BasketRequest
from server.scenario import server_part, till_part
from server.scenario.clock import TillClock, VirtualClock
from server.scenario.founding import Keys, found
from server.scenario.ids import ScenarioIds
from server.scenario.redis_part import RedisPart
from server.scenario.server_part import ServerPart
from server.scenario.steps import Issue, TenderArg
from server.scenario.tables import WorldTable
from server.scenario.till_part import TillPart

MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own is made in it)
MEMORY_MIN_BYTES = 64 * 1024 * 1024
"""A scenario takes a few MB, a storm of thousands some tens."""


class Names:
    """Map the coupon names of the file to the ids and codes of the chain; what has no name stands for itself."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._codes: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, name: str, coupon_id: str, code: str) -> None:
        """Note what a claim gave; a coupon that gets a second name keeps its first one in answers."""
        self._ids[name], self._codes[name] = coupon_id, code
        self._names.setdefault(coupon_id, name)

    def id(self, name: str) -> str:
        """Return the coupon's id."""
        return self._ids.get(name, name)

    def code(self, name: str) -> str:
        """Return the coupon's code."""
        return self._codes.get(name, name)

    def name(self, coupon_id: str) -> str:
        """Return the coupon's name in the file."""
        return self._names.get(coupon_id, coupon_id)

    def all(self) -> Mapping[str, str]:
        """Return the id of every coupon that has a name."""
        return self._ids


@dataclass(frozen=True, slots=True)
class Asked:
    """Remember a checkout: at which till, with which tenders (None = cash to the amount), and what was on the counter.

    `basket` is None where not even that could be read.
    """

    till_id: str
    tenders: list[TenderArg] | None
    basket: BasketRequest | None = None
    stored_minor: int = 0


class World:
    """Run one scenario's chain in `folder`; close it when done.

    `orders` remembers how each order was last checked out, `issues` the members of each task. `wanted` is what the step
    under way expects by name: what costs time is looked up only then.
    """

    def __init__(
        self, table: WorldTable, folder: Path, templates: Path, *, where: Path | URL, app: FastAPI, redis: RedisPart
    ) -> None:
        self.table, self.currency = table, table.currency
        self.clock, self.ids, self.names = VirtualClock(table.start), ScenarioIds(table.title), Names()
        self.redis = redis
        self.server = ServerPart(folder, templates, where=where, app=app, clock=self.clock, ids=self.ids, redis=redis)
        self.tills: dict[str, TillPart] = {}
        self.orders: dict[str, Asked] = {}
        self.issues: dict[str, Issue] = {}
        self.wanted: frozenset[str] = frozenset()
        try:
            self.keys = found(self.server.services, table)
            self.server.admission.begin()
            for row in table.till:
                self.tills[row.id] = self._till(row.id, row.store or table.default_store, folder, templates=templates)
        except BaseException:
            self.close()
            raise

    def _till(self, till_id: str, store_id: str, folder: Path, *, templates: Path) -> TillPart:
        own = folder / f"till-{len(self.tills) + 1}"
        own.mkdir()
        till_part.copy_template(templates, own)
        keys: Keys = self.keys
        till = TillPart(
            own,
            till_id=till_id,
            store_id=store_id,
            key=keys.tills[till_id],
            app_key=keys.app,
            code_key=self.server.services.code_key,
            wire=self.server,
            clock=TillClock(self.clock),
            ids=self.ids,
        )
        till.engine.run_once()
        return till

    def till(self, name: str | None) -> TillPart:
        """Return a till, None = the first of the file."""
        return self.tills[name] if name is not None else next(iter(self.tills.values()))

    @contextmanager
    def acting(self, name: str | None) -> Iterator[TillPart]:
        """Let a till act as an online till does: on fresh facts, and all of it at the server before the step ends."""
        part = self.till(name)
        part.catch_up()
        with self.server.fuse.lit(), part.fuse.lit():
            yield part
            part.hand_in()

    def revive(self) -> None:
        """Start again what died; nothing where nothing did."""
        if self.redis.died:
            self.redis.start()
        if self.server.fuse.died:
            self.server.restart()
        for till in self.tills.values():
            if till.fuse.died:
                till.restart()

    def disarm(self) -> None:
        """Forget a crash whose point did not come; what has died stays dead until `revive`."""
        self.redis.disarm()
        for fuse in (self.server.fuse, *(till.fuse for till in self.tills.values())):
            fuse.disarm()

    def lost(self) -> int:
        """Count the answers that got lost so far."""
        return sum(till.link.lost for till in self.tills.values())

    def close(self) -> None:
        """End every part."""
        for till in self.tills.values():
            till.stop()
        self.server.stop()


Lend = Callable[[], AbstractContextManager[URL]]


class Workshop:
    """Keep the templates of one run, and make worlds from them.

    `lend` gives each world an empty, migrated database for its server and takes it back; None = files.
    """

    def __init__(self, folder: Path, *, lend: Lend | None = None) -> None:
        self._folder, self._lend = folder, lend
        self._templates = folder / "templates"
        self._templates.mkdir()
        self._count = 0
        self._redis = RedisPart(folder)
        ids = ScenarioIds("template")
        self._app = server_part.make_template(self._templates, VirtualClock(WorldTable(title="template").start), ids)
        till_part.make_template(self._templates)

    @contextmanager
    def world(self, table: WorldTable) -> Iterator[World]:
        """Found a chain in a folder of its own. Raises Unfounded."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        file = folder / server_part.DATABASE
        lent: AbstractContextManager[Path | URL] = nullcontext(file) if self._lend is None else self._lend()
        with lent as where:
            world = World(table, folder, self._templates, where=where, app=self._app, redis=self._redis)
            try:
                yield world
            finally:
                world.close()
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End what all worlds share."""
        self._redis.stop()


@contextmanager
def open_workshop(lend: Lend | None = None) -> Iterator[Workshop]:
    """Make the templates in a temporary folder, which goes with everything in it; `lend` as for Workshop.

    In memory where the system has such a place: no scenario survives its run, so nobody gains from waiting for a disk.
    """
    with memory_folder("pawtill-scenario-") as folder:
        workshop = Workshop(folder, lend=lend)
        try:
            yield workshop
        finally:
            workshop.close()


@contextmanager
def memory_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder in memory where the system has such a place, else on its disk."""
    fast = MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_MIN_BYTES else None
    with TemporaryDirectory(prefix=prefix, dir=fast, ignore_cleanup_errors=True) as folder:
        yield Path(folder)

"""Be the machines of a simulated chain: a till and a server on disks of their own, that lose power and start again."""

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import httpx
from fastapi import FastAPI
from sqlalchemy import Connection

from app.domain.ports import Ids
from app.services.epochs import Begun
from app.services.opening import open_till
from app.services.till import Till
from app.store.database import TillDatabase
from server.db.engine import Database, Store, run_now
from server.db.lock import FileLock
from server.db.sqlite import Sqlite, engines
from server.http.app import attend
from server.opening import open_services
from server.scenario.clock import TillClock
from server.scenario.crash import ProcessDied
from server.scenario.server_part import ADDRESS
from server.scenario.transport import Loop
from server.services import restoring
from server.services.admission import admission
from server.services.admission.admission import with_admission
from server.services.keys import KeyCache
from server.services.services import Services, no_probe
from server.simulation.call import Call
from server.simulation.counters import Counters
from server.simulation.disk import Disk
from server.simulation.network import Line
from server.simulation.patching import patched
from server.simulation.printer import Printer
from server.simulation.terminal import Terminal
from server.simulation.timeline import Strand, Timeline
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.enrol import recover, rejoin
from sync.enrolling import Enrolled, enrol, new_attempt
from sync.enrolment import read_code
from sync.head_office import ServerHeadOffice
from sync.identity import Identity, identity_of

T = TypeVar("T")
SOON_MS = 5
SERVER_FILE, TILL_FILE = "server.db", "till.db"


@contextmanager
def threadless() -> Iterator[None]:
    """Run the routes in the thread that asks: the framework would hand each to another, and wait for it."""

    async def run_sync(work: Callable[..., T], *args: Any, **_limits: Any) -> T:
        return work(*args)

    with patched(anyio.to_thread, "run_sync", run_sync):
        yield


class SimulatedStore(Sqlite):
    """Open SQLite on one simulated disk after the other; what SQLAlchemy compiled for one serves the next."""

    def __init__(self) -> None:
        self._disk: Disk | None = None
        self.readers, self.writers = engines(self._connect)

    def _connect(self) -> sqlite3.Connection:
        assert self._disk is not None, "it was placed"
        return sqlite3.connect(self._disk.path, timeout=0, check_same_thread=False, factory=self._disk.driver)

    def place(self, disk: Disk) -> Store:
        """Go to a disk; nothing of the last one may be open."""
        self._disk, self.path = disk, disk.path
        self._lock = FileLock(disk.path.with_name(f"{disk.path.name}.lock"))
        return self


class SimulatedDatabase(Database):
    """Write at once, in the caller's thread, one write a transaction: who waits for the writer's thread waits long."""

    def submit(self, run: Callable[[Connection], T]) -> Future[T]:
        """Run what `write` would run, and tell how it ended."""
        return run_now(self, run)


def begin(services: Services) -> None:
    """Look at Redis, as a server does that starts."""
    assert services.admission is not None, "a server admits claims"
    services.admission.begin()


class Later:
    """Stand for the executor of the server's own background work: the timeline's turn comes, never a thread's."""

    def __init__(self, soon: Callable[[Callable[[], object]], None]) -> None:
        self._soon = soon

    def submit(self, work: Callable[..., object], *args: object) -> None:
        """Do it a moment later."""
        self._soon(partial(work, *args))

    def shutdown(self, **_how: bool) -> None:
        """End: what waits belongs to a server that is gone."""


class ServerMachine(httpx.BaseTransport):
    """Run the server. `on` tells whether it answers; `bugs` are what no handler of its own caught."""

    def __init__(
        self,
        disk: Disk,
        *,
        timeline: Timeline,
        app: FastAPI,
        store: SimulatedStore,
        ids: Ids,
        keys: Path,
        counters: Counters | None,
    ) -> None:
        self.disk, self._timeline, self._app, self._store = disk, timeline, app, store
        self._ids, self._keys, self.counters = ids, keys, counters
        self.bugs: list[str] = []
        self.deaths = 0
        self.died: Callable[[], None] = lambda: None
        self._start()

    def _start(self) -> None:
        self._loop = Loop()
        services = replace(self._open(), known_keys=KeyCache(monotonic=self._timeline.seconds))
        door = None if self.counters is None else self.counters.reopen()
        with patched(admission, "ThreadPoolExecutor", lambda *_: Later(self._soon)):
            self.services: Services = with_admission(services, door)
        attend(self._app, self.services)
        self.on = True
        if door is not None:
            self.run(begin)

    def _soon(self, work: Callable[[], object]) -> None:
        """Do what the server does in the background, a moment later; nothing of a server that died meanwhile."""
        life = self.deaths

        def do() -> None:
            if life == self.deaths:
                self.run(lambda _: work())

        self._timeline.after(SOON_MS, do)

    def _open(self) -> Services:
        return open_services(
            self.disk.path,
            folder=self._keys,
            clock=self._timeline.clock,
            ids=self._ids,
            opened=lambda _where: SimulatedDatabase(self._store.place(self.disk)),
            probe=no_probe if self.counters is None else self.counters.passed,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request at this instant, or die over it."""
        if not self.on:
            raise httpx.ConnectError("the server is down", request=request)
        try:
            return self._loop.run(self._answer(request))
        except ProcessDied:
            self.cut()
            raise httpx.ReadError("the server died", request=request) from None

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        call = Call(request)
        try:
            await self._app(call.scope, call.receive, call.send)
            return call.answer()
        except (Exception, asyncio.CancelledError) as bug:
            self.bugs.append(f"{request.method} {request.url.path}: {type(bug).__name__}: {bug}")
            return httpx.Response(500, text="Internal Server Error", request=request)

    def run(self, job: Callable[[Services], T]) -> T | None:
        """Run a job of the server's own; None = it is down, or died over it."""
        if not self.on:
            return None
        try:
            return job(self.services)
        except ProcessDied:
            self.cut()
            return None

    def cut(self) -> None:
        """Let the power fail, now."""
        if self.on:
            self.disk.cut()
            self.on = False
            self.deaths += 1
            self.died()

    def restart(self) -> None:
        """Start on what the disk holds; nothing where it runs."""
        if not self.on:
            self._end()
            self.disk.restore()
            self._start()

    def put_back(self, image: Path) -> None:
        """Put a backup of the database in place, say so as `pawtill restored` does, and start on it."""
        self._end()
        self.disk.fill(full=False)
        self.disk.put_back(image)
        services = self._open()
        try:
            services.write(lambda conn, ctx: restoring.begin(conn, ctx, reason="the disk broke"))
        finally:
            services.database.close()
        self._start()

    def stop(self) -> None:
        """End it."""
        self._end()

    def _end(self) -> None:
        assert self.services.admission is not None
        self._loop.run(self.services.admission.aclose())
        self.services.admission.close()
        self.services.database.close()
        self._loop.close()


class TillMachine:
    """Run a till with what stands around it: line, terminal, printer, clock and strand live on when it dies."""

    def __init__(
        self,
        disk: Disk,
        *,
        till_id: str,
        store_id: str,
        key: str,
        code_key: bytes,
        app_key: str,
        timeline: Timeline,
        line: Line,
        terminal: Terminal,
        ids: Ids,
        blank: Path,
    ) -> None:
        self.disk, self.id, self.store_id = disk, till_id, store_id
        self._blank = blank
        self.synced_ms = 0
        """When the last session began that came to its end: all that happened before is at the server."""
        self.must_rejoin = False
        """Whether it came with a new key, and has not looked yet whether its ledger is still the server's."""
        self._key: str | Identity = key
        self._code_key, self._ids, self._timeline = code_key, ids, timeline
        self.line, self.terminal, self.clock = line, terminal, TillClock(timeline.clock)
        self.printer = Printer()
        self.strand: Strand = timeline.strand(till_id)
        self.app_client = ServerClient(ADDRESS, app_key, transport=line, monotonic=timeline.seconds)
        self.deaths = 0
        self.on = True
        self.is_damaged = False
        self.recovered: Callable[[Begun], None] = lambda _begun: None
        """Is told of a ledger that was damaged, and goes on in a new epoch."""
        self.database: TillDatabase
        self.engine: SyncEngine
        self.till: Till = self._start()

    def _start(self, file: Path | None = None) -> Till:
        return open_till(
            file or self.disk.path,
            till_id=self.id,
            store_id=self.store_id,
            clock=self.clock,
            ids=self._ids,
            code_key=self._code_key,
            connect=self._connect,
            payments=self.terminal,
            disk=self.disk.driver,
            busy_timeout_ms=0,
        )

    def _connect(self, database: TillDatabase) -> ServerHeadOffice:
        self.database = database
        self._client = ServerClient(ADDRESS, self._key, transport=self.line, monotonic=self._timeline.seconds)
        self.engine = SyncEngine(database, self._client, clock=self.clock, rng=random.Random(0))
        return ServerHeadOffice(self._client, self.engine)

    def enrol(self, code: str) -> None:
        """Make a key and let it be known by a one-time code; from then on what is asked is signed by it."""
        read = read_code(code)
        assert read is not None, "the server made it"
        with ServerClient(ADDRESS, None, transport=self.line, monotonic=self._timeline.seconds) as client:
            enrolled = enrol(client, self.id, code=read, attempt=new_attempt())
        assert isinstance(enrolled, Enrolled) and enrolled.secrets.device is not None, enrolled
        self._key = identity_of(enrolled.secrets.device, self.clock)
        self.stop()
        self.till = self._start()

    def is_running(self) -> bool:
        """Tell whether it is on; it may have died meanwhile."""
        return self.on

    def cut(self) -> None:
        """Let the power fail, now; what is under way dies where it waits."""
        if self.on:
            self.disk.cut()
            self.on = False
            self.deaths += 1
            self.strand.kill()

    def died(self) -> None:
        """Note that the power failed in the middle of a commit."""
        self.disk.cut()
        self.deaths += self.on
        self.on = False

    def start(self) -> None:
        """Start on what the disk holds; a ledger that was damaged is recovered first, as far as the server answers."""
        self.stop()
        self.disk.restore()
        if self.is_damaged:
            who = (self.id, self.store_id)
            begun = recover(self.disk.path, self._opened, who=who, copy=None, new_id=self._ids.new())
            self.is_damaged = False
            if begun is not None:
                self.recovered(begun)
        self.till = self._start()
        self.on = True

    @contextmanager
    def _opened(self, file: Path) -> Iterator[tuple[Till, SyncEngine, ServerClient]]:
        """Run the till on another file for a while."""
        self.till = self._start(file)
        try:
            yield self.till, self.engine, self._client
        finally:
            self.stop()

    def damage(self, token: str, rng: random.Random) -> None:
        """Let bits of the file flip while it is off, and come with a new key to recover it."""
        self.stop()
        self.disk.restore()
        self.disk.flip(rng)
        self._key, self.is_damaged, self.must_rejoin = token, True, False

    def put_back(self, image: Path) -> None:
        """Start on an older image of the disk."""
        self.stop()
        self.disk.put_back(image)
        self.till = self._start()
        self.on = True

    def start_anew(self, token: str, *, fresh: bool) -> None:
        """Start with a new key, and where it is `fresh` on a new disk."""
        self.stop()
        if fresh:
            self.disk.replace(self._blank)
            self.is_damaged = False
        self._key, self.must_rejoin = token, not self.is_damaged
        self.start()

    def rejoin(self) -> Begun | None:
        """Leave a ledger that is not the server's any more for a new one; None = there was nothing to do."""
        begun = rejoin(self.till, self.engine, self._client)
        self.must_rejoin = False
        return begun

    def stop(self) -> None:
        """End the till's process."""
        self.till.close()
        self._client.close()


def lay_out(template: Path, folder: Path, *, name: str, rng: random.Random) -> Disk:
    """Return a new disk with a migrated, empty database on it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    disk = Disk(folder, name, rng)
    shutil.copy(template / name, disk.path)
    return disk

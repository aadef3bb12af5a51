"""Be a machine's disk and its power: real SQLite files, commits at which the power may fail, a disk that fills.

What is on a disk after a power cut is its database file and the WAL up to the last byte that was forced out, and of
what was written behind that as much as chance lets through. A commit under `synchronous=FULL` forces its bytes out;
under less it does not, and is lost here as it would be in a shop. Files live in memory: forcing them out costs nothing.
"""

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.scenario.crash import ProcessDied

FULL = 2
ROOM = 1_073_741_823
"""Pages that a file may have, where the disk is not full (sqlite.org/limits.html)."""
BEFORE, AFTER = "before", "after"


class Disk:
    """Hold one machine's files in a folder of its own; `name` is that of its database.

    `commits` counts those that were made. A cut is armed for a commit that is to come, before or after it is made.
    """

    def __init__(self, folder: Path, name: str, rng: random.Random) -> None:
        self._root, self._name, self._rng = folder, name, rng
        self._generation = 0
        self._open: list[sqlite3.Connection] = []
        self._forced = 0
        self._armed: tuple[int, str] | None = None
        self._full = False
        self._cut: Path | None = None
        self.commits = 0
        self.refused = 0
        """Commits, or writes before them, for which there was no room."""
        self.told: Callable[[], None] = lambda: None
        """Is called behind each commit."""
        self.folder = folder / "0"
        self.folder.mkdir(parents=True)

    @property
    def path(self) -> Path:
        """Return the database's file."""
        return self.folder / self._name

    @property
    def driver(self) -> type[sqlite3.Connection]:
        """Return the kind of connections that go to this disk."""
        return type("DiskConnection", (_DiskConnection,), {"disk": self})

    # -------------------------------------------------------------- power

    def arm(self, commits: int, when: str) -> None:
        """Let the power fail at the commit so many ahead, 1 = the next."""
        self._armed = (self.commits + commits, when)

    def disarm(self) -> None:
        """Let the power stay."""
        self._armed = None

    def cut(self) -> None:
        """Keep what is on the disk at this instant; `restore` gives it to the machine that starts again."""
        if self._cut is not None:
            return
        self._generation += 1
        self._cut = self._root / str(self._generation)
        self._cut.mkdir()
        for file in self.folder.iterdir():
            if file.name == f"{self._name}-wal":
                self._keep_wal(file, self._cut / file.name)
            elif not file.name.endswith("-shm"):
                shutil.copy(file, self._cut / file.name)

    def _keep_wal(self, wal: Path, kept: Path) -> None:
        written = wal.read_bytes()
        loose = max(0, len(written) - self._forced)
        lucky = self._rng.choice([0, self._rng.randint(0, loose), loose])
        kept.write_bytes(written[: len(written) - loose + lucky])

    def restore(self) -> None:
        """Start on what was kept at the cut; the connections of before must be closed."""
        if self._cut is None:
            return
        shutil.rmtree(self.folder)
        self.folder, self._cut = self._cut, None
        self._armed, self._open = None, []
        self._forced = self._wal_size()

    def image(self, folder: Path) -> None:
        """Copy the whole disk, as a backup of it does between two writes."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("*-shm"))

    def put_back(self, image: Path) -> None:
        """Put an older image in place of what is on the disk; nothing may be open."""
        shutil.rmtree(self.folder)
        shutil.copytree(image, self.folder)
        self._cut, self._armed, self._open = None, None, []
        self._forced = self._wal_size()

    def replace(self, blank: Path) -> None:
        """Be a new disk, with a copy of one file on it; nothing may be open."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        shutil.copy(blank, self.path)
        self._cut, self._armed, self._open = None, None, []
        self._forced = 0

    def flip(self, rng: random.Random) -> None:
        """Let a few bits of the database's file flip, or its end be gone; nothing may be open."""
        data = bytearray(self.path.read_bytes())
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randint(1, 8) if data else 0):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        self.path.write_bytes(data)

    # -------------------------------------------------------------- room

    def fill(self, *, full: bool) -> None:
        """Leave no room for another page, or give some again."""
        self._full = full
        for connection in self._open:
            sqlite3.Connection.execute(connection, f"PRAGMA max_page_count = {1 if full else ROOM}").close()

    # -------------------------------------------------------------- what connections tell

    def opened(self, connection: sqlite3.Connection) -> None:
        """Note a connection."""
        self._open.append(connection)
        if self._full:
            sqlite3.Connection.execute(connection, "PRAGMA max_page_count = 1").close()

    def closed(self, connection: sqlite3.Connection) -> None:
        """Forget a connection."""
        if connection in self._open:
            self._open.remove(connection)

    def commit(self, connection: "_DiskConnection", commit: Callable[[], Any]) -> Any:
        """Make a commit, or let the power fail before or after it."""
        self._fail_at(BEFORE)
        try:
            answer = commit()
        except sqlite3.OperationalError:
            self.refused += self._full
            raise
        self.commits += 1
        size = self._wal_size()
        if size < self._forced:
            # It began anew: a checkpoint has forced out what was in it, into the database file.
            self._forced = 0
        if connection.forces_out:
            self._forced = size
        self._fail_at(AFTER)
        self.told()
        return answer

    def _fail_at(self, when: str) -> None:
        due = self.commits + (when == BEFORE)
        if self._armed is not None and self._armed[1] == when and due >= self._armed[0]:
            self._armed = None
            self.cut()
            raise ProcessDied(f"{when} a commit")

    def _wal_size(self) -> int:
        try:
            return (self.folder / f"{self._name}-wal").stat().st_size
        except FileNotFoundError:
            return 0


class _DiskConnection(sqlite3.Connection):
    """Be a connection of the driver that tells its disk of each commit of a write."""

    disk: Disk

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._changes = 0
        self._forces_out: bool | None = None
        self.disk.opened(self)

    @property
    def forces_out(self) -> bool:
        """Tell whether a commit waits until its bytes are on the disk: asked once, and anew where it may be another."""
        if self._forces_out is None:
            self._forces_out = sqlite3.Connection.execute(self, "PRAGMA synchronous").fetchone()[0] >= FULL
        return self._forces_out

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        if statement == "COMMIT":
            committed: sqlite3.Cursor = self._commit(lambda: sqlite3.Connection.execute(self, statement))
            return committed
        done = super().execute(statement, values)
        if statement == "ROLLBACK":
            self._changes = self.total_changes
        elif statement.startswith("PRAGMA"):
            self._forces_out = None
        return done

    def commit(self) -> None:
        self._commit(super().commit)

    def rollback(self) -> None:
        super().rollback()
        self._changes = self.total_changes

    def close(self) -> None:
        self.disk.closed(self)
        super().close()

    def _commit(self, commit: Callable[[], Any]) -> Any:
        """Commit; of one that wrote nothing the disk hears nothing."""
        wrote = self.in_transaction and self.total_changes > self._changes
        try:
            return self.disk.commit(self, commit) if wrote else commit()
        finally:
            self._changes = self.total_changes

"""Open SQLite: a file, a lock that keeps a second server away, and a clear word for each of its errors.

One connection writes at a time; where many try, they wait for each other by polling. So there is one writer, and one
server for each file. Durability is WAL with `synchronous=FULL`: the commit has reached the disk before any caller hears
of it.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from server.db.errors import DatabaseBusy, DatabaseDamaged, DatabaseReadOnly, DatabaseTrouble, DiskFull
from server.db.lock import FileLock

READERS_MAX = 16
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


class Sqlite:
    """Hold a database file: `readers` see one snapshot and cannot write, `writers` keep others out from BEGIN on.

    The file's folder carries the lock; raises DataDirInUse where another server has it.
    """

    def __init__(self, path: Path, *, busy_timeout_ms: int) -> None:
        self.path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(path, timeout=busy_timeout_ms / 1000, check_same_thread=False)

        self.readers, self.writers = engines(connect)

    def migration_connection(self) -> Connection:
        """Return a connection of its own for the schema's changes; the caller closes it."""
        return self.writers.connect()

    def is_alive(self, conn: Connection) -> bool:
        """Ask the driver: some errors (disk full, I/O) make SQLite roll everything back by itself."""
        driver = conn.connection.driver_connection
        return isinstance(driver, sqlite3.Connection) and driver.in_transaction

    is_sound = is_alive

    def close(self) -> None:
        """Let go of the file and its lock."""
        self.readers.dispose()
        self.writers.dispose()
        self._lock.release()


def engines(connect: Callable[[], sqlite3.Connection]) -> tuple[Engine, Engine]:
    """Return the engines of a file, of those who read and of those who write; `connect` opens it."""
    return _engine(connect, begin="BEGIN", query_only=True), _engine(connect, begin="BEGIN IMMEDIATE")


def _engine(connect: Callable[[], sqlite3.Connection], *, begin: str, query_only: bool = False) -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=READERS_MAX,
        max_overflow=-1,
        # An error is logged with its statement; its values may be codes and keys.
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # We say BEGIN ourselves: the driver's own begins late and deferred, so two writers would both fail at commit.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (*_PRAGMAS, f"query_only={int(query_only)}"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def start(conn: Connection) -> None:
        # Straight to the driver: what a transaction costs besides its statements is paid by every request.
        cast("sqlite3.Connection", conn.connection.driver_connection).execute(begin).close()

    return engine


def trouble_of(error: sqlite3.Error) -> DatabaseTrouble | None:
    """Return the trouble behind an error of the driver, None where it is something else (a constraint, a bug).

    Source: sqlite.org/rescode.html; the low byte is the primary code.
    """
    code = getattr(error, "sqlite_errorcode", 0)
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return DatabaseBusy("another program has the database locked")
        case sqlite3.SQLITE_FULL:
            return DiskFull("no room is left on the disk of the database")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return DatabaseReadOnly("the database may not be written")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return DatabaseDamaged("the database file is damaged")
        case sqlite3.SQLITE_IOERR if code in _NO_ROOM:
            return DiskFull("no room is left on the disk of the database")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return DatabaseTrouble(f"the database cannot be reached ({error})")
        case _:
            return None


# The shared-memory file of WAL grows by writing too, and a quota (RLIMIT_FSIZE, EDQUOT) is no ENOSPC to SQLite.
_NO_ROOM = {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}

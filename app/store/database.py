"""Open the till's SQLite file, and give out its transactions.

One process, one writer: `InstanceLock` fences a second till, every write is `BEGIN IMMEDIATE` behind one lock, and
every commit is durable before it returns (WAL, synchronous=FULL; PROTOCOL 6.1). Readers have their own connections and
see one snapshot each. No transaction is ever held while the network or a payment terminal is waited for.
"""

import json
import sqlite3
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from app.store import boot, meta
from app.store.driver import driver, run
from app.store.errors import (
    DiskFull,
    FolderUnwritable,
    LedgerBusy,
    LedgerDamaged,
    LedgerForeign,
    LedgerLocked,
    StoreError,
)
from app.store.instance_lock import InstanceLock
from app.store.ledger import Ledger

BUSY_TIMEOUT_MS = 5000
_PRAGMAS = (
    "PRAGMA busy_timeout = {busy_timeout_ms}",
    "PRAGMA foreign_keys = ON",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
)
Disk = type[sqlite3.Connection]
"""What is between us and the disk: the kind of the connections."""
_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 500",
    # macOS answers fsync before the drive has written; only this waits for it (SQLite, pragma fullfsync).
    *(("PRAGMA fullfsync = ON", "PRAGMA checkpoint_fullfsync = ON") if sys.platform == "darwin" else ()),
)


class TillDatabase:
    """Hold one till's file open. `damaged` says why it cannot be trusted ("" = it can); then it is only read.

    Safe to share between threads. `with db.write() as tx` and `with db.read() as conn` give a SQLAlchemy connection in
    a transaction, and raise what `app.store.errors` names.
    """

    def __init__(
        self,
        path: Path,
        *,
        lock: InstanceLock,
        ledger: Ledger,
        busy_timeout_ms: int,
        damaged: str,
        disk: Disk = sqlite3.Connection,
    ) -> None:
        """Take what `open` has prepared; call that instead."""
        self.path = path
        self.ledger = ledger
        self.damaged = damaged
        self.copy_lag: int | None = None
        """Entries that stand on this disk alone, as of the last look; None where no second copy is kept."""
        self._lock = lock
        self._engine = _engine(path, busy_timeout_ms=busy_timeout_ms, read_only=bool(damaged), disk=disk)
        self._readers: list[Connection] = []
        self._writer: Connection | None = None
        self._writing = threading.Lock()
        self._writing_thread: int | None = None
        self._closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        till_id: str,
        store_id: str,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        disk: Disk = sqlite3.Connection,
    ) -> "TillDatabase":
        """Open the file, or make it in epoch 1; check it (quick_check, the last 1,000 entries) and migrate it.

        A file that is damaged is opened for reading as far as it goes, and stays as it is: see `damaged`. Raises
        LedgerLocked, LedgerNewer, LedgerForeign, FolderUnwritable, DiskFull.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderUnwritable(path, error.strerror or "cannot be made") from error
        lock = InstanceLock(path)
        ledger = Ledger(till_id, meta.Meta().epoch, uuid.uuid4().hex)
        database = None
        try:
            try:
                with _translated(path):
                    boot.inspect(path, mark=lock.read_mark(), busy_timeout_ms=busy_timeout_ms)
                database = cls(path, lock=lock, ledger=ledger, busy_timeout_ms=busy_timeout_ms, damaged="", disk=disk)
                database._prepare(store_id)
            except LedgerDamaged as error:
                if database is not None:
                    database._disconnect()
                return cls(path, lock=lock, ledger=ledger, busy_timeout_ms=busy_timeout_ms, damaged=error.detail)
            except LedgerBusy as error:
                raise LedgerLocked(path, "another program has locked the file") from error
        except BaseException:
            if database is not None:
                database._disconnect()
            lock.close()
            raise
        return database

    def _prepare(self, store_id: str) -> None:
        """Bring the schema up to date, and check that the file is this till's and its chain is whole."""
        self._writer = self._engine.connect()
        with self.write() as tx:
            boot.migrate(tx)
        with self.write() as tx:
            known = meta.load(tx)
            if known.till_id not in ("", self.ledger.till_id) or known.store_id not in ("", store_id):
                raise LedgerForeign(self.path, f"this file belongs to till {known.till_id} of store {known.store_id}")
            self.ledger.enter(known.epoch)
            if self.path.suffix != boot.RECOVERING:
                boot.check_ledger(self.path, tx, ledger=self.ledger, mark=self._lock.read_mark())
            meta.put(
                tx,
                till_id=self.ledger.till_id,
                store_id=store_id,
                epoch=self.ledger.epoch,
                boot=self.ledger.boot,
            )

    # -------------------------------------------------------------- transactions

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Run one write transaction: committed and durable when the block ends, rolled back where it raises.

        Raises LedgerDamaged, LedgerBusy, DiskFull; in each case nothing was saved.
        """
        if self.damaged:
            raise LedgerDamaged(self.path, self.damaged)
        assert self._writing_thread != threading.get_ident(), "a write transaction inside of another"
        with self._writing:
            self._writing_thread = threading.get_ident()
            try:
                with self._watched():
                    assert self._writer is not None and not self._closed, "the database is open"
                    with _transaction(self._writer, "BEGIN IMMEDIATE"):
                        yield self._writer
                if self.ledger.appended is not None:
                    self._lock.write_mark(boot.tail_mark(self.ledger.appended))
            finally:
                self.ledger.appended = None
                self._writing_thread = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Run reads that all see the same snapshot. Raises LedgerDamaged, LedgerBusy."""
        with self._watched():
            try:
                conn = self._readers.pop()
            except IndexError:
                conn = self._engine.connect()
            try:
                with _transaction(conn, "BEGIN"):
                    yield conn
            except BaseException:
                conn.close()
                raise
            if self._closed:
                conn.close()
            else:
                self._readers.append(conn)

    def check_everything(self) -> str:
        """Look at the whole file and every entry; return what is wrong, and trust the file no more. "" = it is sound.

        For the night: 30 ms for 20,000 entries by each of the two, and together they find 96 % of flipped bits where
        the look at the start finds less (PROTOCOL 6.3).
        """
        with self.read() as conn:
            wrong = [row[0] for row in run(conn, "PRAGMA integrity_check(10)") if row[0] != "ok"]
            wrong += self.ledger.verify(conn) + self.ledger.verify_all(conn)
        if wrong:
            self.damaged = self.damaged or wrong[0]
        return wrong[0] if wrong else ""

    def close(self) -> None:
        """Close every connection and let go of the lock; closing twice is fine."""
        if not self._closed:
            self._disconnect()
            self._lock.close()

    # -------------------------------------------------------------- connections

    def _disconnect(self) -> None:
        self._closed = True
        for conn in [*self._readers, *([self._writer] if self._writer else [])]:
            conn.close()
        self._readers.clear()
        self._writer = None
        self._engine.dispose()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Translate what SQLite says, and never trust the file again once it was found damaged."""
        try:
            with _translated(self.path):
                yield
        except LedgerDamaged as error:
            self.damaged = self.damaged or error.detail
            raise
        except (StoreError, DBAPIError, sqlite3.Error) as error:
            if self.damaged:  # a file or a table that is not there any more, say
                raise LedgerDamaged(self.path, self.damaged) from error
            raise


def _engine(path: Path, *, busy_timeout_ms: int, read_only: bool, disk: Disk) -> Engine:
    def connect() -> sqlite3.Connection:
        # isolation_level None: Python's driver begins nothing by itself, `_transaction` does.
        uri = boot.file_uri(path, "ro" if read_only else "rwc")
        connection = sqlite3.connect(
            uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_timeout_ms / 1000,
            factory=disk,
        )
        try:
            for pragma in (*_PRAGMAS, *(() if read_only else _WRITER_PRAGMAS)):
                connection.execute(pragma.format(busy_timeout_ms=busy_timeout_ms)).close()
        except BaseException:
            connection.close()
            raise
        return connection

    return create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool)


@contextmanager
def _transaction(conn: Connection, begin: str) -> Iterator[None]:
    """Run a transaction on the driver: committed when the block ends, rolled back where it or the commit raises.

    SQLAlchemy's own transaction, which it begins by itself at its first statement, sends nothing to SQLite.
    """
    raw = driver(conn)
    raw.execute(begin)
    try:
        yield
        raw.execute("COMMIT")
    finally:
        # A commit that found no room has rolled back by itself; any other failure is rolled back here.
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        if conn.in_transaction():
            conn.rollback()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those that tell a person what to do; others are our bugs and pass.

    What the file holds was written by us, so JSON that does not parse, or text that is none, is a bad disk's, as a page
    would be.
    """
    try:
        yield
    except json.JSONDecodeError as error:
        raise LedgerDamaged(path, f"what it holds cannot be read: {error.msg}") from error
    except UnicodeDecodeError as error:
        # SQLite names what is damaged, and its name is damaged too.
        raise LedgerDamaged(path, f"what it holds cannot be read: {error.reason}") from error
    except DBAPIError as error:
        cause = error.orig
        if isinstance(cause, sqlite3.Error) and (known := _known(path, cause)):
            raise known from error
        raise
    except sqlite3.Error as error:
        if known := _known(path, error):
            raise known from error
        raise


_WRITE_FAILURES = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
    }
)


_UNREADABLE = ("Could not decode to UTF-8", "malformed JSON")
"""What the driver and SQLite's JSON functions say of bytes that nobody wrote; neither has a code of its own."""


def _known(path: Path, error: sqlite3.Error) -> StoreError | None:
    if str(error).startswith(_UNREADABLE):
        return LedgerDamaged(path, f"what it holds cannot be read: {str(error)[:40]}")
    # Errors that the driver raises by itself carry no code.
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    if code in _WRITE_FAILURES or code & 0xFF == sqlite3.SQLITE_FULL:
        # A file at its size limit fails as IOERR_WRITE, a full disk as FULL; for the cashier they are one.
        return DiskFull(path, "there is no room to write" if code & 0xFF == sqlite3.SQLITE_FULL else str(error))
    match code & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return LedgerDamaged(path, str(error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return LedgerBusy(path, str(error))
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return FolderUnwritable(path, str(error))
        case sqlite3.SQLITE_IOERR:
            return LedgerDamaged(path, f"the disk cannot be read: {error}")
    return None

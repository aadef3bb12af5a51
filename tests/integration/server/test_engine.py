"""The one writer: group commit, durability, and a clear word for each trouble; real files, real processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import IntegrityError

from server.db.engine import BATCH_MAX, Database
from server.db.errors import DatabaseBusy, DatabaseDamaged, DatabaseReadOnly, DatabaseTrouble, DataDirInUse, DiskFull
from tests.postgres.cluster import Cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | URL]:
    """Name an empty database."""
    if request.param == "sqlite":
        yield tmp_path / "server.db"
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    with cluster.lend("template0") as url:
        yield url


def _open(where: Path | URL) -> Database:
    opened = Database(where, busy_timeout_ms=50)
    opened.write(lambda conn: conn.execute(text("CREATE TABLE number (n INTEGER PRIMARY KEY)")))
    return opened


@pytest.fixture
def database(where: Path | URL) -> Iterator[Database]:
    """Open a database with an empty table of numbers."""
    opened = _open(where)
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Database]:
    """Likewise on SQLite, for what only a file does."""
    opened = _open(tmp_path / "server.db")
    yield opened
    opened.close()


def _insert(conn: Connection, number: int) -> int:
    conn.execute(text("INSERT INTO number VALUES (:n)"), {"n": number})
    return number


def _count(database: Database) -> int:
    return database.read(lambda conn: conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one())


class _Gate:
    """Keep the writer busy until it is let go, so that what comes meanwhile ends up in one transaction."""

    def __init__(self, database: Database) -> None:
        self._open, self._entered = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: database.write(self._wait))
        self._thread.start()
        self._entered.wait(10)

    def _wait(self, _conn: Connection) -> None:
        self._entered.set()
        self._open.wait(30)

    def let_go(self) -> None:
        self._open.set()
        self._thread.join()


def _waiting(database: Database, count: int) -> None:
    """Wait until that many writes queue; they were sent from threads, so it is a matter of moments."""
    tick = threading.Event()
    for _ in range(2000):
        if database._jobs.qsize() >= count:
            return
        tick.wait(0.005)
    raise AssertionError("the writes never queued")


def test_what_piles_up_is_committed_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    commit = database._commit_together
    monkeypatch.setattr(database, "_commit_together", lambda batch: (batches.append(len(batch)), commit(batch)))
    gate = _Gate(database)

    with ThreadPoolExecutor(50) as threads:
        sent = [threads.submit(database.write, lambda conn, n=n: _insert(conn, n)) for n in range(50)]
        _waiting(database, 50)
        gate.let_go()
        answers = [each.result() for each in sent]

    assert answers == list(range(50))
    assert batches == [1, 50]
    assert _count(database) == 50


def test_no_transaction_takes_more_than_its_share(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    commit = database._commit_together
    monkeypatch.setattr(database, "_commit_together", lambda batch: (batches.append(len(batch)), commit(batch)))
    gate = _Gate(database)

    with ThreadPoolExecutor(BATCH_MAX + 1) as threads:
        sent = [threads.submit(database.write, lambda conn, n=n: _insert(conn, n)) for n in range(BATCH_MAX + 1)]
        _waiting(database, BATCH_MAX + 1)
        gate.let_go()
        for each in sent:
            each.result()

    assert batches == [1, BATCH_MAX, 1]


class _Died(BaseException):
    """Stand for what is no Exception."""


@pytest.mark.parametrize("failure", [ValueError, _Died, sqlite3.IntegrityError])
def test_a_write_that_fails_takes_back_its_own_and_nobody_elses(
    database: Database, failure: type[BaseException]
) -> None:
    def fail(conn: Connection) -> None:
        _insert(conn, 1000)
        raise failure

    gate = _Gate(database)
    with ThreadPoolExecutor(3) as threads:
        before = threads.submit(database.write, lambda conn: _insert(conn, 1))
        _waiting(database, 1)
        failing = threads.submit(database.write, fail)
        _waiting(database, 2)
        after = threads.submit(database.write, lambda conn: _insert(conn, 2))
        _waiting(database, 3)
        gate.let_go()

    assert isinstance(failing.exception(), failure)
    assert (before.result(), after.result()) == (1, 2)
    assert database.read(lambda conn: list(conn.execute(text("SELECT n FROM number")).scalars())) == [1, 2]


def test_a_constraint_is_the_callers_to_see(database: Database) -> None:
    database.write(lambda conn: _insert(conn, 1))

    with pytest.raises(IntegrityError):
        database.write(lambda conn: _insert(conn, 1))


def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(DatabaseReadOnly):
        database.read(lambda conn: _insert(conn, 1))

    assert _count(database) == 0


def test_from_its_first_look_on_a_write_keeps_other_programs_out(file: Database) -> None:
    def look_then_write(conn: Connection) -> None:
        conn.execute(text("SELECT 1 FROM sqlite_master")).all()
        other = sqlite3.connect(file.path, timeout=0)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("CREATE TABLE strange (id)")
        _insert(conn, 1)

    file.write(look_then_write)

    assert _count(file) == 1


def test_a_reader_sees_one_snapshot_while_others_write(database: Database) -> None:
    def look_twice(conn: Connection) -> tuple[int, int]:
        first = conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one()
        database.write(lambda writer: _insert(writer, 1))
        return first, conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one()

    assert database.read(look_twice) == (0, 0)
    assert _count(database) == 1


def test_a_write_inside_a_write_is_our_bug(database: Database) -> None:
    with pytest.raises(AssertionError):
        database.write(lambda conn: database.write(lambda inner: _insert(inner, 1)))


def test_a_write_that_is_submitted_is_told_when_it_is_durable(database: Database) -> None:
    told: list[int] = []

    sent = database.submit(lambda conn: _insert(conn, 1))
    sent.add_done_callback(lambda done: told.append(done.result()))
    failing = database.submit(lambda conn: _insert(conn, 1))

    assert sent.result(10) == 1
    assert isinstance(failing.exception(10), IntegrityError)
    assert (told, _count(database)) == ([1], 1)


def test_nobody_waits_for_what_is_submitted(database: Database) -> None:
    gate = _Gate(database)

    sent = [database.submit(lambda conn, n=n: _insert(conn, n)) for n in range(3)]
    early = [each.done() for each in sent]
    gate.let_go()

    assert early == [False, False, False]
    assert [each.result(10) for each in sent] == [0, 1, 2]


def test_a_caller_who_goes_away_does_not_stop_the_writer(database: Database) -> None:
    gate = _Gate(database)
    gone = database.submit(lambda conn: _insert(conn, 1))
    running: list[bool] = []
    held = database.submit(lambda conn: running.append(held.cancel()))

    cancelled = gone.cancel()
    gate.let_go()
    held.result(10)

    assert (cancelled, running) == (True, [False])
    assert database.write(lambda conn: _insert(conn, 2)) == 2
    assert _count(database) == 1


def test_a_queue_that_is_full_says_busy(where: Path | URL) -> None:
    database = Database(where, queue_max=1)
    gate = _Gate(database)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(database.write, lambda conn: 1)
        _waiting(database, 1)
        with pytest.raises(DatabaseBusy):
            database.write(lambda conn: 2)
        gate.let_go()

    assert waiting.result() == 1
    database.close()


def test_a_database_that_another_program_has_locked_says_busy_and_recovers(file: Database) -> None:
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseBusy) as busy:
        file.write(lambda conn: _insert(conn, 1))
    readable = _count(file)
    other.execute("ROLLBACK")
    other.close()

    assert busy.value.retry_after_s >= 1
    assert readable == 0
    assert file.write(lambda conn: _insert(conn, 1)) == 1


def test_a_full_disk_loses_nothing_that_was_acknowledged(file: Database) -> None:
    def fill(conn: Connection) -> None:
        conn.execute(text("CREATE TABLE big (b BLOB)"))
        for _ in range(1000):
            conn.execute(text("INSERT INTO big VALUES (zeroblob(1000000))"))

    file.write(lambda conn: _insert(conn, 1))
    # SQLite's own bound on the file answers as a full disk does, at the same place and with the same code.
    file.write(lambda conn: conn.execute(text("PRAGMA max_page_count = 50")))

    with pytest.raises(DiskFull):
        file.write(fill)

    assert _count(file) == 1


def test_after_a_full_disk_everybody_in_the_batch_is_told(file: Database) -> None:
    def fill(conn: Connection) -> None:
        conn.execute(text("CREATE TABLE big (b BLOB)"))
        conn.execute(text("INSERT INTO big VALUES (zeroblob(9000000))"))

    file.write(lambda conn: conn.execute(text("PRAGMA max_page_count = 50")))
    gate = _Gate(file)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(file.write, lambda conn: _insert(conn, 1))
        _waiting(file, 1)
        second = threads.submit(file.write, fill)
        _waiting(file, 2)
        gate.let_go()

    acknowledged = [each.exception() is None for each in (first, second)]
    assert isinstance(second.exception(), DiskFull)
    assert _count(file) == sum(acknowledged)


def test_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "server.db").write_bytes(b"not a database, whatever its name says" * 200)
    database = Database(tmp_path / "server.db")

    with pytest.raises(DatabaseDamaged):
        database.read(lambda conn: conn.execute(text("SELECT 1 FROM number")))
    with pytest.raises(DatabaseDamaged):
        database.write(lambda conn: _insert(conn, 1))

    database.close()


def test_a_second_server_on_one_file_is_refused_until_the_first_is_gone(file: Database) -> None:
    with pytest.raises(DataDirInUse):
        Database(file.path)
    file.close()

    Database(file.path).close()


def test_a_closed_database_says_so_and_closes_once(database: Database) -> None:
    database.close()
    database.close()

    with pytest.raises(DatabaseTrouble):
        database.write(lambda conn: _insert(conn, 1))


WRITER = """
import sys, threading
from pathlib import Path
from sqlalchemy import make_url, text
from server.db.engine import Database

database = Database(make_url(sys.argv[1]) if "://" in sys.argv[1] else Path(sys.argv[1]))
database.write(lambda conn: conn.execute(text("CREATE TABLE IF NOT EXISTS number (n INTEGER PRIMARY KEY)")))

def write(start):
    for n in range(start, 10**9, 8):
        database.write(lambda conn: conn.execute(text("INSERT INTO number VALUES (:n)"), {"n": n}))
        sys.stdout.write(f"{n}\\n")
        sys.stdout.flush()

for start in range(8):
    threading.Thread(target=write, args=(start,)).start()
"""


@pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")
def test_no_acknowledged_write_is_lost_when_the_process_is_killed(where: Path | URL) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(where)], stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1
    )
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(300)]

    writer.kill()
    # What comes behind the last line end was cut off by the kill.
    acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    writer.wait()
    writer.stdout.close()

    database = Database(where)
    kept = database.read(lambda conn: set(conn.execute(text("SELECT n FROM number")).scalars()))
    database.close()
    assert set(acknowledged) <= kept

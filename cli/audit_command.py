"""Audit the server's database from outside, also beside a running server: `pawtill audit`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from app.store.boot import file_uri
from cli.data_trouble import explain
from cli.exits import Exit, complain
from server.db.errors import DatabaseDamaged, DatabaseTrouble, NewerSchema
from server.db.migrate import HEAD, version
from server.db.trouble import trouble_of
from server.services.audit import audit
from server.services.context import SYSTEM, Context, NotProvisioned, load_chain
from server.services.system import SystemIds
from server.settings import Settings

_PATIENCE_S = 5.0
_CACHE_KIB = 64 * 1024
"""Pages kept: the check of every index reads at random, and SQLite keeps 2 MB by itself."""


def run_audit(settings: Settings, *, everything: bool) -> int:
    """Print every equation, finding and violation, and the verdict last; 1 where there is a violation.

    The database is opened for reading only, in one snapshot. Exit 2 where there is none.
    """
    try:
        where = settings.database
    except ValueError as error:
        return explain(error)
    if isinstance(where, Path) and not where.exists():
        complain(f"no server's database at {where}; name its folder with --data-dir, or start one: pawtill server")
        return Exit.CANNOT_START
    try:
        return _audit(where, everything=everything)
    except NotProvisioned:
        complain(f"{where} has no chain yet; start the server once: pawtill server")
        return Exit.CANNOT_START
    except (DatabaseTrouble, DBAPIError, sqlite3.Error) as error:
        return explain(trouble_of(error) or error)


def _audit(where: Path | URL, *, everything: bool) -> int:
    with snapshot(where) as conn:
        _check_schema(conn)
        context = Context(datetime.now(UTC), SystemIds(), load_chain(conn), SYSTEM, code_key=b"")
        return Exit.OK if audit(conn, context, everything=everything, tell=print).clean else Exit.FOUND_SOMETHING


@contextmanager
def snapshot(where: Path | URL) -> Iterator[Connection]:
    """Open the database beside whoever uses it, as it stands at this moment."""
    if isinstance(where, Path):
        engine = create_engine("sqlite+pysqlite://", creator=lambda: _connect(where), poolclass=NullPool)
        with engine.connect() as conn:
            # Said by ourselves: the driver begins nothing for a SELECT, and one snapshot is the point.
            conn.exec_driver_sql("BEGIN")
            yield conn
        return
    from server.db.postgres import Postgres  # noqa: PLC0415 (the driver takes 60 ms to load)

    store = Postgres(where)
    try:
        with store.readers.connect() as conn:
            yield conn
    finally:
        store.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file_uri(path, "ro"), uri=True, isolation_level=None, timeout=_PATIENCE_S)
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}").close()
    return connection


def _check_schema(conn: Connection) -> None:
    """Refuse a database that this version does not know, older ones too: the next start of the server brings it up."""
    found = version(conn)
    if found is None:
        raise DatabaseDamaged("the database is not one of Pawtill's server")
    if found != HEAD:
        raise NewerSchema(f"the database has schema {found}, this version audits {HEAD} only")

"""Open PostgreSQL (psycopg 3): several servers share it, and still one transaction writes at a time.

The first statement of every writing transaction takes one advisory lock, which PostgreSQL drops at its end. So what was
proved under one writer holds here too, in whatever process the writer runs, and numbers of the feed are in the order of
commits: the lock goes only after the commit can be seen. Under READ COMMITTED each statement behind the lock sees all
that was committed before it. What a server that was killed had begun, PostgreSQL rolls back; one that stands still in a
transaction is put out after `_IDLE_TIMEOUT_MS`, or every other would wait for it.

Text sorts by code point, whole numbers have 64 bits, and numbered rows are identities: as on SQLite. Said here once, so
that every migration step is the same on both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import IntLoader
from psycopg.types.string import StrBinaryDumper, StrDumper, StrDumperUnknown
from sqlalchemy import URL, Connection, Engine, Integer, Pool, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from server.db.errors import DatabaseBusy, DatabaseDamaged, DatabaseReadOnly, DatabaseTrouble, DiskFull

READERS_MAX = 16
CONNECT_TIMEOUT_S = 5
_LINE: Mapping[str, str | int] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "application_name": "pawtill",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""What the URL may say otherwise. A machine that is gone is silent, and by the system's settings our writer, with all
who wait for it, would listen for two hours: so the line is probed after 10 s (in seconds; the last in milliseconds)."""
_STATEMENT_TIMEOUT_MS = 30_000
_IDLE_TIMEOUT_MS = 15_000
_POOL_TIMEOUT_S = 5
WRITER_LOCK = 0x7061_7774_696C_6C01
"""The name of the lock: "pawtill" in ASCII, then 1. Advisory locks belong to one database of the cluster."""


class Postgres:
    """Hold a database of a PostgreSQL server; nothing connects before it is used.

    `readers` see one snapshot and cannot write; a transaction of `writers` begins when no other server writes, and is
    busy after `busy_timeout_ms` (0 = waits however long).
    """

    path = None

    def __init__(self, url: URL, *, busy_timeout_ms: int = 0) -> None:
        self._url = url
        self.readers = _engine(url, {})
        self.writers = _engine(
            url,
            {
                "lock_timeout": busy_timeout_ms,
                "statement_timeout": _STATEMENT_TIMEOUT_MS,
                "idle_in_transaction_session_timeout": _IDLE_TIMEOUT_MS,
            },
        )
        event.listen(self.readers, "connect", _only_read)
        event.listen(self.writers, "connect", _wait_for_the_disk)
        event.listen(self.writers, "begin", _wait_for_our_turn)

    def migration_connection(self) -> Connection:
        """Return a connection whose transaction waits, however long, until no server writes; the caller closes it."""
        engine = _engine(self._url, {}, pool=NullPool)
        event.listen(engine, "begin", _wait_for_our_turn)
        return engine.connect()

    def is_alive(self, conn: Connection) -> bool:
        """Tell whether the transaction is still there, be it in error: a savepoint can then be gone back to."""
        return _status(conn) in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def is_sound(self, conn: Connection) -> bool:
        """Tell whether the transaction can be committed; a COMMIT in error is a rollback that says nothing."""
        return _status(conn) == TransactionStatus.INTRANS

    def close(self) -> None:
        """Let go of the connections."""
        self.readers.dispose()
        self.writers.dispose()


def _status(conn: Connection) -> TransactionStatus:
    if conn.closed or conn.invalidated:
        return TransactionStatus.UNKNOWN
    driver = conn.connection.driver_connection
    assert isinstance(driver, psycopg.Connection), "the engine is psycopg's"
    return driver.info.transaction_status


def _engine(url: URL, settings: dict[str, int], *, pool: type[Pool] = QueuePool) -> Engine:
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    more = url.query.get("options", "")
    bounds: dict[str, Any] = {"pool_size": READERS_MAX, "max_overflow": 0, "pool_timeout": _POOL_TIMEOUT_S}
    engine = create_engine(
        url.set(drivername="postgresql+pawtill").difference_update_query(["options"]),
        poolclass=pool,
        # An error is logged with its statement; its values may be codes and keys.
        hide_parameters=True,
        connect_args={
            "client_encoding": "utf8",
            "options": f"{more if isinstance(more, str) else ' '.join(more)} {options}".strip(),
        }
        | {name: url.query.get(name, ours) for name, ours in _LINE.items()},
        **(bounds if pool is QueuePool else {}),
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection, _record: object) -> None:
        # Sums of 64-bit numbers are `numeric`, and we have no other: a Decimal would be no number to JSON.
        connection.adapters.register_loader("numeric", IntLoader)
        for dumper in (_Binary, _Text, _Unknown):
            connection.adapters.register_dumper(str, dumper)

    event.listen(engine, "handle_error", _tell_no_values)
    return engine


def _tell_no_values(context: ExceptionContext) -> Exception | None:
    """Cut an error down to its first line: behind it PostgreSQL tells the row, which may hold codes and keys."""
    error, told = context.original_exception, context.sqlalchemy_exception
    if not isinstance(error, psycopg.Error) or not isinstance(told, DBAPIError) or error.sqlstate is None:
        return None
    return _wrapped(error, told.statement or "", is_lost=context.is_disconnect)


def _wrapped(error: psycopg.Error, statement: str, *, is_lost: bool) -> DBAPIError:
    # Errors of class 22 quote the value that they do not like.
    words = error.diag.message_primary or type(error).__name__
    if error.sqlstate is not None:
        error.args = (type(error).__name__ if error.sqlstate.startswith("22") else words,)
    told = DBAPIError.instance(
        statement, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=is_lost
    )
    assert isinstance(told, DBAPIError), "the driver's errors are wrapped"
    return told


def copy_rows(conn: Connection, table: str, columns: Sequence[str], *, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows by COPY, in their order; refused as an INSERT would be (IntegrityError, ...).

    Measured, 200 rows of ten columns: 1.6 ms, against 9 by executemany, 6 by unnest, 10 by one list of VALUES.
    """
    driver = conn.connection.driver_connection
    assert isinstance(driver, psycopg.Connection), "the engine is psycopg's"
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    try:
        with (
            driver.cursor() as cursor,
            cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)) as copy,
        ):
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as error:
        raise _wrapped(error, f"COPY {table} FROM STDIN", is_lost=driver.closed) from error


def _only_read(connection: psycopg.Connection, _record: object) -> None:
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True


def _wait_for_the_disk(connection: psycopg.Connection, _record: object) -> None:
    """Let no commit be told before it is durable, whatever the server's default; stronger ones stay."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.commit()


def _wait_for_our_turn(conn: Connection) -> None:
    conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")


class _WithoutNul:
    """Write U+FFFD for U+0000, in tables and in searches: PostgreSQL cannot hold it, and a label may have one."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd"))  # type: ignore[misc]


class _Binary(_WithoutNul, StrBinaryDumper):
    pass


class _Text(_WithoutNul, StrDumper):
    pass


class _Unknown(_WithoutNul, StrDumperUnknown):
    pass


class _Tables(PGDDLCompiler):
    """Give whole numbers 64 bits, sort text by code point whatever the language, number rows by an identity."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        told: str = super().get_column_specification(column, **kw)  # type: ignore[no-untyped-call]
        name, _, rest = told.partition(" ")
        for ours, theirs in _COLUMNS:
            if rest.startswith(ours):
                return f"{name} {theirs}{rest.removeprefix(ours)}"
        return f"{name} {rest}"


_COLUMNS = (
    ("INTEGER", "BIGINT"),
    ("TEXT", 'TEXT COLLATE "C"'),
    ("BIGSERIAL", "BIGINT GENERATED BY DEFAULT AS IDENTITY"),
    ("SERIAL", "BIGINT GENERATED BY DEFAULT AS IDENTITY"),
)


class PawtillDialect(PGDialect_psycopg):
    """Be psycopg's dialect with our types and tables."""

    driver = "psycopg"
    supports_statement_cache = True
    ddl_compiler = _Tables
    # The driver names a number's size by its value; a cast to 32 bits would refuse what the column can hold.
    colspecs = {kind: ours for kind, ours in PGDialect_psycopg.colspecs.items() if kind is not Integer}  # noqa: RUF012


registry.register("postgresql.pawtill", __name__, PawtillDialect.__name__)


def trouble_of(error: psycopg.Error) -> DatabaseTrouble | None:
    """Return the trouble behind an error of the driver, None where it is something else (a constraint, a bug).

    Source: postgresql.org/docs/current/errcodes-appendix.html; the first two characters are the class.
    """
    state = error.sqlstate or ""
    if not state and isinstance(error, psycopg.OperationalError):
        return DatabaseTrouble(f"PostgreSQL cannot be reached ({_first_line(error)})")
    known = _TROUBLES.get(state) or _TROUBLES.get(state[:2])
    return None if known is None else known()


def _first_line(error: psycopg.Error) -> str:
    """Say what the driver says, which names host, port and user and never a password."""
    return str(error).strip().partition("\n")[0]


def _lost() -> DatabaseTrouble:
    return DatabaseBusy("PostgreSQL ended the connection")


def _rivals() -> DatabaseTrouble:
    return DatabaseBusy("other servers are writing to PostgreSQL")


_TROUBLES: Mapping[str, Callable[[], DatabaseTrouble]] = {
    "08": _lost,
    "40": _rivals,  # serialization failure, deadlock
    "53": lambda: DatabaseBusy("PostgreSQL has no memory or connections left"),
    "58": lambda: DatabaseTrouble("PostgreSQL cannot read or write its files"),
    "28": lambda: DatabaseTrouble("PostgreSQL refuses our name or password"),
    "3D": lambda: DatabaseTrouble("PostgreSQL has no database of that name"),
    "XX": lambda: DatabaseDamaged("PostgreSQL says that its data are damaged"),
    "53100": lambda: DiskFull("no room is left on PostgreSQL's disk"),
    "55P03": _rivals,
    "57014": lambda: DatabaseBusy("PostgreSQL took too long"),
    "57P01": _lost,
    "57P02": _lost,
    "57P03": lambda: DatabaseBusy("PostgreSQL is starting or stopping"),
    "57P05": _lost,
    "25P03": _lost,
    "25006": lambda: DatabaseReadOnly("PostgreSQL may not be written: it is a standby, or set to read only"),
    "42501": lambda: DatabaseTrouble("PostgreSQL does not let our user do this"),
}
"""By code or class: the code goes first."""

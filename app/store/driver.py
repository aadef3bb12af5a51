"""Hand statements straight to SQLite, inside the transaction of a SQLAlchemy connection.

A sale is a dozen small statements. Core spends 35 us around each (a context, a result, its metadata), the driver 5 us,
and with Core a sale costs three durable commits instead of two. Statements are constants, so sqlite3 keeps them
prepared; values go in as parameters.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

Row = Sequence[Any]

_RAW: WeakKeyDictionary[Connection, sqlite3.Connection] = WeakKeyDictionary()
"""Drivers' connections by ours, which keep theirs for life; finding it through the pool takes longer than a statement.
"""


def driver(conn: Connection) -> sqlite3.Connection:
    """Return the driver's connection under this one; what it raises, `TillDatabase` translates too."""
    raw = _RAW.get(conn)
    if raw is None:
        raw = _RAW[conn] = cast("sqlite3.Connection", conn.connection.driver_connection)
    return raw


def run(conn: Connection, statement: str, values: Row = ()) -> sqlite3.Cursor:
    """Run one statement; rows come out as tuples."""
    return driver(conn).execute(statement, values)


def run_each(conn: Connection, statement: str, rows: Iterable[Row]) -> None:
    """Run one statement for each row."""
    driver(conn).executemany(statement, rows)

"""Write the rows that the server has written once more, bare: the baseline of what it costs to decide about them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, literal_column, select

from server.db import schema

Rows = dict[Table, list[dict[str, Any]]]


class Books:
    """Read what the server wrote, and write the same rows into a copy of its database."""

    def __init__(self, source: Path, target: Path) -> None:
        with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
        self._source, self._target = _engine(source, "BEGIN"), _engine(target, "BEGIN IMMEDIATE")
        self._seen = self._ends()

    def _ends(self) -> dict[Table, int]:
        rowid = literal_column("rowid")
        with self._source.begin() as conn:
            return {
                table: conn.execute(select(rowid).select_from(table).order_by(rowid.desc()).limit(1)).scalar() or 0
                for table in schema.metadata.sorted_tables
            }

    def new_rows(self) -> Rows:
        """Return the rows that were added since the last call, in the order in which tables may be filled."""
        with self._source.begin() as conn:
            found = {
                table: [
                    dict(row._mapping)
                    for row in conn.execute(
                        select(table).where(literal_column("rowid") > end).order_by(literal_column("rowid"))
                    )
                ]
                for table, end in self._seen.items()
            }
        self._seen = self._ends()
        return {table: rows for table, rows in found.items() if rows}

    def insert(self, rows: Rows) -> None:
        """Write the rows in one durable transaction, each table's by one executemany of Core."""
        with self._target.begin() as conn:
            for table, values in rows.items():
                conn.execute(insert(table), values)

    def close(self) -> None:
        """Close both databases."""
        self._source.dispose()
        self._target.dispose()


def _engine(path: Path, begin: str) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def start(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine

"""Insert many rows of one table, and look many names up, at the driver's speed.

SQLAlchemy's own executemany spends four times as long on preparing a row as SQLite does on writing it, and ingest
writes six rows for each sale. So the statement is compiled once, values are bound by the columns' own types, and the
driver gets the whole list (PostgreSQL by COPY). Rows and schema stay Core's; only the way there is shorter.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pydantic_core import to_json
from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Row,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    func,
    insert,
    select,
)

Bind = Callable[[Any], Any]
COPIED_FROM = 4
"""Rows from which on COPY's two messages to PostgreSQL are less than one for each row."""
_NOTHING = object()


class BulkInsert:
    """Insert rows, each a tuple of values in the order of `columns`; a column left out gets its server default."""

    def __init__(self, table: Table, *columns: str) -> None:
        self.table, self.columns = table, columns
        self._statement = insert(table)
        self._prepared: dict[str, tuple[str, list[tuple[int, Bind]], tuple[str, ...] | None]] = {}

    def run(self, conn: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write the rows in one call; whatever the database refuses comes out as from Core (IntegrityError, ...)."""
        if not rows:
            return
        statement, binds, names = self._prepare(conn.dialect)
        bound = [list(row) for row in rows]
        for place, bind in binds:
            given: object = _NOTHING
            for row in bound:
                # Rows of a batch share their instants: what was bound just before is not bound anew.
                if row[place] is not given:
                    given = row[place]
                    value = bind(given)
                row[place] = value
        if conn.dialect.name == "postgresql" and len(bound) >= COPIED_FROM:
            # Imported here: who has SQLite loads no psycopg.
            from server.db.postgres import copy_rows  # noqa: PLC0415

            copy_rows(conn, self.table.name, self.columns, rows=bound)
        elif names is None:
            conn.exec_driver_sql(statement, [tuple(row) for row in bound])
        else:
            conn.exec_driver_sql(statement, [dict(zip(names, row, strict=True)) for row in bound])

    def _prepare(self, dialect: Dialect) -> tuple[str, list[tuple[int, Bind]], tuple[str, ...] | None]:
        """Compile for a dialect, once; names are given for one whose parameters have names."""
        known = self._prepared.get(dialect.name)
        if known is None:
            compiled = self._statement.compile(dialect=dialect, column_keys=list(self.columns))
            order = list(compiled.positiontup or self.columns)
            by_table = [column.name for column in self.table.c if column.name in self.columns]
            assert order == by_table == list(self.columns), f"{self.table.name}: columns in the order of the table"
            binds = [(i, bind) for i, name in enumerate(order) if (bind := _bind(self.table, name, dialect))]
            known = (str(compiled), binds, None if dialect.positional else tuple(order))
            self._prepared[dialect.name] = known
        return known


def _bind(table: Table, name: str, dialect: Dialect) -> Bind | None:
    kind = table.c[name].type
    if isinstance(kind, JSON):
        return lambda value: to_json(value).decode()
    processor: Bind | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return processor


class Lookup:
    """Select the rows whose `column` holds one of many names: one parameter, one cached statement.

    An IN list is written out anew for each length and costs more than the search: SQLite opens a JSON list instead,
    PostgreSQL an array.
    """

    def __init__(self, statement: Select[Any], column: ColumnElement[str]) -> None:
        self._any_of = statement.where(column == any_(bindparam("names", type_=ARRAY(Text))))
        each = func.json_each(bindparam("names")).table_valued("value")
        self._opened = statement.where(column.in_(select(each.c.value)))

    def rows(self, conn: Connection, names: Collection[str], **values: Any) -> Sequence[Row[Any]]:
        """Return the rows; `values` are those of the statement's own parameters."""
        if not names:
            return []
        if conn.dialect.name == "sqlite":
            return conn.execute(self._opened, {"names": json.dumps(list(names)), **values}).all()
        return conn.execute(self._any_of, {"names": list(names), **values}).all()


class Present:
    """Ask which of many names a column holds (in rows that meet `conditions`)."""

    def __init__(self, column: Column[str], *conditions: ColumnElement[bool]) -> None:
        self._lookup = Lookup(select(column).distinct().where(*conditions), column)

    def among(self, conn: Connection, names: Collection[str]) -> set[str]:
        """Return those of the names that are there."""
        return {row[0] for row in self._lookup.rows(conn, names)}

"""Say what SQL dialects say differently, once: use cases ask here and know of one database only."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, Text, func, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeEngine

from server.db.schema import metadata


def upsert(conn: Connection, table: Table) -> Any:
    """Return an INSERT that knows ON CONFLICT (`on_conflict_do_update`, `on_conflict_do_nothing`, `excluded`)."""
    return sqlite.insert(table) if conn.dialect.name == "sqlite" else postgresql.insert(table)


# ------------------------------------------------------------------ JSON inside of a column


def json_rows(document: ColumnElement[Any], path: str | None = None, *, name: str) -> TableValuedAlias:
    """Open a list of objects in a JSON column, to be joined ON true: `key` counts from 0, `value` is for `json_field`.

    `path` is the list's field in the document, None = the document is the list. `name` is the alias.
    """
    return _JsonRows(document, *_words(path)).table_valued("key", "value", name=name)


def json_field(value: ColumnElement[Any], field: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """Read a field of an object that `json_rows` opened, as text or as a whole number."""
    return _JsonField(value, *_words(field), type_=kind)


def _words(word: str | None) -> list[ColumnElement[str]]:
    assert word is None or word.isidentifier(), "a constant of ours: it goes into the statement as it is"
    return [] if word is None else [literal_column(f"'{word}'", Text())]


class _JsonRows(FunctionElement[Any]):
    inherit_cache = True
    name = "json_rows"


class _JsonField(FunctionElement[Any]):
    inherit_cache = True
    name = "json_field"

    def __init__(self, *clauses: ColumnElement[Any], type_: TypeEngine[Any]) -> None:
        super().__init__(*clauses)
        self.type = type_


@compiles(_JsonRows, "sqlite")
def _sqlite_rows(element: _JsonRows, compiler: SQLCompiler, **kw: Any) -> str:
    document, *path = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"json_each({document}, '$.' || {path[0]})" if path else f"json_each({document})"


@compiles(_JsonRows, "postgresql")
def _postgres_rows(element: _JsonRows, compiler: SQLCompiler, **kw: Any) -> str:
    document = " -> ".join(compiler.process(clause, **kw) for clause in element.clauses)
    each = f"json_array_elements({document}) WITH ORDINALITY AS each_ (value, number)"
    return f"LATERAL (SELECT number - 1 AS key, value FROM {each})"  # noqa: S608 (constants of ours)


@compiles(_JsonField, "sqlite")
def _sqlite_field(element: _JsonField, compiler: SQLCompiler, **kw: Any) -> str:
    value, field = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"json_extract({value}, '$.' || {field})"


@compiles(_JsonField, "postgresql")
def _postgres_field(element: _JsonField, compiler: SQLCompiler, **kw: Any) -> str:
    value, field = (compiler.process(clause, **kw) for clause in element.clauses)
    kind = compiler.dialect.type_compiler_instance.process(element.type)
    return f"CAST({value} ->> {field} AS {kind})"


# ------------------------------------------------------------------ what a database says of itself


def broken_parts(conn: Connection) -> Iterator[str]:
    """Let the database look at itself: pages, indexes and constraints on SQLite; on PostgreSQL what is switched off.

    PostgreSQL reads no page here: that is `pg_amcheck`, and needs a superuser. Each line is a problem.
    """
    if conn.dialect.name == "sqlite":
        yield from (problem for (problem,) in conn.exec_driver_sql("PRAGMA integrity_check(20)") if problem != "ok")
        return
    yield from conn.exec_driver_sql(
        "SELECT 'index ' || indexrelid::regclass || ' is not valid' FROM pg_index"
        " WHERE NOT indisvalid AND indrelid IN"
        " (SELECT oid FROM pg_class WHERE relnamespace = current_schema::regnamespace)"
        " UNION ALL SELECT 'constraint ' || conname || ' of ' || conrelid::regclass || ' is not validated'"
        " FROM pg_constraint WHERE NOT convalidated AND connamespace = current_schema::regnamespace"
    ).scalars()


def dangling_rows(conn: Connection) -> Iterator[tuple[str, str, str]]:
    """Find rows whose parent is gone: the table, the row (or the missing parent's key), the parent's table."""
    if conn.dialect.name == "sqlite":
        for table, row, parent, _ in conn.exec_driver_sql("PRAGMA foreign_key_check"):
            yield table, str(row), parent
        return
    for table in metadata.sorted_tables:
        for key in table.foreign_keys:
            # Keys of one column each: PostgreSQL joins them by a hash, so a million rows take half a second.
            child, parent = key.parent, key.column
            there = select(parent).where(parent == child).exists()
            gone = select(func.distinct(child)).where(child.is_not(None), ~there).limit(20)
            for name in conn.execute(gone).scalars():
                yield table.name, str(name), parent.table.name

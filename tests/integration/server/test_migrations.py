"""The migrations and the declared tables are the same thing, and a foreign database is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, create_engine, inspect

from server.db.engine import Database
from server.db.errors import DatabaseDamaged, DatabaseTrouble, NewerSchema
from server.db.migrate import HEAD, make_config, migrate
from server.db.schema import metadata
from tests.postgres.cluster import Cluster


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "server.db")
    yield opened
    opened.close()


def _declared(path: Path) -> dict[str, set[str]]:
    """Return each table's and index's parts, as SQLite keeps them; the order of constraints means nothing.

    A column that was added later stands on the line of the one before it.
    """
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    finally:
        connection.close()
    return {
        name: {
            re.sub(r"[\s\"]+", " ", part).strip()
            for part in re.split(r",\s*\n|, (?=\w+ (?:TEXT|INTEGER|BIGINT))", re.sub(r"\n?\)$", "", sql))
        }
        for name, sql in rows
        if not name.startswith(("alembic", "sqlite_"))
    }


def test_a_migrated_database_is_the_declared_one(database: Database, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'declared.db'}")
    metadata.create_all(engine)
    engine.dispose()

    migrate(database)

    assert _declared(database.path) == _declared(tmp_path / "declared.db")


def test_the_head_that_spares_alembic_is_the_newest_step() -> None:
    from alembic.script import ScriptDirectory

    heads = ScriptDirectory.from_config(make_config()).get_heads()

    assert heads == [HEAD]


def test_migrating_again_changes_nothing(database: Database) -> None:
    migrate(database)
    before = database.path.read_bytes()

    migrate(database)

    assert database.path.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    migrate(database)
    database.write(lambda conn: conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(NewerSchema, match="9999"):
        migrate(database)


def test_a_database_of_something_else_is_refused(database: Database) -> None:
    database.write(lambda conn: conn.exec_driver_sql("CREATE TABLE recipes (id INTEGER)"))

    with pytest.raises(DatabaseTrouble, match="not one of Pawtill's"):
        migrate(database)


def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "server.db").write_bytes(b"this is not a database" * 400)
    opened = Database(tmp_path / "server.db")

    with pytest.raises(DatabaseDamaged):
        migrate(opened)

    opened.close()


# ------------------------------------------------------------------ PostgreSQL

_PARTS = """
    SELECT table_name, column_name, data_type, collation_name, column_default, is_nullable, identity_generation
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
    UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '', ''
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
    UNION ALL SELECT tablename, indexname, indexdef, '', '', '', ''
        FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
"""


@pytest.fixture
def url(postgres: Cluster) -> Iterator[URL]:
    with postgres.lend("template0") as lent:
        yield lent


def _parts(conn: Connection) -> set[tuple[object, ...]]:
    return {tuple(row) for row in conn.exec_driver_sql(_PARTS)}


def test_a_migrated_database_is_the_declared_one_on_postgres_too(postgres: Cluster, url: URL) -> None:
    migrated = Database(url)
    migrate(migrated)
    found = migrated.read(_parts)
    migrated.close()
    with postgres.lend("template0") as other:
        declared = Database(other)
        declared.write(metadata.create_all)
        wanted = declared.read(_parts)
        declared.close()

    assert found == wanted


def test_both_databases_have_the_same_tables_columns_and_constraints(database: Database, url: URL) -> None:
    other = Database(url)
    migrate(database)
    migrate(other)

    on_file, on_server = database.read(_seen), other.read(_seen)
    other.close()

    assert on_file == on_server


def _seen(conn: Connection) -> dict[str, object]:
    """Name each table's columns (and whether one may be NULL), its constraints and its indexes."""
    look = inspect(conn)
    return {
        table: (
            [(column["name"], column["nullable"]) for column in look.get_columns(table)],
            sorted(str(each["name"]) for each in look.get_check_constraints(table)),
            sorted(str(each["name"]) for each in look.get_unique_constraints(table)),
            sorted(str(each["name"]) for each in look.get_foreign_keys(table)),
            sorted(
                (str(each["name"]), tuple(each["column_names"]), bool(each["unique"]))
                for each in look.get_indexes(table)
                if not each.get("duplicates_constraint")
            ),
        )
        for table in look.get_table_names()
        if table != "alembic_version"
    }


def test_servers_that_start_at_once_migrate_once(url: URL) -> None:
    servers = [Database(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = [each.exception() for each in [threads.submit(migrate, server) for server in servers]]

    versions = servers[0].read(lambda conn: conn.exec_driver_sql("SELECT version_num FROM alembic_version").all())
    for server in servers:
        server.close()

    assert outcomes == [None] * 4
    assert versions == [(HEAD,)]


def test_a_database_of_something_else_is_refused_on_postgres_too(url: URL) -> None:
    opened = Database(url)
    opened.write(lambda conn: conn.exec_driver_sql("CREATE TABLE recipes (id INTEGER)"))

    with pytest.raises(DatabaseTrouble, match="not one of Pawtill's"):
        migrate(opened)

    opened.close()

"""Bring a database to this version's schema, and refuse one that a newer version has written."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from server.db.engine import Database
from server.db.errors import DatabaseTrouble, NewerSchema
from server.db.trouble import trouble_of

HEAD = "0012"
"""The newest step in `migrations/versions`; a test holds the two together, so that a start needs no Alembic."""


def migrate(database: Database) -> None:
    """Run what is missing, all of it or nothing; costs two queries where nothing is.

    Of several servers that start at once on one database, one does it and the others wait for it: the transaction of
    the schema's changes is a writer's, and looks again at what is missing. Raises NewerSchema, or DatabaseTrouble where
    the database is that of something else.
    """
    if database.read(version) == HEAD:
        return
    try:
        with database.migration_connection() as conn, conn.begin():
            _upgrade(conn)
    except Exception as error:
        raise trouble_of(error) or error from error


def version(conn: Connection) -> str | None:
    """Return the newest step that was run, None in an empty database; DatabaseTrouble in one of something else."""
    tables = inspect(conn).get_table_names()
    if "alembic_version" not in tables:
        if tables:
            raise DatabaseTrouble("there is a database, but not one of Pawtill's server")
        return None
    return conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _upgrade(conn: Connection) -> None:
    # Imported here: Alembic takes 150 ms to load, and a start that has nothing to do needs none of it.
    from alembic import command  # noqa: PLC0415

    config = make_config()
    found = version(conn)
    if found is not None and found not in _known(config):
        raise NewerSchema(f"the database has schema {found}, which this version does not know (it knows {HEAD})")
    config.attributes["connection"] = conn
    command.upgrade(config, "head")


def make_config() -> Any:
    """Return Alembic's configuration; there is no ini file, and the connection comes with the call."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _known(config: Any) -> set[str]:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}

"""Lend databases that have the server's tables, all empty."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL

from server.db.engine import Database
from server.db.migrate import migrate
from tests.postgres.cluster import Cluster


def lend_migrated(cluster: Cluster) -> AbstractContextManager[URL]:
    """Lend one for the length of a block."""
    return cluster.lend(cluster.template("schema", _migrate))


def _migrate(url: URL) -> None:
    database = Database(url)
    migrate(database)
    database.close()

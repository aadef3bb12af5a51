"""Settle for the whole suite what no single test decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import URL

from tests.compiled import share_compiled
from tests.examples import register_profiles
from tests.postgres.cluster import Cluster, shared
from tests.postgres.schema import lend_migrated

if TYPE_CHECKING:
    from server.scenario.world import Workshop

register_profiles()
share_compiled()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return the PostgreSQL of this run, started by the first test that asks; it ends with the run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return shared(folder.parent, owner=os.getppid())
    return shared(folder, owner=os.getpid())


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[URL]:
    """Lend a database with the server's tables, all empty."""
    with lend_migrated(postgres) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def server_url(request: pytest.FixtureRequest) -> URL | None:
    """Run the test on both databases: None = SQLite, in a folder of the test's own."""
    url: URL | None = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def workshop(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    """Give the templates that all scenarios of a module are made from, with the server on either database."""
    # Imported here: it brings the whole server, which most workers' first test can do without.
    from server.scenario.world import open_workshop

    cluster: Cluster | None = None if request.param == "sqlite" else request.getfixturevalue("postgres")
    with open_workshop(None if cluster is None else lambda: lend_migrated(cluster)) as made:
        yield made

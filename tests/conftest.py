"""Settle for the whole suite what no single test decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
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


@pytest.fixture(scope="session")
def workshops(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Workshop]]:
    """Give the templates that all scenarios are made from, by database, each made when first asked for."""
    # Imported here: it brings the whole server, which most workers' first test can do without.
    from server.scenario.world import open_workshop

    with ExitStack() as stack:

        def make(database: str) -> Workshop:
            cluster: Cluster | None = None if database == "sqlite" else request.getfixturevalue("postgres")
            return stack.enter_context(open_workshop(None if cluster is None else lambda: lend_migrated(cluster)))

        yield cache(make)


@pytest.fixture(params=["sqlite", "postgres"])
def workshop(request: pytest.FixtureRequest, workshops: Callable[[str], Workshop]) -> Workshop:
    """Run the test with the server on either database."""
    # Not of a wider scope itself: pytest ends a parametrised one whenever the test's other parameters change.
    return workshops(request.param)

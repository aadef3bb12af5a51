"""A server for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.fakes.counter import Counter, open_counter
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def headquarters(tmp_path: Path, server_url: URL | None) -> Iterator[Headquarters]:
    """Open a server with a store s1 and a member m1, on either database."""
    opened = Headquarters(tmp_path, url=server_url)
    opened.furnish()
    yield opened
    opened.close()


@pytest.fixture
def on_file(tmp_path: Path) -> Iterator[Headquarters]:
    """Open the same on SQLite, for what is seen in its file."""
    opened = Headquarters(tmp_path)
    opened.furnish()
    yield opened
    opened.close()


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    """Set up goods A, B, W (by weight) and WASH, and a till t1."""
    return open_counter(headquarters)

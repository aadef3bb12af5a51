"""Everything that can die dies in the middle of a sale: nothing that was told is lost, nothing is granted twice.

The short form: several faults to a sale, and in every one the receiver of alerts hangs. Each fault by itself, again and
again: `python -m tests.faults --minutes N`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faults import Fault, Ground, Scene, open_ground, play

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prlimit, and children in /proc")


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Share a PostgreSQL of the test's own; each run draws the same chances."""
    with open_ground(tmp_path, seed=3, down_s=1.0) as made:
        yield made


def test_a_server_and_its_bundled_redis_are_killed_in_the_middle_of_a_sale_and_of_a_batch(ground: Ground) -> None:
    outcome = play(ground, Fault([Scene.kill_redis, Scene.kill_server], bundled=True))

    assert outcome.clean, outcome
    assert outcome.granted == 260


def test_a_disk_is_full_and_a_redis_dies_and_forgets_in_the_middle_of_a_sale(ground: Ground) -> None:
    strikes = [Scene.keep_snapshot, Scene.fill_disk, Scene.delete_key, Scene.empty_redis, Scene.restore_snapshot]

    outcome = play(ground, Fault(strikes))

    assert outcome.clean, outcome
    assert outcome.granted == 260


def test_two_servers_their_redis_and_their_postgresql_are_killed_in_the_middle_of_a_sale(ground: Ground) -> None:
    strikes = [Scene.kill_worker, Scene.kill_redis, Scene.kill_database, Scene.empty_redis, Scene.hang_database]

    outcome = play(ground, Fault(strikes, large=True))

    assert outcome.clean, outcome
    assert outcome.granted == 260

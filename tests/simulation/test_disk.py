"""The simulated disk is an honest one: what was forced out survives a power cut, and nothing else is sure to."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from server.scenario.crash import ProcessDied
from server.simulation.disk import AFTER, BEFORE, Disk


@contextmanager
def opened(disk: Disk, synchronous: str = "FULL") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(disk.path, isolation_level=None, factory=disk.driver)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        yield connection


def write(connection: sqlite3.Connection, *numbers: int) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS note (number INTEGER)")
    for number in numbers:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO note VALUES (?)", (number,))
        connection.execute("COMMIT")


def kept(disk: Disk) -> list[int]:
    disk.restore()
    with opened(disk) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM note ORDER BY 1")]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disk", "a.db", random.Random(1))


def test_what_was_committed_survives_a_power_cut(disk: Disk) -> None:
    with opened(disk) as connection:
        write(connection, 1, 2, 3)
        disk.cut()
        write(connection, 4)

    assert kept(disk) == [1, 2, 3]


@pytest.mark.parametrize(("when", "survive"), [(BEFORE, [1]), (AFTER, [1, 2])])
def test_a_cut_comes_before_or_after_the_commit_that_it_is_armed_for(disk: Disk, when: str, survive: list[int]) -> None:
    with opened(disk) as connection:
        write(connection, 1)
        disk.arm(1, when)
        with pytest.raises(ProcessDied):
            write(connection, 2)

    assert kept(disk) == survive


def test_a_commit_that_was_not_forced_out_is_not_sure_to_survive(tmp_path: Path) -> None:
    survivors = set()
    for seed in range(20):
        disk = Disk(tmp_path / str(seed), "a.db", random.Random(seed))
        with opened(disk) as connection:
            write(connection, 1)
        with opened(disk, "OFF") as connection:
            write(connection, 2)
            disk.cut()
        survivors.add(len(kept(disk)))

    assert survivors == {1, 2}


def test_a_full_disk_takes_no_more_pages_and_loses_nothing(disk: Disk) -> None:
    with opened(disk) as connection:
        write(connection, 1)
        disk.fill(full=True)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            write(connection, *range(2, 5000))
        connection.rollback()
        disk.fill(full=False)
        write(connection, 5000)
        rows = [row[0] for row in connection.execute("SELECT number FROM note")]

    assert rows[0] == 1 and rows[-1] == 5000 and rows == sorted(rows)

"""Two schedulers as real processes on one PostgreSQL: one is stopped in the middle of its work, then one is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import URL, select

from server.db.schema import history
from tests.fakes.headquarters import Headquarters
from tests.integration.server import scheduling_process

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stopping a process is POSIX")


class Place(NamedTuple):
    """Say where the data of all processes lies."""

    folder: Path
    url: URL


@contextmanager
def scheduler(place: Place, fenced: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, scheduling_process.__file__, str(place.url), str(place.folder), fenced]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def fences(headquarters: Headquarters) -> list[int]:
    """Return the fence of each run in the order of the commits."""
    asked = select(history.c.event).where(history.c.subject == "run").order_by(history.c.id)
    return [int(fence) for fence in headquarters.database.read(lambda conn: conn.execute(asked).scalars().all())]


def wait_for_runs(headquarters: Headquarters, fence: int, count: int = 3) -> None:
    deadline = time.monotonic() + 60
    while fences(headquarters).count(fence) < count:
        assert time.monotonic() < deadline, f"nobody runs under fence {fence}: {fences(headquarters)}"
        time.sleep(0.02)


def stop_and_go(headquarters: Headquarters, place: Place, fenced: str) -> list[int]:
    """Stop the owner while it writes, let the other take over, let the first go on, then kill the new owner."""
    with ExitStack() as stack:
        first = stack.enter_context(scheduler(place, fenced))
        wait_for_runs(headquarters, 1)
        second = stack.enter_context(scheduler(place, fenced))
        (place.folder / f"stop-{first.pid}").touch()
        wait_for_runs(headquarters, 2)
        first.send_signal(signal.SIGCONT)
        wait_for_runs(headquarters, 2, count=fences(headquarters).count(2) + 5)
        second.kill()
        wait_for_runs(headquarters, 3)
        return fences(headquarters)


@pytest.fixture
def headquarters(tmp_path: Path, postgres_url: URL) -> Iterator[Headquarters]:
    opened = Headquarters(tmp_path, url=postgres_url)
    yield opened
    opened.close()


def test_a_scheduler_that_was_stopped_writes_nothing_when_it_goes_on_and_a_killed_one_is_followed(
    headquarters: Headquarters, tmp_path: Path, postgres_url: URL
) -> None:
    ran = stop_and_go(headquarters, Place(tmp_path, postgres_url), "fenced")

    assert ran == sorted(ran)
    assert set(ran) == {1, 2, 3}


@pytest.mark.long
def test_control_without_the_fence_the_one_that_was_stopped_writes_beside_the_new_one(
    headquarters: Headquarters, tmp_path: Path, postgres_url: URL
) -> None:
    ran = stop_and_go(headquarters, Place(tmp_path, postgres_url), "unfenced")

    assert ran != sorted(ran)

"""One scheduler at a time: whoever has lost the lease commits nothing, whatever its clock or its threads do."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, update

from server.db.schema import history, job_lease
from server.jobs.lease import SCHEDULER, TTL_S, Held, Lease, LeaseLost
from server.jobs.report import Job, JobReport
from server.jobs.scheduler import Scheduler
from server.services.context import Context
from server.services.services import Services, no_guard
from tests.fakes.headquarters import Headquarters


class Ticker:
    """Monotonic seconds that a test lets pass."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def ticker() -> Ticker:
    return Ticker()


@pytest.fixture
def lease(headquarters: Headquarters, ticker: Ticker) -> Callable[[str], Lease]:
    return lambda owner: Lease(headquarters.services, SCHEDULER, owner=owner, monotonic=ticker)


def fence(held: Held | None) -> int | None:
    return None if held is None else held.fence


def count_runs(headquarters: Headquarters) -> int:
    return headquarters.database.read(
        lambda conn: conn.execute(
            select(func.count()).select_from(history).where(history.c.subject == "run")
        ).scalar_one()
    )


def note_run(conn: Connection, ctx: Context) -> None:
    """Do what must not be done twice: a row that nothing makes unique."""
    conn.execute(insert(history).values(subject="run", subject_id="x", event="run", server_at=ctx.now))


# ------------------------------------------------------------------ taking turns


def test_the_first_takes_the_lease_and_keeps_it(lease: Callable[[str], Lease], ticker: Ticker) -> None:
    first, second = lease("a"), lease("b")

    seen: list[tuple[int | None, int | None]] = []
    for _ in range(10):
        seen.append((fence(first.beat()), fence(second.beat())))
        ticker.s += TTL_S - 1

    assert seen == [(1, None)] * 10


def test_a_silent_owner_is_followed_after_the_time_to_live_and_not_before(
    lease: Callable[[str], Lease], ticker: Ticker
) -> None:
    first, second = lease("a"), lease("b")
    first.beat()
    second.beat()

    ticker.s += TTL_S - 0.001
    early = second.beat()
    ticker.s += 0.001
    late = second.beat()

    assert (early, fence(late)) == (None, 2)
    assert first.beat() is None
    assert first.held is None


def test_a_lease_given_back_is_taken_at_once(lease: Callable[[str], Lease]) -> None:
    first, second = lease("a"), lease("b")
    first.beat()

    first.give_back()

    assert fence(second.beat()) == 2
    assert first.beat() is None


def test_giving_back_what_another_has_taken_changes_nothing(lease: Callable[[str], Lease], ticker: Ticker) -> None:
    first, second, third = lease("a"), lease("b"), lease("c")
    first.beat()
    second.beat()
    ticker.s += TTL_S
    second.beat()

    first.give_back()

    assert third.beat() is None
    assert fence(second.beat()) == 2


def test_of_two_rivals_that_saw_the_same_silence_one_takes_over(lease: Callable[[str], Lease], ticker: Ticker) -> None:
    owner, rivals = lease("a"), [lease("b"), lease("c")]
    owner.beat()
    for rival in rivals:
        rival.beat()

    ticker.s += TTL_S
    taken = [fence(rival.beat()) for rival in rivals]

    assert taken == [2, None]


def test_who_lost_the_lease_and_got_it_back_does_not_finish_what_it_began_before(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker
) -> None:
    first, second = lease("a"), lease("b")
    began = first.beat()
    assert began is not None
    second.beat()
    ticker.s += TTL_S
    second.beat()
    first.beat()
    second.give_back()
    assert fence(first.beat()) == 3

    with pytest.raises(LeaseLost, match="fence 1, now it is 3"):
        replace(headquarters.services, guard=began.check).write(note_run)

    assert count_runs(headquarters) == 0


# ------------------------------------------------------------------ clocks


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
def test_a_clock_that_jumps_takes_nothing_from_anybody_and_blocks_nobody(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker, jump: timedelta
) -> None:
    first, second = lease("a"), lease("b")
    first.beat()
    second.beat()

    headquarters.clock.at += jump
    after_jump = (fence(first.beat()), fence(second.beat()))
    ticker.s += TTL_S
    after_silence = fence(second.beat())

    assert after_jump == (1, None)
    assert after_silence == 2


def test_a_time_of_day_that_somebody_wrote_into_the_lease_decides_nothing(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker
) -> None:
    first, second = lease("a"), lease("b")
    first.beat()
    past = headquarters.clock.now() - timedelta(days=9)
    headquarters.database.write(lambda conn: conn.execute(update(job_lease).values(until_at=past)))

    at_once = second.beat()
    ticker.s += TTL_S
    headquarters.database.write(
        lambda conn: conn.execute(update(job_lease).values(until_at=past + timedelta(days=9999)))
    )

    assert (at_once, fence(second.beat())) == (None, 2)


# ------------------------------------------------------------------ a holder that hangs


def hang_and_return(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker, *, fenced: bool
) -> list[Any]:
    """Let the owner hang in the middle of a run, a rival take over and run, and the owner come back to life."""
    outcomes: list[Any] = []
    first, second = lease("a"), lease("b")
    held = first.beat()
    assert held is not None
    second.beat()
    hangs, wake = threading.Event(), threading.Event()

    def run(services: Services) -> None:
        try:
            services.write(note_run)
            hangs.set()
            assert wake.wait(30)
            services.write(note_run)
        except LeaseLost as lost:
            outcomes.append(lost)

    old = replace(headquarters.services, guard=held.check if fenced else no_guard)
    thread = threading.Thread(target=run, args=[old])
    thread.start()
    assert hangs.wait(30)
    ticker.s += TTL_S
    taken = second.beat()
    assert taken is not None
    replace(headquarters.services, guard=taken.check).write(note_run)
    wake.set()
    thread.join(30)
    return outcomes


def test_an_owner_that_hung_writes_nothing_after_another_took_over(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker
) -> None:
    outcomes = hang_and_return(headquarters, lease, ticker, fenced=True)

    assert [type(each) for each in outcomes] == [LeaseLost]
    assert count_runs(headquarters) == 2


def test_control_without_the_fence_the_owner_that_hung_runs_a_second_time(
    headquarters: Headquarters, lease: Callable[[str], Lease], ticker: Ticker
) -> None:
    outcomes = hang_and_return(headquarters, lease, ticker, fenced=False)

    assert outcomes == []
    assert count_runs(headquarters) == 3


# ------------------------------------------------------------------ whole schedulers


@pytest.fixture
def two(headquarters: Headquarters) -> Iterator[Callable[[Callable[[str, Services], JobReport]], list[Scheduler]]]:
    """Start two schedulers on one database, each with a patrol that is told by whom it walks."""
    started: list[Scheduler] = []

    def start(run: Callable[[str, Services], JobReport]) -> list[Scheduler]:
        for owner in ("a", "b"):
            job = Job("test", 1, lambda services, owner=owner: run(owner, services))
            lease = Lease(headquarters.services, SCHEDULER, owner=owner)
            started.append(Scheduler(headquarters.services, (job,), lease=lease))
            started[-1].start()
        return started

    yield start
    for scheduler in started:
        scheduler.stop()


def test_of_two_schedulers_one_walks_and_the_other_follows_when_it_stops(
    two: Callable[[Callable[[str, Services], JobReport]], list[Scheduler]],
) -> None:
    walked: list[str] = []
    came = {"a": threading.Event(), "b": threading.Event()}

    def run(owner: str, services: Services) -> JobReport:
        services.write(note_run)
        walked.append(owner)
        came[owner].set()
        return JobReport("test")

    schedulers = two(run)
    deadline = time.monotonic() + 30
    while not any(each.is_set() for each in came.values()) and time.monotonic() < deadline:
        came["a"].wait(0.05)
    first = walked[0]
    second = "b" if first == "a" else "a"
    ran_beside = came[second].is_set()
    schedulers.pop("ab".index(first)).stop()
    followed = came[second].wait(30)

    assert not ran_beside
    assert followed
    assert sorted(walked, key=lambda owner: owner != first) == walked


def test_a_patrol_of_a_process_for_itself_walks_without_the_lease(headquarters: Headquarters) -> None:
    walked: list[str] = []
    jobs = [Job("alone", 1, lambda _: _note(walked, "alone")), Job("own", 1, lambda _: _note(walked, "own"), True)]
    scheduler = Scheduler(headquarters.services, jobs)

    for job in jobs:
        scheduler.walk(job)

    assert walked == ["own"]


def _note(walked: list[str], name: str) -> JobReport:
    walked.append(name)
    return JobReport(name)


def test_no_patrol_writes_past_its_fence() -> None:
    folder = Path(__file__).parents[3] / "server" / "jobs"
    past = [
        path.name for path in folder.glob("*.py") if re.search(r"database\.(write|submit)", path.read_text("utf-8"))
    ]

    assert past == ["lease.py"]

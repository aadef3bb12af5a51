"""The scheduler walks the patrols; a patrol that fails comes again, and says no secrets."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from server.db.errors import DatabaseBusy
from server.jobs import JOBS
from server.jobs.report import Job, JobReport
from server.jobs.scheduler import Scheduler
from server.services.services import Services
from tests.fakes.headquarters import Headquarters


def _walk(headquarters: Headquarters, run: Callable[[Services], JobReport]) -> list[dict[str, object]]:
    started = Scheduler(headquarters.services, ())
    with capture_logs() as logs:
        started.beat()
        started.walk(Job("test", 1, run))
    return [{key: each[key] for key in ("event", "log_level")} for each in logs if each["event"] != "lease taken"]


def _busy(_services: Services) -> JobReport:
    raise DatabaseBusy("locked")


def _broken(_services: Services) -> JobReport:
    raise ValueError("our bug")


@pytest.mark.parametrize(
    ("run", "logged"),
    [
        (lambda services: JobReport("test"), []),
        (lambda services: JobReport("test", done=2), [{"event": "job done", "log_level": "info"}]),
        (_busy, [{"event": "job put off", "log_level": "warning"}]),
        (_broken, [{"event": "job failed", "log_level": "error"}]),
    ],
)
def test_a_walk_is_written_down_when_there_is_something_to_say(
    headquarters: Headquarters, run: Callable[[Services], JobReport], logged: list[dict[str, str]]
) -> None:
    assert _walk(headquarters, run) == logged


def test_the_patrols_walk_by_themselves_until_they_are_stopped(headquarters: Headquarters) -> None:
    walked = threading.Event()

    def run(services: Services) -> JobReport:
        assert services.database is headquarters.database
        walked.set()
        return JobReport("test")

    started = Scheduler(headquarters.services, (Job("test", 1, run),))

    started.start()
    came = walked.wait(30)
    started.stop()

    assert came


def test_every_patrol_has_a_name_of_its_own() -> None:
    names = [job.name for job in JOBS]

    assert len(set(names)) == len(names) >= 3

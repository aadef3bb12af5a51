"""Walk the patrols while the server runs; the only door to APScheduler.

Every server process has a scheduler, and one of them at a time walks (`lease.py`). Each job has a thread when its time
comes, so one that hangs keeps nobody waiting but itself.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from server import metrics
from server.db.errors import DatabaseTrouble
from server.jobs.lease import BEAT_S, SCHEDULER, Lease, LeaseLost
from server.jobs.report import Job, JobReport
from server.services.context import NotProvisioned
from server.services.services import Services
from server.stock.trouble import StockTrouble

MISFIRE_GRACE_S = 3600
"""How late a run may start and still count; the library's own second drops runs on a busy machine (DESIGN)."""

log = structlog.get_logger("pawtill.jobs")


class Scheduler:
    """Run each job at its interval, never two runs of one job at a time, missed runs as one."""

    def __init__(
        self, services: Services, jobs: Sequence[Job], *, lease: Lease | None = None, beat_s: float = BEAT_S
    ) -> None:
        self._services = services
        self._lease = lease or Lease(services, SCHEDULER, owner=services.ids.new())
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(len(jobs) + 1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": MISFIRE_GRACE_S},
        )
        self._scheduler.add_job(self.beat, "interval", id="lease", seconds=beat_s, next_run_time=datetime.now(UTC))
        metrics.jobs_planned(job.name for job in jobs)
        for job in jobs:
            self._scheduler.add_job(self.walk, "interval", args=[job], id=job.name, seconds=job.every_s)

    def start(self) -> None:
        """Begin, in threads of its own."""
        self._scheduler.start()

    def stop(self) -> None:
        """End; a run that is under way is waited for, and another process may go on at once."""
        self._scheduler.shutdown(wait=True)
        try:
            self._lease.give_back()
        except DatabaseTrouble as trouble:
            log.warning("lease not given back", reason=trouble.word)

    def beat(self) -> None:
        """Keep the lease, or try to get it."""
        before = self._lease.held
        try:
            held = self._lease.beat()
        except DatabaseTrouble as trouble:
            log.warning("lease not renewed", reason=trouble.word)
            return
        metrics.scheduler_holds(int(held is not None))
        if (held is None) != (before is None):
            log.info("lease taken" if held is not None else "lease lost", fence=(held or before).fence)  # type: ignore[union-attr]

    def walk(self, job: Job) -> None:
        """Run one patrol; whatever goes wrong is written down, and the next run comes at its time."""
        services = self._services
        if not job.everywhere:
            held = self._lease.held
            if held is None:
                return
            services = replace(services, guard=held.check)
        began_s = time.perf_counter()
        outcome = self._run(job, services)
        metrics.job_ran(job.name, outcome, time.perf_counter() - began_s)

    def _run(self, job: Job, services: Services) -> str:
        try:
            report = job.run(services)
        except NotProvisioned:
            return "put_off"
        except (DatabaseTrouble, StockTrouble) as trouble:
            log.warning("job put off", job=job.name, reason=trouble.word)
            return "put_off"
        except LeaseLost as lost:
            log.warning("job stopped", job=job.name, reason=str(lost))
            return "lost"
        except Exception:
            log.exception("job failed", job=job.name)
            return "failed"
        _tell(job, report)
        return "done"


def _tell(job: Job, report: JobReport) -> None:
    found = sum(report.findings.values())
    metrics.job_changed(job.name, done=report.done, repaired=report.repaired, findings=found)
    if report.done or report.repaired or found:
        log.info("job done", job=job.name, done=report.done, repaired=report.repaired, findings=report.findings)

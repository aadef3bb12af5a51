"""Put together everything that a running server's scheduler does."""

from collections.abc import Callable
from dataclasses import dataclass

from server.jobs import JOBS, PATROLS
from server.jobs.relay import Consume, relay
from server.jobs.report import Job, JobReport
from server.jobs.timely import timely_jobs
from server.jobs.watches import watch_heat, watch_stock
from server.services.outbox import ALERT
from server.services.services import Services
from server.services.timely import Carrier

PUBLISH_S = 2


@dataclass(frozen=True, slots=True)
class Ends:
    """Hold what the jobs reach outside of the database.

    `carrier` is for timely messages, `tell` for alerts, `publish` writes this process' numbers out.
    """

    carrier: Carrier
    tell: Consume
    publish: Callable[[], None]


def plan(ends: Ends, *, stock_percent: int, hot_per_s: float) -> tuple[Job, ...]:
    """Return all jobs; `hot_per_s` is this process' share of the claims a second that make a campaign hot."""
    return (
        *JOBS,
        *timely_jobs(ends.carrier, PATROLS),
        relay(ALERT, ends.tell),
        watch_stock(stock_percent),
        watch_heat(hot_per_s),
        Job("publish_metrics", PUBLISH_S, lambda services: _publish(services, ends.publish), everywhere=True),
    )


def _publish(_services: Services, publish: Callable[[], None]) -> JobReport:
    publish()
    return JobReport("publish_metrics")

"""Count what the server does, for Prometheus; the only door to prometheus-client.

A process has one set of numbers, as it has one log: so these are plain functions, and any part of the server may call
them. Each takes a few microseconds (measured: 4 for a claim) and never waits. What the database knows (stock left, open
findings, the outbox) is read when somebody looks (`server/services/gauges.py`); here is what only this process knows.

No label holds a member, a code, a key or a path: campaigns (the hottest 50, else `other`), outcomes, routes, jobs.
Several server processes show their numbers side by side, see `server/scrape.py`.
"""

import time
from collections.abc import Iterable, Mapping
from functools import cache

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from server.hot_campaigns import OTHER, HotCampaigns

# The moment at which each series began: it doubles their number, and nobody here asks for it.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

NAMED_MAX = 50
"""Campaigns with a label of their own at any time."""

registry = CollectorRegistry()
ProcessCollector(registry=registry)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

_claims = Counter(
    "pawtill_claims",
    "Claims answered: granted (again, too), pending, or the code of the refusal.",
    ("campaign", "outcome"),
    registry=registry,
)
_grant_seconds = Histogram(
    "pawtill_grant_seconds",
    "From the asking of a claim to the answer that it is durable.",
    buckets=_SECONDS,
    registry=registry,
)
_landing_size = Histogram(
    "pawtill_landing_batch_size", "Reservations landed in one batch.", buckets=_SIZES, registry=registry
)
_landing_seconds = Histogram(
    "pawtill_landing_seconds", "One batch, until it is durable.", buckets=_SECONDS, registry=registry
)
_landed = Counter(
    "pawtill_landed", "Reservations that ended: confirmed, released, reaped.", ("end",), registry=registry
)
_redis_state = Gauge("pawtill_redis_state", "1 for the state that Redis is in.", ("state",), registry=registry)
_rebuilds = Counter(
    "pawtill_redis_rebuilds", "Counters of a campaign built anew from the database.", ("reason",), registry=registry
)
# Counted from 0: the alert looks at how it grows, and a series that begins at 1 has not grown.
_rebuilds.labels("drift")
_writer_waiting = Gauge("pawtill_writer_waiting", "Writes that wait for the writer thread.", registry=registry)
_writer_group = Histogram("pawtill_writer_group_size", "Writes committed together.", buckets=_SIZES, registry=registry)
_writer_seconds = Histogram(
    "pawtill_writer_group_seconds", "One group, from begin to commit.", buckets=_SECONDS, registry=registry
)
_http = Counter("pawtill_http_requests", "Requests answered.", ("method", "route", "status"), registry=registry)
_http_seconds = Histogram(
    "pawtill_http_seconds",
    "From a request to the end of its answer.",
    ("route",),
    buckets=_SECONDS,
    registry=registry,
)
_job_runs = Counter("pawtill_job_runs", "Runs of a patrol.", ("job", "outcome"), registry=registry)
_job_seconds = Histogram(
    "pawtill_job_seconds", "One run of a patrol.", ("job",), buckets=(*_SECONDS, 30.0, 60.0, 300.0), registry=registry
)
_job_changes = Counter(
    "pawtill_job_changes", "What patrols did: done as due, repaired, found.", ("job", "change"), registry=registry
)
_scheduler = Gauge("pawtill_scheduler_holder", "1 where this process walks the patrols.", registry=registry)
_messages = Counter(
    "pawtill_messages",
    "Messages of the outbox: sent, or failed and to be tried again.",
    ("topic", "outcome"),
    registry=registry,
)
_timely = Counter(
    "pawtill_timely",
    "Timely messages: done, early, nothing (left to do), failed.",
    ("kind", "outcome"),
    registry=registry,
)

REDIS_STATES = ("none", "starting", "ready", "rebuilding", "down", "unsuitable")


def _forget(campaign_id: str) -> None:
    _claims.remove_by_labels({"campaign": campaign_id})


hot = HotCampaigns(NAMED_MAX, monotonic=time.monotonic, forget=_forget)
"""Which campaigns have a label now, and how hot each one ran lately, in this process."""


def claim_answered(campaign_id: str, outcome: str, seconds: float | None = None) -> None:
    """Count the answer to one claim: `granted` (a repeat too), `pending` (202), or the code of the refusal.

    `seconds` from the asking to a durable answer; None where the answer promises nothing durable. A campaign that
    is not there is `other`: whoever invents names must not fill the labels with them.
    """
    label = OTHER if outcome == "unknown_code" else hot.label(campaign_id)
    _claims.labels(label, outcome).inc()
    if seconds is not None:
        _grant_seconds.observe(seconds)


def batch_landed(size: int, seconds: float) -> None:
    """Count one batch of reservations that became durable together."""
    _landing_size.observe(size)
    _landing_seconds.observe(seconds)


def reservation_ended(end: str, count: int = 1) -> None:
    """Count reservations by how they ended: `confirmed`, `released`, or `reaped` (begun by a process that is gone)."""
    _landed.labels(end).inc(count)


def redis_state(state: str) -> None:
    """Tell the state that Redis is in, one of REDIS_STATES."""
    assert state in REDIS_STATES, f"{state} is no state of Redis"
    for each in REDIS_STATES:
        _redis_state.labels(each).set(each == state)


def campaign_rebuilt(reason: str) -> None:
    """Count a rebuild by its reason, one of a dozen words of `generations`: `lost`, `restarted`, `drift`, ..."""
    _rebuilds.labels(reason).inc()


def writer_group(size: int, seconds: float, waiting: int) -> None:
    """Count one group commit of the writer thread; `waiting` writes stood behind it."""
    _writer_group.observe(size)
    _writer_seconds.observe(seconds)
    _writer_waiting.set(waiting)


def request_answered(method: str, route: str | None, *, status: int, seconds: float) -> None:
    """Count one request by its route (`/v1/claims`), never by its path; None = no route of ours."""
    count, time_s = _series_of(method if method in _METHODS else OTHER, route or "none", status)
    count.inc()
    time_s.observe(seconds)


@cache
def _series_of(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """Find the series once: looking them up takes longer than counting. They stay few, and none is ever removed."""
    return _http.labels(method, route, str(status)), _http_seconds.labels(route)


_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


def jobs_planned(jobs: Iterable[str]) -> None:
    """Count the runs of these jobs from 0: an alert on one that never comes through needs something to look at."""
    for job in jobs:
        _job_runs.labels(job, "done")


def job_ran(job: str, outcome: str, seconds: float) -> None:
    """Count one run of a patrol: `done`, `put_off` (the database is away), `lost` (another has the lease), `failed`."""
    _job_runs.labels(job, outcome).inc()
    _job_seconds.labels(job).observe(seconds)


def job_changed(job: str, *, done: int, repaired: int, findings: int) -> None:
    """Add up what a patrol did."""
    for change, count in (("done", done), ("repaired", repaired), ("found", findings)):
        if count:
            _job_changes.labels(job, change).inc(count)


def scheduler_holds(holds: int) -> None:
    """Tell whether this process walks the patrols now, 1 or 0."""
    _scheduler.set(holds)


def message_sent(topic: str, outcome: str, count: int = 1) -> None:
    """Count messages of the outbox: `sent`, `failed` (to be tried again, or parked)."""
    _messages.labels(topic, outcome).inc(count)


def timely_came(kind: str, outcome: str) -> None:
    """Count a timely message: `done`, `early`, `nothing` (late or repeated: it was done already), `failed`."""
    _timely.labels(kind, outcome).inc()


def fold(counts: Mapping[str, int], named_max: int = NAMED_MAX) -> dict[str, int]:
    """Keep the largest counts by name and add the others up under `other`, so that labels stay few."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    folded = dict(ranked[:named_max])
    rest = ranked[named_max:]
    if rest:
        folded[OTHER] = folded.get(OTHER, 0) + sum(count for _, count in rest)
    return folded

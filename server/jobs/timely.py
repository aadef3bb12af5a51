"""Wake the patrols in time: hand messages to the carrier, and walk what the due ones name (`services/timely.py`)."""

from collections.abc import Mapping, Sequence

import structlog

from server import metrics
from server.db.errors import DatabaseTrouble
from server.jobs.lease import LeaseLost
from server.jobs.relay import relay
from server.jobs.report import Job, JobReport
from server.services.context import NotProvisioned
from server.services.outbox import TIMELY, Undelivered, Waiting
from server.services.services import Services
from server.services.timely import Carrier, Timely
from server.stock.trouble import StockTrouble

NAME = "timely"
EVERY_S = 1
AT_ONCE = 1000

log = structlog.get_logger("pawtill.jobs")


def timely_jobs(carrier: Carrier, patrols: Sequence[Job]) -> tuple[Job, ...]:
    """Return the job that feeds the carrier and the one that empties it; `patrols` are those to wake."""
    by_name = {patrol.name: patrol for patrol in patrols}

    def carry(message: Waiting) -> None:
        try:
            carrier.put(message.key, Timely.read(message.key).due_ms)
        except StockTrouble as trouble:
            raise Undelivered(trouble.word) from trouble

    return relay(TIMELY, carry), Job(NAME, EVERY_S, lambda services: _wake(services, carrier, by_name))


def _wake(services: Services, carrier: Carrier, patrols: Mapping[str, Job]) -> JobReport:
    """Walk each patrol that is called for once, however many messages call for it."""
    now_ms = round(services.clock.now().timestamp() * 1000)
    called: dict[str, list[str]] = {}
    for text in carrier.due(now_ms, limit=AT_ONCE):
        message = _read(text)
        if message is None:
            carrier.done([text])
        elif message.due_ms > now_ms:
            # The carrier's clock runs ahead of ours, or somebody put it there under another time.
            metrics.timely_came(message.kind, "early")
            carrier.put(text, message.due_ms)
        else:
            called.setdefault(message.kind, []).append(text)
    done = 0
    for kind, texts in called.items():
        changed = _walk(patrols[kind], services)
        carrier.done(texts)
        metrics.timely_came(kind, "failed" if changed is None else "done" if changed else "nothing")
        done += changed or 0
    return JobReport(NAME, done=done)


def _walk(patrol: Job, services: Services) -> int | None:
    """Return how much was due; None = our bug, which the patrol's own runs will tell of too."""
    try:
        return patrol.run(services).done
    except (DatabaseTrouble, LeaseLost, NotProvisioned):
        # The messages stay and call again, here or in the process that has the lease.
        raise
    except Exception:
        log.exception("patrol failed", job=patrol.name)
        return None


def _read(text: str) -> Timely | None:
    try:
        return Timely.read(text)
    except ValueError:
        log.warning("timely message dropped: nobody can read it")
        return None

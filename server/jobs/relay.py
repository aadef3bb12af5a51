"""Send what waits in the outbox; each topic is a job of its own, so one that hangs holds up no other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from server import metrics
from server.jobs.report import Job, JobReport
from server.services import findings, outbox
from server.services.context import Context
from server.services.outbox import Undelivered, Waiting
from server.services.services import Services

EVERY_S = 1
PAGE = 100
"""Messages sent before they are marked: a crash in between sends at most so many a second time."""
PAGES_MAX = 50

log = structlog.get_logger("pawtill.outbox")

Consume = Callable[[Waiting], None]
"""Send one message, or raise: Undelivered with a reason that may be shown, or anything else. It must bear a repeat."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Hold what one page came to; `failed` is the message that ended it, with the reason."""

    done: Sequence[Waiting]
    failed: tuple[Waiting, str] | None

    def record(self, conn: Connection, ctx: Context) -> None:
        """Mark the messages, in one transaction."""
        outbox.mark_sent(conn, [message.id for message in self.done], ctx.now)
        if self.failed is not None:
            message, reason = self.failed
            if outbox.mark_failed(conn, message, reason=reason, now=ctx.now):
                _give_up(conn, ctx, message, reason=reason)


def _give_up(conn: Connection, ctx: Context, message: Waiting, *, reason: str) -> None:
    """Leave a parked message to a person."""
    log.error("message parked", topic=message.topic, key=message.key, reason=reason)
    detail = {"attempts": message.attempts + 1, "error": reason, "since": message.created_at.isoformat()}
    key = f"{message.topic}/{message.key}"
    findings.open_finding(conn, kind="outbox_parked", key=key, amount_minor=0, detail=detail, now=ctx.now)


def relay(topic: str, consume: Consume) -> Job:
    """Return the job that sends the messages of a topic."""
    name = f"relay_{topic}"

    def run(services: Services) -> JobReport:
        done = 0
        for _ in range(PAGES_MAX):
            waiting = services.read(lambda conn, ctx: outbox.due(conn, topic, ctx.now, limit=PAGE))
            if not waiting:
                break
            page = _send(waiting, consume)
            services.write(page.record)
            metrics.message_sent(topic, "sent", len(page.done))
            done += len(page.done)
            # Who has just failed gets a rest, and so does everything behind it: most likely it is the line.
            if page.failed is not None:
                metrics.message_sent(topic, "failed")
                break
        return JobReport(name, done=done)

    return Job(name, EVERY_S, run)


def _send(waiting: Sequence[Waiting], consume: Consume) -> Sent:
    """Send in order, until one fails."""
    done: list[Waiting] = []
    for message in waiting:
        try:
            consume(message)
        except Undelivered as error:
            return Sent(done, (message, str(error)))
        except Exception as error:
            log.exception("message failed", topic=message.topic, key=message.key)
            return Sent(done, (message, type(error).__name__))
        done.append(message)
    return Sent(done, None)

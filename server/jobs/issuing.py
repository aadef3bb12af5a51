"""Work batch issues in the background, in every server process, and leave room for who is waiting at the counter."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, func, select

from server.db.errors import DatabaseTrouble
from server.db.schema import issue_task
from server.services import feed, issue_lists, issue_work
from server.services.context import Context, NotProvisioned
from server.services.issue_work import Lease, NotOurs
from server.services.services import Services

IDLE_S = 1.0
"""How often a worker looks for work where there was none."""
REST_PER_CHUNK = 4.0
"""Rest so many times as long as a chunk took where others write too: a fifth of the writer's time is the batch's."""
REST_MAX_S = 1.0

_GRANTED = select(func.coalesce(func.sum(issue_task.c.granted), 0))

log = structlog.get_logger("pawtill.issuing")


@dataclass(frozen=True, slots=True)
class _Done:
    """Hold what a chunk came to: the next one (None = nothing is left to do), and what others had done around it."""

    following: Lease | None
    ran_s: float
    others_before: int
    others_after: int


def rest_s(ran_s: float, strangers: int) -> float:
    """Return the seconds to rest after a chunk whose statements took `ran_s`.

    `strangers` counts the records that others have changed since the chunk before. That is what the feed tells, of
    every process, and no matter of time: a slow disk or a busy machine makes a wait longer too, and is no reason.
    """
    return min(ran_s * REST_PER_CHUNK, REST_MAX_S) if strangers > 0 else 0.0


def work_off(
    services: Services,
    *,
    die_after: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    rest: Callable[[float], object] = time.sleep,
) -> int:
    """Work until nothing is left to do now, or `stopped` says so; returns the chunks done.

    `die_after` is for trials: stop behind so many chunks as a process that dies does, with the next one leased.
    """
    while not stopped() and issue_lists.load_more(services):
        pass
    done, others = 0, None
    held = None if stopped() else services.write(issue_work.lease)
    while held is not None and done != die_after:
        try:
            worked = _work(services, held, last=stopped())
        except NotOurs as reason:
            log.info("chunk put off", task=held.task_id, chunk=held.number, reason=str(reason))
            held = services.write(issue_work.lease)
            continue
        done, held = done + 1, worked.following
        if held is not None and others is not None:
            rest(rest_s(worked.ran_s, worked.others_before - others))
        others = worked.others_after
    return done


def _work(services: Services, held: Lease, *, last: bool) -> _Done:
    """Do a chunk, and look at what others do."""

    def run(conn: Connection, ctx: Context) -> _Done:
        before, began_s = _changed_by_others(conn), time.perf_counter()
        following = issue_work.work(conn, ctx, held, more=not last)
        return _Done(following, time.perf_counter() - began_s, before, _changed_by_others(conn))

    return services.write(run)


def _changed_by_others(conn: Connection) -> int:
    """Count the records that anybody but a batch issue has ever changed, whichever process wrote."""
    granted = conn.execute(_GRANTED).scalar_one()
    return feed.head(conn) - int(granted)


class Issuer:
    """Be the worker of one server process, in a thread of its own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="pawtill-issuer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the chunk that is under way is waited for, and no lease is left behind."""
        self._stop.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._stop.wait(IDLE_S):
            try:
                work_off(self._services, stopped=self._stop.is_set, rest=self._stop.wait)
            except NotProvisioned:
                continue
            except DatabaseTrouble as trouble:
                log.warning("issuing put off", reason=trouble.word)
            except Exception:
                log.exception("issuing failed")

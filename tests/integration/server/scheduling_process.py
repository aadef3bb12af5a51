"""Be a server's scheduler alone, as a process to stop and kill: its one job notes under which fence it ran.

Arguments: URL of the database, folder with the keys, `fenced` or `unfenced`. Says `ready` when it runs. Between two
writes it stops where it finds a file `stop-<its pid>` in the folder: inside of one it would keep the whole database
waiting, until PostgreSQL puts it out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, insert, make_url

from server.db.errors import DatabaseTrouble
from server.db.schema import history
from server.jobs.lease import SCHEDULER, Held, Lease
from server.jobs.report import Job, JobReport
from server.jobs.scheduler import Scheduler
from server.opening import open_services
from server.services.context import Context
from server.services.services import Services, no_guard
from server.services.system import SystemClock, SystemIds

BEAT_S, TTL_S = 0.2, 1.5
WRITES = 200


def main(url: str, folder: str, fenced: str) -> None:
    services = open_services(make_url(url), folder=Path(folder), clock=SystemClock(), ids=SystemIds())

    def run(given: Services) -> JobReport:
        held = given.guard.__self__  # type: ignore[attr-defined]
        assert isinstance(held, Held)
        writing = given if fenced == "fenced" else replace(given, guard=no_guard)

        def note(conn: Connection, ctx: Context) -> None:
            conn.execute(
                insert(history).values(subject="run", subject_id="x", event=str(held.fence), server_at=ctx.now)
            )

        for _ in range(WRITES):
            with suppress(DatabaseTrouble):
                writing.write(note)
            if asked_to_stop.exists():
                asked_to_stop.unlink()
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.02)
        return JobReport("noting")

    asked_to_stop = Path(folder) / f"stop-{os.getpid()}"
    lease = Lease(services, SCHEDULER, owner=services.ids.new(), ttl_s=TTL_S)
    Scheduler(services, (Job("noting", 1, run),), lease=lease, beat_s=BEAT_S).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Let a till that was offline for 90 days catch up over HTTP, against bare inserts of the same rows.

A real till sells without reaching its server, 60 orders a day (6 in a quick run), then pushes everything to a real one,
a process of its own. Measured is the whole push, request by request; the baseline writes every row that the server has
written for it, in one transaction (`tests.bench.sync` tells how). Memory is that of this process, the till's.
"""

import resource
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from cli.no_terminal import NoTerminal
from cli.server_process import PLAIN, ServerProcess
from tests.bench.books import Books
from tests.bench.measure import time_ms
from tests.bench.sync import STORE_ID, TILL_ID, found_chain, sell
from ui.running_till import Enrolment, Joined, RunningTill, open_running_till

DAYS = 90


def run(quick: bool) -> dict[str, float]:
    """Return `over_bare_insert` and what it is made of."""
    entries = DAYS * (6 if quick else 60)
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        folder = Path(name)
        granted = found_chain(folder / "server")
        with ServerProcess(folder / "server", PLAIN) as server:
            joined = Joined(server.url, TILL_ID, STORE_ID)
            till = open_running_till(folder / "till.db", Enrolment(joined, granted), payments=NoTerminal())
            with till, closing(Books(folder / "server" / "server.db", folder / "bare.db")) as books:
                till.engine.run_once()
                books.new_rows()
                sell(till.till, entries)
                before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                push_ms = time_ms(partial(_push, till, entries))
                after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                rows = books.new_rows()
                bare_ms = time_ms(partial(books.insert, rows))
    return {
        "over_bare_insert": push_ms / bare_ms,
        "catch_up_ms": push_ms,
        "bare_ms": bare_ms,
        "entries": entries,
        "entries_per_s": entries / push_ms * 1000,
        "rows": sum(map(len, rows.values())),
        "till_grew_mib": (after_kib - before_kib) / 1024,
    }


def _push(running: RunningTill, entries: int) -> None:
    pushed = running.engine.push_now()
    assert (pushed.counted, pushed.conflicts) == (entries, 0), pushed

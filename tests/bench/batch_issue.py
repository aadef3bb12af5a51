"""Issue a campaign to members in chunks, against bare inserts of the same rows.

Measured is a task of ten chunks of 200 members from its first lease to its end, as the worker of a server runs it:
leases, idempotency, members, tiers, limits, the conditional update of the stock, codes with their digests, history,
feed, counts and eleven durable commits. No HTTP is in it, as none is in the work.

The baseline writes every row that the task has added, of every table, chunk by chunk in ten durable transactions, with
SQLAlchemy Core's own executemany, into a copy of the same database with the same pragmas. Rows that were changed and
not added (stock, chunk, task) are left out of it, which makes it faster. They take turns; `over_bare_insert` is the
ratio of the medians, 1 = as fast as bare inserts.

`claim_beside_p99_ms` is how long a claim takes, one after the other, while a batch runs; `claim_alone_p99_ms` before.
`rss_growth_mb` is what a long task adds to the memory of the process.
"""

import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, insert

from server.db import schema
from server.jobs.issuing import work_off
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, issue_tasks, issues
from server.services.context import Context
from server.services.grants import Wanted, grant
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from tests.bench.books import Books, Rows
from tests.bench.measure import median, percentile, time_ms

CHUNKS = 10
WARM_UP = 2
CLAIMS = 300


def run(quick: bool) -> dict[str, float]:
    """Return `over_bare_insert` and what it is made of."""
    rounds, long_task = WARM_UP + (5 if quick else 15), 20_000 if quick else 1_000_000
    each = CHUNKS * issues.CHUNK_SIZE
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        services = open_services(Path(name) / "server.db", clock=SystemClock(), ids=SystemIds())
        with closing(services.database):
            members = max(long_task, rounds * each + CLAIMS * 2)
            _found(services, members)
            with closing(Books(Path(name) / "server.db", Path(name) / "bare.db")) as books:
                tasks, inserts = _take_turns(services, books, rounds)
            alone, beside = _claim_beside(services)
            figures = _long_task(services, long_task)
    tasks, inserts = tasks[WARM_UP:], inserts[WARM_UP:]
    return {
        "over_bare_insert": median(inserts) / median(tasks),
        "task_p50_ms": median(tasks),
        "bare_p50_ms": median(inserts),
        "members_per_s": each / median(tasks) * 1000,
        "claim_alone_p99_ms": percentile(alone, 99),
        "claim_beside_p99_ms": percentile(beside, 99),
        **figures,
    }


def _found(services: Services, members: int) -> None:
    """Found a chain with a store and members, and a campaign for each part of the bench."""
    provision(services, ChainPlan())

    def found(conn: Connection, ctx: Context) -> None:
        catalog.set_store(conn, "s1", zone="Asia/Shanghai")
        for campaign_id in ("turns", "claims", "long"):
            data = {
                "id": campaign_id,
                "benefit": {"type": "amount_off", "amount": "5.00"},
                "stock": 10 * members,
                "valid_days": 30,
            }
            assert campaigns.create(conn, ctx, data)["outcome"] == "ok"

    services.write(found)
    for start in range(0, members, 10_000):
        rows = [
            {"id": _member(number), "tier": "basic", "home_store": "s1"}
            for number in range(start, min(start + 10_000, members))
        ]
        services.write(partial(_join, rows=rows))


def _join(conn: Connection, _ctx: Context, *, rows: list[dict[str, str]]) -> None:
    conn.execute(insert(schema.member), rows)


def _member(number: int) -> str:
    return f"m{number:07d}"


def _take_turns(services: Services, books: Books, rounds: int) -> tuple[list[float], list[float]]:
    """Work a task and insert its rows bare, in turn; every other round the rows of the task before go first."""
    tasks, inserts = list[float](), list[float]()
    each = CHUNKS * issues.CHUNK_SIZE
    _create(services, "warm", campaign="turns", members=[_member(rounds * each)])
    work_off(services)
    chunks = _chunks(books.new_rows())
    for turn in range(rounds):
        members = [_member(number) for number in range(turn * each, (turn + 1) * each)]
        _create(services, f"t{turn}", campaign="turns", members=members)
        if turn % 2:
            inserts.append(time_ms(partial(_insert, books, chunks)))
        tasks.append(time_ms(partial(work_off, services)))
        chunks, before = _chunks(books.new_rows()), chunks
        if not turn % 2:
            inserts.append(time_ms(partial(_insert, books, before)))
    # Each insert wrote the rows of the task before: as many, but for the first, which warms up.
    return tasks, inserts


def _insert(books: Books, chunks: list[Rows]) -> None:
    for rows in chunks:
        books.insert(rows)


def _chunks(rows: Rows) -> list[Rows]:
    """Cut what a task has written into its chunks: as many parts of each table."""
    parts = max(1, len(rows[schema.coupon]) // issues.CHUNK_SIZE)
    cut: list[Rows] = [{} for _ in range(parts)]
    for table, values in rows.items():
        size = -(-len(values) // parts)
        for place, part in enumerate(cut):
            if some := values[place * size : (place + 1) * size]:
                part[table] = some
    return cut


def _create(services: Services, task: str, *, campaign: str, members: list[str]) -> None:
    draft = issues.Draft(task, campaign)
    answer = services.write(lambda conn, ctx: issues.create(conn, ctx, draft, members=members))
    assert answer["state"] == "RUNNING", answer


def _claim_beside(services: Services) -> tuple[list[float], list[float]]:
    """Claim one after the other, alone and then while a batch runs; returns the milliseconds of each claim."""
    numbers = count()
    alone = [time_ms(partial(_claim, services, next(numbers))) for _ in range(CLAIMS)]
    _create(services, "beside", campaign="claims", members=[_member(2 * CLAIMS + number) for number in range(20_000)])
    stop, beside = threading.Event(), list[float]()
    worker = threading.Thread(target=work_off, args=[services], kwargs={"stopped": stop.is_set, "rest": stop.wait})
    worker.start()
    while len(beside) < CLAIMS and worker.is_alive():
        beside.append(time_ms(partial(_claim, services, next(numbers))))
    stop.set()
    worker.join()
    services.write(lambda conn, ctx: issue_tasks.fire(conn, ctx, "beside", event=issue_tasks.IssueEvent.CANCEL))
    return alone, beside


def _claim(services: Services, number: int) -> None:
    wanted = [Wanted(f"claim:{number}", "claims", _member(number), "app")]
    answer = services.write(lambda conn, ctx: grant(conn, ctx, wanted))[0]
    assert answer["outcome"] == "ok", answer


def _long_task(services: Services, members: int) -> dict[str, float]:
    """Work a task whose members a filter chooses, and watch the memory."""
    draft = issues.Draft("long", "long", filter={"tiers": [], "home_stores": []})
    services.write(lambda conn, ctx: issues.create(conn, ctx, draft))
    before, started = _rss_mb(), time.perf_counter()
    work_off(services)
    took_s = time.perf_counter() - started
    shown = services.read(lambda conn, ctx: issue_tasks.view(conn, ctx, "long"))
    assert shown["state"] == "DONE" and shown["failed"] == 0, shown
    return {
        "long_task_members": shown["granted"],
        "long_task_s": took_s,
        "long_task_members_per_s": shown["granted"] / took_s,
        "rss_growth_mb": _rss_mb() - before,
    }


def _rss_mb() -> float:
    """Return the resident memory of this process; 0 where the system does not tell (it is no Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024

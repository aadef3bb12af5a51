"""Give every sale the same ground: its own copy of one database, its own server process, one load."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, insert, select

from cli.server_process import PLAIN, ServerProcess
from server.db import schema
from tests.bench.measure import time_ms
from tests.bench.sale import world
from tests.bench.sale.rivals import RETRIES
from tests.postgres import cluster

PAWTILL = "pawtill"
CALLERS = 1024
"""Who wait for an answer at the same time: what makes batches, and a push to a city's members brings more."""
PROCESSES = 2
"""Server processes of each rival, on one port: as a chain runs them, that one may die in the middle of a sale."""
BARE_BATCH = 200
_LOAD_PATIENCE_S = 60
Rows = dict[Table, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Found:
    """Name a database that others are copies of, and what one needs to sell in it."""

    template: str
    folder: Path
    plan: world.Plan
    passes: world.Passes


@dataclass(frozen=True, slots=True)
class Sale:
    """Hold what one sale came to; `granted_s` until the last 201, `retries` beyond the first try of each claim."""

    granted: int
    granted_s: float
    oversold: int
    latencies_ms: list[float]
    retries: int

    @property
    def per_s(self) -> float:
        """Return durable claims a second."""
        return self.granted / self.granted_s if self.granted_s else 0.0


class Ground:
    """Hold one PostgreSQL with fsync, for as long as this process lives; `limit_s` bounds each sale."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        self.folder, self._limit_s = folder, limit_s
        self._cluster = cluster.start(os.getpid(), durable=True)
        self._copies = 0

    def found(self, name: str, plan: world.Plan) -> Found:
        """Make the database that the sales of this plan begin from."""
        folder = self.folder / name
        self._cluster.create(name)
        url = self._cluster.url(name)
        return Found(name, folder, plan, world.found(url, folder, plan))

    @contextmanager
    def copy(self, found: Found) -> Iterator[URL]:
        """Lend a fresh copy of the database."""
        self._copies += 1
        name = f"{found.template}_{self._copies}"
        self._cluster.create(name, template=found.template)
        # What making the copy left to be written must not be written during the sale.
        with self._cluster.connection() as connection:
            connection.execute("CHECKPOINT")
        try:
            yield self._cluster.url(name)
        finally:
            self._cluster.drop(name)

    def sell(self, rival: str, url: URL, found: Found) -> Sale:
        """Let a rival's server sell, under the load, until all are answered or time is up."""
        with self._serving(rival, url, found) as base:
            port = int(base.rpartition(":")[2])
            told = self._load(port, found)
            retries = 0 if rival == PAWTILL else json.loads(_ask(base))[RETRIES]
        with _engine(url) as engine, engine.begin() as conn:
            sold = world.granted(conn) - found.plan.earlier
        granted = told["statuses"].get("201", 0)
        return Sale(granted, told["granted_s"], max(0, sold - found.plan.units), told["latencies_ms"], retries)

    def insert_bare(self, url: URL, found: Found) -> float:
        """Write the rows that a sale wrote into a fresh copy, by Core, in batches; returns claims a second."""
        with _engine(url) as engine, engine.begin() as conn:
            batches = list(_batches(conn, found))
        with self.copy(found) as fresh, _engine(fresh) as engine:
            took_ms = time_ms(lambda: [_insert(engine, rows) for rows in batches])
        return sum(len(rows[schema.coupon]) for rows in batches) / took_ms * 1000

    @contextmanager
    def _serving(self, rival: str, url: URL, found: Found) -> Iterator[str]:
        text = url.render_as_string(hide_password=False)
        if rival == PAWTILL:
            folder = self.folder / f"server{self._copies}"
            shutil.copytree(found.folder, folder)
            settings = {**PLAIN, "PAWTILL_DATABASE_URL": text, "PAWTILL_WORKERS": str(PROCESSES)}
            with ServerProcess(folder, settings) as server:
                _go_hot(server.url, found.passes)
                yield server.url
            shutil.rmtree(folder)
            return
        command = [sys.executable, "-m", "tests.bench.sale.rivals", rival, str(PROCESSES), text]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None, "it was asked for"
            try:
                yield f"http://127.0.0.1:{int(process.stdout.readline())}"
            finally:
                process.terminate()

    def _load(self, port: int, found: Found) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.bench.sale.load", str(port), str(CALLERS), str(self._limit_s)]
        done = subprocess.run(
            [*command, "/v1/claims"],
            input=world.bodies(found.plan),
            stdout=subprocess.PIPE,
            env={**os.environ, "PAWTILL_BENCH_KEY": found.passes.app},
            timeout=self._limit_s + _LOAD_PATIENCE_S,
            check=True,
        )
        told: dict[str, Any] = json.loads(done.stdout)
        return told


def _go_hot(base: str, passes: world.Passes) -> None:
    """Put the campaign behind Redis, and wait until it admits: who has a coupon is refused, and no longer told busy."""
    _ask(f"{base}/v1/campaigns/{world.CAMPAIGN}", {"arbiter": "redis"}, key=passes.headquarters, method="PATCH")
    deadline = time.monotonic() + _LOAD_PATIENCE_S
    probe = {"campaign": world.CAMPAIGN, "member": world.PROBE}
    for n in itertools.count():
        answer = _ask(f"{base}/v1/claims", {**probe, "request": f"probe{n}"}, key=passes.app, method="POST")
        if json.loads(answer)["outcome"] == "already_claimed":
            return
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def _ask(url: str, body: dict[str, Any] | None = None, *, key: str = "", method: str = "GET") -> bytes:
    request = urllib.request.Request(  # noqa: S310 - loopback
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=_LOAD_PATIENCE_S) as answer:  # noqa: S310 - loopback
            content: bytes = answer.read()
    except urllib.error.HTTPError as refused:
        content = refused.read()
    return content


@contextmanager
def _engine(url: URL) -> Iterator[Engine]:
    engine = create_engine(url.set(drivername="postgresql+psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


def _batches(conn: Connection, found: Found) -> Iterator[Rows]:
    """Return the rows of the sale's claims, table by table, so many claims at a time."""
    coupon, request, history, feed = schema.coupon, schema.request, schema.history, schema.feed
    sold = conn.execute(select(coupon).where(coupon.c.member_id.like("m%")).order_by(coupon.c.granted_at)).all()
    for start in range(0, len(sold), BARE_BATCH):
        rows = sold[start : start + BARE_BATCH]
        ids, asked = [row.id for row in rows], [f"claim:{row.member_id}" for row in rows]
        yield {
            coupon: _plain(rows),
            request: _plain(conn.execute(select(request).where(request.c.id.in_(asked))).all()),
            history: _plain(conn.execute(select(history).where(history.c.subject_id.in_(ids))).all()),
            feed: _plain(conn.execute(select(feed).where(feed.c.key.in_(ids))).all()),
        }


def _plain(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in rows]


def _insert(engine: Engine, rows: Rows) -> None:
    with engine.begin() as conn:
        for table, values in rows.items():
            conn.execute(insert(table), values)

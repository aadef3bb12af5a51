"""Batch issue by real processes that are killed at any moment: everyone once, the sum exact, the audit clean."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import URL, Connection, func, insert, select

from app.domain.states import IssueEvent
from cli.server_process import PLAIN, ServerProcess
from server.code_key import FILE_NAME, load_code_key
from server.db import schema
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, grants, issue_tasks, issues, keys
from server.services.audit import audit
from server.services.context import Context
from server.services.services import Services
from server.services.system import SystemClock, SystemIds

ROOT = Path(__file__).parents[3]
MEMBERS, STOCK, CHUNK = 1200, 1000, 25
KILLS = 3
LIVE = 100
"""Members who claim by themselves while the batch runs; they are on its list too."""
WORKER = """
import sys
from pathlib import Path
from sqlalchemy import make_url
from server.jobs.issuing import work_off
from server.opening import open_services
from server.services.system import SystemClock, SystemIds
services = open_services(make_url(sys.argv[1]), folder=Path(sys.argv[2]), clock=SystemClock(), ids=SystemIds())
print("ready", flush=True)
sys.stdin.readline()
print(work_off(services), flush=True)
services.database.close()
"""


@contextmanager
def _services(folder: Path, url: URL | None = None) -> Iterator[Services]:
    where = folder / "server.db" if url is None else url
    # A database that is lent has its tables already, and no key beside it.
    if not (folder / FILE_NAME).exists():
        load_code_key(folder, database_exists=False)
    services = open_services(where, folder=folder, clock=SystemClock(), ids=SystemIds())
    try:
        yield services
    finally:
        services.database.close()


def _found(services: Services) -> dict[str, str]:
    """Set up the chain, its members and the campaign; returns the tokens of headquarters and of the app."""
    headquarters = provision(services, ChainPlan())
    assert headquarters is not None

    def found(conn: Connection, ctx: Context) -> str:
        catalog.set_store(conn, "s1", zone="Asia/Shanghai")
        rows = [{"id": f"m{number}", "tier": "basic", "home_store": "s1"} for number in range(MEMBERS)]
        conn.execute(insert(schema.member), rows)
        data = {"id": "c1", "benefit": {"type": "amount_off", "amount": "5.00"}, "stock": STOCK}
        assert campaigns.create(conn, ctx, data)["outcome"] == "ok"
        return keys.create(conn, ctx, scope="app", name="app").token

    return {"headquarters": headquarters, "app": services.write(found)}


def _create(services: Services) -> None:
    members = [f"m{number}" for number in range(MEMBERS)]
    draft = issues.Draft("t1", "c1", chunk_size=CHUNK)
    answer = services.write(lambda conn, ctx: issues.create(conn, ctx, draft, members=members))
    assert answer["state"] == "RUNNING"


def _prove(services: Services, *, live: int) -> None:
    """Compare the task, the coupons and the stock; `live` is what was granted beside the batch."""

    def look(conn: Connection, ctx: Context) -> tuple[Any, ...]:
        task = conn.execute(select(schema.issue_task)).one()
        coupon = schema.coupon.c
        held = select(func.count(coupon.id).label("n")).group_by(coupon.member_id).subquery()
        most = conn.execute(select(func.max(held.c.n))).scalar_one()
        source = conn.execute(select(func.count()).where(coupon.source == "issue:t1")).scalar_one()
        coupons = conn.execute(select(func.count(coupon.id))).scalar_one()
        report = audit(conn, ctx)
        return task, most, source, coupons, report

    task, most, source, coupons, report = services.read(look)
    assert report.clean, report.violations
    assert (task.state, task.granted + task.failed, task.total) == ("DONE", MEMBERS, MEMBERS)
    assert (task.granted, coupons, most) == (source, STOCK, 1)
    assert source == STOCK - live


class _Client:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = httpx.request(
            method, self._url + path, json=body, headers=self._headers, trust_env=False, timeout=30
        )
        found: dict[str, Any] = response.json()
        return found

    def show(self) -> dict[str, Any]:
        return self._ask("GET", "/v1/issues/t1")

    def steer(self, event: str) -> dict[str, Any]:
        return self._ask("POST", f"/v1/issues/t1/{event}", {})

    def claim(self, number: int) -> str:
        body = {"request": f"live-{number}", "campaign": "c1", "member": f"m{number}"}
        return str(self._ask("POST", "/v1/claims", body)["outcome"])


def test_a_server_killed_at_random_moments_gives_everyone_one_and_no_more_than_there_is(tmp_path: Path) -> None:
    chance = random.Random(4)
    with _services(tmp_path) as services:
        tokens = _found(services)
        _create(services)

    states = []
    for _ in range(30):
        with ServerProcess(tmp_path, PLAIN) as server:
            client = _Client(server.url, tokens["headquarters"])
            states.append(client.steer("resume")["outcome"])
            if len(states) <= KILLS:
                # The first chunks come a second after the start; what was under way is killed with its commit.
                _wait_for_progress(client)
                time.sleep(chance.uniform(0, 0.05))
                os.kill(server.pid, signal.SIGKILL)
                continue
            if _wait_until_done(client):
                break

    with _services(tmp_path) as services:
        _prove(services, live=0)
    assert states[:KILLS] == ["ok"] * KILLS


def _wait_for_progress(client: _Client) -> None:
    before, until = client.show()["done"], time.monotonic() + 30
    while client.show()["done"] == before and time.monotonic() < until:
        time.sleep(0.005)


def _wait_until_done(client: _Client) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if client.show()["state"] == "DONE":
            return True
        time.sleep(0.05)
    return False


def test_a_pause_holds_under_load_and_claims_beside_the_batch_leave_the_sum_exact(tmp_path: Path) -> None:
    with _services(tmp_path) as services:
        tokens = _found(services)
        _create(services)

    with ServerProcess(tmp_path, PLAIN) as server, ThreadPoolExecutor(8) as threads:
        client, app = _Client(server.url, tokens["headquarters"]), _Client(server.url, tokens["app"])
        _wait_for_progress(client)
        claims = threads.map(app.claim, range(MEMBERS - 1, MEMBERS - 1 - LIVE, -1))
        paused = client.steer("pause")
        time.sleep(0.3)
        later = client.show()
        outcomes = list(claims)
        resumed = client.steer("resume")
        done = _wait_until_done(client)

    assert (paused["state"], later["state"], resumed["state"], done) == ("PAUSED", "PAUSED", "RUNNING", True)
    assert later["granted"] == paused["granted"] < STOCK
    assert outcomes == ["ok"] * LIVE
    with _services(tmp_path) as services:
        _prove(services, live=LIVE)


@contextmanager
def _worker(url: URL, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WORKER, url.render_as_string(hide_password=False), str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def _begin(*workers: subprocess.Popen[str]) -> None:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()


def _chunks(worker: subprocess.Popen[str]) -> int:
    assert worker.stdout is not None
    return int(worker.stdout.readline())


def test_workers_of_several_processes_share_a_task_and_claims_beside_them_leave_the_sum_exact(
    tmp_path: Path, postgres_url: URL
) -> None:
    with _services(tmp_path, postgres_url) as services:
        _found(services)
        _create(services)
        with _worker(postgres_url, tmp_path) as first, _worker(postgres_url, tmp_path) as second:
            _begin(first, second)
            outcomes = [_claim(services, number) for number in range(MEMBERS - 1, MEMBERS - 1 - LIVE, -1)]
            chunks = [_chunks(first), _chunks(second)]

        assert min(chunks) > 0 and sum(chunks) == MEMBERS // CHUNK
        _prove(services, live=outcomes.count("ok"))


def _claim(services: Services, number: int) -> str:
    wanted = [grants.Wanted(f"claim:live-{number}", "c1", f"m{number}", "app")]
    return str(services.write(lambda conn, ctx: grants.grant(conn, ctx, wanted))[0]["outcome"])


def test_what_a_killed_worker_began_another_process_finishes(tmp_path: Path, postgres_url: URL) -> None:
    with _services(tmp_path, postgres_url) as services:
        _found(services)
        _create(services)
        with _worker(postgres_url, tmp_path) as killed, _worker(postgres_url, tmp_path) as other:
            _begin(killed)
            until = time.monotonic() + 30
            while services.read(lambda conn, _ctx: _done(conn)) < 10 and time.monotonic() < until:
                time.sleep(0.002)
            killed.kill()
            killed.wait()
            services.write(lambda conn, ctx: issue_tasks.fire(conn, ctx, "t1", event=IssueEvent.RESUME))
            _begin(other)
            chunks = _chunks(other)

        assert 0 < chunks <= MEMBERS // CHUNK - 10
        _prove(services, live=0)


def _done(conn: Connection) -> int:
    chunk = schema.issue_chunk.c
    return int(conn.execute(select(func.count()).where(chunk.state == "DONE")).scalar_one())

"""Several server processes share a port and a PostgreSQL: one may die, all end with their parent, none oversells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import URL, text

from server.db.engine import Database
from tests.fakes.headquarters import Headquarters

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")

ROOT = Path(__file__).parents[3]
SERVE = """
import sys
from pathlib import Path
from server.main import serve
from server.settings import Settings
if __name__ == "__main__":
    sys.exit(serve(Settings(data_dir=Path(sys.argv[1]), port=0, tls=False, workers=2, database_url=sys.argv[2])))
"""


def _until(true: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    """Return the workers: children that were spawned, not what the standard library keeps beside them."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [child for child in map(int, listed) if "spawn_main" in _command(child)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""


def _ready(url: str) -> bool:
    try:
        return httpx.get(url + "/ready", trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def app_key(tmp_path: Path, postgres_url: URL) -> str:
    """Set a chain up, let go of it, and return a key of the chain's app."""
    headquarters = Headquarters(tmp_path, url=postgres_url)
    headquarters.furnish(members=60)
    headquarters.campaign(stock=20)
    key = headquarters.new_key("app")
    headquarters.close()
    return key


@contextmanager
def _workers(folder: Path, url: URL) -> Iterator[tuple[subprocess.Popen[str], str]]:
    script = folder / "serve.py"
    script.write_text(SERVE)
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), str(folder), url.render_as_string(hide_password=False)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            _until(lambda: len(_children(process.pid)) == 2 and _ready(address), "two workers never came")
            yield process, address
        finally:
            children = _children(process.pid)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            assert [child for child in children if _command(child)] == [], "a worker outlived its parent"


def test_a_worker_that_is_killed_is_replaced_and_the_other_answers_meanwhile(
    tmp_path: Path, postgres_url: URL, app_key: str
) -> None:
    with _workers(tmp_path, postgres_url) as (parent, address):
        before = _children(parent.pid)
        os.kill(before[0], signal.SIGKILL)
        _until(lambda: _ready(address), "nobody answers")
        _until(lambda: len(set(_children(parent.pid)) - {before[0]}) == 2, "the dead worker was not replaced")
        after = _children(parent.pid)

    assert before[1] in after
    assert parent.returncode == 0


def test_workers_end_when_their_parent_is_killed(tmp_path: Path, postgres_url: URL, app_key: str) -> None:
    with _workers(tmp_path, postgres_url) as (parent, _):
        children = _children(parent.pid)
        parent.kill()
        _until(lambda: not any(_command(child) for child in children), "workers outlived their parent")

    assert len(children) == 2


def test_two_processes_grant_exactly_what_is_there(tmp_path: Path, postgres_url: URL, app_key: str) -> None:
    def claim(client: httpx.Client, number: int) -> int:
        body = {"request": f"r{number}", "campaign": "c1", "member": f"m{number}"}
        while True:
            status = client.post("/v1/claims", json=body).status_code
            if status != 503:
                return status

    headers = {"Authorization": f"Bearer {app_key}"}
    with (
        _workers(tmp_path, postgres_url) as (_, address),
        httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=30) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        statuses = list(threads.map(lambda number: claim(client, number), range(1, 61)))

    database = Database(postgres_url)
    stock = database.read(
        lambda conn: conn.execute(
            text("SELECT available, spent, (SELECT COUNT(*) FROM coupon) FROM account WHERE id = 'stock:c1'")
        ).one()
    )
    database.close()
    assert (statuses.count(201), statuses.count(409)) == (20, 40)
    assert tuple(stock) == (0, 20, 20)


# ------------------------------------------------------------------ the lock and the guard, each taken out

RIVAL = """
import random, sys, threading, time
from sqlalchemy import make_url, text
from server.db import postgres
from server.db.engine import Database

url, seed, lock, guard = make_url(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "lock", sys.argv[4] == "guard"
if not lock:
    postgres._wait_for_our_turn = lambda conn: None
# A server has one writer; without the lock four servers stand for the four threads of this process.
databases = [Database(url, busy_timeout_ms=30_000) for _ in range(4)]
where = "id = 'stock:c1'" + (" AND available >= 1" if guard else "")

def take(conn):
    left = conn.execute(text("SELECT available FROM account WHERE id = 'stock:c1'")).scalar_one()
    if left < 1:
        return 0
    time.sleep(0.002)
    return conn.execute(text(f"UPDATE account SET available = available - 1, spent = spent + 1 WHERE {where}")).rowcount

def rival(database):
    global taken
    mine = sum(database.write(take) for _ in range(25))
    with tally:
        taken += mine

taken, tally = 0, threading.Lock()
sys.stdin.readline()
threads = [threading.Thread(target=rival, args=(database,)) for database in databases]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(taken)
"""


def _race(url: URL, *switches: str) -> tuple[int, int]:
    """Let 8 writers in 2 processes take 200 times from a stock of 50; returns what they took and what is left."""
    database = Database(url)
    database.write(
        lambda conn: conn.execute(
            text("INSERT INTO account (id, kind, total, available) VALUES ('stock:c1', 'stock', 50, 50)")
        )
    )
    command = [sys.executable, "-c", RIVAL, url.render_as_string(hide_password=False)]
    rivals = [
        subprocess.Popen(
            [*command, str(seed), *switches], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for seed in range(2)
    ]
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("go\n")
        rival.stdin.flush()
    taken = sum(int(rival.communicate(timeout=120)[0]) for rival in rivals)
    left = database.read(
        lambda conn: conn.execute(text("SELECT available FROM account WHERE id = 'stock:c1'")).scalar_one()
    )
    database.close()
    return taken, left


@pytest.mark.parametrize("switches", [("lock", "guard"), ("lock", "none"), ("none", "guard")])
def test_rivals_in_two_processes_take_exactly_what_is_there(postgres_url: URL, switches: tuple[str, str]) -> None:
    assert _race(postgres_url, *switches) == (50, 0)


def test_control_without_the_lock_and_without_the_guard_the_same_race_oversells(postgres_url: URL) -> None:
    database = Database(postgres_url)
    database.write(
        lambda conn: conn.execute(
            text("ALTER TABLE account DROP CONSTRAINT ck_account_available, DROP CONSTRAINT ck_account_equation")
        )
    )
    database.close()

    taken, left = _race(postgres_url, "none", "none")

    assert taken > 50
    assert left == 50 - taken

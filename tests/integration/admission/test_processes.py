"""Real server processes with the bundled Redis: they share a sale, and what one of them began is finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import URL

from cli.server_process import PLAIN
from tests.fakes.headquarters import Headquarters

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")

ROOT = Path(__file__).parents[3]
SERVE = """
import sys
from pathlib import Path
from server.main import serve
from server.settings import Settings
if __name__ == "__main__":
    sys.exit(serve(Settings(data_dir=Path(sys.argv[1]), port=0, workers=int(sys.argv[2]), database_url=sys.argv[3])))
"""
STOCK, MEMBERS = 30, 60


def until(holds: Callable[[], bool], *, within_s: float = 60) -> None:
    """Wait for what processes do."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def redis_of(folder: Path) -> list[int]:
    """Return the bundled servers that run in a data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"valkey-server" in command and str(folder).encode() in command:
                found.append(int(entry.name))
    return found


class Shop:
    """Speak to a server as headquarters and as the app."""

    def __init__(self, folder: Path, url: str) -> None:
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=20)
        self.key = (folder / "headquarters.key").read_text().strip()
        self.app = ""

    def call(self, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        for _ in range(100):
            try:
                return self._client.request(method, path, json=body, headers=headers)
            except httpx.ConnectError:
                time.sleep(0.1)
        raise AssertionError("no server")

    def close(self) -> None:
        self._client.close()

    def furnish(self) -> None:
        self.call("PUT", "/v1/stores/s1", {"zone": "Asia/Shanghai"})
        with ThreadPoolExecutor(8) as pool:
            members = [{"id": f"m{n}", "home_store": "s1"} for n in range(MEMBERS)]
            list(pool.map(lambda body: self.call("POST", "/v1/members", body), members))
        self.app = self.call("POST", "/v1/keys", {"scope": "app", "name": "app"}).json()["key"]
        campaign = {"id": "c1", "benefit": {"type": "amount_off", "amount": "1.00"}, "stock": STOCK, "arbiter": "redis"}
        assert self.call("POST", "/v1/campaigns", campaign).json()["arbiter_in_force"] == "redis"

    def claim(self, number: int) -> str:
        """Claim for a member, asking again while the server is busy or dies; returns the outcome."""
        body = {"request": f"r{number}", "campaign": "c1", "member": f"m{number}"}
        for _ in range(200):
            try:
                outcome = str(self.call("POST", "/v1/claims", body, key=self.app).json()["outcome"])
            except httpx.TransportError:
                outcome = "busy"
            if outcome != "busy":
                return outcome
            time.sleep(0.1)
        return "busy"


@contextmanager
def server(folder: Path, *, workers: int = 1, database: str = "") -> Iterator[tuple[subprocess.Popen[str], Shop]]:
    """Run a server."""
    folder.mkdir(exist_ok=True)
    script = folder.parent / "serve.py"
    script.write_text(SERVE)
    command = [sys.executable, str(script), str(folder), str(workers), database]
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(ROOT)}
    with (folder.parent / "server.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment)
    assert process.stdout is not None
    shop = Shop(folder, process.stdout.readline().split()[-1])
    try:
        yield process, shop
    finally:
        shop.close()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


def test_a_killed_server_leaves_no_redis_and_the_next_one_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with server(folder) as (process, shop):
        shop.furnish()
        assert [shop.claim(n) for n in range(5)] == ["ok"] * 5
        assert len(redis_of(folder)) == 1
        process.kill()
        process.wait()
        until(lambda: redis_of(folder) == [])

    with server(folder) as (_, shop2):
        shop2.app = shop.app
        assert [shop2.claim(n) for n in range(7)] == ["ok"] * 7
        stock = shop2.call("GET", "/v1/campaigns/c1").json()["stock"]
        assert (stock["granted"], stock["available"], stock["reserved"]) == (7, STOCK - 7, 0)
    until(lambda: redis_of(folder) == [])


def test_workers_share_one_sale_while_redis_and_one_of_them_die(tmp_path: Path, postgres_url: URL) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    headquarters = Headquarters(folder, url=postgres_url)
    (folder / "headquarters.key").write_text(headquarters.key)
    headquarters.close()
    database = postgres_url.render_as_string(hide_password=False)
    with server(folder, workers=2, database=database) as (process, shop):
        shop.furnish()
        assert len(redis_of(folder)) == 1
        with ThreadPoolExecutor(12) as pool:
            first = pool.map(shop.claim, range(20))
            time.sleep(0.2)
            os.kill(redis_of(folder)[0], signal.SIGKILL)
            counts = Counter(first)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            workers = [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
            second = pool.map(shop.claim, range(20, MEMBERS))
            os.kill(workers[0], signal.SIGKILL)
            counts += Counter(second)

        assert counts == {"ok": STOCK, "out_of_stock": MEMBERS - STOCK}

        def settled() -> bool:
            stock = shop.call("GET", "/v1/campaigns/c1").json()["stock"]
            return (stock["granted"], stock["available"], stock["reserved"]) == (STOCK, 0, 0)

        until(settled)
    until(lambda: redis_of(folder) == [])

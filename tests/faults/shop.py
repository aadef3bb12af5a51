"""A shop whose parts are real processes: one server or several, its database, its Redis; each may be killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import URL, Connection, insert

from server.code_key import FILE_NAME, load_code_key
from server.db import schema
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, issues, keys
from server.services.context import Context
from server.services.services import Services
from server.services.system import SystemClock, SystemIds

ROOT = Path(__file__).parents[2]
CAMPAIGN, TASK = "flash", "t1"
WITHOUT = "WITHOUT"
"""Tells a server which guards it is to run without (`weakened.py`)."""
SPARE = 400
"""Members who come when the fault is over, and take what is left."""
_START_S, _STOP_S = 60.0, 30.0
_READY = re.compile(r"ready on http://[^:]+:(\d+)")


@dataclass(frozen=True, slots=True)
class Sale:
    """Size a sale: each member asks `tries` times under request ids of its own, and may have `limit` coupons.

    `listed` members get one by a batch issue of the same campaign, which runs beside the claims.
    """

    stock: int = 260
    members: int = 150
    tries: int = 3
    limit: int = 2
    listed: int = 0
    arbiter: str = "redis"

    def asked(self) -> list[tuple[str, str]]:
        """Return the claims: (request, member), the tries of a member close together."""
        return [(f"m{n}-{k}", f"m{n}") for n in range(self.members) for k in range(self.tries)]

    def spare(self, start: int, count: int) -> list[tuple[str, str]]:
        """Return claims of members who have not asked before."""
        return [(f"spare{n}", f"spare{n}") for n in range(start, start + count)]


class Shop:
    """Hold one sale's servers and database. `url` None = SQLite in the folder; `settings` are PAWTILL_ variables.

    `weak` names the guards that its servers run without (`weakened.py`), for controls.
    """

    def __init__(
        self,
        folder: Path,
        sale: Sale,
        *,
        url: URL | None = None,
        settings: dict[str, str],
        weak: tuple[str, ...] = (),
    ) -> None:
        self.folder, self.sale, self.url = folder, sale, url
        self._workers, self._weak = int(settings["PAWTILL_WORKERS"]), weak
        self._settings = dict(settings)
        if url is not None:
            self._settings["PAWTILL_DATABASE_URL"] = url.render_as_string(hide_password=False)
        self._process: subprocess.Popen[str] | None = None
        self.port: int | None = None
        self.headquarters_key, self.app_key = self._set_up()

    # -------------------------------------------------------------- before the sale

    def _set_up(self) -> tuple[str, str]:
        if not (self.folder / FILE_NAME).exists():
            load_code_key(self.folder, database_exists=False)
        with self.services() as services:
            headquarters = provision(services, ChainPlan())
            assert headquarters is not None, "the database was empty"
            return headquarters, services.write(self._furnish)

    def _furnish(self, conn: Connection, ctx: Context) -> str:
        catalog.set_store(conn, "s1", zone="Asia/Shanghai")
        names = [f"m{n}" for n in range(self.sale.members)] + [f"spare{n}" for n in range(SPARE)]
        listed = [f"listed{n}" for n in range(self.sale.listed)]
        conn.execute(insert(schema.member), [{"id": name, "home_store": "s1"} for name in [*names, *listed]])
        benefit = {"type": "amount_off", "amount": "5.00"}
        rule: dict[str, Any] = {"id": CAMPAIGN, "benefit": benefit, "stock": self.sale.stock}
        rule |= {"per_member": self.sale.limit, "arbiter": self.sale.arbiter}
        answer = campaigns.create(conn, ctx, rule)
        assert answer["outcome"] == "ok", answer
        if listed:
            draft = issues.Draft(TASK, CAMPAIGN, chunk_size=5)
            assert issues.create(conn, ctx, draft, members=listed)["state"] == "RUNNING"
        return keys.create(conn, ctx, scope="app", name="app").token

    @contextlib.contextmanager
    def services(self) -> Iterator[Services]:
        """Open the database beside the servers, or, on SQLite, while there is none."""
        where = self.url if self.url is not None else self.folder / "server.db"
        services = open_services(where, folder=self.folder, clock=SystemClock(), ids=SystemIds())
        try:
            yield services
        finally:
            services.database.close()

    # -------------------------------------------------------------- its processes

    def start(self) -> None:
        """Start the server, and return once it answers; the port is another one each time."""
        module = "tests.faults.weakened" if self._weak else "cli.main"
        command = [sys.executable, "-m", module, "server", "--data-dir", str(self.folder), "--port", "0"]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PAWTILL_")}
        plain |= {"PAWTILL_TLS": "off"}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=plain | self._settings | {"PYTHONPATH": str(ROOT), WITHOUT: ",".join(self._weak)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
            )
        self.port = self._announced(self._process)
        self.until(self.ready, "the server is not ready")
        if self._workers > 1:
            self.until(lambda: len(self.worker_pids()) == self._workers, "not all workers came")

    def _announced(self, process: subprocess.Popen[str]) -> int:
        patience = threading.Timer(_START_S, process.kill)
        patience.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := _READY.search(line):
                    return int(found[1])
        finally:
            patience.cancel()
        raise AssertionError((self.folder / "server.log").read_text()[-2000:])

    def ready(self) -> bool:
        """Tell whether the server answers."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health", trust_env=False, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def pid(self) -> int:
        """Return the number of the server's process (with workers: of their parent)."""
        assert self._process is not None
        return self._process.pid

    def worker_pids(self) -> list[int]:
        """List the workers that answer, by what they said when they began."""
        told = (self.folder / "server.log").read_text("utf-8", "replace")
        return [pid for pid, _ in self._children() if f"Started server process [{pid}]" in told]

    def redis_pids(self) -> list[int]:
        """List the bundled Redis, where this server runs it: none or one."""
        return [pid for pid, command in self._children() if "valkey-server" in command]

    def _children(self) -> Iterator[tuple[int, str]]:
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            # A child, or a thread, may be gone by the time we look.
            with contextlib.suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield int(child), Path(f"/proc/{child}/cmdline").read_bytes().decode()

    def kill(self) -> None:
        """Kill the server with whatever it is doing."""
        self.port = None
        os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """Tell the server to end, and wait until it has."""
        self.port = None
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    # -------------------------------------------------------------- asked as headquarters

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask until there is an answer that is not `busy`."""
        found: dict[str, Any] = {}

        def answered() -> bool:
            nonlocal found
            try:
                response = httpx.request(
                    method,
                    f"http://127.0.0.1:{self.port}{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {self.headquarters_key}"},
                    trust_env=False,
                    timeout=15,
                )
            except httpx.HTTPError:
                return False
            if response.status_code >= 500:
                return False
            found = response.json()
            return True

        self.until(answered, f"{method} {path} is not answered")
        return found

    def stock(self) -> dict[str, int]:
        """Return the campaign's stock as it is shown."""
        shown: dict[str, int] = self.ask("GET", f"/v1/campaigns/{CAMPAIGN}")["stock"]
        return shown

    def resume_task(self) -> None:
        """Let a batch issue go on at once whose worker was killed, rather than after its lease."""
        if self.sale.listed:
            self.ask("POST", f"/v1/issues/{TASK}/resume", {})

    def until(self, true: Callable[[], bool], complaint: str, *, patience_s: float = 90.0) -> None:
        """Wait until it is true; raises where that does not come."""
        deadline = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < deadline, complaint
            time.sleep(0.03)


@contextlib.contextmanager
def open_shop(shop: Shop) -> Iterator[Shop]:
    """Start its servers, and end what is left of them."""
    try:
        shop.start()
        yield shop
    finally:
        shop.stop()

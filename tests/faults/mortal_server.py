"""A server of real processes that may be killed: one or several, on SQLite or PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
from sqlalchemy import URL

from server.opening import open_services
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.tls import AUTHORITY_FILE
from sync.trust import pinned

ROOT = Path(__file__).parents[2]
WITHOUT = "WITHOUT"
"""Tells a process which guards it is to run without (`weakened.py`)."""
_START_S, _STOP_S = 60.0, 30.0
_READY = re.compile(r"ready on (https?)://[^:]+:(\d+)")


class MortalServer:
    """Hold the processes of one server and its database. `url` None = SQLite in the folder.

    `settings` are PAWTILL_ variables, TLS among them; `module` is run as `pawtill`, without the guards in `weak`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        url: URL | None = None,
        settings: Mapping[str, str],
        module: str = "cli.main",
        weak: tuple[str, ...] = (),
    ) -> None:
        self.folder, self.url = folder, url
        self._workers, self._module, self._weak = int(settings["PAWTILL_WORKERS"]), module, weak
        self._settings = dict(settings)
        if url is not None:
            self._settings["PAWTILL_DATABASE_URL"] = url.render_as_string(hide_password=False)
        self._process: subprocess.Popen[str] | None = None
        self._scheme = "http"
        self.port: int | None = None

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
        command = [sys.executable, "-m", self._module, "server", "--data-dir", str(self.folder), "--port", "0"]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PAWTILL_")}
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
                    self._scheme = found[1]
                    return int(found[2])
        finally:
            patience.cancel()
        raise AssertionError((self.folder / "server.log").read_text()[-2000:])

    def ready(self) -> bool:
        """Tell whether the server answers."""
        try:
            health = f"{self.address}/health"
            return httpx.get(health, verify=self.trust() or True, trust_env=False, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def address(self) -> str:
        """Return where it answers now; another place after each start."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def trust(self) -> ssl.SSLContext | None:
        """Return what believes its certificate, None where it speaks plain HTTP."""
        return pinned((self.folder / AUTHORITY_FILE).read_text("utf-8")) if self._scheme == "https" else None

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

    def until(self, true: Callable[[], bool], complaint: str, *, patience_s: float = 90.0) -> None:
        """Wait until it is true; raises where that does not come."""
        deadline = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < deadline, complaint
            time.sleep(0.03)

    def audit(self) -> str:
        """Run the audit as a person does; "" where it found nothing."""
        where = [] if self.url is None else ["--database-url", self.url.render_as_string(hide_password=False)]
        command = [sys.executable, "-m", "cli.main", "audit", "--data-dir", str(self.folder), *where]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=120,
        )
        return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stdout[-1500:]}{done.stderr[-500:]}"

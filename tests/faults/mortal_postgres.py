"""A PostgreSQL that can be killed, made to hang, and started again; durable, unlike the suite's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL

from tests.postgres import keeper
from tests.postgres.cluster import Cluster, new_folder, readable
from tests.postgres.schema import lend_migrated

_SETTINGS = {"listen_addresses": "", "max_connections": "120", "log_min_messages": "fatal", "shared_buffers": "32MB"}
_PATIENCE_S = 60.0


class MortalPostgres:
    """Run one cluster in a folder of its own; the process that made it ends it."""

    def __init__(self) -> None:
        self.folder = new_folder()
        self._binaries = readable(self.folder)
        keeper.initialise(self.folder, self._binaries)
        self._cluster = Cluster(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @contextlib.contextmanager
    def lend(self) -> Iterator[URL]:
        """Lend a database that has the server's tables."""
        with lend_migrated(self._cluster) as url:
            yield url

    def start(self) -> None:
        """Start, and return once connections are let in: after a kill it first repeats its log."""
        self._process = keeper.start(self.folder, self._binaries, _SETTINGS)
        deadline = time.monotonic() + _PATIENCE_S
        while not keeper.lets_in(self.folder, self._binaries):
            assert time.monotonic() < deadline and self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill every process of it at once."""
        self._signal_all(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def hang(self) -> None:
        """Let every process of it stand still: connections stay, answers do not come."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        """End the standstill."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        pid = self._process.pid
        # The parent first: it would start children anew.
        os.kill(pid, number)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)

    def close(self) -> None:
        """End it, and leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self.go_on()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def mortal_postgres() -> Iterator[MortalPostgres]:
    """Run one while the block runs."""
    postgres = MortalPostgres()
    try:
        yield postgres
    finally:
        postgres.close()

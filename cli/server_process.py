"""Run a server as a process of its own, as the demo and the benchmarks want it, and end that process alone."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from server.tls import AUTHORITY_FILE

_READY = re.compile(r"ready on (https?://\S+)")
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 15.0
PLAIN: Mapping[str, str] = MappingProxyType({"PAWTILL_TLS": "off"})
"""Settings of a server that speaks plain HTTP, to this machine alone."""
LOG_FILE = "server.log"


class ServerDidNotStart(Exception):
    """Say that the server ended, or said nothing, before it was ready; with its last words."""


class ServerProcess:
    """Start `pawtill server` on a free port of 127.0.0.1 and wait until it is ready; `url` is where it answers.

    Its log goes into the data folder. `settings` are more of its PAWTILL_ variables. Raises ServerDidNotStart.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._log = data_dir / LOG_FILE
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
                [sys.executable, "-m", "cli.main", "server", "--data-dir", str(data_dir), "--port", "0"],
                # The environment's settings are those of a real server.
                env={name: os.environ[name] for name in os.environ if not name.startswith("PAWTILL_")} | dict(settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.pid = self._process.pid
        self.url = self._wait_until_ready()
        self.authority = (data_dir / AUTHORITY_FILE).read_text("utf-8") if self.url.startswith("https:") else ""
        """The certificate (PEM) that the server's is from, "" where it speaks plain HTTP."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Tell it to finish, wait, and end it by force where it does not; a second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _wait_until_ready(self) -> str:
        # A process that hangs says nothing for ever; ending it ends the reading as well.
        patience = threading.Timer(_START_LIMIT_S, self._process.kill)
        patience.start()
        try:
            assert self._process.stdout is not None, "it was asked for"
            for line in self._process.stdout:
                if found := _READY.search(line):
                    return found[1]
        finally:
            patience.cancel()
        self.stop()
        words = self._log.read_text("utf-8", "replace").strip().splitlines()
        raise ServerDidNotStart(words[-1] if words else "the server ended without a word")

"""A real Redis-compatible server on loopback, with any settings, for as long as a test needs it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from server.stock.connection import Acquaintance, Address, connect
from server.stock.embedded import find_binary
from server.stock.pipeline import BlockingStock
from server.stock.suitability import look


class RedisServer:
    """Run one process in `folder`; `settings` are lines of its configuration, `login` whom it lets in where not all."""

    def __init__(
        self,
        folder: Path,
        *settings: str,
        port: int | None = None,
        arguments: tuple[str, ...] = (),
        login: tuple[str | None, str | None] = (None, None),
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.port, self._settings, self._arguments = folder, port or free_port(), settings, arguments
        self.address = Address("single", (("127.0.0.1", self.port),), user=login[0], secret=login[1])
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        lines = (f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", 'save ""', *self._settings)
        conf = self.folder / "redis.conf"
        if not (self._arguments and conf.exists()):  # a Sentinel keeps what it learns in there
            conf.write_text("\n".join(lines) + "\n")
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([str(find_binary()), str(conf), *self._arguments], stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                self.client().ping()
                return
            except redis.RedisError:
                time.sleep(0.01)
        raise AssertionError((self.folder / "log").read_text())

    def client(self) -> Any:
        """Return a client that is acquainted with everybody."""
        return connect(self.address, None)

    def kill(self) -> None:
        """Let it die as in a power cut."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()


def free_port() -> int:
    """Return a port that is free now, and whose cluster bus (10000 above) is free as well."""
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            if port > 55_000:
                continue
            with socket.socket() as other:
                try:
                    other.bind(("127.0.0.1", port + 10_000))
                except OSError:
                    continue
                return port


@contextmanager
def running(folder: Path, *settings: str, **more: Any) -> Iterator[RedisServer]:
    """Run a server while the block runs."""
    server = RedisServer(folder, *settings, **more)
    try:
        yield server
    finally:
        server.kill()


def acquainted(address: Address) -> tuple[BlockingStock, Acquaintance]:
    """Return scripts on a Redis that was looked at."""
    acquaintance = Acquaintance()
    acquaintance.accept(frozenset(look(connect(address, None)).run_ids.values()))
    return BlockingStock(connect(address, acquaintance)), acquaintance

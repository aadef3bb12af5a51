"""A line to a PostgreSQL that can stand still: what was connected stays so, and nothing comes any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL

SOCKET = ".s.PGSQL.5432"


class Line:
    """Hand on between clients of a socket in `folder` and the server's socket; `url` leads through it."""

    def __init__(self, folder: Path, url: URL) -> None:
        self.url = url.set(query={**url.query, "host": str(folder)})
        self._there = str(Path(str(url.query["host"])) / SOCKET)
        self._flows = threading.Event()
        self._flows.set()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / SOCKET))
        self._listening.listen(64)
        self._begin(self._accept)

    def stand_still(self) -> None:
        """Hand nothing on from now on, in either direction."""
        self._flows.clear()

    def go_on(self) -> None:
        """Hand on what has come meanwhile, and what comes."""
        self._flows.set()

    def close(self) -> None:
        """End every connection."""
        self.go_on()
        for each in (self._listening, *self._ends):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listening, *self._ends):
            each.close()

    def _begin(self, run: object, *args: socket.socket) -> None:
        assert callable(run)
        self._threads.append(threading.Thread(target=run, args=args))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listening.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._there)
                self._ends += (near, far)
                self._begin(self._pump, near, far)
                self._begin(self._pump, far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def line_to(url: URL, folder: Path) -> Iterator[Line]:
    """Open one while the block runs; the path of a socket may have 100 bytes."""
    line = Line(folder, url)
    try:
        yield line
    finally:
        line.close()

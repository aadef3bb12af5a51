"""A `FakeServer` for tills in other processes: it lives on in the test when they are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from tests.fakes.memory_server import FakeServer

_KEY = b"a test's own line"


@contextmanager
def serve(server: FakeServer) -> Iterator[tuple[str, int]]:
    """Answer calls on 127.0.0.1 until the block ends; yields the address. A till that dies cuts its line, no more.

    Every till must be gone when the block ends.
    """
    lock = threading.Lock()

    def answer(line: Connection) -> None:
        with line:
            try:
                while True:
                    name, args = line.recv()
                    with lock:
                        value = getattr(server, name)
                        line.send(value(*args) if callable(value) else value)
            except (EOFError, OSError):
                return

    def accept(listener: Listener) -> None:
        answering = []
        while True:
            line = listener.accept()
            if over.is_set():
                line.close()
                break
            answering.append(threading.Thread(target=answer, args=(line,)))
            answering[-1].start()
        for thread in answering:
            thread.join()

    over = threading.Event()
    with Listener(("127.0.0.1", 0), authkey=_KEY) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        address: tuple[str, int] = listener.address  # type: ignore[assignment]
        try:
            yield address
        finally:
            over.set()
            Client(address, authkey=_KEY).close()  # wakes the accept that waits
            accepting.join()


class RemoteServer:
    """Look like a `FakeServer` and ask the one behind the line."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._line = Client(address, authkey=_KEY)
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name in ("changes", "orders", "clock", "coupons", "findings"):
            return self._ask(name)
        return lambda *args: self._ask(name, *args)

    def _ask(self, name: str, *args: Any) -> Any:
        with self._lock:
            self._line.send((name, args))
            return self._line.recv()

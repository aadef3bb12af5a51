"""Ask what may hang and be told within a bounded time: whoever looks after the server must not hang with it.

A database or a Redis that stands still answers nothing, not even that. Asked from a thread of the framework's pool it
would keep that thread, and with the pool everybody who asks for anything.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE_S = 2.5
"""How long whoever asks how the server is waits for a part of it: a little longer than a writer waits for its turn and
a script for its answer (2 s), so that what is busy or away is told as that."""


class Lookout(Generic[T]):
    """Ask one question, in a thread of its own; safe from any thread.

    While it hangs nobody asks again: who comes then hears what comes of the one that is under way, and waits for it no
    longer than who came first. So of many probes one is slow; Prometheus gives up early where it asks every second.
    """

    def __init__(self, ask: Callable[[], T], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._monotonic = ask, monotonic
        self._lock = threading.Lock()
        self._asked: Future[T] | None = None
        self._began_s = 0.0

    def look(self) -> Future[T]:
        """Return the answer to come, at once; it cannot be cancelled, and may never come."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked, self._began_s = Future(), self._monotonic()
                self._asked.set_running_or_notify_cancel()
                # Nobody waits for it at the end of the process either.
                threading.Thread(target=self._answer, args=(self._asked,), name="pawtill-lookout", daemon=True).start()
            return self._asked

    def left_s(self) -> float:
        """Return how many seconds more the answer is to be waited for; 0 = what was asked last hangs, or is done."""
        return max(0.0, self._began_s + PATIENCE_S - self._monotonic())

    def _answer(self, asked: Future[T]) -> None:
        try:
            answer = self._ask()
        except BaseException as error:
            asked.set_exception(error)
        else:
            asked.set_result(answer)

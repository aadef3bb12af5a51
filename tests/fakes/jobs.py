"""Run a presenter's work at once, or hold it back until the test lets it go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Now:
    """Runs everything at once, in the caller's own step; errors that nobody answers are kept in `errors`."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False

    def local(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        self._waiting.append(lambda: self._end(job, done, failed))
        self._drain()

    aside = local
    network = local

    def post(self, call: Callable[[], None]) -> None:
        self._waiting.append(call)
        self._drain()

    def report(self, error: Exception) -> None:
        self.errors.append(error)

    def _drain(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._running = False

    def _end(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None) -> None:
        try:
            result = job()
        except Exception as error:  # as the real door does: an exception is a result too
            told = error
            self.post(lambda: (failed or self.report)(told))
        else:
            self.post(lambda: done(result))  # behind what the job itself has posted


class Later(Now):
    """Holds network work, and aside what `hold_aside` says, back until `release`; local work runs at once."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []
        self.hold_aside = False

    def aside(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        if self.hold_aside:
            self.held.append(lambda: self._end(job, done, failed))
        else:
            super().aside(job, done, failed)

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        self.held.append(lambda: self._end(job, done, failed))

    def release(self) -> None:
        held, self.held = self.held, []
        for job in held:
            job()

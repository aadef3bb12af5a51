"""Tell those who wait in an event loop that their time is up, by one timer for all of them.

A timer for each claim (`asyncio.timeout`) costs a tenth of it, and a flood has thousands under way.
"""

import asyncio
import heapq
import itertools
from typing import Any


class Patience:
    """Watch over futures of one loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[Any]]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, waited_for: "asyncio.Future[Any]", until_s: float) -> None:
        """Let the future raise TimeoutError at `until_s`, a time of its loop's clock, unless it is done by then.

        Whatever would have settled it goes on, and has to look first whether it is done.
        """
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        # Numbered: of two with the same time the futures would be compared, and cannot be.
        heapq.heappush(self._waiting, (until_s, next(self._numbers), waited_for))
        if self._timer is None or until_s < self._timer.when():
            self._set_timer(waited_for.get_loop())

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._waiting[0][0], self._lose, loop) if self._waiting else None

    def _lose(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and (self._waiting[0][2].done() or self._waiting[0][0] <= loop.time()):
            late = heapq.heappop(self._waiting)[2]
            if not late.done():
                late.set_exception(TimeoutError())
                # Who is gone reads it no more; that is no mistake.
                late.exception()
        self._set_timer(loop)

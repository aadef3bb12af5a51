"""Carry HTTP between the tills' synchronous clients and the server's application in one process, with a bad line.

`Loop` runs the application for one caller, as a network of no length would. `Link` is one till's cable: offline,
answers that get lost, requests that arrive twice.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

T = TypeVar("T")


class Loop:
    """Run coroutines of the application in the caller's own thread: no hand-over to another thread for each request."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end; whatever it raises comes out here. One caller at a time."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()


@dataclass(slots=True)
class Faults:
    """Hold what is wrong with a line. `lose` and `double` count the answers and requests that are still to come."""

    offline: bool = False
    lose: int = 0
    double: int = 0


class Link(httpx.BaseTransport):
    """Be one till's cable. `lost` counts answers that got lost, for the runner to see; it only grows."""

    def __init__(self, wire: httpx.BaseTransport) -> None:
        self._wire = wire
        self.faults = Faults()
        self.lost = 0

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Let nothing get lost or doubled for what a till does by itself, between the steps; offline it stays."""
        faults, self.faults = self.faults, Faults(offline=self.faults.offline)
        try:
            yield
        finally:
            self.faults = faults

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on, as far as the line does."""
        if self.faults.offline:
            raise httpx.ConnectError("the cable is pulled", request=request)
        answer = self._wire.handle_request(request)
        if self.faults.double:
            self.faults.double -= 1
            # The second copy meets what the first has done; its answer reaches nobody.
            self._wire.handle_request(request)
        if self.faults.lose:
            self.faults.lose -= 1
            self.lost += 1
            raise httpx.ReadTimeout("the answer got lost", request=request)
        return answer

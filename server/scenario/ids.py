"""Make ids and digits that are the same at every run of a scenario, so that a failure can be looked at again."""

import random
import threading

from app.domain.uuid7 import next_tick, uuid7


class ScenarioIds:
    """Count ids up, so that they sort by the time of their making; draw digits from a seeded generator.

    One source serves the server and every till of a scenario. The digits protect nothing: the world they name ends
    with the scenario.
    """

    def __init__(self, seed: str) -> None:
        self._lock = threading.Lock()
        self._tick = 0
        self._random = random.Random(seed)

    def new(self) -> str:
        """Return 32 hex digits of the shape of a UUIDv7, counted instead of timed."""
        with self._lock:
            self._tick = next_tick(self._tick, 0)
            return uuid7(self._tick, 0)

    def digits(self, count: int) -> str:
        """Return `count` decimal digits."""
        with self._lock:
            return str(self._random.randrange(10**count)).zfill(count)

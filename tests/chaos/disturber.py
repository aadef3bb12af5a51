"""Let go wrong what may, in real processes: kill -9, lines, Redis, PostgreSQL, clocks; from a seed, each time noted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.chaos.journal import SUFFIX, Journal
from tests.chaos.parts import Chaos, TillProcess

DAY_MS = 86_400_000
AWAY_S = (0.3, 2.5)
"""How long a killed process stays away."""
SPELL_S = (1.0, 8.0)
"""How long a line stays bad."""
DOWN_S = (0.5, 4.0)
"""How long a database stays away, or hangs."""

WEIGHTS = {
    "till killed": 30,
    "server process killed": 5,
    "server killed": 2,
    "Redis killed": 2,
    "Redis emptied": 2,
    "key of Redis deleted": 2,
    "PostgreSQL killed": 1,
    "PostgreSQL hangs": 1,
    "line cut": 14,
    "line hangs": 7,
    "line slow": 7,
    "line slices": 7,
    "requests doubled": 12,
    "bytes doubled": 5,
    "clock wrong": 10,
}
LARGE = frozenset(
    name for name in WEIGHTS if "Redis" in name or "PostgreSQL" in name or name == "server process killed"
)
"""Faults of what a small run has not."""


class Disturber:
    """Strike at a chain; what it broke it mends some time later, in threads of its own."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self.chaos, self._chance = chaos, random.Random(f"disturber {seed}")
        self.struck: Counter[str] = Counter()
        self._journal = Journal(chaos.ground.journals / f"faults{SUFFIX}")
        self._mending: list[threading.Thread] = []
        self._at_server, self._noting = threading.Lock(), threading.Lock()
        self.troubles: list[str] = []

    @property
    def kills(self) -> int:
        """Count the kills of all kinds."""
        return sum(count for name, count in self.struck.items() if name.endswith("killed"))

    def strike(self) -> None:
        """Let one thing go wrong, by chance."""
        large = self.chaos.postgres is not None
        weights = {name: weight for name, weight in WEIGHTS.items() if large or name not in LARGE}
        self.let(self._chance.choices(list(weights), list(weights.values()))[0])

    def let(self, name: str) -> None:
        """Let this go wrong now; at the server one thing at a time."""
        chance = random.Random(self._chance.getrandbits(32))
        till = chance.choice(self.chaos.tills)
        match name:
            case "till killed":
                self._later(name, lambda: self._kill_till(name, till, chance))
            case "clock wrong":
                self._note(name, till.id)
                by_ms = chance.choice([7 * 60_000, 2 * 3_600_000, 9 * DAY_MS])
                till.clock.skew(chance.randint(-by_ms, by_ms))
            case _ if name.startswith(("line", "requests", "bytes")):
                self._later(name, lambda: self._spoil(name, till, chance))
            case _:
                self._later(name, lambda: self._at_the_server(name, chance))

    def mend(self) -> None:
        """Wait until all is mended."""
        for thread in self._mending:
            thread.join(120)
        for till in self.chaos.tills:
            till.wire.heal()
            till.clock.skew(0)
        self._journal.add("healed")

    def _note(self, name: str, whom: str) -> None:
        with self._noting:
            self.struck[name] += 1
            self._journal.add("strikes", fault=name, whom=whom)

    def _later(self, name: str, strike: Callable[[], None]) -> None:
        def run() -> None:
            try:
                strike()
            except Exception as error:
                self.troubles.append(f"{name}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._mending.append(thread)
        thread.start()

    # -------------------------------------------------------------- tills and their lines

    def _kill_till(self, name: str, till: TillProcess, chance: random.Random) -> None:
        with till.lock:
            if not till.runs:
                return
            self._note(name, till.id)
            till.kill()
            time.sleep(chance.uniform(*AWAY_S))
            till.start()

    def _spoil(self, name: str, till: TillProcess, chance: random.Random) -> None:
        self._note(name, till.id)
        wire = till.wire
        spell_s = chance.uniform(*SPELL_S)
        match name:
            case "line cut":
                wire.cut()
            case "line hangs":
                wire.weather.hangs = True
            case "line slow":
                wire.weather.slow_s = chance.choice([0.1, 0.5, 2.0])
            case "line slices":
                wire.weather.slices = True
            case "requests doubled":
                wire.double()
            case "bytes doubled":
                wire.weather.doubled_bytes = chance.choice([0.02, 0.2])
        time.sleep(spell_s)
        wire.heal()

    # -------------------------------------------------------------- the server and what it stands on

    def _at_the_server(self, name: str, chance: random.Random) -> None:
        with self._at_server:
            self._note(name, "server")
            self._strike_server(name, chance)

    def _strike_server(self, name: str, chance: random.Random) -> None:
        server, redis, postgres = self.chaos.server, self.chaos.redis, self.chaos.postgres
        down_s = chance.uniform(*DOWN_S)
        match name:
            case "server killed":
                server.kill()
                time.sleep(chance.uniform(*AWAY_S))
                server.start()
            case "server process killed":
                pids = server.worker_pids()
                if pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(pids), signal.SIGKILL)
            case "Redis killed":
                assert redis is not None
                redis.kill()
                time.sleep(down_s)
                redis.start()
            case "Redis emptied":
                assert redis is not None
                redis.client().flushall()
            case "key of Redis deleted":
                assert redis is not None
                keys = redis.client().keys("*")
                if keys:
                    redis.client().delete(chance.choice(sorted(keys)))
            case "PostgreSQL killed":
                assert postgres is not None
                postgres.kill()
                time.sleep(down_s)
                postgres.start()
            case "PostgreSQL hangs":
                assert postgres is not None
                postgres.hang()
                time.sleep(down_s)
                postgres.go_on()

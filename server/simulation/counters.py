"""Be the Redis of a simulated chain: the bundled server, real and in a process of its own, that dies and forgets.

What it answers follows from what it was told: time comes to its scripts as an argument, and who asks waits for it. So a
seed is one with its trace; the ids that it draws by its own clock stand in no trace.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from server.scenario.crash import ProcessDied
from server.scenario.redis_part import RedisPart
from server.services.admission.facts import Entry, campaigns_known, entry_of
from server.services.context import Context
from server.services.services import Services
from server.simulation.sometimes import NOT_BUNDLED
from server.simulation.truth import hold
from server.stock.door import Door
from server.stock.scripts import Standing, inspect

RESERVED = "after_reserve"
"""The point between the admission of a claim and its landing."""


class Counters:
    """Keep the counters of one chain's campaigns."""

    def __init__(self, part: RedisPart) -> None:
        self._part = part
        self.door: Door | None = part.door()
        self.seen: Counter[str] = Counter({NOT_BUNDLED: 1} if self.door is None else {})
        self._snapshot: dict[bytes, tuple[bytes, int]] = {}
        self._at_reserve: Callable[[], None] | None = None
        self._who = ""

    def reopen(self) -> Door | None:
        """Return a door for a server that starts."""
        self.door = self._part.door(again=self.door)
        return self.door

    # -------------------------------------------------------------- what goes wrong

    def forget(self) -> None:
        """Be emptied, while it runs."""
        self._ask("FLUSHALL")

    def keep(self) -> None:
        """Take a copy of everything."""
        keys: list[bytes] = sorted(self._ask("KEYS", "*") or ())
        self._snapshot = {key: (self._ask("DUMP", key), max(0, self._ask("PTTL", key))) for key in keys}

    def die(self, *, lose_all: bool) -> None:
        """End by kill -9, with or without its files."""
        self._part.arm("now", lose_all=lose_all)

    def start(self) -> None:
        """Start again, where it is dead."""
        if self._part.died:
            self._part.start()

    def go_back(self) -> None:
        """Come back as another process, with what was copied."""
        self.die(lose_all=True)
        self.start()
        for key, (dump, life_ms) in self._snapshot.items():
            self._ask("RESTORE", key, life_ms, dump, "REPLACE")

    def _ask(self, *command: Any) -> Any:
        if self.door is None or self._part.died:
            return None
        strange = Door(self.door.address)
        try:
            return strange.unguarded.client.execute_command(*command)
        finally:
            strange.close()

    # -------------------------------------------------------------- between admission and landing

    def arm(self, rng: random.Random) -> str:
        """Let somebody die when the next claim is admitted and has not landed; returns who."""
        self._who = rng.choice(["server", "redis", "redis"])
        lose_all = rng.random() < 0.5
        self._at_reserve = _server_dies if self._who == "server" else lambda: self.die(lose_all=lose_all)
        return self._who

    def disarm(self) -> None:
        """Let nobody die there."""
        self._at_reserve = None

    def passed(self, point: str) -> None:
        """Pass a point of the server's code, or die there."""
        if point != RESERVED:
            return
        self.seen["redis: admitted"] += 1
        if self._at_reserve is not None:
            die, self._at_reserve = self._at_reserve, None
            self.seen[f"redis: {self._who} died before the landing"] += 1
            die()

    # -------------------------------------------------------------- I15

    def check(self, services: Services) -> None:
        """Hold I15 at rest: what it has available is what the database has, nothing is reserved, each member counts."""
        for entry, held in services.read(_entries):
            if self.door is None or not entry.admitted:
                continue
            name = entry.campaign_id
            found = self.door.unguarded.run(inspect(self.door.keys(name), now_ms=0))
            hold(isinstance(found, Standing), "I15", f"{name}: {found}")
            assert isinstance(found, Standing), "it holds"
            hold((found.units, found.request_count) == (0, 0), "I15", f"{name}: {found.request_count} wait for nobody")
            hold(
                found.available == entry.available, "I15", f"{name}: {found.available} in Redis, {entry.available} here"
            )
            members = self.door.sample_members(name, 100)
            hold(members == held, "I15", f"{name}: its members hold {members}, in the books {held}")

    def stop(self) -> None:
        """Leave an empty server to the next chain."""
        self.start()
        self.forget()


def _server_dies() -> None:
    raise ProcessDied("between admission and landing")


def _entries(conn: Connection, ctx: Context) -> list[tuple[Entry, dict[str, int]]]:
    found = []
    for campaign_id in campaigns_known(conn, ctx):
        entry = entry_of(conn, ctx, campaign_id)
        assert entry is not None, "a campaign is never deleted"
        rows = conn.exec_driver_sql(
            "SELECT member_id, count(*) FROM coupon WHERE campaign_id = ? GROUP BY 1", (campaign_id,)
        )
        found.append((entry, {row[0]: row[1] for row in rows}))
    return found

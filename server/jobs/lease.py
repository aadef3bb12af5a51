"""Let one server process at a time walk the patrols: a lease in the database, fenced.

Three rules, and no clock in any of them:

- A rival may take the lease over when it has seen no sign of life (`beats`) for TTL_S of its own monotonic time. So
  clocks that are wrong, or jump, or differ between machines take nothing from anybody and block nothing for long. It
  is the way of Kubernetes' leader election: what others wrote is compared with itself, never with a time of day.
- Taking it is one conditional update, of the very row that was looked at: of many rivals one succeeds, and the fence
  is one higher from then on.
- Every write of a job checks within its own transaction that the fence is still the one that the job began under. An
  owner that was only slow, paused or cut off for a while may believe what it likes: it commits nothing any more.

So the time decides only who gets a chance, the fence decides who writes. What a job does outside of the database
(sending a message) may happen twice when a lease changes hands, as after any crash: its consumers allow for that.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, Row, insert, select, update

from server.db.schema import job_lease
from server.services.services import Services

BEAT_S = 3
"""How often an owner shows that it lives, and a rival looks."""
TTL_S = 10.0
"""How long a rival must see no sign of life; three beats may be late or lost."""
SCHEDULER = "scheduler"


class LeaseLost(Exception):
    """Say that another process has taken the lease over; nothing of this transaction is kept."""


@dataclass(frozen=True, slots=True)
class Held:
    """Stand for one time of having the lease: what begins under it commits only while it lasts."""

    name: str
    fence: int

    def check(self, conn: Connection) -> None:
        """Raise LeaseLost within the transaction of a write where another has taken over."""
        # Shared lock where the database has one: a rival's update then waits until this transaction has ended.
        fence = conn.execute(
            select(job_lease.c.fence).where(job_lease.c.name == self.name).with_for_update(read=True)
        ).scalar_one_or_none()
        if fence != self.fence:
            raise LeaseLost(f"{self.name}: began under fence {self.fence}, now it is {fence}")


class Lease:
    """Take, keep and give back one lease; `owner` is unique to this process, `monotonic` returns seconds.

    `ttl_s` is how long an owner may be silent: several beats.

    `beat` and `give_back` are called from one thread; `held` may be asked from any.
    """

    def __init__(
        self,
        services: Services,
        name: str,
        *,
        owner: str,
        ttl_s: float = TTL_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._services = services
        self._name, self._owner, self._ttl_s = name, owner, ttl_s
        self._monotonic = monotonic
        self._held: Held | None = None
        self._seen: tuple[int, int] | None = None
        self._seen_s = 0.0

    @property
    def held(self) -> Held | None:
        """Return the lease as far as this process knows; the check within a write is what counts."""
        return self._held

    def beat(self) -> Held | None:
        """Show a sign of life, or take the lease where it is free or its owner silent. Raises a DatabaseTrouble."""
        self._held = self._services.database.write(self._keep if self._held is not None else self._try)
        return self._held

    def give_back(self) -> None:
        """Let another one have it at once; does nothing where it is not ours. Raises a DatabaseTrouble."""
        held, self._held = self._held, None
        if held is not None:
            self._services.database.write(lambda conn: self._write(conn, held.fence, {"owner": ""}))

    def _keep(self, conn: Connection) -> Held | None:
        held = self._held
        assert held is not None, "one thread beats"
        return held if self._write(conn, held.fence, {"owner": self._owner}) else None

    def _try(self, conn: Connection) -> Held | None:
        row = conn.execute(select(job_lease).where(job_lease.c.name == self._name)).one_or_none()
        if row is None:
            first = {"name": self._name, "owner": self._owner, "fence": 1, "beats": 0, "until_at": self._until()}
            conn.execute(insert(job_lease).values(first))
            return Held(self._name, 1)
        if row.owner and not self._silent(row):
            return None
        taken = self._write(conn, row.fence, {"owner": self._owner, "fence": row.fence + 1}, beats=row.beats)
        return Held(self._name, row.fence + 1) if taken else None

    def _silent(self, row: Row[tuple[object, ...]]) -> bool:
        """Tell whether the owner has shown no sign of life for `ttl_s` since this process looked first."""
        now_s, sign = self._monotonic(), (row.fence, row.beats)
        if sign != self._seen:
            self._seen, self._seen_s = sign, now_s
        return now_s - self._seen_s >= self._ttl_s

    def _write(self, conn: Connection, fence: int, values: dict[str, str | int], *, beats: int | None = None) -> bool:
        """Change the row if it is still that of `fence` (and of `beats`, where the taker has looked at it)."""
        mine = update(job_lease).where(job_lease.c.name == self._name, job_lease.c.fence == fence)
        if beats is not None:
            mine = mine.where(job_lease.c.beats == beats)
        written = conn.execute(mine.values({**values, "beats": job_lease.c.beats + 1, "until_at": self._until()}))
        return written.rowcount == 1

    def _until(self) -> object:
        return self._services.clock.now() + timedelta(seconds=self._ttl_s)

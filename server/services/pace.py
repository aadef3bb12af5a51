"""Tell tills how long to rest between two sessions, so that all of them together never ask more than a server bears.

A session with nothing to tell (a greeting, a pull, both signed, over TLS) was measured at 9.5 ms of a server's
processor on two busy cores (3.7 by a pass and without TLS), whatever changed since. So what would hurt is no change
that all pull, but how often all come: 10,000 tills every 10 s are 1,000 sessions a second, or 10 cores. At 200 a second
they are two; up to 2,000 tills come as often as they like, and 10,000 have each change within 75 s instead of 15. A
sale is told at once all the same.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from server.db.schema import till
from server.services import devices
from server.services.context import Context

SESSIONS_PER_S = 200
COUNTED_EVERY = 500
"""Greetings after which the tills are counted anew."""


@dataclass(slots=True)
class Pace:
    """Remember how many tills there are; shared between threads, of which several may count at once."""

    _greetings: int = 0
    _tills: int = 0

    def is_due(self) -> bool:
        """Count a greeting, and tell whether the tills are to be counted anew."""
        self._greetings += 1
        return self._greetings % COUNTED_EVERY == 1

    def count(self, conn: Connection, _ctx: Context) -> None:
        """Count the tills that may speak; one that is lost and speaks all the same is no burden."""
        wanted = select(func.count()).select_from(till).where(till.c.lost_at.is_(None), devices.may_speak())
        self._tills = conn.execute(wanted).scalar_one()

    @property
    def rest_s(self) -> int:
        """Return how long each should rest between two sessions, on average; 0 to 9 is what tills do by themselves."""
        return round(self._tills / SESSIONS_PER_S)

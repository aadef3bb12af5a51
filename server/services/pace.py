"""Tell tills how long to rest between two sessions, so that all of a large chain together ask no more than is easy.

A till that has nothing to tell asks every ten seconds, which is right for hundreds of them: ten thousand would ask a
thousand times a second. So each is told its share of `SESSIONS_PER_S`. Who sold something comes at once all the same.
"""

import threading
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, select

from server.db import schema

SESSIONS_PER_S = 40.0
"""Sessions without news that a server is to be asked for: half of one processor or less (`bench crowd`)."""
COUNTED_S = 60
IN_USE = timedelta(days=1)
_IN_USE = select(func.count()).select_from(schema.till).where(schema.till.c.last_seen_at >= bindparam("since"))


def rest_s(tills: int) -> float:
    """Return the seconds that each of so many tills is to rest, on average."""
    return tills / SESSIONS_PER_S


class Pace:
    """Remember for a minute how many tills there are: counting them is no business of every greeting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tills = 0
        self._until: datetime | None = None

    def rest_s(self, conn: Connection, now: datetime) -> float:
        """Return how long a till that greets now is to rest behind its session."""
        with self._lock:
            if self._until is None or not self._until - timedelta(seconds=COUNTED_S) <= now < self._until:
                self._tills = conn.execute(_IN_USE, {"since": now - IN_USE}).scalar_one()
                self._until = now + timedelta(seconds=COUNTED_S)
            return rest_s(self._tills)

"""Remember the nonces of signed requests for as long as their time lets them in, so that none is answered twice.

With SQLite one process has the database, so its memory knows all that was asked; what a process before it was asked it
cannot know, and refuses every request that was signed before it began (the till hears the time and signs anew). With
PostgreSQL several processes answer: there the nonces are in the database, by a write that joins the writer's next
group. They are not there always, since a write would cost every pull, which writes nothing else, a durable commit.
"""

import threading
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection, delete

from server.db.engine import Database
from server.db.errors import DatabaseBusy
from server.db.portable import upsert
from server.db.schema import request_nonce
from sync.signatures import CLOCK_WINDOW_S, Signed

SLACK_S = 300
KEPT_MAX = 1_000_000
"""In memory, some 200 MB at worst: 3,000 requests a second for five minutes. Whoever fills it has a till's key."""


class Nonces(Protocol):
    """Tell a request from its copy."""

    since_s: int
    """Requests signed before this instant (seconds since 1970) cannot be told from copies."""

    def take(self, signed: Signed, now_s: int) -> bool:
        """Remember a request whose time is within the window of now; False where it was here.

        Raises a DatabaseTrouble.
        """


class MemoryNonces:
    """Remember what this process was asked; `since` is when it began."""

    def __init__(self, since: datetime, *, kept_max: int = KEPT_MAX) -> None:
        self.since_s = int(since.timestamp())
        self._kept_max = kept_max
        self._by_minute: dict[int, set[tuple[str, str]]] = {}
        self._lock = threading.Lock()

    def take(self, signed: Signed, now_s: int) -> bool:
        """Remember a request by the minute of its own time: a copy has the same, and with it it falls out of date."""
        key, minute = (signed.key_id, signed.nonce), signed.created_s // 60
        oldest = (now_s - CLOCK_WINDOW_S) // 60
        with self._lock:
            for old in [each for each in self._by_minute if each < oldest]:
                del self._by_minute[old]
            known = self._by_minute.setdefault(minute, set())
            if key in known:
                return False
            if sum(map(len, self._by_minute.values())) >= self._kept_max:
                raise DatabaseBusy("too many signed requests")
            known.add(key)
            return True


class DatabaseNonces:
    """Remember what every process on the database was asked."""

    since_s = 0

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, signed: Signed, now_s: int) -> bool:
        """Remember a request in the database."""
        now, created_at = (datetime.fromtimestamp(each, UTC) for each in (now_s, signed.created_s))
        # Longer than the window: the servers' clocks are not quite the same.
        window = timedelta(seconds=CLOCK_WINDOW_S + SLACK_S)

        def keep(conn: Connection) -> bool:
            conn.execute(delete(request_nonce).where(request_nonce.c.until_at < now))
            row = {"key_id": signed.key_id, "nonce": signed.nonce, "until_at": created_at + window}
            kept = upsert(conn, request_nonce).values(row).on_conflict_do_nothing().returning(request_nonce.c.nonce)
            return conn.execute(kept).first() is not None

        return self._database.write(keep)


def open_nonces(database: Database, *, since: datetime) -> Nonces:
    """Return what remembers nonces for whoever has this database; `since` is now."""
    return MemoryNonces(since) if database.path is not None else DatabaseNonces(database)

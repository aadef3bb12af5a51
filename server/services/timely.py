"""Tell in time what time makes due: campaigns that start and end, holds that time out, coupons that expire (B3).

Two paths lead to the same code. A patrol scans the database at its interval: that is what is correct. A timely message
only says "look now", so that it happens within a second and not within the interval. It names a patrol and an instant,
never a campaign, an order or a coupon: the patrol itself reads state and real time. So a message that is early finds
nothing due, one that is late or repeated finds it done, and one that is lost is made up for at the next interval.

Instants are bucketed (a coupon's by the minute, the others by the second, always up), so a batch of claims writes one
row, and most of them none: the message of that minute is there already. The way of a message: the outbox, in the
transaction of the change; from an hour before its time a carrier, Redis or this process; then the patrol.
"""

import heapq
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection

from server.services import outbox
from server.services.outbox import TIMELY, Message

CAMPAIGN_WINDOWS, HOLD_TIMEOUTS, COUPON_EXPIRY = "campaign_windows", "hold_timeouts", "coupon_expiry"
"""The kinds, each the name of the patrol that it wakes."""

BUCKET_MS = {CAMPAIGN_WINDOWS: 1000, HOLD_TIMEOUTS: 1000, COUPON_EXPIRY: 60_000}
AHEAD = timedelta(hours=1)
"""How long before its time a message leaves the database: what lies in Redis for a year is of no use to anybody."""


@dataclass(frozen=True, slots=True)
class Timely:
    """Say that a patrol should look at `due_ms` (UTC, milliseconds since 1970)."""

    kind: str
    due_ms: int

    def __str__(self) -> str:
        """Write it as the outbox and the carrier keep it."""
        return f"{self.kind}:{self.due_ms}"

    @classmethod
    def read(cls, text: str) -> "Timely":
        """Read what `str` wrote; ValueError for anything else."""
        kind, _, due_ms = text.rpartition(":")
        if kind not in BUCKET_MS:
            raise ValueError(f"no timely message of this kind: {kind[:50]}")
        return cls(kind, int(due_ms))


def announce(conn: Connection, kind: str, instants: Iterable[datetime | None], *, now: datetime) -> None:
    """Have the patrol woken at each of the instants (None = never), by one write, together with the change."""
    buckets = {_bucket(kind, instant) for instant in instants if instant is not None}
    messages = [
        Message(TIMELY, str(each), due_at=max(now, datetime.fromtimestamp(each.due_ms / 1000, UTC) - AHEAD))
        for each in sorted(buckets, key=lambda each: each.due_ms)
    ]
    outbox.put(conn, messages, now)


def _bucket(kind: str, instant: datetime) -> Timely:
    size = BUCKET_MS[kind]
    # As the database keeps it (`Instant`): a bucket that ended a fraction too soon would wake the patrol for nothing.
    return Timely(kind, -(-round(instant.timestamp() * 1000) // size) * size)


class Carrier(Protocol):
    """Carry messages until their time. It may lose, repeat, delay or reorder them: nothing hangs on it but speed."""

    def put(self, message: str, due_ms: int) -> None:
        """Carry the message; one that is carried already moves to this time."""
        ...

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Return up to `limit` messages whose time has come, oldest first; they stay until `done`."""
        ...

    def done(self, messages: Iterable[str]) -> None:
        """Carry these no longer."""
        ...


class Heap:
    """Carry messages in this process, where there is no Redis; they are lost with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[int, str]] = []
        self._due_ms: dict[str, int] = {}

    def put(self, message: str, due_ms: int) -> None:
        """Carry the message; one that is carried already moves to this time."""
        with self._lock:
            if self._due_ms.get(message) != due_ms:
                self._due_ms[message] = due_ms
                heapq.heappush(self._heap, (due_ms, message))

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Return up to `limit` messages whose time has come, oldest first; they stay until `done`."""
        with self._lock:
            found: dict[str, int] = {}
            while self._heap and self._heap[0][0] <= now_ms and len(found) < limit:
                due_ms, message = heapq.heappop(self._heap)
                # What was moved or done lies here still under its old time.
                if self._due_ms.get(message) == due_ms:
                    found[message] = due_ms
            for message, due_ms in found.items():
                heapq.heappush(self._heap, (due_ms, message))
            return list(found)

    def done(self, messages: Iterable[str]) -> None:
        """Carry these no longer."""
        with self._lock:
            for message in messages:
                self._due_ms.pop(message, None)

    def close(self) -> None:
        """Let go of nothing."""

"""Give the server its real clock and its real ids."""

import secrets
import threading
import time
from datetime import UTC, datetime

from app.domain.uuid7 import next_tick, uuid7


class SystemClock:
    """Read the machine's clock."""

    def now(self) -> datetime:
        """Return the instant in UTC."""
        return datetime.now(UTC)


class SystemIds:
    """Make UUIDv7 ids that grow within the process, also within one millisecond (`app/domain/uuid7.py`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        """Return 32 hex digits, greater than any before."""
        with self._lock:
            self._last = next_tick(self._last, time.time_ns() // 1_000_000)
            return uuid7(self._last, secrets.randbits(62))

    def digits(self, count: int) -> str:
        """Return `count` decimal digits from the system's cryptographic source."""
        return str(secrets.randbelow(10**count)).zfill(count)

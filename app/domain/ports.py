"""Name what the outside must give to till and server alike: a clock and a source of ids.

Definitions only. The real ones are in `app/services/system.py` and `server/services/system.py`; scenarios and tests
bring their own.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

Probe = Callable[[str], None]
"""Pass a named point at which a test may let the process die; does nothing in daily use."""


class Clock(Protocol):
    """Tell the time."""

    def now(self) -> datetime:
        """Return the instant in UTC, aware."""
        ...


class Ids(Protocol):
    """Make what must never come twice."""

    def new(self) -> str:
        """Return an id of 32 hex digits that sorts by the time of its making (UUIDv7, RFC 9562 section 5.7)."""
        ...

    def digits(self, count: int) -> str:
        """Return `count` decimal digits, each equally likely, from a cryptographic source."""
        ...

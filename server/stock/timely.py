"""Carry timely messages in a sorted set by their time: the carrier of `server/services/timely.py` where there is Redis.

Nothing hangs on it but speed, so a Redis that forgets, or comes back from an old snapshot, does no harm here: who is
woken for nothing finds nothing due, and a patrol makes up for what is lost. One key for the whole chain.
"""

from collections.abc import Iterable
from typing import Any

from server.stock.connection import Address, connect
from server.stock.pipeline import BlockingStock
from server.stock.trouble import ERRORS, trouble_of


class SortedSet:
    """Keep messages scored by their milliseconds; every call may raise a StockTrouble."""

    def __init__(self, address: Address, *, prefix: str = "") -> None:
        self._stock = BlockingStock(lambda: connect(address, None))
        self._key = f"{prefix}{{timely}}:due"

    def put(self, message: str, due_ms: int) -> None:
        """Carry the message; one that is carried already moves to this time."""
        self._do("zadd", self._key, {message: due_ms})

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Return up to `limit` messages whose time has come, oldest first; they stay until `done`."""
        raw = self._do("zrangebyscore", self._key, "-inf", now_ms, start=0, num=limit)
        return [message.decode() for message in raw]

    def done(self, messages: Iterable[str]) -> None:
        """Carry these no longer."""
        gone = list(messages)
        if gone:
            self._do("zrem", self._key, *gone)

    def close(self) -> None:
        """Close the connections."""
        self._stock.close()

    def _do(self, command: str, *args: Any, **options: Any) -> Any:
        try:
            return getattr(self._stock.client, command)(*args, **options)
        except ERRORS as error:
            raise trouble_of(error) or error from error

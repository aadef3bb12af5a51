"""Compile each statement once for all engines of a process.

A test opens a server of its own, and SQLAlchemy compiles for each engine anew: a fifth of what the suite takes.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache


class _SharedCache(LRUCache[Any, Any]):
    """Forget whose dialect it was: those of one class are set up alike here, and compile alike."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_without_dialect(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_without_dialect(key), value)


def _without_dialect(key: Any) -> Any:
    return (type(key[0]), *key[1:])


_compiled = _SharedCache(5000)


def share_compiled() -> None:
    """Let every connection that is made from now on use what others have compiled."""
    event.listen(Engine, "engine_connect", _share)


def _share(conn: Connection) -> None:
    conn.execution_options(compiled_cache=_compiled)

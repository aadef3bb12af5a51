"""Put another value in the place of one that a module or class has, for a while: the one way in which this is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patched(owner: Any, name: str, value: object) -> Iterator[None]:
    """Let `owner` have `value` under a name that it has already."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)

"""Write down what is meant and what was seen, forced to the disk before anybody is told: one file for each who acts.

The files are all that the checker believes. Whoever is killed in the middle leaves an intent without an outcome.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
SUFFIX = ".jsonl"


class Journal:
    """Append to one file; its one writer may die at any moment, and open it again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        _cut_torn_line(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def add(self, what: str, **facts: Any) -> None:
        """Add a line; it is on the disk when this returns."""
        line = {"what": what, "at_ms": time.time_ns() // 1_000_000, **facts}
        os.write(self._file, json.dumps(line, ensure_ascii=False).encode() + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Follower:
    """Read what was added to a file since the last look; at first its last `tail_bytes`, None = all of it."""

    def __init__(self, path: Path, tail_bytes: int | None = None) -> None:
        self._path = path
        size = path.stat().st_size
        self._at = max(0, size - tail_bytes) if tail_bytes is not None else 0
        self._skip = self._at > 0

    def lines(self) -> Iterator[Line]:
        """Yield the new lines; one that is not whole yet waits."""
        if self._path.stat().st_size == self._at:
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                self._at += len(raw)
                if self._skip:
                    self._skip = False
                    continue
                yield json.loads(raw)


def _cut_torn_line(path: Path) -> None:
    """Take out what its writer died over: it told nobody."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)

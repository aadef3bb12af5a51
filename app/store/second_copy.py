"""Keep a second copy of the ledger on another disk: a file of lines, one for each entry, written behind the commits.

The counter never waits for it: it lags by what was sold since the last look, and says by how much. It lies outside of
the till's disk, so it also knows what an image of that disk that was put back does not (PROTOCOL, F13): a copy that
goes further than the ledger is never written over, and recovery takes from it what the ledger lacks.
"""

import base64
import json
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.ledger import Entry, verifies
from app.store.database import TillDatabase
from app.store.driver import run

_CHUNK = 500
_COLUMNS = "epoch, seq, entry_id, kind, schema, body, prev_hash, hash, wall_ms, mono_ms, boot, operator"
_AFTER = f"SELECT {_COLUMNS} FROM entry WHERE (epoch, seq) > (?, ?) ORDER BY epoch, seq LIMIT {_CHUNK}"


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """Hold an entry with what its row says besides: both clocks, the run of the program, who was signed in."""

    entry: Entry
    wall_ms: int
    mono_ms: int
    boot: str
    operator: str

    def row(self) -> tuple[Any, ...]:
        """Return it in the order of the ledger's columns."""
        each = self.entry
        place = (each.epoch, each.seq, each.entry_id, each.kind, each.schema, each.body, each.prev_hash, each.hash)
        return (*place, self.wall_ms, self.mono_ms, self.boot, self.operator)


class CopyForeign(Exception):
    """Say that the file belongs to another till."""


class SecondCopy:
    """Write and read one till's copy in a folder on another disk. Every method may raise OSError: the disk is away."""

    def __init__(self, folder: Path, till_id: str) -> None:
        self.path = folder / f"{till_id}.ledger"
        self._till_id = till_id

    def catch_up(self, db: TillDatabase) -> int:
        """Copy what is not there yet, forced to disk; returns how many entries. Raises CopyForeign, OSError.

        A line that a power cut left in half is written anew.
        """
        copied = 0
        with self._opened() as file:
            epoch, seq = self._end(file)
            while True:
                with db.read() as conn:
                    rows = run(conn, _AFTER, (epoch, seq)).fetchall()
                for row in rows:
                    file.write(_line(row))
                if not rows:
                    break
                epoch, seq, copied = rows[-1][0], rows[-1][1], copied + len(rows)
            if copied:
                file.flush()
                os.fsync(file.fileno())
        return copied

    def lag(self, db: TillDatabase) -> int:
        """Return how many entries are not in the copy yet. Raises OSError."""
        with self._opened() as file:
            end = self._end(file)
        with db.read() as conn:
            counted = run(conn, "SELECT count(*) FROM entry WHERE (epoch, seq) > (?, ?)", end).fetchone()
        return int(counted[0])

    def goes_further(self, db: TillDatabase) -> str:
        """Say in what the copy knows more of this ledger than the file does, or knows it otherwise; "" = in nothing."""
        copied = deque(self.entries(), maxlen=1)
        if not copied:
            return ""
        last = copied[0]
        with db.read() as conn:
            place = (last.entry.epoch, last.entry.seq)
            row = run(conn, "SELECT hash FROM entry WHERE epoch = ? AND seq = ?", place).fetchone()
        if row is None:
            return f"the second copy goes to entry {last.entry.seq} of epoch {last.entry.epoch}, this file does not"
        return "" if row[0] == last.entry.hash else f"entry {last.entry.seq} is another one in the second copy"

    def entries(self) -> Iterator[StoredEntry]:
        """Yield every entry that verifies, in the order in which they were copied; what is damaged is passed over."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                found = _read(line)
                if found is not None and verifies(found.entry, self._till_id):
                    yield found

    def _opened(self) -> BinaryIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The ledger is nobody else's business, and this folder is not ours.
        return os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "r+b")

    def _end(self, file: BinaryIO) -> tuple[int, int]:
        """Return the place of the last whole line, and stand behind it; a new file gets its first line."""
        head = json.dumps({"pawtill": "second copy of a ledger", "till": self._till_id}).encode() + b"\n"
        first = file.readline()
        if first and first != head:
            raise CopyForeign(f"{self.path} is not the copy of till {self._till_id}")
        if not first:
            file.write(head)
            return (0, 0)
        place, behind = (0, 0), file.tell()
        for line in file:
            found = _read(line)
            if not line.endswith(b"\n") or found is None:
                break
            place, behind = (found.entry.epoch, found.entry.seq), behind + len(line)
        file.seek(behind)
        file.truncate()
        return place


def _line(row: Any) -> bytes:
    data = [each.hex() if i in (6, 7) else each for i, each in enumerate(row)]
    data[5] = base64.b64encode(row[5]).decode()
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(line: bytes) -> StoredEntry | None:
    """Read one line; None for one that is no entry."""
    try:
        data = json.loads(line)
        body, before, digest = base64.b64decode(data[5]), bytes.fromhex(data[6]), bytes.fromhex(data[7])
        epoch, seq, entry_id, kind, schema = data[:5]
        return StoredEntry(Entry(epoch, seq, entry_id, kind, schema, body, before, digest), *data[8:12])
    except (ValueError, TypeError, KeyError, IndexError):
        return None

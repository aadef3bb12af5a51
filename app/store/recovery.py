"""Make a sound ledger out of what is left of a damaged or lost one: what verifies is kept, from wherever it comes.

Nothing that is there is changed before the new file is whole: the damaged one is kept beside it. The new file is in the
old epoch still; it is of use only once the server has opened a new one for it (`app.services.epochs`), which carries
over what the server lacks and finds what nobody has any more.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.ledger import Entry, genesis, original, verifies
from app.domain.ports import Progress, Step
from app.store import boot, meta
from app.store.database import TillDatabase
from app.store.driver import run_each
from app.store.second_copy import SecondCopy, StoredEntry

_ENTRY = "epoch, seq, entry_id, kind, schema, body, prev_hash, hash, wall_ms, mono_ms, boot, operator"
_PARTS = ("", "-wal", "-shm")
_OPEN_WORK = {
    "lease": "",
    "lease_coupon": "",
    "home": "",
    "orders": "WHERE state IN ('OPEN', 'HELD', 'UNKNOWN')",
    "refund": "WHERE body IS NULL",
}
"""What no entry says: rights as the server lent them, and work that was under way. Taken as far as it can be read."""
MISSES_MAX = 1000
"""Places beyond the last entry that are looked at one by one, where nothing says how far the ledger went."""

SHOWN_EACH = 100
"""Entries from one look of whoever watches to the next."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Tell what was saved: entries in all, the epoch that is left, where it ended, and whether nothing is missing.

    `beside` happened too, under numbers that others have: this disk was set back, and sold again before that was found.
    """

    entries: int
    epoch: int
    last_seq: int
    whole: bool
    beside: tuple[Entry, ...] = ()


def working_file(path: Path) -> Path:
    """Return where the new ledger is built."""
    return path.with_name(path.name + boot.RECOVERING)


def enrolment_of(path: Path) -> str | None:
    """Return the id under which an earlier try asked for its epoch, "" where that was entered; None = there was none.

    A key opens one epoch, so a try that broke off goes on under its id.
    """
    target = working_file(path)
    if not target.exists():
        return None
    try:
        with closing(sqlite3.connect(target)) as connection:
            told = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        return str(json.loads(told["enrolment"]))
    except (sqlite3.Error, KeyError, ValueError):
        return None


def salvage(
    path: Path, *, till_id: str, store_id: str, copy: SecondCopy | None, enrolment: str, progress: Progress
) -> Salvaged:
    """Build the new ledger beside the damaged one. `enrolment` is the id under which its epoch will be asked for.

    Reads the file, damaged files of earlier tries, and the second copy. The caller holds the lock of `path`.
    """
    target = working_file(path)
    for part in (*_PARTS, ".lock"):
        target.with_name(target.name + part).unlink(missing_ok=True)
    mark = boot.read_mark(_lock_line(path))
    found: dict[tuple[int, int], StoredEntry] = {}
    beside: dict[bytes, Entry] = {}

    def take(each: StoredEntry) -> None:
        there = found.setdefault((each.entry.epoch, each.entry.seq), each).entry
        if there.hash != each.entry.hash:
            beside[each.entry.hash] = each.entry
        if len(found) % SHOWN_EACH == 0:
            progress(Step.READ, len(found), 0)

    kept = sorted(each for each in path.parent.glob(path.name + ".damaged-*") if not each.name.endswith(_PARTS[1:]))
    for source in (path, *kept):
        for each in _readable(source, till_id, upto=mark[1] if mark else 0):
            take(each)
    for each in copy.entries() if copy else ():
        take(each)
    progress(Step.READ, len(found), len(found))
    epoch = max([mark[0] if mark else 1, *(place[0] for place in found)])
    last_seq = max([mark[1] if mark and mark[0] == epoch else 0, *(seq for at, seq in found if at == epoch)])
    with closing(TillDatabase.open(target, till_id=till_id, store_id=store_id)) as db:
        _fill(db, found.values(), path, epoch=epoch, enrolment=enrolment)
    known = {original(each.entry, till_id).entry_id for each in found.values()}
    more = {fact.entry_id: fact for fact in (original(each, till_id) for each in beside.values())}
    left = tuple(fact for name, fact in more.items() if name not in known)
    whole = not left and _is_whole(found, till_id, epoch=epoch, last_seq=last_seq)
    return Salvaged(len(found), epoch, last_seq, whole=whole, beside=left)


def put_in_place(path: Path) -> Path:
    """Keep the damaged file under another name, and put the new one in its place; returns where the old one is.

    A crash in between leaves the old one in place, or the new one; what was there is in the kept file in either case.
    """
    number = 1 + len(list(path.parent.glob(path.name + ".damaged-*")))
    kept = path.with_name(f"{path.name}.damaged-{number}")
    for part in _PARTS:
        source = path.with_name(path.name + part)
        if source.exists():
            shutil.copy2(source, kept.with_name(kept.name + part))
    target = working_file(path)
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for part in _PARTS[1:]:
        path.with_name(path.name + part).unlink(missing_ok=True)
    target.replace(path)
    for part in (*_PARTS[1:], ".lock"):
        target.with_name(target.name + part).unlink(missing_ok=True)
    return kept


def _lock_line(path: Path) -> str:
    with suppress(OSError):
        return path.with_name(path.name + ".lock").read_bytes().split(b"\n")[0].decode("ascii", "replace").strip()
    return ""


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of a file, with its log: what is looked at stays as it is."""
    work = path.with_name(path.name + ".reading")
    try:
        for part in _PARTS:
            source = path.with_name(path.name + part)
            if source.exists():
                shutil.copy2(source, work.with_name(work.name + part))
        with closing(sqlite3.connect(work)) as connection:
            yield connection
    finally:
        for part in _PARTS:
            work.with_name(work.name + part).unlink(missing_ok=True)


_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: where what names the damage is damaged, SQLite's own words are no text."""


def _readable(path: Path, till_id: str, *, upto: int) -> Iterator[StoredEntry]:
    """Yield what can be read and verifies of a file."""
    with suppress(*_UNREADABLE), _reading(path) as connection:
        for row in _rows(connection, upto=upto):
            with suppress(TypeError, ValueError, AttributeError):
                each = StoredEntry(Entry(*row[:8]), *row[8:])
                if verifies(each.entry, till_id):
                    yield each


def _rows(connection: sqlite3.Connection, *, upto: int) -> Iterator[tuple[Any, ...]]:
    """Read the ledger in order; behind a page that cannot be read, place by place."""
    epoch, seq = 0, 0
    try:
        for row in connection.execute(f"SELECT {_ENTRY} FROM entry ORDER BY epoch, seq"):
            yield row
            epoch, seq = row[0], row[1]
        return
    except _UNREADABLE:
        epoch = max(epoch, 1)
    misses = 0
    while misses < MISSES_MAX or seq < upto:
        seq += 1
        try:
            row = connection.execute(f"SELECT {_ENTRY} FROM entry WHERE epoch = ? AND seq = ?", (epoch, seq)).fetchone()
        except _UNREADABLE:
            row = None
        misses = 0 if row else misses + 1
        if row:
            yield row


def _fill(db: TillDatabase, entries: Iterable[StoredEntry], old: Path, *, epoch: int, enrolment: str) -> None:
    """Write the entries at their places, each waiting for the server's word, and what is readable of open work."""
    rows = sorted((each.row() for each in entries), key=lambda row: row[:2])
    unique: dict[str, tuple[object, ...]] = {str(row[2]): row for row in rows}
    with db.write() as tx:
        run_each(tx, f"INSERT INTO entry ({_ENTRY}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", unique.values())
        places = [(row[0], row[1]) for row in unique.values()]
        run_each(tx, "INSERT INTO outbox (epoch, seq, state) VALUES (?, ?, 'PENDING')", places)
        meta.put(tx, epoch=epoch, enrolment=enrolment)
        for table, where in _OPEN_WORK.items():
            columns, found = _open_work(old, table, where)
            marks = ",".join("?" * len(columns))
            if found:
                run_each(tx, f"INSERT OR IGNORE INTO {table} ({','.join(columns)}) VALUES ({marks})", found)


def _open_work(old: Path, table: str, where: str) -> tuple[list[str], list[tuple[object, ...]]]:
    try:
        with _reading(old) as connection:
            cursor = connection.execute(f"SELECT * FROM {table} {where}")
            return [column[0] for column in cursor.description], cursor.fetchall()
    except _UNREADABLE:
        return [], []


def _is_whole(found: Mapping[tuple[int, int], StoredEntry], till_id: str, *, epoch: int, last_seq: int) -> bool:
    """Tell whether the epoch has every number up to its end, each continuing the one before."""
    before = genesis(till_id, epoch)
    for seq in range(1, last_seq + 1):
        each = found.get((epoch, seq))
        if each is None or each.entry.prev_hash != before:
            return False
        before = each.entry.hash
    return True

"""Look at the data: folders, free room, and what is in the databases; nothing here writes, locks or shows a secret."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL

from app.store.boot import APPLICATION_ID, SCHEMA_VERSION, file_uri
from cli.doctor.check import Check, broken, fine, note
from server.db.migrate import HEAD

_GIB, _MIB = 2**30, 2**20
WARN_BYTES, LOW_BYTES, STOP_BYTES = _GIB, 200 * _MIB, 50 * _MIB
"""Below the first a person should make room, below the second a till takes on nothing new, below the third it sells
nothing (PROTOCOL 6.4)."""
CLOCK_APART_S = 60
_BUSY_S = 1.0


class Connection(Protocol):
    """Run a query that is the same on both databases: what both drivers' connections do."""

    def execute(self, query: str, /) -> Any:
        """Return the rows."""


Telling = Callable[[Connection], Iterator[Check]]


def look(till_file: Path, server: Path | URL) -> Iterator[Check]:
    """Yield what there is to say about both parts; a part that is not on this machine is no fault."""
    yield from _look("Till", till_file, _till)
    if isinstance(server, Path):
        yield from _look("Server", server, _server)
        return
    from cli.doctor import postgres  # noqa: PLC0415 (the driver takes 60 ms to load)

    yield from postgres.look(server, _server)


def _look(part: str, file: Path, tell: Telling) -> Iterator[Check]:
    if not file.parent.is_dir():
        yield note(f"{part} data", f"none in {file.parent}")
        return
    yield fine(f"{part} data", str(file.parent))
    yield room(f"{part} disk", shutil.disk_usage(file.parent).free)
    if file.exists():
        yield from _database(f"{part} database", file, tell)
    else:
        yield note(f"{part} database", f"none yet ({file.name})")


def room(name: str, free_bytes: int) -> Check:
    """Compare the free room with the watermarks."""
    text = f"{_size(free_bytes)} free"
    if free_bytes < STOP_BYTES:
        return broken(name, f"{text}: below {_size(STOP_BYTES)} nothing is sold")
    if free_bytes < LOW_BYTES:
        return note(name, f"{text}: below {_size(LOW_BYTES)}, make room now")
    return (
        note(name, f"{text}: below {_size(WARN_BYTES)}, make room soon")
        if free_bytes < WARN_BYTES
        else fine(name, text)
    )


def _database(name: str, file: Path, tell: Telling) -> Iterator[Check]:
    """Open the file for reading only and let `tell` speak; what SQLite says against it is a finding."""
    try:
        size = sum(part.stat().st_size for part in file.parent.glob(file.name + "*") if part.suffix != ".lock")
        with closing(sqlite3.connect(file_uri(file, "ro"), uri=True, timeout=_BUSY_S)) as connection:
            yield fine(name, f"{file}, {_size(size)}")
            yield from tell(connection)
    except (sqlite3.Error, OSError, ValueError) as error:
        yield broken(name, f"{file}: {error}")


def _till(connection: Connection) -> Iterator[Check]:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        yield broken("Till schema", "the file is no till of Pawtill's")
        return
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    yield _schema("Till schema", str(version), str(SCHEMA_VERSION), newer=version > SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        return
    meta = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")}
    yield fine("Till", f"{meta.get('till_id')} in store {meta.get('store_id')}, epoch {meta.get('epoch', 1)}")
    entries = _count(connection, "SELECT count(*) FROM entry")
    pending = _count(connection, "SELECT count(*) FROM outbox WHERE state = 'PENDING'")
    parked = _count(connection, "SELECT count(*) FROM outbox WHERE state = 'PARKED'")
    yield fine("Ledger", f"{entries:,} entries, {pending:,} not synced")
    if parked:
        yield note("Parked entries", f"{parked:,}: the server took them with a conflict; headquarters has the findings")
    last = meta.get("last_sync_at_ms")
    if last is None:
        yield note("Last sync", "never")
    else:
        offset_s = meta.get("clock_offset_ms", 0) / 1000
        tell = fine if abs(offset_s) < CLOCK_APART_S else note
        yield tell("Clock", f"{offset_s:+.1f} s: head office's clock less this till's, at the last sync")
        yield fine("Last sync", f"{datetime.fromtimestamp(last / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC")


def _server(connection: Connection) -> Iterator[Check]:
    version = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    known = version[0] if version else "none"
    yield _schema("Server schema", known, HEAD, newer=known > HEAD)
    if known != HEAD:
        return
    counted = (
        ("tills", "SELECT count(*) FROM till"),
        ("products", "SELECT count(*) FROM product"),
        ("coupons", "SELECT count(*) FROM coupon"),
        ("orders", "SELECT count(*) FROM orders"),
        ("entries", "SELECT count(*) FROM ledger_entry"),
    )
    yield fine("Server holds", ", ".join(f"{_count(connection, query):,} {name}" for name, query in counted))
    findings = _count(connection, "SELECT count(*) FROM finding WHERE state = 'OPEN'")
    if findings:
        yield note("Open findings", f"{findings:,}: see `pawtill findings list`")


def _schema(name: str, found: str, known: str, *, newer: bool) -> Check:
    if newer:
        return broken(name, f"{found}, but this version knows {known} only: run the newer version of Pawtill")
    return fine(name, found) if found == known else note(name, f"{found}, becomes {known} at the next start")


def _count(connection: Connection, query: str) -> int:
    count: int = connection.execute(query).fetchone()[0]
    return count


def _size(count: int) -> str:
    for unit, step in (("GB", _GIB), ("MB", _MIB), ("kB", 2**10)):
        if count >= step:
            return f"{count / step:,.1f} {unit}"
    return f"{count} bytes"

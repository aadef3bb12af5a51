"""Check a till's file before it is trusted, and bring an older one up to date.

What is looked at before anything is opened for writing: the file as a whole (`quick_check`), that it is a Pawtill
ledger of a version that we know, and that it is not shorter than what this machine has written (the tail mark beside
it). Then the chain of the last entries. Measured on a ledger of 20,000 rows with one bit flipped, `quick_check` alone
finds 7 % and the chain 81 % (PROTOCOL 6.3).
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.store.errors import LedgerDamaged, LedgerForeign, LedgerNewer
from app.store.ledger import Ledger

APPLICATION_ID = 0x50415754
"""The letters PAWT: `file` and SQLite tools can tell whose file it is (SQLite, pragma application_id)."""
SCHEMA_VERSION = 4
"""Number of the newest migration; the file carries it as `user_version`."""
CHECKED_ENTRIES = 1000
RECOVERING = ".recovering"
"""Ends the name of a ledger that is being recovered: it may have gaps, and nothing is sold on it."""


def file_uri(path: Path, mode: str) -> str:
    """Return SQLite's URI of a file; `mode` is ro, rw or rwc."""
    return f"file:{quote(str(path.resolve()))}?mode={mode}"


def tail_mark(entry: Entry) -> str:
    """Write the mark that says how far this machine's ledger went."""
    return f'{{"epoch": {entry.epoch}, "seq": {entry.seq}, "hash": "{entry.hash[:8].hex()}"}}'


def read_mark(text: str) -> tuple[int, int, str] | None:
    """Read `tail_mark`; None for nothing or half a line (it is not forced to disk, so a power cut may leave either)."""
    try:
        data = json.loads(text)
        return int(data["epoch"]), int(data["seq"]), str(data["hash"])
    except (ValueError, KeyError, TypeError):
        return None


def inspect(path: Path, *, mark: str, busy_timeout_ms: int) -> None:
    """Look at the file without changing a byte of it. Raises LedgerDamaged, LedgerForeign, LedgerNewer.

    A file that is not there is fine, unless the mark says that there was one.
    """
    if not path.exists() or path.stat().st_size == 0:
        if read_mark(mark) is not None:
            raise LedgerDamaged(path, "the file is gone or empty, but this till has sold")
        return
    connection = sqlite3.connect(file_uri(path, "ro"), uri=True, isolation_level=None, timeout=busy_timeout_ms / 1000)
    with closing(connection):
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application_id != APPLICATION_ID:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application_id or version or tables:
                raise LedgerForeign(path, "this is not a till of Pawtill")
        if version > SCHEMA_VERSION:
            raise LedgerNewer(path, f"the file is of version {version}, this program knows {SCHEMA_VERSION}")
        connection.execute("PRAGMA cell_size_check = ON")
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
        if problems != ["ok"]:
            raise LedgerDamaged(path, f"the file is damaged: {problems[0]}")


def check_ledger(path: Path, conn: Connection, *, ledger: Ledger, mark: str) -> None:
    """Check the chain of the last entries and compare its end with the mark. Raises LedgerDamaged."""
    problems = ledger.verify(conn, last=CHECKED_ENTRIES)
    if problems:
        raise LedgerDamaged(path, f"the ledger is damaged: {problems[0]}")
    written = read_mark(mark)
    if written is None or written[0] != ledger.epoch:
        return
    _, seq, digest = written
    found = ledger.hash_at(conn, seq)
    if found is None:
        end, _ = ledger.tail(conn)
        raise LedgerDamaged(path, f"the ledger ends at entry {end}, but this machine had written {seq}")
    if found[:8].hex() != digest:
        raise LedgerDamaged(path, f"entry {seq} is not the one that this machine had written")


def migrate(tx: Connection) -> None:
    """Bring the schema to SCHEMA_VERSION, inside the caller's transaction: whole, or not at all."""
    version = tx.exec_driver_sql("PRAGMA user_version").scalar_one()
    if version == SCHEMA_VERSION:
        return
    # Alembic takes a third of a second to import, and is needed once a version.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = tx
    command.upgrade(config, "head")
    tx.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    tx.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")

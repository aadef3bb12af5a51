"""Keep the chain's secret under which coupon codes are digested: 32 bytes in a file for the owner alone.

Its loss makes every code that is out unreadable to the tills, so it belongs into the same backup as the database. All
servers of one database have the same: the database keeps a fingerprint of it, so that no second one mints codes that
the tills of the first cannot read.
"""

import hmac
import secrets
from pathlib import Path

from sqlalchemy import Connection, select

from server.db import schema
from server.db.engine import Database
from server.db.portable import upsert
from server.private_file import write_private

KEY_BYTES = 32
FILE_NAME = "code.key"
_PURPOSE = b"pawtill: the code key of this database"
"""No coupon code looks like this, so the fingerprint is the digest of none (codes are digested under the same key)."""


class CodeKeyMissing(Exception):
    """Say that the key's file is gone or broken while the database is there."""


class CodeKeyDiffers(Exception):
    """Say that the database has its codes under another key than the one in the folder."""


def load_code_key(data_dir: Path, *, database_exists: bool) -> bytes:
    """Return the key; make it where there is no database yet.

    Raises CodeKeyMissing rather than making a new one for a database that has codes under another.
    """
    path = data_dir / FILE_NAME
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        if database_exists:
            raise CodeKeyMissing(f"{path} is missing: put it back from the backup of this database") from None
        key = secrets.token_bytes(KEY_BYTES)
        write_private(path, key)
        return key
    if len(key) != KEY_BYTES:
        raise CodeKeyMissing(f"{path} is broken: put it back from the backup of this database")
    return key


def check_code_key(database: Database, key: bytes, *, folder: Path) -> None:
    """Hold the key against the database's fingerprint, or leave it there at the first start. Raises CodeKeyDiffers.

    Of several servers that start at once on an empty database the first to write decides; the others differ.
    """
    mine = fingerprint(key)
    kept = database.read(_kept) or database.write(lambda conn: _keep(conn, mine))
    if not hmac.compare_digest(kept, mine):
        raise CodeKeyDiffers(
            f"{folder / FILE_NAME} is not the key of this database: "
            f"copy {FILE_NAME} from the data folder of the server that made the database"
        )


def fingerprint(key: bytes) -> bytes:
    """Return 32 bytes by which a key is known and from which it cannot be found (HMAC-SHA256 under 256 random bits)."""
    return hmac.digest(key, _PURPOSE, "sha256")


def _kept(conn: Connection) -> bytes | None:
    return conn.execute(select(schema.code_key.c.fingerprint)).scalar_one_or_none()


def _keep(conn: Connection, mine: bytes) -> bytes:
    conn.execute(upsert(conn, schema.code_key).values(id=1, fingerprint=mine).on_conflict_do_nothing())
    kept = _kept(conn)
    assert kept is not None, "it was just written, if it was not there"
    return kept

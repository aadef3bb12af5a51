"""Find the trouble behind an error, whichever driver raised it."""

import sqlite3
import sys

from sqlalchemy.exc import DBAPIError, TimeoutError

from server.db import sqlite
from server.db.errors import DatabaseBusy, DatabaseTrouble


def trouble_of(error: BaseException) -> DatabaseTrouble | None:
    """Return the trouble, None where the error is something else (a constraint, a bug)."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        return sqlite.trouble_of(original)
    if isinstance(original, TimeoutError):
        return DatabaseBusy("too many readers are waiting for a connection")
    # Who has not loaded the driver has no error of it, and SQLite alone needs no psycopg.
    if "psycopg" in sys.modules:
        import psycopg  # noqa: PLC0415

        from server.db import postgres  # noqa: PLC0415

        if isinstance(original, psycopg.Error):
            return postgres.trouble_of(original)
    return None

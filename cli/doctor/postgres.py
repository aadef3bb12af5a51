"""Look at a database on PostgreSQL: whether it lets us in, which version it is, whether it keeps what it says."""

from collections.abc import Callable, Iterator

import psycopg
from sqlalchemy import URL, text
from sqlalchemy.exc import SQLAlchemyError

from cli.doctor.check import Check, broken, fine, note
from server.db.postgres import Postgres
from server.db.trouble import trouble_of

OLDEST = 14
"""The oldest PostgreSQL that its own developers still care for; nothing newer is needed."""


def look(url: URL, tell: Callable[[psycopg.Connection], Iterator[Check]]) -> Iterator[Check]:
    """Yield what there is to say; `tell` speaks about what is inside. Nothing here writes, and no password is shown."""
    store = Postgres(url)
    try:
        with store.readers.connect() as conn:
            version, encoding, size, fsync, pages = conn.execute(text(_ASK)).one()
            yield _version(f"{url}, PostgreSQL {version}, {size}", int(str(version).partition(".")[0]))
            if encoding != "UTF8":
                yield broken("Server encoding", f"{encoding}: make the database anew with ENCODING UTF8")
            if "off" in (fsync, pages):
                yield broken("Server durability", f"fsync {fsync}, full_page_writes {pages}: a power cut loses sales")
            driver = conn.connection.driver_connection
            assert isinstance(driver, psycopg.Connection), "the engine is psycopg's"
            yield from tell(driver)
    except (SQLAlchemyError, psycopg.Error) as error:
        yield broken("Server database", f"{url}: {trouble_of(error) or type(error).__name__}")
    finally:
        store.close()


_ASK = """
    SELECT current_setting('server_version'), current_setting('server_encoding'),
        pg_size_pretty(pg_database_size(current_database())),
        current_setting('fsync'), current_setting('full_page_writes')
"""


def _version(told: str, major: int) -> Check:
    if major < OLDEST:
        return note("Server database", f"{told}: its developers look after {OLDEST} and newer")
    return fine("Server database", told)

"""Open the server's data without its HTTP: who sets up a till or a demo waits for no web framework to load."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import URL

from app.domain.ports import Clock, Ids, Probe
from resources import lifecycles
from server.chain_key import load_chain_key
from server.code_key import check_code_key, load_code_key
from server.db.engine import Database
from server.db.migrate import migrate, version
from server.services.nonces import open_nonces
from server.services.services import Services, no_probe

HEADQUARTERS_KEY_FILE = "headquarters.key"


def open_services(
    where: Path | URL,
    *,
    clock: Clock,
    ids: Ids,
    folder: Path | None = None,
    probe: Probe = no_probe,
    opened: Callable[[Path | URL], Database] = Database,
) -> Services:
    """Open or make the database with its keys, and bring its schema up to date.

    `folder` holds the keys; None = beside the database's file, so a URL needs one. Raises a DatabaseTrouble,
    CodeKeyMissing, or CodeKeyDiffers.
    """
    lifecycles.load_all()
    if folder is None:
        assert isinstance(where, Path), "a database on a server has no folder of its own"
        folder = where.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = opened(where)
    try:
        code_key = load_code_key(folder, database_exists=database.read(version) is not None)
        migrate(database)
        check_code_key(database, code_key, folder=folder)
        chain_key = load_chain_key(folder, database)
    except BaseException:
        database.close()
        raise
    nonces = open_nonces(database, since=clock.now())
    return Services(
        database=database,
        clock=clock,
        ids=ids,
        code_key=code_key,
        chain_key=chain_key,
        nonces=nonces,
        probe=probe,
    )

"""Give a till its pass: `pawtill add-till`."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from cli.data_trouble import explain
from cli.exits import NEW_CHAIN, Exit, complain
from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db import schema
from server.db.errors import DatabaseTrouble, DataDirInUse
from server.opening import HEADQUARTERS_KEY_FILE, open_services
from server.private_file import write_private
from server.provision import ChainPlan, provision
from server.services import catalog, keys
from server.services.context import Context
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from sync.client import ServerClient


def write_till_pass(settings: Settings, *, till_id: str, store: str, url: str, out: Path) -> int:
    """Set a till up and write the pass that joins it; keys that it had before are worthless from then on.

    Where a server runs on the folder, it is asked: two writers on one database are never let in.
    """
    if not _is_address(url):
        complain(f"{url} is no address: it begins with http:// or https://")
        return Exit.CANNOT_START
    try:
        made = _make_till(settings, till_id=till_id, store=store)
    except DataDirInUse as error:
        address = _address(settings, url)
        asked = _ask_for_till(settings, address, till_id=till_id, store=store)
        if asked is None:
            complain(f"{error} and gives no key on {address}; stop it first, or name its address with --url")
            return Exit.DATA_IN_USE
        made = asked
    except (DatabaseTrouble, SQLAlchemyError, CodeKeyMissing, CodeKeyDiffers, ValueError, OSError) as error:
        return explain(error)
    content = {"url": url, "till": till_id, "store": store, "key": made["key"], "code_key": made["code_key"]}
    try:
        write_private(out, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        return explain(error)
    print(
        f"Pass of till {till_id} in store {store}: {out}. Carry it to the till and join: pawtill till --join {out.name}"
    )
    return Exit.OK


def _make_till(settings: Settings, *, till_id: str, store: str) -> dict[str, Any]:
    """Set the till up in the database, in a new chain where there is none; returns its two keys."""

    def make(conn: Connection, ctx: Context) -> keys.NewKey | Refusal:
        if conn.execute(select(schema.store.c.id).where(schema.store.c.id == store)).first() is None:
            catalog.set_store(conn, store, zone=ctx.chain.zone.key)
        return catalog.set_till(conn, ctx, till_id, store_id=store)

    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        key_file = settings.folder / HEADQUARTERS_KEY_FILE
        if provision(services, ChainPlan(), keep=lambda token: write_private(key_file, f"{token}\n".encode())):
            print(NEW_CHAIN.format(key_file))
        made = services.write(make)
        assert isinstance(made, keys.NewKey), "the store was made in the same transaction"
        return {"key": made.token, "code_key": services.code_key.hex()}
    finally:
        services.database.close()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _address(settings: Settings, url: str) -> str:
    """Return where the server of this machine listens: headquarters' key is not sent through any network."""
    if urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}:
        return url
    return f"http://127.0.0.1:{settings.port}"


def _ask_for_till(settings: Settings, address: str, *, till_id: str, store: str) -> dict[str, Any] | None:
    """Let the running server set the till up; None where it does not answer, or does not take the folder's key."""
    till_path, store_path = f"/v1/tills/{quote(till_id, safe='')}", f"/v1/stores/{quote(store, safe='')}"
    try:
        key = (settings.folder / HEADQUARTERS_KEY_FILE).read_text("utf-8").strip()
        with ServerClient(address, key) as client:
            answer = client.put(till_path, {"store": store})
            if isinstance(answer, Refusal):  # its store is new
                client.put(store_path, {})
                answer = client.put(till_path, {"store": store})
    except (OSError, Offline, Busy):
        return None
    return None if isinstance(answer, Refusal) else answer

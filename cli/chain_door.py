"""Set something up in the chain of a data folder: in its database, or where a server runs on it, through that."""

import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from cli.data_trouble import explain
from cli.exits import NEW_CHAIN, Exit, complain
from cli.till_folder import INSECURE_ZH
from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db import schema
from server.db.errors import DatabaseTrouble, DataDirInUse
from server.opening import HEADQUARTERS_KEY_FILE, open_services
from server.private_file import write_private
from server.provision import ChainPlan, provision
from server.services import catalog
from server.services.context import Context
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from server.tls import AUTHORITY_FILE, with_authority
from sync.client import Json, ServerClient
from sync.trust import may_be_plain, pinned

ANSWER_S = 30.0
"""A person waits for this, not a customer."""


class NoChain(Exception):
    """Say that nothing could be set up; a person was told why. `code` is the exit code for it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def at_chain(
    settings: Settings,
    url: str,
    *,
    store: str,
    here: Callable[[Services], dict[str, Any]],
    there: Callable[[ServerClient], Json | Refusal],
) -> Json:
    """Do `here` on the folder's database (in a new chain where there is none), else `there` by the server that has it.

    Two writers on one database are never let in. `store` is made where it is new. Raises NoChain.
    """
    try:
        opened = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
        services = with_authority(opened, settings)
    except DataDirInUse as error:
        answer = _ask(settings, url, store=store, there=there)
        if answer is None:
            address = own_address(settings, url)
            complain(f"{error} and gives no answer on {address}; stop it first, or name its address with --url")
            raise NoChain(Exit.DATA_IN_USE) from None
        if isinstance(answer, Refusal):
            complain(f"the server refuses: {answer.code} {dict(answer.facts)}")
            raise NoChain(Exit.FOUND_SOMETHING) from None
        return answer
    except (DatabaseTrouble, SQLAlchemyError, CodeKeyMissing, CodeKeyDiffers, ValueError, OSError) as error:
        raise NoChain(explain(error)) from None
    try:
        key_file = settings.folder / HEADQUARTERS_KEY_FILE
        if provision(services, ChainPlan(), keep=lambda token: write_private(key_file, f"{token}\n".encode())):
            print(NEW_CHAIN.format(key_file))
        return here(services)
    except (DatabaseTrouble, SQLAlchemyError, OSError) as error:
        raise NoChain(explain(error)) from None
    finally:
        services.database.close()


def make_store(conn: Connection, ctx: Context, store: str) -> None:
    """Make the store where it is new, in the chain's zone."""
    if conn.execute(select(schema.store.c.id).where(schema.store.c.id == store)).first() is None:
        catalog.set_store(conn, store, zone=ctx.chain.zone.key)


def is_address(url: str) -> bool:
    """Tell whether a till can be sent there; a person is told why not."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        complain(f"{url} is no address: it begins with https://, or for this machine with http://")
        return False
    if not may_be_plain(url):
        complain(f"{url} would be spoken to without TLS, which only this machine may: {INSECURE_ZH}")
        return False
    return True


def own_address(settings: Settings, url: str) -> str:
    """Return where the server of this machine listens: headquarters' key is not sent through any network."""
    if urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}:
        return url
    return f"{'https' if settings.tls else 'http'}://127.0.0.1:{settings.port}"


def own_trust(settings: Settings) -> ssl.SSLContext | None:
    """Return what believes the server of this folder, None where it has never spoken TLS."""
    file = settings.folder / AUTHORITY_FILE
    return pinned(file.read_text("utf-8")) if file.exists() else None


def own_line(settings: Settings, url: str = "") -> ServerClient:
    """Open a line to the server that runs on this folder, as headquarters; `url` counts where it names this machine.

    Raises OSError where the folder has no key of headquarters.
    """
    key = (settings.folder / HEADQUARTERS_KEY_FILE).read_text("utf-8").strip()
    return ServerClient(own_address(settings, url), key, trust=own_trust(settings), answer_timeout_s=ANSWER_S)


def _ask(
    settings: Settings, url: str, *, store: str, there: Callable[[ServerClient], Json | Refusal]
) -> Json | Refusal | None:
    """Let the running server do it; None where it does not answer, or does not take the folder's key."""
    try:
        with own_line(settings, url) as client:
            answer = there(client)
            if isinstance(answer, Refusal) and answer.facts.get("kind") == "store":
                client.put(f"/v1/stores/{quote(store, safe='')}", {})
                answer = there(client)
            return answer
    except (OSError, Offline, Busy):
        return None

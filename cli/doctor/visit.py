"""Go round everything once, and print a table: `pawtill doctor`."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import URL

from cli.doctor import data, keyring, machine, network
from cli.doctor.check import Check, Health, broken
from cli.exits import Exit
from cli.settings import server_settings
from cli.till_folder import TILL_FILE, NotEnrolled, read_joined, till_folder
from server.settings import DEFAULT_PORT
from server.tls import AUTHORITY_FILE

_STYLES = {Health.FINE: "green", Health.NOTE: "yellow", Health.BROKEN: "bold red"}


def run_doctor(data_dir: Path | None, *, url: str | None) -> int:
    """Print every check; 1 where something is broken.

    `data_dir` may hold a till, a server or both; None = the user's folders. `url` None = the server that the till
    joined.
    """
    checks = list(_visit(data_dir, url))
    table = Table(title="Pawtill doctor", title_justify="left")
    for heading in ("what", "state", "detail"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(check.name, f"[{_STYLES[check.health]}]{check.health}[/]", check.detail)
    Console().print(table)
    ill = [check.name for check in checks if check.health is Health.BROKEN]
    print(f"Broken: {', '.join(ill)}." if ill else "Nothing is broken.")
    return Exit.FOUND_SOMETHING if ill else Exit.OK


def _visit(data_dir: Path | None, url: str | None) -> Iterator[Check]:
    yield from machine.look()
    yield keyring.look()
    till = till_folder(data_dir)
    settings = server_settings(data_dir=data_dir)
    try:
        where = settings.database
    except ValueError as error:
        yield broken("Server database", str(error))
        where = settings.data_dir / "server.db"
    yield from data.look(till / TILL_FILE, where)
    try:
        joined = read_joined(till)
    except NotEnrolled as error:
        yield broken("Till's chain", str(error))
        joined = None
    named = url or (joined.url if joined else None)
    address = named or f"{'https' if settings.tls else 'http'}://127.0.0.1:{DEFAULT_PORT}"
    authority = (joined.authority if joined else "") or _authority_beside(where)
    yield from network.look(address, authority=authority, expected=named is not None)


def _authority_beside(where: Path | URL) -> str:
    """Return whose certificate the server of this folder has, "" where it has never spoken TLS."""
    file = where.parent / AUTHORITY_FILE if isinstance(where, Path) else None
    return file.read_text("utf-8") if file is not None and file.exists() else ""

"""Say that the server's database was put back from a backup: `pawtill restored`."""

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from cli.data_trouble import explain
from cli.exits import Exit, complain
from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db.errors import DatabaseTrouble
from server.opening import open_services
from server.services import restoring
from server.services.answers import Answer
from server.services.context import Context, NotProvisioned
from server.services.system import SystemClock, SystemIds
from server.settings import Settings


def run_restored(settings: Settings, *, reason: str) -> int:
    """Let the tills tell again what the backup lacks, before the server gives anything out; it must not run now."""

    def begin(conn: Connection, ctx: Context) -> Answer:
        return restoring.begin(conn, ctx, reason=reason)

    try:
        services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
        try:
            waiting = services.write(begin)["waiting_for"]
        finally:
            services.database.close()
    except NotProvisioned:
        complain("this database has no chain yet: it came back from no backup")
        return Exit.CANNOT_START
    except (DatabaseTrouble, SQLAlchemyError, CodeKeyMissing, CodeKeyDiffers, ValueError, OSError) as error:
        return explain(error)
    print(
        f"Start the server. It takes every entry, and gives nothing out until these tills have told again: "
        f"{', '.join(waiting) or 'none'}.\nOne that will never come back is written off: POST /v1/tills/TILL/write-off"
    )
    return Exit.OK

"""Note, behind the answer, a refused request that none of our tills sends (`services/refused_requests.py`)."""

from fastapi.routing import iter_route_contexts
from sqlalchemy import Connection
from starlette.routing import Match
from starlette.types import Scope

from server.db.errors import DatabaseTrouble
from server.http.security import token_of
from server.services import devices, keys, refused_requests
from server.services.context import Actor
from server.services.refused_requests import Refused
from server.services.services import Services
from sync.signatures import Request, named_key


def note(
    services: Services, scope: Scope, *, kind: str, signed: Request | None = None, who: Actor | None = None
) -> None:
    """Note a request; it has its answer, so nothing is raised.

    `signed` is what of it is signed, None where nothing is; `who` asked, where that is known or proved. Else the key
    that it names says so, good or not: till and key are then what the request claims.
    """
    key_id = named_key(signed) if signed is not None else ""
    if who is None:
        try:
            who = services.database.read(lambda conn: _claimed(conn, scope, key_id))
        except DatabaseTrouble:
            return
    till_id, key_id = (who.till_id, who.key_id) if who is not None else (None, key_id)
    address = client[0] if (client := scope.get("client")) else ""

    def evidence() -> dict[str, str]:
        return {"key": key_id, "from": address, "route": _route(scope)}

    refused_requests.note(services, Refused(kind, till_id, evidence))


def _claimed(conn: Connection, scope: Scope, key_id: str) -> Actor | None:
    """Return who has the key that is named, or the key that was told whole."""
    if key_id:
        device = devices.find(conn, key_id)
        return device.actor if device is not None else None
    return keys.authenticate(conn, token_of(dict(scope["headers"])))


def _route(scope: Scope) -> str:
    """Return the route, "" where there is none: never the path, for ids in it are people's, or anything."""
    for each in iter_route_contexts(scope["app"].routes):
        if each.matches(scope)[0] is Match.FULL:
            return str(each.path)
    return ""

"""Note, behind the answer, a refused request that none of our tills sends (`services/refused_requests.py`)."""

from fastapi.routing import iter_route_contexts
from starlette.routing import Match
from starlette.types import Scope

from server.db.errors import DatabaseTrouble
from server.services import devices, refused_requests
from server.services.context import Actor
from server.services.refused_requests import Refused
from server.services.services import Services
from sync.signatures import Request, named_key


def note(
    services: Services, scope: Scope, *, kind: str, signed: Request | None = None, who: Actor | None = None
) -> None:
    """Note a request; it has its answer, so nothing is raised.

    `signed` is what of it is signed, None where nothing is; `who` has the key that it names, where that is known
    already. Till and key are what the request claims, unless its signature was good.
    """
    key_id = named_key(signed) if signed is not None else ""
    if who is None and key_id:
        try:
            device = services.database.read(lambda conn: devices.find(conn, key_id))
        except DatabaseTrouble:
            return
        who = device.actor if device is not None else None
    till_id, key_id = (who.till_id, who.key_id) if who is not None else (None, key_id)
    address = client[0] if (client := scope.get("client")) else ""

    def evidence() -> dict[str, str]:
        return {"key": key_id, "from": address, "route": _route(scope)}

    refused_requests.note(services, Refused(kind, till_id, evidence))


def _route(scope: Scope) -> str:
    """Return the route, "" where there is none: never the path, for ids in it are people's, or anything."""
    for each in iter_route_contexts(scope["app"].routes):
        if each.matches(scope)[0] is Match.FULL:
            return str(each.path)
    return ""

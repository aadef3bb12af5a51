"""Let nobody in without a key or a till's signature, and only where its scope reaches."""

from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from server.services import devices, keys
from server.services.context import Actor
from server.services.services import Services

ACTOR = "pawtill.actor"
"""The scope's key under which a good signature leaves who asks; nothing that comes over the wire can set it."""
APP, TILL, MANAGER, HEADQUARTERS = "app", "till", "manager", "headquarters"

_bearer = HTTPBearer(auto_error=False, description="`pt_<key id>_<secret>`, as it was shown once when it was made")


class NoKey(Exception):
    """Refuse a call without a valid key (401); which part was wrong is not told."""


class WrongScope(Exception):
    """Refuse a valid key whose scope does not reach here (403)."""

    def __init__(self, scopes: tuple[str, ...]) -> None:
        super().__init__(f"needs one of {', '.join(scopes)}")
        self.scopes = scopes


class NotEnrolled(Exception):
    """Refuse a till that came with a bearer key, as before tills enrolled (401)."""


class TillShut(Exception):
    """Refuse a till that headquarters has suspended, revoked or replaced (403)."""

    def __init__(self, access: str) -> None:
        super().__init__(access)
        self.word = f"till_{access.lower()}"


async def get_services(request: Request) -> Services:
    """Return the services that the application was made with; in the loop, for no thread may be free."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


def allow(*scopes: str, access: tuple[str, ...] = (devices.OPEN,)) -> Any:
    """Make the dependency that returns who asks, where one of these scopes does.

    It raises NoKey, NotEnrolled, TillShut, WrongScope.

    `access` names how a till may stand with headquarters that is let in.
    The description of the API names the scopes beside each route that needs one.
    """

    def actor(
        request: Request,
        services: ServicesDep,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Actor:
        found: Actor | None = request.scope.get(ACTOR)
        if found is None:
            token = credentials.credentials if credentials is not None else ""
            who: keys.Who = request.app.state.who
            found = services.database.read(lambda conn: who(conn, token))
        if found is None:
            raise NoKey
        if found.scope == TILL and found.till_id is None:
            raise NotEnrolled
        request.state.key_id = found.key_id
        if found.access not in access:
            raise TillShut(found.access)
        if found.scope not in scopes:
            raise WrongScope(scopes)
        return found

    return Security(actor, scopes=scopes)


ATill = Annotated[Actor, allow(TILL)]
ATillWithFacts = Annotated[Actor, allow(TILL, access=(devices.OPEN, devices.REVOKED))]
"""What happened at a till is heard also where it was revoked since; it gets nothing for it."""
AppOrTill = Annotated[Actor, allow(APP, TILL)]
TillOrOffice = Annotated[Actor, allow(TILL, MANAGER, HEADQUARTERS)]
Office = Annotated[Actor, allow(MANAGER, HEADQUARTERS)]
Headquarters = Annotated[Actor, allow(HEADQUARTERS)]
Anyone = Annotated[Actor, allow(APP, TILL, MANAGER, HEADQUARTERS)]

"""Say whether the server lives, and whether it can decide."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from server.db.errors import DatabaseTrouble
from server.db.migrate import HEAD, version
from server.http.running import Running
from server.http.security import ServicesDep
from server.lookout import Lookout
from server.services.context import NotProvisioned, load_chain
from server.services.services import Services

HANGS = "hangs"

router = APIRouter(tags=["running"])


@router.get("/health")
async def health(services: ServicesDep) -> dict[str, str]:
    """Answer as long as the process lives, with the server's clock."""
    return {"status": "ok", "now": services.clock.now().isoformat()}


@router.get("/ready", responses={503: {"description": "Cannot decide anything; `status` says why"}})
async def ready(request: Request) -> JSONResponse:
    """Answer 200 where the database reads and writes, has this version's schema and a chain; else 503 with the reason.

    What does not answer within 2.5 s `hangs`, and the answer comes all the same.

    A part without which tills are still served (Redis) makes it `degraded` and keeps the 200: whoever spreads the load
    by this answer must not take every server out because claims of hot campaigns have to wait.
    """
    running: Running = request.app.state.running
    lookouts: dict[str, Lookout[str]] = {"database": request.app.state.database, **running.checks}
    looks = {name: asyncio.wrap_future(each.look()) for name, each in lookouts.items()}
    for name, look in looks.items():
        await asyncio.wait([look], timeout=lookouts[name].left_s())
    parts = {name: look.result() if look.done() else HANGS for name, look in looks.items()}
    if parts["database"] != "ok":
        return JSONResponse({"status": parts["database"], "parts": parts}, 503)
    sound = all(word == "ok" for word in parts.values())
    return JSONResponse({"status": "ok" if sound else "degraded", "parts": parts})


def reading_state(services: Services) -> str:
    """Return "ok", or one word for why the database cannot be read; no write that takes long holds it up."""
    try:
        services.database.read(version)
    except DatabaseTrouble as trouble:
        return trouble.word
    return "ok"


def database_state(services: Services) -> str:
    """Return "ok", or one word for why the database cannot be used."""
    try:
        found = services.database.read(version)
        if found != HEAD:
            # Another version of the server has changed it under our feet, or it was put back from an old backup.
            return "other_schema"
        services.database.write(load_chain)
    except DatabaseTrouble as trouble:
        return trouble.word
    except NotProvisioned:
        return "not_provisioned"
    return "ok"

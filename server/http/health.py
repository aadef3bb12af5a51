"""Say whether the server lives, and whether it can decide."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from server.db.errors import DatabaseTrouble
from server.db.migrate import HEAD, version
from server.http.running import Running
from server.http.security import ServicesDep
from server.services.context import NotProvisioned, load_chain
from server.services.services import Services

router = APIRouter(tags=["running"])


@router.get("/health")
def health(services: ServicesDep) -> dict[str, str]:
    """Answer as long as the process lives, with the server's clock."""
    return {"status": "ok", "now": services.clock.now().isoformat()}


@router.get("/ready", responses={503: {"description": "Cannot decide anything; `status` says why"}})
def ready(request: Request, services: ServicesDep) -> JSONResponse:
    """Answer 200 where the database reads and writes, has this version's schema and a chain; else 503 with the reason.

    A part without which tills are still served (Redis) makes it `degraded` and keeps the 200: whoever spreads the load
    by this answer must not take every server out because claims of hot campaigns have to wait.
    """
    running: Running = request.app.state.running
    reason = _reason(services)
    parts = {"database": reason or "ok", **{name: check() for name, check in running.checks.items()}}
    if reason is not None:
        return JSONResponse({"status": reason, "parts": parts}, 503)
    sound = all(word == "ok" for word in parts.values())
    return JSONResponse({"status": "ok" if sound else "degraded", "parts": parts})


def _reason(services: Services) -> str | None:
    """Return one word for why the database cannot be used, None where it can."""
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
    return None

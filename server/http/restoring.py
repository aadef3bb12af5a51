"""Show and end the waiting of a server that came back from a backup. Headquarters alone."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from server.http.answers import reply
from server.http.security import Headquarters, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import restoring

router = APIRouter(prefix="/v1", tags=["headquarters"])


class WriteOffIn(Body):
    """A till is waited for no longer, for a reason."""

    reason: Reason


@router.get("/restore")
def get_restore(*, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Tell whether this database came back from a backup, and which tills have not told again what that lacks."""
    return reply(services.read(restoring.status, actor))


@router.post("/tills/{till_id}/write-off")
def post_write_off(
    *, till_id: Annotated[Id, Path()], body: WriteOffIn, services: ServicesDep, actor: Headquarters
) -> JSONResponse:
    """Wait no longer for a till after a restore: what only it knows of may be given out once more."""
    answer = services.write(lambda conn, ctx: restoring.write_off(conn, ctx, till_id, reason=body.reason), actor)
    return reply(answer, path="till")

"""Show Prometheus the numbers at `/metrics`.

They hold no secret and nothing of any person, but they tell how business goes. So they are for this machine alone, or
for whoever has the key of the settings (`metrics_key`, as a bearer token: Prometheus' `authorization`). The key is a
setting and not one of the database's, since the numbers are needed most when the database is away. A request that came
through a proxy is none of this machine's, though the connection is.
"""

import asyncio
import hmac
from ipaddress import ip_address
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from server.http.running import Running
from server.scrape import CONTENT_TYPE

router = APIRouter(tags=["running"])
_bearer = HTTPBearer(auto_error=False, scheme_name="metrics key")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    # None is needed by this machine where the settings name none.
    openapi_extra={"security": [{}]},
    responses={403: {"description": "Neither this machine nor the key", "content": {"application/json": {}}}},
)
async def get_metrics(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Response:
    """Return the numbers in Prometheus' text format."""
    running: Running = request.app.state.running
    token = credentials.credentials if credentials is not None else ""
    allowed = _same(token, running.metrics_key) if running.metrics_key else _from_here(request)
    if not allowed:
        return JSONResponse({"error": "no_key"}, 403)
    text = await asyncio.wrap_future(running.text.look())
    return Response(text, media_type=CONTENT_TYPE)


def _same(token: str, key: str) -> bool:
    return hmac.compare_digest(token.encode(), key.encode())


def _from_here(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False

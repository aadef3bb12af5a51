"""Log and count each request by its route, never by its path or body: ids in paths are people's."""

import asyncio
import time
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import metrics
from server.http.answers import BUSY

log = structlog.get_logger("pawtill.http")


class AccessLog:
    """Wrap the application; one line for each request, with the key that made it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and write it down when it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        began = time.perf_counter()

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        except asyncio.CancelledError:
            # Whoever gave it up has told so by now (`in_time.py`).
            status = BUSY
            raise
        finally:
            state: dict[str, Any] = scope.get("state", {})
            route = getattr(scope.get("route"), "path", None)
            seconds = time.perf_counter() - began
            metrics.request_answered(scope["method"], route, status=status, seconds=seconds)
            log.info(
                "request",
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                key=state.get("key_id"),
            )

"""Put the HTTP application together; `/docs` describes it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http import (
    admin,
    answers,
    campaigns,
    claims,
    coupons,
    described,
    docs,
    enrolment,
    findings,
    gifts,
    health,
    issues,
    leases,
    metrics,
    orders,
    quotes,
    refunds,
    refused,
    restoring,
    risk,
    sync,
)
from server.http.running import Running
from server.http.signed import SignedRequests
from server.lookout import Lookout
from server.scrape import Scrape
from server.services import keys
from server.services.admission.admission import with_admission
from server.services.refused_requests import OVERSIZED
from server.services.services import Services

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bound on a request's body: the sale of the longest basket with the longest names is one entry of 3.3 MB in base64.

An entry that is refused for its size would wait at its till for ever, and all behind it.
"""

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Application(FastAPI):
    """Be the framework's application, with the claims in front of it and of all that it wraps itself in."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._front = claims.PlainClaims(super().__call__, self.state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._front(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Return what answers requests behind the claims."""

        def note(scope: Scope) -> None:
            refused.note(self.state.services, scope, kind=OVERSIZED)

        plain = answers.TooLargeInJson(super().build_middleware_stack(), note)
        return SignedRequests(plain, self.state, max_body_bytes=MAX_BODY_BYTES)

    def openapi(self) -> dict[str, Any]:
        """Return the description of the API, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = described.complete(super().openapi())
        return self.openapi_schema


def create_app(
    services: Services,
    *,
    lifespan: Lifespan | None = None,
    running: Running | None = None,
    who: keys.Who = keys.authenticate,
) -> FastAPI:
    """Return the application on these services; it holds no state of its own.

    `running` None = the numbers of this process alone, for this machine alone. `who` tells whose a token is; another
    than the default is for a chain inside one process, whose tills need not sign (`server/scenario/by_name.py`).
    """
    app = Application(
        title="Pawtill server",
        version="1",
        description="Tills, coupons and stock of a pet-store chain. Every call under /v1 needs a key.",
        docs_url=None,
        redoc_url=None,
        max_body_size=MAX_BODY_BYTES,
        lifespan=lifespan,
    )
    app.state.who = who
    attend(app, services, running=running)
    answers.install(app)
    # The framework tries one route after the other, so what tills ask all day comes first.
    for part in (
        sync,
        orders,
        leases,
        refunds,
        coupons,
        quotes,
        claims,
        health,
        metrics,
        docs,
        admin,
        campaigns,
        enrolment,
        findings,
        gifts,
        issues,
        restoring,
        risk,
    ):
        app.include_router(part.router)
    return app


def attend(app: FastAPI, services: Services, *, running: Running | None = None) -> None:
    """Let an application answer for these services from now on.

    It holds nothing else, so one that nobody uses any more serves again: its routes take longer to make than a test.
    """
    # Somebody has to admit claims; who opened a door to Redis has chosen who.
    app.state.services = services if services.admission is not None else with_admission(services, None)
    app.state.running = running or Running(Scrape(services))
    app.state.database = Lookout(partial(health.database_state, services))
    app.state.reading = Lookout(partial(health.reading_state, services))

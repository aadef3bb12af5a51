"""A whole server in this process: real application, real database, a clock that tests set."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy import URL, Connection

from app.domain.ports import Probe
from server.http.app import attend, create_app
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.scenario import by_name
from server.services import catalog
from server.services.context import SYSTEM, Actor, Context
from server.services.services import Services, no_probe
from tests.fakes.clock import SetClock

START = datetime(2026, 6, 1, 2, 0, tzinfo=UTC)
"""10:00 in Shanghai."""


class SeededIds:
    """Count, and draw the same digits in every run."""

    def __init__(self) -> None:
        self._count = 0
        self._random = random.Random(1)

    def new(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def digits(self, count: int) -> str:
        return "".join(self._random.choices("0123456789", k=count))


@cache
def _first_start() -> Mapping[str, bytes]:
    """Return the files that a first start makes: every test begins with them, and migrating takes 30 ms each time."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        open_services(folder / "server.db", clock=SetClock(START), ids=SeededIds()).database.close()
        return {file: (folder / file).read_bytes() for file in ("server.db", "code.key", "chain.key")}


_idle: list[FastAPI] = []


def _application(services: Services) -> FastAPI:
    """Return an application for these services, one that nobody uses any more where there is one."""
    if not _idle:
        return create_app(services, who=by_name.who)
    app = _idle.pop()
    attend(app, services)
    return app


class Headquarters:
    """Hold a server that has a chain, and speak to it as headquarters.

    Its keys lie in `folder`, and its database too where that is SQLite; `url` names a migrated one on PostgreSQL.
    """

    def __init__(self, folder: Path, *, url: URL | None = None, probe: Probe = no_probe) -> None:
        self.clock, self.ids = SetClock(START), SeededIds()
        for name, content in _first_start().items():
            if not (folder / name).exists() and (url is None or name != "server.db"):
                (folder / name).write_bytes(content)
        where = folder / "server.db" if url is None else url
        self.services = open_services(where, folder=folder, clock=self.clock, ids=self.ids, probe=probe)
        self.app = _application(self.services)
        self.database = self.services.database
        self.key = provision(self.services, ChainPlan()) or ""
        self._loop = asyncio.Runner()

    def close(self) -> None:
        self._loop.close()
        self.services.database.close()
        _idle.append(self.app)

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, status: int | None = None
    ) -> dict[str, Any]:
        """Return the answer's body; `status` is asserted where it is given."""
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        response = self.send(httpx.Request(method, f"http://headquarters{path}", json=body, headers=headers))
        assert status is None or response.status_code == status, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def send(self, request: httpx.Request) -> httpx.Response:
        """Return the application's answer to any request, whole."""

        async def ask() -> httpx.Response:
            answer = await httpx.ASGITransport(self.app).handle_async_request(request)
            return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return self._loop.run(ask())

    def take_in(self, till_id: str = "t1", store_id: str = "s1") -> str:
        """Return a new name by which a till speaks here, as if it had enrolled; those before are worthless."""
        name = self.services.write(lambda conn, ctx: by_name.take_in(conn, ctx, till_id, store_id=store_id))
        assert isinstance(name, str), name
        return name

    def new_key(self, scope: str) -> str:
        """Make a key of a scope (for "till" the name of till t1)."""
        if scope == "till":
            return self.take_in()
        return str(self.call("POST", "/v1/keys", {"scope": scope, "name": scope}, status=201)["key"])

    def furnish(self, *, members: int = 1) -> None:
        """Set up a store s1 and members m1, m2, ..."""
        self.call("PUT", "/v1/stores/s1", {"zone": "Asia/Shanghai"}, status=200)

        def join(conn: Connection, ctx: Context) -> None:
            for number in range(1, members + 1):
                catalog.set_member(conn, ctx, f"m{number}", tier="basic", home_store="s1", label="")

        self.services.write(join)

    def campaign(self, campaign_id: str = "c1", **keys: Any) -> dict[str, Any]:
        """Create a campaign of 10.00 off."""
        body = {"id": campaign_id, "benefit": {"type": "amount_off", "amount": "10.00"}, **keys}
        return self.call("POST", "/v1/campaigns", body, status=201)

    def stock(self, campaign_id: str = "c1") -> Mapping[str, int]:
        """Return the campaign's stock as the API shows it."""
        shown: Mapping[str, int] = self.call("GET", f"/v1/campaigns/{campaign_id}", status=200)["stock"]
        return shown

    def context(self, actor: Actor = SYSTEM) -> Context:
        """Return what a use case would be told now."""
        return self.services.read(lambda conn, ctx: ctx, actor)

"""Be the server of a scenario: the real application on a real database, restarted when it dies."""

import shutil
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy import URL

from app.domain.ports import Clock, Ids
from app.domain.refusals import Refusal
from app.services.ports import Offline
from server.chain_key import FILE_NAME as CHAIN_KEY_FILE
from server.code_key import FILE_NAME as CODE_KEY_FILE
from server.http.app import create_app
from server.opening import open_services
from server.scenario import by_name
from server.scenario.crash import SERVER_POINTS, Fuse, ProcessDied
from server.scenario.redis_part import RedisPart
from server.scenario.transport import Loop
from server.services.admission.admission import Admission, with_admission
from server.services.services import Services

DATABASE = "server.db"
ADDRESS = "http://server"


def make_template(folder: Path, clock: Clock, ids: Ids) -> FastAPI:
    """Make an empty, migrated database with its keys, to be copied for each scenario: migrating takes longer.

    Returns the HTTP application, which holds no state of its own: making its 40 routes takes longer than a scenario.
    """
    services = open_services(folder / DATABASE, clock=clock, ids=ids)
    services.database.close()
    return create_app(services, who=by_name.who)


class Unasked(Exception):
    """Say that the HTTP interface does not take what the runner sent: no outcome, but something to put right."""


class ServerPart(httpx.BaseTransport):
    """Run the server, and carry requests to it; while it is dead nothing answers.

    `where` is the database: a file to be made, or the URL of one that is migrated and empty. `bugs` collects what no
    handler of the application caught: each fails the step in which it came up.
    """

    def __init__(
        self, folder: Path, template: Path, *, where: Path | URL, app: FastAPI, clock: Clock, ids: Ids, redis: RedisPart
    ) -> None:
        for name in (CODE_KEY_FILE, CHAIN_KEY_FILE):
            shutil.copy(template / name, folder / name)
        if isinstance(where, Path):
            shutil.copy(template / DATABASE, where)
        self._where, self._folder, self._clock, self._ids = where, folder, clock, ids
        self.fuse = Fuse(SERVER_POINTS)
        self.bugs: list[str] = []
        self.loop = Loop()
        self._app = app
        self._redis, self._door = redis, redis.door()
        self.services = self._start()

    def _start(self) -> Services:
        services = open_services(self._where, folder=self._folder, clock=self._clock, ids=self._ids, probe=self._pass)
        services = with_admission(services, self._door)
        self._app.state.services = services
        return services

    def _pass(self, point: str) -> None:
        """Pass a point of the code: Redis may die there, or we."""
        if self.fuse.lives_through_a_step:
            self._redis(point)
        self.fuse(point)

    @property
    def admission(self) -> Admission:
        """Return who admits claims."""
        assert self.services.admission is not None, "a server admits claims"
        return self.services.admission

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request to the application and its answer back."""
        request.read()
        return self.loop.run(self.ask(request))

    async def ask(self, request: httpx.Request) -> httpx.Response:
        """Do the same on the loop itself, for many requests at once."""
        if self.fuse.died:
            raise httpx.ConnectError("the server is down", request=request)
        try:
            answer = await httpx.ASGITransport(self._app).handle_async_request(request)
            body = await answer.aread()
        except ProcessDied:
            raise httpx.ReadError("the server died", request=request) from None
        except Exception as bug:
            # uvicorn would answer 500 and write it into the log; here nobody reads a log.
            self.bugs.append(f"the server failed: {type(bug).__name__}: {bug}")
            return httpx.Response(500, text="Internal Server Error", request=request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=body, request=request)

    def restart(self) -> None:
        """Drop everything that is only in memory, and start on what the disk holds."""
        self._end()
        self.fuse.reset()
        self.loop, self._door = Loop(), self._redis.door(again=self._door)
        self.services = self._start()
        self.admission.begin()

    def stop(self) -> None:
        """End the server."""
        self._end()

    def _end(self) -> None:
        self.loop.run(self.admission.aclose())
        self.admission.close()
        self.services.database.close()
        self.loop.close()

    def call(self, method: str, path: str, *, key: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask something straight at the server, as the chain's app or headquarters; raises Offline for no answer."""
        try:
            answer = self.handle_request(request_for(method, path, key=key, body=body))
        except httpx.TransportError as error:
            raise Offline(str(error)) from None
        data: dict[str, Any] = answer.json() if answer.headers.get("content-type") == "application/json" else {}
        if answer.is_success:
            return data
        if "outcome" not in data:
            raise Unasked(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return Refusal.from_json({"code": data["outcome"], "facts": data.get("facts", {})})


def request_for(method: str, path: str, *, key: str, body: Any) -> httpx.Request:
    """Build a request as a client of the HTTP interface would send it."""
    return httpx.Request(method, f"{ADDRESS}{path}", headers={"authorization": f"Bearer {key}"}, json=body)

"""Answer in time where the database stands still: it answers nothing, and who asks us would wait as long as it does.

What is asked is not how long a request takes but whether the database still answers anybody: long work is let be, and
needs no list of its own. A request that is given up may be done all the same, then or when the database goes on; 503
with the reason `slow` says so, and the same request again gets the answer of the first.
"""

import asyncio
from collections.abc import MutableSet
from typing import Any

import anyio
from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.refusals import RefusalCode, refuse
from server.http.answers import reply
from server.lookout import Lookout
from sync.protocol import SLOW

LOOK_AFTER_S = 2.0
"""How long a request takes before anybody asks whether the database hangs: with `PATIENCE_S` behind it that is less
than the 5 s after which a till goes on without an answer (`ANSWER_TIMEOUT_S`)."""
RETRY_AFTER_S = 5
ROUTES = "/v1/"
"""Where routes ask the database; whoever looks after the server is answered in time by its own routes."""


class InTime:
    """Let applications answer; the state has the look at the database, `reading`."""

    def __init__(self, state: State) -> None:
        self._state = state
        # What still waits in a thread for the database: the loop itself keeps no task alive.
        self._given_up: MutableSet[asyncio.Task[None]] = set()

    async def answer(self, app: ASGIApp, scope: Scope, receive: Receive, *, send: Send) -> None:
        """Answer a request as the application does, or busy where the database stands still."""
        if scope["type"] != "http" or not scope["path"].startswith(ROUTES):
            await app(scope, receive, send)
            return
        told = _Told(send)
        # Of the kind that lets a thread finish: a task that was torn away from its thread would free its place in the
        # pool, and each request to a database that hangs would cost another thread.
        stop = anyio.CancelScope()

        async def run() -> None:
            with stop:
                await app(scope, receive, told.send)

        answering = asyncio.create_task(run())

        def waits() -> bool:
            return not told.begun and not answering.done()

        try:
            while waits():
                await asyncio.wait([answering], timeout=LOOK_AFTER_S)
                if waits() and await self._hangs(answering) and waits():
                    told.over = True
                    break
            if not told.over:
                await answering
                return
        finally:
            if not answering.done():
                stop.cancel()
                self._given_up.add(answering)
                answering.add_done_callback(self._forget)
        await reply(refuse(RefusalCode.BUSY, reason=SLOW, retry_after_s=RETRY_AFTER_S))(scope, receive, send)

    async def _hangs(self, answering: asyncio.Task[None]) -> bool:
        """Tell whether the database answers nobody; asks no longer than until this request has its answer."""
        reading: Lookout[str] = self._state.reading
        look = asyncio.wrap_future(reading.look())
        either: list[asyncio.Future[Any]] = [look, answering]
        await asyncio.wait(either, timeout=reading.left_s(), return_when=asyncio.FIRST_COMPLETED)
        return not look.done()

    def _forget(self, task: asyncio.Task[None]) -> None:
        """Let go of a task that is over; whoever wanted to know of its end is gone."""
        self._given_up.discard(task)
        if not task.cancelled():
            task.exception()


class _Told:
    """Pass an answer on; once it has begun it is the application's, and once it is `over` nothing is passed on."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = self.over = False

    async def send(self, message: Message) -> None:
        if self.over:
            return
        self.begun = True
        await self._send(message)

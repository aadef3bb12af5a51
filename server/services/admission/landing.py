"""Bring claims into the database, many at once, and close their reservations: the only way from Redis to a coupon.

One job of the writer carries a batch through the one arbiter. It is the same for a claim that reserved nothing, so
concurrent claims of any campaign share statements and a commit. Only when all is durable is anybody told.
"""

import asyncio
import hashlib
import json
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import structlog
from sqlalchemy import Connection

from server import metrics
from server.patience import Patience
from server.services.answers import Answer
from server.services.context import Context, Taken
from server.services.grants import Wanted, grant_under
from server.services.services import Services
from server.stock import scripts
from server.stock.door import Door, Event
from server.stock.scripts import End, Fault, Keys
from server.stock.trouble import StockDamaged, StockTrouble

BATCH_MAX = 256
"""Claims in one job; the writer puts several jobs into one commit."""
QUEUE_MAX = 100_000
"""Claims that may wait to be landed, a kilobyte each: who gave up waiting is landed all the same, so a crowd that asks
again and again while the database stands still would fill the memory."""

log = structlog.get_logger("pawtill.admission")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Name the reservation that a claim has in Redis."""

    keys: Keys
    generation: int
    request: str
    token: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """Hold a claim that is to land, with its reservation; None = it came without one."""

    wanted: Wanted
    ticket: Ticket | None = None


def read_event(keys: Keys, entry: str, event: Event) -> Claimed:
    """Make of a reservation's event what is to land; raises StockDamaged for one that no claim left."""
    try:
        source = json.loads(event.text)["source"]
    except (KeyError, TypeError, ValueError) as error:
        raise StockDamaged("a reservation without its source") from error
    if not isinstance(source, str) or "\0" in f"{event.request}{event.member}{source}":
        raise StockDamaged("a reservation that no claim can have left")
    token = f"{event.generation}/{entry}"
    wanted = Wanted(request_id(event.request), keys.campaign_id, event.member, source, reservation=token)
    return Claimed(wanted, Ticket(keys, event.generation, event.request, token))


@lru_cache(1024)
def fingerprint(source: str) -> str:
    """Tell the contents of two requests apart: campaign and member are compared by themselves, the source is left."""
    return hashlib.sha256(source.encode()).hexdigest()[:32]


@lru_cache(1024)
def write_event(source: str) -> str:
    """Write what a landing needs besides the reservation itself."""
    return json.dumps({"source": source}, ensure_ascii=False)


def request_id(request: str) -> str:
    """Name the stored answer of a claim."""
    return f"claim:{request}"


@dataclass(frozen=True, slots=True)
class Landed:
    """Hold what the database decided: the answers in order, and which reservations became a grant.

    `taken` is all that was taken of campaigns on Redis, by those reservations too.
    """

    answers: list[Answer]
    granted: list[bool]
    taken: list[Taken]


def land(conn: Connection, ctx: Context, batch: Sequence[Claimed]) -> Landed:
    """Decide a batch. A request that was answered before takes nothing, so a reservation made anew is not its own."""
    given = grant_under(conn, ctx, [each.wanted for each in batch])
    granted = [
        claimed.ticket is not None and each.answer["outcome"] == "ok" and each.reservation == claimed.ticket.token
        for claimed, each in zip(batch, given, strict=True)
    ]
    return Landed([each.answer for each in given], granted, ctx.taken)


class Closing:
    """Close the reservations of a batch: one call for all of a campaign that were granted, one for all that were not.

    `calls` are to be sent, and `news` reads what comes back, in their order. What Redis did not hear is drained.
    """

    def __init__(self, batch: Sequence[Claimed], landed: Landed) -> None:
        self._landed = landed
        self._groups: defaultdict[tuple[Keys, int, bool], list[tuple[str, str]]] = defaultdict(list)
        for claimed, granted in zip(batch, landed.granted, strict=True):
            if (ticket := claimed.ticket) is not None:
                self._groups[(ticket.keys, ticket.generation, granted)].append((ticket.request, ticket.token))
        self.calls = [
            (scripts.confirm if granted else scripts.release)(keys, generation, reservations)
            for (keys, generation, granted), reservations in self._groups.items()
        ]

    def count(self, answers: Sequence[list[End] | Fault | StockTrouble]) -> None:
        """Count what was closed."""
        for (_, _, granted), answer in zip(self._groups, answers, strict=True):
            if isinstance(answer, list):
                metrics.reservation_ended("confirmed" if granted else "released", answer.count(End.OK))

    def news(self, answers: Sequence[list[End] | Fault | StockTrouble]) -> list[Taken]:
        """Return what Redis does not know yet: grants without a reservation, or whose generation was gone meanwhile."""
        known = {
            request_id(request)
            for ((_, _, granted), reservations), answer in zip(self._groups.items(), answers, strict=True)
            if granted and not isinstance(answer, Fault)
            for request, _ in reservations
        }
        unknown = ((each, [pair for pair in each.grants if pair[0] not in known]) for each in self._landed.taken)
        return [Taken(each.campaign_id, each.version, -len(pairs), pairs) for each, pairs in unknown if pairs]


def land_now(services: Services, door: Door, batch: Sequence[Claimed]) -> list[Taken]:
    """Land a batch from a thread, and close its reservations; returns what Redis is still to be told.

    Raises a DatabaseTrouble; what Redis does not hear is found again.
    """
    landed = services.write(lambda conn, ctx: land(conn, ctx, batch))
    closing = Closing(batch, landed)
    try:
        return closing.news(door.scripts.run_all(closing.calls))
    except StockTrouble:
        return []


_Waiting = tuple[Claimed, "asyncio.Future[Answer]"]
"""A claim in the queue, and where its answer goes."""


class Lander:
    """Land the claims of one event loop. `tell` brings news to Redis, and is called in a thread.

    Whoever is there when the writer turns to a batch comes along: one that is made up while another is written would
    leave those behind who come meanwhile, and go with a handful of claims as long as with hundreds.
    """

    def __init__(self, services: Services, door: Door | None, *, tell: Callable[[Sequence[Taken]], None]) -> None:
        self._services, self._door, self._tell = services, door, tell
        self._queue: deque[_Waiting] = deque()
        self._patience = Patience()
        self._called = False
        """A job is on its way to the writer that has not yet taken anybody along."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_crowded(self) -> bool:
        """Tell that nobody else is to be brought here for now."""
        return len(self._queue) >= QUEUE_MAX

    def land(self, claimed: Claimed, *, until_s: float = math.inf) -> "asyncio.Future[Answer]":
        """Queue a claim; the future tells the answer once it is durable, or raises a DatabaseTrouble.

        `until_s` is a time of the loop's clock at which it raises TimeoutError; what was queued goes on.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()
        self._queue.append((claimed, done))
        if until_s < math.inf:
            self._patience.limit(done, until_s)
        self._call(loop)
        return done

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that whoever is in the queue will be taken along."""
        if self._queue and not self._called:
            self._called = True
            task = loop.create_task(self._carry(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> "list[_Waiting]":
        """Take a batch out of the queue; safe beside whoever adds to it, and beside another who takes."""
        # First: who comes from now on and is not taken here calls for the next.
        self._called = False
        taken: list[_Waiting] = []
        with suppress(IndexError):
            while len(taken) < BATCH_MAX:
                taken.append(self._queue.popleft())
        return taken

    async def _carry(self, loop: asyncio.AbstractEventLoop) -> None:
        """Carry one batch; what happens to it happens to all who wait for it, also what is no Exception."""
        # One turn of the loop: who is asked for in this one comes along.
        await asyncio.sleep(0)
        batch: list[_Waiting] = []

        def run(conn: Connection, ctx: Context) -> Landed:
            batch.extend(self._take())
            if self._queue:
                loop.call_soon_threadsafe(self._call, loop)
            return land(conn, ctx, [claimed for claimed, _ in batch])

        try:
            landed = await self._land(run, batch)
        except BaseException as error:
            # What came to nothing before anybody was taken along is told to those who wait for it.
            for _, done in batch or self._take():
                if not done.done():
                    done.set_exception(error)
                    # Who asked for an early answer waits for none; that nobody reads it is no mistake then.
                    done.exception()
            self._call(loop)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        for (_, done), answer in zip(batch, landed.answers, strict=True):
            if not done.done():
                done.set_result(answer)

    async def _land(self, run: Callable[[Connection, Context], Landed], batch: "list[_Waiting]") -> Landed:
        """Land a batch. Only a decision closes reservations: after trouble they wait for whoever asks or drains next.

        Were they released where our own write came to nothing, a twin's write of the same claim could be under way in
        another process; who asks between the two would hear "sold out" of a coupon that he is about to get.
        """
        began_s = time.perf_counter()
        landed = await asyncio.shield(asyncio.wrap_future(self._services.submit(run)))
        self._services.probe("after_commit")
        metrics.batch_landed(len(batch), time.perf_counter() - began_s)
        try:
            closing = Closing([claimed for claimed, _ in batch], landed)
            answers = await self._door.on_loop().run_all(closing.calls) if self._door and closing.calls else ()
            closing.count(answers)
            if news := closing.news(answers):
                await asyncio.get_running_loop().run_in_executor(None, self._tell, news)
        except Exception:
            # A mistake of ours in what Redis is told undoes nothing: it is durable, and the drainer finds the rest.
            log.exception("redis was not told", size=len(batch))
        return landed

"""Answer a claim: look whether the member may, reserve in Redis, land, answer. Runs in an event loop.

What is remembered here (campaigns for a second, members for a minute) may only let a claim through. Who is refused was
refused by the database, read just now, or by Redis, which knows what is reserved and not landed yet.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from app.domain.claims import Grant
from app.domain.refusals import Refusal, RefusalCode, refuse
from server import metrics
from server.services import idempotency
from server.services.admission.facts import Entry, entry_of, to_ms
from server.services.admission.landing import Claimed, Lander, Ticket, fingerprint, request_id, write_event
from server.services.answers import Answer, refused
from server.services.context import Context
from server.services.grants import Wanted, decide, gather
from server.services.services import Services
from server.stock import scripts
from server.stock.door import Door
from server.stock.scripts import Fault, No, Refused, Repeated, Reservation, Reserved, Why
from server.stock.trouble import StockTrouble

LANDING_MS = 5000
"""How long a reservation is its taker's alone; after that another process lands it."""
ANSWER_S = LANDING_MS / 1000
"""How long a claim waits, be it for a database that stands still; then it is told to come again. What it began goes on,
and asking again with the same request tells what became of it."""
ENTRY_LIFE_S = 1.0
MEMBER_LIFE_S = 60.0
MEMBERS_KEPT_MAX = 200_000
ANSWERS_KEPT_MAX = 10_000
PEEK_MAX = 500
SUSPICIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a claim as it came: `request` is the caller's idempotency key; `early` = an answer before it has landed."""

    request: str
    campaign_id: str
    member_id: str
    source: str
    early: bool = False

    def wanted(self, reservation: str | None = None) -> Wanted:
        """Return what the arbiter is asked."""
        return Wanted(request_id(self.request), self.campaign_id, self.member_id, self.source, reservation=reservation)


class Pending(StrEnum):
    """Stand for an answer that is not there yet."""

    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Peeked:
    """Hold what the database says to a claim without deciding it: the first answer, else what it would decide now.

    `held` counts what the member has of the campaign.
    """

    first: Answer | None
    decision: Grant | Refusal
    held: int


def peek(conn: Connection, ctx: Context, wanted: Sequence[Wanted]) -> list[Peeked]:
    """Look each claim up by itself, in one snapshot; writes nothing."""
    stored = idempotency.answers_of(conn, [each.request for each in wanted])
    facts = gather(conn, ctx, wanted)
    found = []
    for each in wanted:
        first = None
        if each.request in stored:
            digest, answer = stored[each.request]
            same = digest == idempotency.digest_of(each.content())
            first = answer if same else _mismatch(each.request.partition(":")[2])
        held, _ = facts.held.get((each.campaign_id, each.member_id), (0, 0))
        found.append(Peeked(first, decide(ctx, [each], facts)[0], held))
    return found


class Claiming:
    """Answer the claims of one event loop. `repair` asks for a campaign to be brought up (in the background)."""

    def __init__(self, services: Services, door: Door | None, lander: Lander, *, repair: Callable[[str], None]) -> None:
        self._services, self._door, self._lander, self._repair = services, door, lander, repair
        self._entries: dict[str, tuple[Entry | None, float]] = {}
        self._reading: dict[str, asyncio.Future[Entry | None]] = {}
        self._edits = 0
        self._members: dict[tuple[str, str], float] = {}
        self._peeks: list[tuple[Wanted, asyncio.Future[Peeked]]] = []
        self._peeking: asyncio.Task[None] | None = None
        self._suspicions: dict[tuple[str, str], int] = {}

    def forget(self, campaign_id: str) -> None:
        """Read a campaign anew when it is asked for; safe from any thread."""
        self._edits += 1
        self._entries.pop(campaign_id, None)

    async def claim(self, asked: Asked) -> Answer | Pending:
        """Answer a claim. Raises a DatabaseTrouble; trouble with Redis is `busy`, as is an answer that is late."""
        began_s = time.perf_counter()
        until_s = asyncio.get_running_loop().time() + ANSWER_S
        answer: Answer | Pending
        try:
            answer = await self._claim(asked, until_s)
        except TimeoutError:
            answer = _busy(asked, "slow")
        outcome = "pending" if isinstance(answer, Pending) else str(answer["outcome"])
        durable = outcome == "ok"
        if durable:
            self._services.probe("before_ack")
        metrics.claim_answered(
            asked.campaign_id, "granted" if durable else outcome, time.perf_counter() - began_s if durable else None
        )
        return answer

    async def _claim(self, asked: Asked, until_s: float) -> Answer | Pending:
        if self._lander.is_crowded:
            return _busy(asked, "crowded")
        entry = await self._entry(asked.campaign_id, until_s) if self._door is not None else None
        if self._door is None or entry is None or not entry.wished:
            return await self._lander.land(Claimed(asked.wanted()), until_s=until_s)
        if not entry.admitted or (entry.rule.tiers and not self._is_known(asked)):
            peeked = await self._peek(asked.wanted(), until_s)
            if peeked.first is not None:
                return peeked.first
            if isinstance(peeked.decision, Refusal):
                return refused(peeked.decision)
            self._remember(asked)
            if not entry.admitted:
                self.forget(asked.campaign_id)
                return await self._lander.land(Claimed(asked.wanted()), until_s=until_s)
        try:
            return await self._through(self._door, entry, asked, until_s=until_s)
        except StockTrouble as trouble:
            # A cluster's client tells of no stranger, only that it found nobody to speak to.
            if self._door.wants_look:
                self._repair("")
            return _busy(asked, trouble.word)

    async def _through(self, door: Door, entry: Entry, asked: Asked, *, until_s: float) -> Answer | Pending:
        """Reserve, and land what is reserved; a stale copy of the campaign is read anew, once."""
        for _ in range(2):
            reply = await self._reserve(door, entry, asked, until_s=until_s)
            if not isinstance(reply, Fault):
                return await self._follow(door, entry, asked, reply=reply, until_s=until_s)
            self.forget(asked.campaign_id)
            fresh = await self._entry(asked.campaign_id, until_s)
            if fresh is None or not fresh.admitted:
                return await self._lander.land(Claimed(asked.wanted()), until_s=until_s)
            known, entry = entry.generation, fresh
            if fresh.generation == known:
                break
        self._repair("" if _is_elsewhere(door, entry) else asked.campaign_id)
        return _busy(asked, "rebuilding")

    async def _reserve(
        self, door: Door, entry: Entry, asked: Asked, *, until_s: float
    ) -> Reserved | Repeated | Refused | Fault:
        if entry.admission != "OPEN" or _is_elsewhere(door, entry):
            return Fault(Why.NO_GENERATION)
        now_ms = to_ms(self._services.clock.now())
        reservation = Reservation(
            asked.request,
            asked.member_id,
            fingerprint=fingerprint(asked.source),
            now_ms=now_ms,
            deadline_ms=now_ms + LANDING_MS,
            event=write_event(asked.source),
        )
        call = scripts.reserve(door.keys(asked.campaign_id), entry.generation, reservation)
        return await door.on_loop().run(call, until_s=until_s)

    async def _follow(
        self, door: Door, entry: Entry, asked: Asked, *, reply: Reserved | Repeated | Refused, until_s: float
    ) -> Answer | Pending:
        """Do what follows from the reply: land what is reserved, by us or by a twin; tell why it is not."""
        if isinstance(reply, Refused):
            return await self._refuse(entry, asked, reply=reply, until_s=until_s)
        self._services.probe("after_reserve")
        ticket = Ticket(door.keys(asked.campaign_id), entry.generation, asked.request, reply.token)
        wanted = asked.wanted(reservation=reply.token)
        landing = self._lander.land(Claimed(wanted, ticket), until_s=math.inf if asked.early else until_s)
        return Pending.PENDING if asked.early else await landing

    async def _refuse(self, entry: Entry, asked: Asked, *, reply: Refused, until_s: float) -> Answer:
        """Turn a no of Redis into words; a request that was granted before is never refused (PROTOCOL 5.4, step 1)."""
        campaign = asked.campaign_id
        if reply.why is No.KEY_REUSE:
            return _mismatch(asked.request)
        if reply.why is No.RATE:
            retry_s = max(1, -(-(reply.retry_ms or 0) // 1000))
            return refused(refuse(RefusalCode.RATE_LIMITED, campaign=campaign, retry_after_s=retry_s))
        peeked = await self._peek(asked.wanted(), until_s)
        if peeked.first is not None:
            return peeked.first
        if isinstance(peeked.decision, Refusal):
            return refused(peeked.decision)
        if reply.why is No.SOLD_OUT:
            return refused(refuse(RefusalCode.OUT_OF_STOCK, campaign=campaign))
        if reply.why is No.LIMIT:
            self._suspect(asked)
            limit = entry.rule.per_member
            code = RefusalCode.ALREADY_CLAIMED if limit == 1 else RefusalCode.LIMIT_REACHED
            return refused(refuse(code, campaign=campaign, limit=limit))
        # The database would grant it: an edit has not come through to Redis.
        self._repair(campaign)
        return _busy(asked, "catching_up")

    def _suspect(self, asked: Asked) -> None:
        """Notice a member who is refused for what the database does not know, for longer than any landing takes."""
        now_ms, key = to_ms(self._services.clock.now()), (asked.campaign_id, asked.member_id)
        if len(self._suspicions) > SUSPICIONS_MAX:
            self._suspicions.clear()
        if now_ms - self._suspicions.setdefault(key, now_ms) > 2 * LANDING_MS:
            del self._suspicions[key]
            self._repair(f"!{asked.campaign_id}")

    # -------------------------------------------------------------- what is remembered

    async def _entry(self, campaign_id: str, until_s: float) -> Entry | None:
        entry, fresh_until_s = self._entries.get(campaign_id, (None, 0.0))
        if time.monotonic() < fresh_until_s:
            return entry
        reading = self._reading.get(campaign_id)
        if reading is None or reading.done():
            if len(self._entries) > MEMBERS_KEPT_MAX:
                self._entries.clear()
            reading = asyncio.get_running_loop().run_in_executor(None, self._read_entry, campaign_id)
            self._reading = {name: each for name, each in self._reading.items() if not each.done()}
            self._reading[campaign_id] = reading
        async with asyncio.timeout_at(until_s):
            return await asyncio.shield(reading)

    def _read_entry(self, campaign_id: str) -> Entry | None:
        """Read a campaign, in a thread, for all who ask meanwhile; an edit made during that makes it forgotten."""
        edits = self._edits
        entry = self._services.read(lambda conn, ctx: entry_of(conn, ctx, campaign_id))
        if edits == self._edits:
            self._entries[campaign_id] = (entry, time.monotonic() + ENTRY_LIFE_S)
        return entry

    def _is_known(self, asked: Asked) -> bool:
        return time.monotonic() < self._members.get((asked.campaign_id, asked.member_id), 0.0)

    def _remember(self, asked: Asked) -> None:
        if len(self._members) > MEMBERS_KEPT_MAX:
            self._members.clear()
        self._members[(asked.campaign_id, asked.member_id)] = time.monotonic() + MEMBER_LIFE_S

    # -------------------------------------------------------------- looking things up

    async def _peek(self, wanted: Wanted, until_s: float) -> Peeked:
        """Look a claim up together with what others ask meanwhile."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Peeked] = loop.create_future()
        self._peeks.append((wanted, found))
        if self._peeking is None:
            # A task of its own: whoever came first may be gone before the others have their answers.
            self._peeking = loop.create_task(self._peek_all(loop))
        async with asyncio.timeout_at(until_s):
            return await found

    async def _peek_all(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._peeks:
                await self._peek_together(loop)
        finally:
            self._peeking = None

    async def _peek_together(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._peeks = self._peeks[:PEEK_MAX], self._peeks[PEEK_MAX:]
        wanted = [each for each, _ in batch]
        try:
            peeked = await loop.run_in_executor(None, self._read_peeks, wanted)
        except BaseException as error:
            for _, found in batch:
                if not found.done():
                    found.set_exception(error)
                    found.exception()
            if not isinstance(error, Exception):
                raise
            return
        for (_, found), each in zip(batch, peeked, strict=True):
            if not found.done():
                found.set_result(each)

    def _read_peeks(self, wanted: Sequence[Wanted]) -> list[Peeked]:
        return self._services.read(lambda conn, ctx: peek(conn, ctx, wanted))


def _is_elsewhere(door: Door, entry: Entry) -> bool:
    """Tell whether the counters were built in a process of Redis that we have not met, as behind a failover.

    Ours may know their generation all the same: as a replica of that one it got it from there, and fell behind.
    """
    return entry.admission == "OPEN" and not door.knows(entry.run_id)


def _busy(asked: Asked, reason: str) -> Answer:
    return refused(refuse(RefusalCode.BUSY, campaign=asked.campaign_id, reason=reason, retry_after_s=1))


def _mismatch(request: str) -> Answer:
    return refused(refuse(RefusalCode.DUPLICATE_MISMATCH, request=request))

"""Be the one thing of admission that routes, jobs and services know."""

import asyncio
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Connection

from server import metrics
from server.db.errors import DatabaseTrouble
from server.services import idempotency
from server.services.admission.claiming import Asked, Claiming, Pending
from server.services.admission.facts import campaigns_known, to_ms
from server.services.admission.generations import Generations, apart
from server.services.admission.landing import Lander, request_id
from server.services.admission.reconciling import Compared, Reconciling
from server.services.answers import Answer
from server.services.context import Context, NotProvisioned, Taken
from server.services.grants import REDIS
from server.services.services import Services
from server.stock import scripts
from server.stock.door import Door
from server.stock.scripts import Standing
from server.stock.trouble import StockTrouble

DATABASE = "database"
TROUBLES = (StockTrouble, DatabaseTrouble, NotProvisioned)

log = structlog.get_logger("pawtill.admission")


class Admission:
    """Admit claims. `door` None = there is no Redis: every campaign stays on the database arbiter."""

    def __init__(self, services: Services, door: Door | None) -> None:
        self._services, self.door = services, door
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Claiming] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._repairs = ThreadPoolExecutor(1, "pawtill-admission")
        self._repairing: set[str] = set()
        self._away = False
        self.generations: Generations | None = None
        self.reconciling: Reconciling | None = None
        if door is not None:
            self.generations = Generations(services, door, changed=self._forget)
            self.reconciling = Reconciling(services, door, self.generations)

    # -------------------------------------------------------------- life

    def begin(self) -> None:
        """Look at Redis and build what is to be there; what cannot be done now is done when somebody claims."""
        if self.generations is None:
            metrics.redis_state("none")
            return
        metrics.redis_state("starting")
        try:
            self.generations.look()
            self.drain(everything=True)
        except TROUBLES as trouble:
            log.warning("redis is not ready", reason=getattr(trouble, "word", "not_provisioned"))

    def close(self) -> None:
        """End what goes on in the background, and the bundled Redis."""
        self._repairs.shutdown(wait=True, cancel_futures=True)
        if self.door is not None:
            self.door.close()

    async def aclose(self) -> None:
        """Close what belongs to the loop that runs here."""
        if self.door is not None:
            await self.door.aclose()

    # -------------------------------------------------------------- claims

    async def claim(self, asked: Asked) -> Answer | Pending:
        """Answer a claim; see `Claiming.claim`."""
        return await self._on_loop().claim(asked)

    def _on_loop(self) -> Claiming:
        loop = asyncio.get_running_loop()
        # Only this loop's thread makes what belongs to it; the lock is for those who walk through all.
        claiming = self._by_loop.get(loop)
        if claiming is None:
            lander = Lander(self._services, self.door, tell=self.tell)
            claiming = Claiming(self._services, self.door, lander, repair=self.repair)
            with self._lock:
                self._by_loop[loop] = claiming
        return claiming

    def found(self, request: str) -> Answer | Pending | None:
        """Return the answer to a claim, pending where one is reserved and not landed, None = never granted.

        Raises a StockTrouble where Redis is needed to tell and cannot.
        """

        def stored(conn: Connection, _ctx: Context) -> tuple[Answer | None, list[str]]:
            known = idempotency.answers_of(conn, [request_id(request)])
            answer = known[request_id(request)][1] if known else None
            return answer, [] if known or self.door is None else campaigns_known(conn, _ctx)

        answer, campaign_ids = self._services.read(stored)
        if answer is not None:
            return answer
        for standing in self._standings(campaign_ids, request=request).values():
            if standing.reservation is not None:
                return Pending.PENDING
        # It may have landed between the two looks.
        return self._services.read(stored)[0]

    def _standings(self, campaign_ids: Sequence[str], *, request: str = "") -> dict[str, Standing]:
        """Return how each campaign stands; one whose counters are lost or damaged is left out."""
        if self.door is None or not campaign_ids:
            return {}
        now_ms = to_ms(self._services.clock.now())
        calls = [scripts.inspect(self.door.keys(each), now_ms=now_ms, request=request) for each in campaign_ids]
        found = self.door.scripts.run_each(calls)
        return {
            each: standing for each, standing in zip(campaign_ids, found, strict=True) if isinstance(standing, Standing)
        }

    # -------------------------------------------------------------- what is seen from outside

    def state(self) -> str:
        """Return `ok`, or one word for why Redis admits nobody now; `ok` where there is none."""
        if self.door is None:
            return "ok"
        try:
            forbidden = self.door.look().forbidden
        except StockTrouble as trouble:
            return trouble.word
        if forbidden is not None:
            return forbidden.word
        return "redis_restarted" if self.door.wants_look else "ok"

    def reserved(self) -> dict[str, int]:
        """Return what Redis has taken of each campaign and not let go of, in coupons. Raises a StockTrouble."""
        standings = self._standings(self._services.read(campaigns_known))
        return {campaign_id: standing.units for campaign_id, standing in standings.items()}

    # -------------------------------------------------------------- what the rest of the server tells

    def tell(self, taken: Sequence[Taken]) -> None:
        """Tell Redis what another way in took, after the commit."""
        if taken and self.generations is not None:
            self.generations.tell(taken)

    def changed(self, campaign_id: str) -> None:
        """Bring a campaign's edit to Redis, after the commit; on trouble the comparison does so later."""
        self._forget(campaign_id)
        if self.generations is None:
            return
        try:
            if not self.generations.bring_up_soon(campaign_id):
                self.repair(campaign_id)
        except TROUBLES as trouble:
            log.warning("edit not brought to redis", campaign=campaign_id, reason=getattr(trouble, "word", ""))

    def arbiter_in_force(self, wished: str) -> str:
        """Return who admits the claims of a campaign that wishes this arbiter."""
        return REDIS if wished == REDIS and self.door is not None else DATABASE

    def shown(self, campaign_id: str, stock: dict[str, Any]) -> dict[str, Any]:
        """Show a stock with what Redis has taken of it and not landed; as it is, where Redis does not tell."""
        try:
            standing = self._standings([campaign_id]).get(campaign_id)
        except StockTrouble:
            standing = None
        if standing is None or not standing.units:
            return stock
        # A reservation that has landed and is not closed yet counts as granted already.
        reserved = min(standing.units, stock["available"])
        return {**stock, "available": stock["available"] - reserved, "reserved": stock["reserved"] + reserved}

    # -------------------------------------------------------------- upkeep

    def repair(self, campaign_id: str) -> None:
        """Bring a campaign up in the background ("" = look at Redis first; a "!" in front = build anew)."""
        with self._lock:
            if campaign_id in self._repairing:
                return
            self._repairing.add(campaign_id)
        try:
            self._repairs.submit(self._repair, campaign_id)
        except RuntimeError:
            # The server is being closed.
            self._repairing.discard(campaign_id)

    def _repair(self, campaign_id: str) -> None:
        assert self.generations is not None, "without Redis nothing is repaired"
        try:
            if not campaign_id or (self.door is not None and self.door.wants_look):
                self.generations.look()
            elif campaign_id.startswith("!"):
                self.generations.rebuild(campaign_id[1:], "contradiction")
            else:
                self.generations.bring_up(campaign_id)
        except TROUBLES as trouble:
            log.warning("not repaired", campaign=campaign_id, reason=getattr(trouble, "word", ""))
        except Exception:
            log.exception("not repaired", campaign=campaign_id)
        finally:
            with self._lock:
                self._repairing.discard(campaign_id)

    def drain(self, *, everything: bool = False) -> int:
        """Land what was reserved and whose process is gone (`everything`: or not); returns how many reservations.

        Where Redis was away, or is another process, it is looked at before. Raises a StockTrouble.
        """
        if self.generations is None or self.door is None:
            return 0
        if self._away or self.door.wants_look:
            self.generations.look()
        self._away = True  # until it has answered
        count = self._drain(self.generations, everything=everything)
        self._away = False
        return count

    def _drain(self, generations: Generations, *, everything: bool) -> int:
        count = 0
        for campaign_id, standing in self._standings(self._services.read(campaigns_known)).items():
            with apart(campaign_id):
                if everything and standing.request_count:
                    count += generations.land_events(campaign_id, due_ms=None)
                elif standing.overdue_count:
                    now_ms = to_ms(self._services.clock.now())
                    count += generations.land_events(campaign_id, due_ms=now_ms)
        return count

    def compare(self, services: Services) -> Compared:
        """Compare Redis with the database, as a job with these services; raises a StockTrouble."""
        if self.reconciling is None:
            return Compared(0, {})
        return self.reconciling.compare(services)

    def _forget(self, campaign_id: str) -> None:
        with self._lock:
            claimings = list(self._by_loop.values())
        for each in claimings:
            each.forget(campaign_id)


def with_admission(services: Services, door: Door | None) -> Services:
    """Return services that admit claims, through Redis where there is a door to it."""
    return replace(services, admission=Admission(services, door))

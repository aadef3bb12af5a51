"""Build a campaign's counters in Redis from the database, bring edits to them, and take them away.

A generation is announced in the database and in Redis before anything is read: whatever is decided later is told to
it, whatever was decided before is in what is read, and the place in the feed says which is which. Of two rebuilds the
one with the older generation installs nothing. Everything here blocks and runs in threads, never in the loop.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy import Connection, insert, select, update

from server import metrics
from server.db.errors import DatabaseTrouble
from server.db.schema import admission
from server.services.admission.facts import Entry, campaigns_known, entry_of, holders, to_ms
from server.services.admission.landing import Claimed, land_now, read_event
from server.services.context import Context, NotProvisioned, Taken
from server.services.services import Services
from server.stock import scripts
from server.stock.door import Door, Event
from server.stock.scripts import Fault, Installation, Told, Why
from server.stock.suitability import Look
from server.stock.trouble import StockDamaged, StockTrouble

BUILDING_S = 30
"""After that long without a sign of life a rebuild is taken for one whose process died."""
SIGN_S = 5
"""How often a rebuild shows that it lives: one of five million members takes longer than a dead one may, and processes
that take each other for dead would begin anew for ever."""
EVENT_MAX_AGE_MS = 15 * 60 * 1000
"""Older reservations are not landed any more: they come from a file of yesterday, and nobody waits for them."""
TRIES_MAX = 5
LOCK_S = 0.5
"""How long an edit waits for a rebuild: who presses the brake is answered at once, and the database has it already."""
MEMBERS_TOLD = 200
"""Members in one `adjust`, so that no script holds Redis up."""

log = structlog.get_logger("pawtill.admission")


class Generations:
    """Keep the counters of campaigns; one thread at a time in each process, the generation settles it between them."""

    def __init__(self, services: Services, door: Door, *, changed: Callable[[str], None]) -> None:
        self._services, self._door, self._changed = services, door, changed
        self._lock = threading.RLock()
        self._untold: list[Taken] = []
        self._unfinished: set[str] = set()
        self._seen: Look | None = None

    # -------------------------------------------------------------- looking

    def look(self) -> list[str]:
        """Look who Redis is; rebuild what was installed in another process of it, then let everybody pass.

        Returns the campaigns that were rebuilt. Raises a StockTrouble.
        """
        with self._lock:
            seen = self._door.look()
            for problem in seen.problems:
                log.warning("redis is not as it should be", problem=problem.word, text=problem.text)
            if seen.forbidden is not None:
                metrics.redis_state("unsuitable")
                raise StockUnsuitable(seen.forbidden.text)
            self._seen = seen
            rebuilt = []
            for each in self._known():
                with apart(each):
                    if self.bring_up(each):
                        rebuilt.append(each)
            self._door.accept(seen)
            metrics.redis_state("ready")
            return rebuilt

    def _known(self) -> list[str]:
        try:
            return self._services.read(campaigns_known)
        except NotProvisioned:
            return []

    def bring_up(self, campaign_id: str) -> bool:
        """Bring a campaign to where it belongs, on Redis as it now is or off it; True = its counters were rebuilt."""
        with self._lock:
            entry = self._entry(campaign_id)
            if entry is None:
                return False
            if not entry.admitted:
                if entry.admission != "CLOSED":
                    self._take_off(entry)
                return False
            why = self._reason_to_rebuild(entry)
            if why is not None:
                self.rebuild(campaign_id, why)
            elif entry.admission == "OPEN":
                self._door.unguarded.run(
                    scripts.configure(self._door.keys(campaign_id), entry.generation, entry.configuration())
                )
            self._changed(campaign_id)
            return why is not None

    def bring_up_soon(self, campaign_id: str) -> bool:
        """Bring a campaign up unless a rebuild is under way that takes long; False = somebody has to try again."""
        if not self._lock.acquire(timeout=LOCK_S):
            return False
        try:
            self.bring_up(campaign_id)
        finally:
            self._lock.release()
        return True

    def _reason_to_rebuild(self, entry: Entry) -> str | None:
        """Return why the counters are worth nothing, None where they are fine or somebody is building them."""
        if entry.admission == "CLOSED":
            return "switched_on"
        now = self._services.clock.now()
        if entry.admission == "BUILDING":
            if entry.campaign_id in self._unfinished:
                return "interrupted"
            assert entry.since_at is not None, "what is being built began"
            # One that began in the future began under a clock that was set back since.
            return "stuck" if abs(now - entry.since_at) > timedelta(seconds=BUILDING_S) else None
        if entry.run_id != self._run_id(entry.campaign_id):
            # What we saw may be older than what another process wrote down.
            self._seen = self._door.look()
            if entry.run_id != self._run_id(entry.campaign_id):
                return "restarted"
        try:
            found = self._door.unguarded.run(scripts.inspect(self._door.keys(entry.campaign_id), now_ms=to_ms(now)))
        except StockDamaged:
            return "corrupt"
        if isinstance(found, Fault):
            return {Why.NO_GENERATION: "lost", Why.CORRUPT: "corrupt"}.get(found.why, "stale")
        if found.generation != entry.generation:
            return "stale"
        return "restocked" if (found.available is None) != (entry.total is None) else None

    def _run_id(self, campaign_id: str) -> str:
        if self._seen is None:
            self._seen = self._door.look()
        return self._door.run_id_of(self._seen, campaign_id)

    # -------------------------------------------------------------- building

    def rebuild(self, campaign_id: str, reason: str) -> bool:
        """Build the counters anew under the next generation; False = another process announced a newer one.

        Raises a StockTrouble or a DatabaseTrouble; the campaign is closed then, until somebody tries again.
        """
        with self._lock:
            self._changed(campaign_id)
            metrics.redis_state("rebuilding")
            log.info("rebuilding", campaign=campaign_id, reason=reason)
            run_id = self._run_id(campaign_id)
            generation = self._announce(campaign_id)
            self._land_everything(campaign_id)
            try:
                done = self._install(campaign_id, generation, run_id=run_id)
            finally:
                # A rebuild that found no room must not leave less of it to the next. Where Redis is away, time helps.
                with contextlib.suppress(StockTrouble):
                    self._door.unstage(campaign_id, generation)
            self._unfinished.discard(campaign_id)
            if done:
                metrics.campaign_rebuilt(reason)
                metrics.redis_state("ready")
            self._changed(campaign_id)
            self.tell_again()
            return done

    def _announce(self, campaign_id: str, *, state: str = "BUILDING") -> int:
        """Take the next generation, in the database and then in Redis, past whatever is there."""
        least = 0
        for _ in range(TRIES_MAX):
            take = partial(_next_generation, campaign_id=campaign_id, above=least, state=state)
            generation = self._services.write(take)
            if state == "BUILDING":
                self._unfinished.add(campaign_id)
            told = self._door.unguarded.run(scripts.close(self._door.keys(campaign_id), generation))
            if not isinstance(told, Fault):
                return generation
            # A database that was restored is behind its Redis: go on above.
            least = int(told.detail)
        raise StockDamaged(f"no generation of {campaign_id} is accepted")

    def _install(self, campaign_id: str, generation: int, *, run_id: str) -> bool:
        """Read and load in one snapshot, then swap; the campaign opens with what that snapshot told."""
        keys = self._door.keys(campaign_id)

        def load(conn: Connection, ctx: Context) -> tuple[Entry, int]:
            entry = entry_of(conn, ctx, campaign_id)
            assert entry is not None, "a campaign is never deleted"
            members, shown_at = 0, ctx.now
            self._door.unstage(campaign_id, generation)
            with contextlib.closing(holders(conn, campaign_id)) as pages:
                for held in pages:
                    self._door.stage(campaign_id, generation, held)
                    members += len(held)
                    now = self._services.clock.now()
                    if abs(now - shown_at) >= timedelta(seconds=SIGN_S):
                        self._services.write(partial(_show_life, campaign_id=campaign_id, generation=generation))
                        shown_at = now
            return entry, members

        entry, members = self._services.read(load)
        found = Installation(members, entry.position, entry.stock_version, entry.total, entry.available)
        told = self._door.unguarded.run(scripts.install(keys, generation, found))
        if isinstance(told, Fault):
            return False
        opened = self._services.write(partial(_open, campaign_id=campaign_id, generation=generation, run_id=run_id))
        if opened:
            self._door.unguarded.run(scripts.configure(keys, generation, entry.configuration()))
            # What was edited between the snapshot and the swap found nobody to tell.
            now = self._entry(campaign_id)
            assert now is not None, "a campaign is never deleted"
            self._door.unguarded.run(scripts.configure(keys, generation, now.configuration()))
        return opened

    def _take_off(self, entry: Entry) -> None:
        """Take a campaign off Redis: refuse there first, land what is reserved, then throw the rest away."""
        self._announce(entry.campaign_id, state="CLOSED")
        self._changed(entry.campaign_id)
        self._land_everything(entry.campaign_id)
        self._door.remove(entry.campaign_id)
        log.info("off redis", campaign=entry.campaign_id)

    def _land_everything(self, campaign_id: str) -> None:
        """Land what is reserved, whoever began it: after this a reservation that is lost was never anybody's."""
        with apart(campaign_id):
            self.land_events(campaign_id, due_ms=None)

    def land_events(self, campaign_id: str, *, due_ms: int | None) -> int:
        """Land reservations whose deadline is over at `due_ms`, or further ahead than any can be; returns how many.

        None = all. A rival who lands the same one gets the same answer from the database, and closes nothing twice.
        """
        after, count = "-", 0
        while events := self._door.events(campaign_id, after=after):
            after = events[-1][0]
            batch: list[Claimed] = []
            for entry, event in events:
                # What cannot be read is nobody's claim, and goes with the counters that the comparison builds anew.
                with contextlib.suppress(StockDamaged):
                    if event is not None and self._is_due(event, due_ms):
                        batch.append(read_event(self._door.keys(campaign_id), entry, event))
            if batch:
                self.tell(land_now(self._services, self._door, batch))
                metrics.reservation_ended("reaped", len(batch))
                count += len(batch)
        return count

    def _is_due(self, event: Event, due_ms: int | None) -> bool:
        now_ms = to_ms(self._services.clock.now())
        if now_ms - event.at_ms > EVENT_MAX_AGE_MS and due_ms is None:
            return False
        return due_ms is None or not 0 <= event.deadline_ms - due_ms <= scripts.AHEAD_MAX_MS

    # -------------------------------------------------------------- news

    def tell(self, taken: Sequence[Taken]) -> None:
        """Tell Redis what other ways took; what finds nobody (a rebuild is under way) is told again behind it."""
        for news in taken:
            try:
                heard = self._tell_one(news)
            except StockTrouble:
                # Perhaps it was heard. Said twice it would count twice; said never, the comparison finds it.
                continue
            except DatabaseTrouble:
                # Asked before anything was said. What was granted is durable: nobody may hear of this.
                heard = False
            if not heard:
                self._untold.append(news)

    def _tell_one(self, news: Taken) -> bool:
        entry = self._entry(news.campaign_id)
        if entry is None or not entry.admitted:
            return True
        pairs = list(news.grants)
        for start in range(0, max(len(pairs), 1), MEMBERS_TOLD):
            members: dict[str, int] = {}
            for _, member in pairs[start : start + MEMBERS_TOLD]:
                members[member] = members.get(member, 0) + 1
            call = scripts.adjust(
                self._door.keys(news.campaign_id),
                version=news.version,
                units=news.units if start == 0 else 0,
                members=members,
            )
            told = self._door.scripts.run(call)
            if isinstance(told, Fault):
                return start > 0 or told.why is Why.CORRUPT
            if told is Told.KNOWN:
                return True
        return True

    def tell_again(self) -> None:
        """Tell what found nobody."""
        untold, self._untold = self._untold, []
        self.tell(untold)

    # -------------------------------------------------------------- reading

    def _entry(self, campaign_id: str) -> Entry | None:
        return self._services.read(lambda conn, ctx: entry_of(conn, ctx, campaign_id))


def _next_generation(conn: Connection, ctx: Context, *, campaign_id: str, above: int, state: str) -> int:
    known = conn.execute(
        select(admission.c.generation).where(admission.c.campaign_id == campaign_id)
    ).scalar_one_or_none()
    generation = max(known or 0, above) + 1
    values = {"generation": generation, "state": state, "run_id": "", "since_at": ctx.now, "strikes": 0}
    if known is None:
        conn.execute(insert(admission).values(campaign_id=campaign_id, **values))
    else:
        conn.execute(update(admission).where(admission.c.campaign_id == campaign_id).values(values))
    return generation


def _show_life(conn: Connection, ctx: Context, *, campaign_id: str, generation: int) -> None:
    building = (
        admission.c.campaign_id == campaign_id,
        admission.c.generation == generation,
        admission.c.state == "BUILDING",
    )
    conn.execute(update(admission).where(*building).values(since_at=ctx.now))


def _open(conn: Connection, ctx: Context, *, campaign_id: str, generation: int, run_id: str) -> bool:
    """Write down that a generation is in use; False = a newer one was announced."""
    opened = conn.execute(
        update(admission)
        .where(
            admission.c.campaign_id == campaign_id,
            admission.c.generation == generation,
            admission.c.state == "BUILDING",
        )
        .values(state="OPEN", run_id=run_id, since_at=ctx.now)
    )
    return opened.rowcount == 1


@contextlib.contextmanager
def apart(campaign_id: str) -> Iterator[None]:
    """Let what is wrong with one campaign's keys stop nothing for the others; what concerns them too is raised."""
    try:
        yield
    except StockDamaged as trouble:
        log.warning("campaign damaged in redis", campaign=campaign_id, text=str(trouble))


class StockUnsuitable(StockTrouble):
    """Say that a Redis has settings under which no campaign is put there."""

    word = "redis_unsuitable"

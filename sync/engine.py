"""Run sessions: one at a time, by itself in the background or when somebody asks for one.

A session is `hello -> push* -> pull* -> sanity`. The engine alone knows whether the line is up, and tells whoever
listens; nobody at the counter waits for it.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.domain.ports import Clock, Probe, Progress, Step, UnderWay, no_progress
from app.services.ports import Busy, Offline, no_probe
from app.store import meta
from app.store.database import TillDatabase
from app.store.errors import StoreError
from app.store.meta import instant_ms
from sync.client import Misunderstood, ServerClient, TooLarge
from sync.hello import Stop, SyncStopped, greet
from sync.protocol import longest_rest_s
from sync.pull import Pulled, pull
from sync.push import Pushed, push
from sync.session import Session
from sync.verify import Daybook, Difference, open_daybook, verify

log = logging.getLogger(__name__)

IDLE_S = (5.0, 15.0)
"""Between two sessions while connected, drawn evenly, so that the tills of a chain do not come in step."""
BACKOFF_MAX_S = 300.0
FIRST_BACKOFF_S = 5.0
STOP_WAIT_S = 10.0
"""Longer than the longest answer takes, so a session that is under way ends by itself."""

ASKING_BATCHES = 2
ASKING_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Tell what a session did.

    `pushed` counts sales, refunds and claims that reached the server; `pulled` records; `conflicts` entries of this
    session that were parked; `pending` entries that still wait. `skipped` records are of kinds that this version does
    not know. `differences` are what both sides count differently.
    """

    pushed: int
    pulled: int
    conflicts: int
    pending: int
    skipped: int = 0
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Tell how the line is.

    `online`: the last contact succeeded. `offline_since` is the first contact that did not, None while online and
    before the first contact. `reason` is what is wrong: a word of `Offline`, or the name of what failed here; "" where
    all is well. `offset_ms` is the server's clock less ours. `differences` counts those of the last comparison.
    """

    online: bool = False
    offline_since: datetime | None = None
    reason: str = ""
    pending: int = 0
    parked: int = 0
    last_sync_at: datetime | None = None
    offset_ms: int = 0
    differences: int = 0


Observer = Callable[[SyncStatus], None]
Wait = Callable[[threading.Event, float], object]


def wait_for(event: threading.Event, seconds: float) -> object:
    """Wait until the event is set, at most `seconds`."""
    return event.wait(seconds)


class SyncEngine:
    """Bring one till's ledger to the server and the server's records to the till; safe to share between threads.

    `wait` and `rng` make the background loop's waiting testable; the loop runs only between `start` and `stop`.
    `behind` is done by the loop behind each session that succeeded, in its thread; it may ask the server.
    """

    def __init__(
        self,
        db: TillDatabase,
        client: ServerClient,
        *,
        clock: Clock,
        probe: Probe = no_probe,
        rng: random.Random | None = None,
        wait: Wait = wait_for,
    ) -> None:
        self._session = Session(db, client, clock, probe, progress=self._tell)
        self._watcher: Progress = no_progress
        self._under_way: UnderWay | None = None
        self._one_at_a_time = threading.Lock()
        self._noting = threading.Lock()
        self._status = SyncStatus()
        self._observers: list[Observer] = []
        self._greeted = False
        self._book: Daybook | None = None
        self._rng = rng or random.Random()
        self._wait = wait
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.behind: Callable[[], object] = lambda: None
        self._note()

    # -------------------------------------------------------------- sessions

    def run_once(self) -> SyncReport:
        """Run a whole session, after the one that may be under way.

        Raises Offline (SyncStopped where a person must look), Busy, and what `app.store.errors` names. What was done
        until then stays done.
        """
        with self._alone():
            with self.contact():
                try:
                    came_back = self._greet()
                except SyncStopped as stopped:
                    if stopped.stop is Stop.REVOKED:
                        # We get nothing any more; what happened here is heard, and waits for a person there.
                        push(self._session)
                    raise
                try:
                    pushed = push(self._session)
                except (TooLarge, Misunderstood):
                    # An entry that the server cannot take waits in sight; prices and coupons still come.
                    pull(self._session)
                    raise
                if came_back:
                    # A server that was set back gives nothing out before every till has told that it told all.
                    self._greet()
                pulled = pull(self._session)
                differences = self._compare()
            self._synced(differences)
            return self._report(pushed, pulled, differences)

    def push_now(self) -> Pushed:
        """Push what is pending; says hello first where the line was down."""
        with self._alone(), self.contact():
            self._greet_once()
            return push(self._session)

    def pull_now(self) -> Pulled:
        """Pull what changed; says hello first where the line was down."""
        with self._alone(), self.contact():
            self._greet_once()
            return pull(self._session)

    def look(self) -> Pulled:
        """Say hello and pull: behind it our clock is measured and the copy is fresh, and nothing was pushed."""
        with self._alone(), self.contact():
            self._greet()
            return pull(self._session)

    def pull_first(self) -> None:
        """Pull where nothing was pulled yet: what is carried over, or waits for an answer, is read by zone and money.

        No greeting goes before it, for a ledger that is not the server's any more stops there.
        """
        with self._alone(), self.contact():
            with self._session.db.read() as conn:
                known = meta.load(conn).cursor
            if not known:
                pull(self._session)

    def push_before_asking(self) -> bool:
        """Tell the server what it should know before it is asked something; return whether it knows all.

        A cashier waits for this, so it sends two batches at most, and waits a second for a session that is under way:
        that one is pushing already. An entry that the server cannot take holds up no question.
        """
        if not self._pending():
            return True
        if not self._one_at_a_time.acquire(timeout=ASKING_PATIENCE_S):
            return False
        try:
            with self.contact():
                self._greet_once()
                push(self._session, batches_max=ASKING_BATCHES)
        except (TooLarge, Misunderstood):
            return False
        finally:
            self._let_go()
        return not self._pending()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep every session away while the block runs, and begin afresh behind it."""
        with self._alone():
            try:
                yield
            finally:
                self._greeted, self._book = False, None
                self._note()

    @contextmanager
    def watched(self, progress: Progress) -> Iterator[None]:
        """Tell how far sessions are while the block runs."""
        self._watcher = progress
        try:
            yield
        finally:
            self._watcher = no_progress

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep every other session away while the block runs."""
        self._one_at_a_time.acquire()
        try:
            yield
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._under_way = None
        self._one_at_a_time.release()

    def _tell(self, step: Step, done: int, total: int) -> None:
        """Keep how far the session is, where there is more to come, and tell who watches it."""
        self._under_way = UnderWay(step, done, total) if done < total else None
        self._watcher(step, done, total)

    def _greet(self) -> bool:
        came_back = greet(self._session)
        self._greeted = True
        return came_back

    def _greet_once(self) -> None:
        if not self._greeted:
            self._greet()

    def _compare(self) -> tuple[Difference, ...]:
        if self._pending():
            return ()
        self._book = self._book or open_daybook(self._session)
        differences = verify(self._session, self._book) if self._book else ()
        for difference in differences:
            log.error("server and till count differently: %s", difference)
        return differences

    # -------------------------------------------------------------- the line

    @property
    def status(self) -> SyncStatus:
        """Return how the line is; never waits."""
        return self._status

    @property
    def under_way(self) -> UnderWay | None:
        """Return how far the session of this moment is, None where it is done with one request or there is none."""
        return self._under_way

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every new status, from whatever thread notices it."""
        self._observers.append(observer)

    @contextmanager
    def contact(self) -> Iterator[None]:
        """Run one contact with the server and note how it ended. A busy server is a server: it changes nothing."""
        try:
            yield
        except (TooLarge, Misunderstood) as error:
            self._note(online=True, offline_since=None, reason=str(error))
            raise
        except Offline as error:
            self._greeted = False
            self._note_offline(str(error))
            raise
        self._note(online=True, offline_since=None, reason="")

    def _note_offline(self, reason: str) -> None:
        now = self._session.clock.now()
        self._note(online=False, offline_since=self._status.offline_since or now, reason=reason)

    def _synced(self, differences: tuple[Difference, ...]) -> None:
        now_ms = instant_ms(self._session.clock.now())
        with self._session.db.write() as tx:
            offset_ms = meta.load(tx).clock_offset_ms
            meta.put(tx, last_sync_at_ms=now_ms + offset_ms)
        self._note(differences=len(differences))

    def _report(self, pushed: Pushed, pulled: Pulled, differences: tuple[Difference, ...]) -> SyncReport:
        return SyncReport(
            pushed=pushed.counted,
            pulled=pulled.records,
            conflicts=pushed.conflicts,
            pending=self._pending(),
            skipped=pulled.skipped,
            differences=differences,
        )

    def _note(self, **changes: Any) -> None:
        """Store a new status with the database's own figures, and tell the observers where anything changed."""
        with self._noting:
            before = self._status
            after = self._status = replace(before, **self._figures(), **changes)
        if after != before:
            for observer in tuple(self._observers):
                observer(after)

    def _figures(self) -> dict[str, Any]:
        try:
            with self._session.db.read() as conn:
                known = meta.load(conn)
                pending, parked = self._session.ledger.counts(conn)
        except StoreError:
            # The figures of before are kept: whoever works with the file says what is wrong with it.
            return {}
        return {
            "pending": pending,
            "parked": parked,
            "last_sync_at": known.last_sync_at,
            "offset_ms": known.clock_offset_ms,
        }

    def _pending(self) -> int:
        with self._session.db.read() as conn:
            return self._session.ledger.counts(conn)[0]

    # -------------------------------------------------------------- in the background

    def start(self) -> None:
        """Begin to run sessions by itself, the first at once."""
        assert self._thread is None, "started twice"
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="pawtill-sync", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the background loop; a request that is under way is waited for."""
        if self._thread is not None:
            self._stopping.set()
            self._wake.set()
            self._thread.join(STOP_WAIT_S)
            self._thread = None

    def wake(self) -> None:
        """Begin the next session of the background loop now: something was sold, or the network came back."""
        self._wake.set()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self.run_once()
                self.behind()
                failures, delay_s = 0, rest_s(self._session.heard.rest_s, self._rng)
            except Busy as busy:
                failures, delay_s = 0, max(busy.retry_after_s, self._rng.uniform(*IDLE_S))
            except Offline:
                failures += 1
                delay_s = backoff_s(failures, self._rng)
            except Exception as error:
                # A full disk, or a bug of ours: sales matter more than this loop, and entries wait where they are.
                log.exception("a session failed")
                self._greeted = False
                self._note_offline(type(error).__name__)
                failures += 1
                delay_s = backoff_s(failures, self._rng)
            if not self._stopping.is_set():
                self._wait(self._wake, delay_s)


def rest_s(asked_s: float, rng: random.Random) -> float:
    """Return how long to rest behind a session, where the server asks for so long on average: half of it to 1.5 times.

    A large chain's server asks for more than a small one's (`HelloAnswer.rest_s`).
    """
    longest_s = longest_rest_s(asked_s)
    return max(rng.uniform(*IDLE_S), rng.uniform(longest_s / 3, longest_s))


def backoff_s(failures: int, rng: random.Random) -> float:
    """Return how long to wait after so many failures in a row (from 1): 5 to 10 s at first, doubling up to 5 min."""
    top = min(BACKOFF_MAX_S, FIRST_BACKOFF_S * 2.0 ** min(failures, 16))
    return rng.uniform(top / 2, top)

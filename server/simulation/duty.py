"""Let cashiers act one after the other at simulated tills, which lose power in the middle and start again."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from app.domain.refusals import Refusal
from app.services.epochs import Begun
from app.services.ports import Busy, Offline
from app.store.errors import StoreError
from server.scenario.crash import ProcessDied
from server.simulation.cashier import Cashiers
from server.simulation.chain import Chain
from server.simulation.machines import TillMachine
from server.simulation.plan import Event
from server.simulation.stage import Part
from server.simulation.truth import hold

REBOOT_MS = (5_000, 120_000)
TRIED_AGAIN_MS = (600_000, 2_400_000)
"""After which somebody tries again to recover a till whose server did not answer: each try makes a whole ledger."""
ALL = 1_000_000
_LEASED = "SELECT DISTINCT account_id FROM lease WHERE till_id = ? AND state = 'OPEN' ORDER BY 1"
_HELD = "SELECT id, attempt FROM orders WHERE state = 'HELD'"


class OnDuty(Cashiers):
    """Act at the machines of a simulated chain."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain)
        self.chain = chain

    def act(self, part: TillMachine, event: Event) -> None:
        """Let somebody do something at a till, behind what is under way there."""
        part.strand.do(lambda: self._act(part, event))

    def _act(self, part: TillMachine, event: Event) -> None:
        if part.on:
            self.begin(part, event)
        else:
            self.chain.note(part.id, event.what, "the till is off")

    def safely(self, part: Part, what: str, do: Callable[[], None]) -> bool:
        """Do it; returns whether it came to its end: the power may fail in it."""
        try:
            return super().safely(part, what, do)
        except ProcessDied as death:
            assert isinstance(part, TillMachine), "others have no power that fails"
            part.died()
            self.chain.note(part.id, what, f"died {death}")
            self._reboot(part)
            return False

    def ask_refund(self, part: Part, request: str) -> None:
        """Ask for a refund; now and then the line breaks before the server hears what became of it."""
        super().ask_refund(part, request)
        assert isinstance(part, TillMachine), "of this chain"
        if part.line.rng.random() < 0.6:
            with part.database.read() as conn:
                part.line.break_before(part.database.ledger.tail(conn)[0])

    def _reboot(self, part: TillMachine) -> None:
        self.wake_later(part, part.line.rng.randint(*(TRIED_AGAIN_MS if part.is_damaged else REBOOT_MS)))

    def wake_later(self, part: TillMachine, delay_ms: int) -> None:
        """Start a till again some time later."""
        self.chain.timeline.after(delay_ms, lambda: part.strand.do(lambda: self.wake(part)))

    def put_back(self, part: TillMachine, image: Path) -> None:
        """Start a till on an older image of its disk."""
        self.safely(part, "put back", lambda: part.put_back(image))
        self.wake(part)

    def last_words(self, part: TillMachine, event: Event, then: Callable[[], None]) -> None:
        """Let a till that has told everything sell once more, and tell of it at once, after `then`."""
        if part.on and self.safely(part, "sync", lambda: self.sync(part)):
            then()
            self.safely(part, "last words", lambda: self._last_words(part, event))

    def _last_words(self, part: TillMachine, event: Event) -> None:
        self._sell(part, random.Random(event.seed), event)
        part.engine.push_now()

    def start_anew(self, part: TillMachine, token: str, *, fresh: bool) -> None:
        """Start a till with a new key, and let it look whether its ledger is still the server's."""
        part.died()  # Somebody may have switched it on meanwhile.
        self.wake(part, lambda: part.start_anew(token, fresh=fresh))
        if part.on:
            self.safely(part, "rejoin", lambda: self.sync(part))

    def damage(self, part: TillMachine, token: str, seed: int) -> None:
        """Let a till find its file damaged; it is recovered when it starts, as soon as the server answers."""
        part.died()
        part.damage(token, random.Random(seed))
        part.recovered = lambda begun: self._begun(part, "recover", begun)
        self.wake(part)

    def wake(self, part: TillMachine, start: Callable[[], None] | None = None) -> None:
        """Start a till that is off, and answer what it asks."""
        if part.on:
            return
        try:
            (start or part.start)()
        except ProcessDied as death:
            part.died()
            self.chain.note(part.id, "wake", f"died {death}")
            self._reboot(part)
            return
        except (Offline, Busy, StoreError) as trouble:
            self.chain.note(part.id, "wake", type(trouble).__name__)
            self._reboot(part)
            return
        self.unsaved.discard(part.id)
        self.safely(part, "wake", lambda: self.clear_up(part))

    def finish(self, part: Part) -> None:
        """Bring everything to an end; a till that may ask the server has no lease left without an answer."""
        super().finish(part)
        with part.database.read() as conn:
            waiting = conn.exec_driver_sql("SELECT id FROM lease WHERE state = 'REQUESTED'").fetchall()
        stranded = self.truth.disaster_of(part.id).since_ms is not None
        hold(stranded or not waiting, "I16", f"{part.id}: leases wait for their answers: {waiting}")

    # -------------------------------------------------------------- a till that is given up

    def leased(self, part: TillMachine) -> list[str]:
        """List the accounts that a till has leases of, by the server's books."""
        with closing(sqlite3.connect(self.chain.server.disk.path)) as books:
            return [row[0] for row in books.execute(_LEASED, (part.id,))]

    def take_over(self, part: TillMachine, accounts: list[str]) -> None:
        """Let a till lease all that there is of these accounts."""
        for account_id in accounts if part.on else ():
            self.safely(part, "take_over", partial(self._take_over, part, account_id))

    def _take_over(self, part: TillMachine, account_id: str) -> None:
        done = part.till.lease(account_id, ALL)
        self.chain.note(part.id, "take_over", done.code.value if isinstance(done, Refusal) else "granted")

    # -------------------------------------------------------------- a ledger that is not the server's any more

    def sync(self, part: Part) -> None:
        """Run a whole session; a till that came with a new key looks first whether it goes on in a new epoch."""
        assert isinstance(part, TillMachine), "of this chain"
        if part.must_rejoin:
            self._rejoin(part)
        began_ms = self.chain.now_ms
        super().sync(part)
        part.synced_ms = began_ms
        self._compare_holds(part)

    def _compare_holds(self, part: TillMachine) -> None:
        """Hold what a till told all of against what the server holds for it: the same orders, in the same attempts."""
        if part.id in self.truth.disasters or not self.chain.server.on or part.id in self.unsaved:
            return
        with closing(sqlite3.connect(self.chain.server.disk.path)) as books:
            theirs = set(books.execute(f"{_HELD} AND till_id = ?", (part.id,)))
        with part.database.read() as conn:
            mine = set(map(tuple, conn.exec_driver_sql(_HELD)))
        hold(theirs <= mine, "I12", f"the server holds {sorted(theirs - mine)} for {part.id}, which called that off")

    def _rejoin(self, part: TillMachine) -> None:
        begun = part.rejoin()
        if begun is None:
            self.chain.note(part.id, "rejoin", "one ledger")
        else:
            self._begun(part, "rejoin", begun)

    def _begun(self, part: TillMachine, what: str, begun: Begun) -> None:
        self.chain.note(part.id, what, "whole" if begun.whole else "cut")
        self.chain.seen["carried"] += begun.carried
        if part.id in self.truth.disasters:
            self.truth.disasters[part.id].mended = True

"""Let cashiers act one after the other at simulated tills, which lose power in the middle and start again."""

import random
from collections.abc import Callable
from pathlib import Path

from app.services.epochs import Begun
from app.services.ports import Busy, Offline
from app.store.errors import StoreError
from server.scenario.crash import ProcessDied
from server.simulation.cashier import Cashiers
from server.simulation.chain import Chain
from server.simulation.machines import TillMachine
from server.simulation.plan import Event
from server.simulation.stage import Part

REBOOT_MS = (5_000, 120_000)


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

    def _reboot(self, part: TillMachine) -> None:
        self.wake_later(part, part.line.rng.randint(*REBOOT_MS))

    def wake_later(self, part: TillMachine, delay_ms: int) -> None:
        """Start a till again some time later."""
        self.chain.timeline.after(delay_ms, lambda: part.strand.do(lambda: self.wake(part)))

    def put_back(self, part: TillMachine, image: Path) -> None:
        """Start a till on an older image of its disk."""
        self.safely(part, "put back", lambda: part.put_back(image))
        self.wake(part)

    def start_anew(self, part: TillMachine, token: str, *, fresh: bool) -> None:
        """Start a till with a new pass, and let it look whether its ledger is still the server's."""
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
        self.safely(part, "wake", lambda: self.clear_up(part))

    # -------------------------------------------------------------- a ledger that is not the server's any more

    def sync(self, part: Part) -> None:
        """Run a whole session; a till that came with a new pass looks first whether it goes on in a new epoch."""
        assert isinstance(part, TillMachine), "of this chain"
        if part.must_rejoin:
            self._rejoin(part)
        began_ms = self.chain.now_ms
        super().sync(part)
        part.synced_ms = began_ms

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

"""Let go wrong what may: lines, power, disks, clocks; and in seeds of disasters what no line can mend."""

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

from server.simulation.books import epochs_known, frozen, granted, told_as_done
from server.simulation.chain import Chain
from server.simulation.counters import Counters
from server.simulation.disk import AFTER, BEFORE
from server.simulation.duty import REBOOT_MS, OnDuty
from server.simulation.machines import TillMachine
from server.simulation.network import CACHED, Jam
from server.simulation.office import Office
from server.simulation.plan import DAY_MS, LONGEST_CUT_MS, SHORTEST_CUT_MS, Event
from server.simulation.truth import SetBack
from sync.protocol import PUSH_PATH

SKEW_MAX_MS = 9 * DAY_MS
ASK_AGAIN_MS = 60_000
AT_A_HOLD, DARK = 0.5, 0.5
"""How many backups are made when an order is held, and how many tills have no line when one is put back."""
HANDED_ON, LAST = 3, 0.5
"""How often one till goes on behind a backup with what another has told, and how often that tells last afterwards."""


class Faults:
    """Do what an event says of a chain."""

    def __init__(self, chain: Chain, cashiers: OnDuty, office: Office) -> None:
        self.chain, self.cashiers, self.office = chain, cashiers, office
        self._images = 0
        self._keys: dict[str, int] = {}
        """When a till was taken in, where it was not at the founding."""
        chain.server.died = self._server_died

    def strike(self, event: Event) -> None:
        """Let it happen, now."""
        rng, part = random.Random(event.seed), self.chain.till(event.who)
        how = getattr(self, f"_{event.what}")(rng, part)
        self.chain.note(part.id, "fault", f"{event.what}{how or ''}")

    # -------------------------------------------------------------- lines

    def _cut_line(self, rng: random.Random, part: TillMachine) -> None:
        long = rng.random() < 0.4
        self._cut(part, rng.randint(SHORTEST_CUT_MS, LONGEST_CUT_MS if long else 60_000))

    def _cut_all(self, rng: random.Random, _part: TillMachine) -> None:
        for part in self.chain.tills:
            self._cut(part, rng.randint(SHORTEST_CUT_MS, LONGEST_CUT_MS))

    def _cut(self, part: TillMachine, duration_ms: int) -> None:
        until_ms = self.chain.timeline.now_ms + duration_ms
        part.line.cut_until_ms = max(part.line.cut_until_ms, until_ms)

    def _jam(self, rng: random.Random, part: TillMachine) -> None:
        """Let no answer come to what a till asks for a while, and the questions arrive when it has given them up."""
        passing = CACHED if rng.random() < 0.7 else ()
        part.line.jam(Jam(self.chain.now_ms + rng.randint(60_000, 1_200_000), passing=passing, late=True))

    # -------------------------------------------------------------- power

    def _till_power(self, rng: random.Random, part: TillMachine) -> None:
        if part.on:
            part.cut()
            self.cashiers.wake_later(part, rng.randint(*REBOOT_MS))

    def _till_commit(self, rng: random.Random, part: TillMachine) -> None:
        part.disk.arm(rng.randint(1, 6), rng.choice([BEFORE, AFTER]))

    def _server_commit(self, rng: random.Random, _part: TillMachine) -> None:
        self.chain.server.disk.arm(rng.randint(1, 6), rng.choice([BEFORE, AFTER]))

    def _server_power(self, _rng: random.Random, _part: TillMachine) -> None:
        self.chain.server.cut()

    def _server_died(self) -> None:
        """Start the server again some time after it died."""
        delay_ms = 1_000 + (self.chain.server.deaths * 7919) % 90_000
        self.chain.note("server", "server", "died")
        self.chain.timeline.after(delay_ms, self.chain.server.restart)

    # -------------------------------------------------------------- disks and clocks

    def _disk_full(self, rng: random.Random, part: TillMachine) -> str:
        disk = rng.choice([part.disk, part.disk, self.chain.server.disk])
        disk.fill(full=True)
        self.chain.timeline.after(rng.randint(10_000, 300_000), lambda: disk.fill(full=False))
        return " of the server" if disk is self.chain.server.disk else ""

    def _clock(self, rng: random.Random, part: TillMachine) -> None:
        by_ms = rng.choice([7 * 60_000, 2 * 3_600_000, SKEW_MAX_MS])
        target = timedelta(milliseconds=rng.randint(-by_ms, by_ms))
        part.clock.skew(target - part.clock.error)

    # -------------------------------------------------------------- silent tills

    def _strand(self, rng: random.Random, part: TillMachine) -> None:
        """Let headquarters set aside what a silent till has; it sells on and draws on that, and is found again."""
        silent_ms = rng.randint(600_000, LONGEST_CUT_MS)
        self._cut(part, silent_ms)
        self.chain.timeline.after(rng.randint(0, silent_ms), lambda: self.office.strand(part))
        self.chain.timeline.after(silent_ms + rng.randint(0, 600_000), lambda: self.office.found(part))

    # -------------------------------------------------------------- Redis

    def _redis_emptied(self, _rng: random.Random, _part: TillMachine) -> None:
        self._counters.forget()

    def _redis_older(self, rng: random.Random, _part: TillMachine) -> None:
        """Copy what Redis has, and let another process come back with that some time later."""
        self._counters.keep()
        self.chain.timeline.after(rng.randint(1_000, 600_000), self._counters.go_back)

    def _redis_killed(self, rng: random.Random, _part: TillMachine) -> None:
        self._counters.die(lose_all=rng.random() < 0.5)
        self.chain.timeline.after(rng.randint(1_000, 60_000), self._counters.start)

    def _redis_between(self, rng: random.Random, _part: TillMachine) -> str:
        """Let Redis or the server die when the next claim is admitted, before it lands."""
        who = self._counters.arm(rng)
        self.chain.timeline.after(rng.randint(60_000, 600_000), self._counters.start)
        return f" {who}"

    def _redis_switch(self, rng: random.Random, _part: TillMachine) -> str:
        campaigns = [each.id for each in self.chain.table.campaign if each.rule.get("kind") != "automatic"]
        arbiter = rng.choice(["redis", "database"])
        self.office.switch(rng.choice(campaigns), arbiter)
        return f" {arbiter}"

    @property
    def _counters(self) -> Counters:
        assert self.chain.server.counters is not None, "the plan has campaigns on Redis"
        return self.chain.server.counters

    # -------------------------------------------------------------- the server's backup

    def _set_back(self, rng: random.Random, _part: TillMachine) -> str | None:
        """Back the server's database up, and lose it some time later: the backup is put back, and that is said.

        Half of the backups are made when the next order is held, so that it is paid behind them.
        """
        if not self.chain.server.on:
            return " not made"
        if rng.random() < AT_A_HOLD:
            self.chain.on_hold = lambda: self._back_up(rng)
            return " at a hold"
        self._back_up(rng)
        return None

    def _back_up(self, rng: random.Random) -> None:
        chain = self.chain
        chain.on_hold = lambda: None
        self._images += 1
        image = chain.folder / f"backup-{self._images}"
        since_ms = chain.timeline.now_ms
        chain.server.disk.image(image)
        told_ms = {part.id: part.synced_ms for part in chain.tills}
        delay_ms = rng.randint(60_000, 3_600_000)
        first, then = self._hand_on(rng, delay_ms)

        def put_back() -> None:
            self._server_put_back(image, since_ms, told_ms)
            # Tills tell in any order, and some much later than those that depend on what they have to tell.
            for part in chain.tills:
                if rng.random() < DARK:
                    self._cut_line(rng, part)
            if rng.random() < LAST:
                self._cut(first, LONGEST_CUT_MS)
                then.line.heal()
                then.strand.do(lambda: self.cashiers.tell(then))

        chain.timeline.after(delay_ms, put_back)

    def _hand_on(self, rng: random.Random, until_ms: int) -> tuple[TillMachine, TillMachine]:
        """Let one till tell, a few times, what another goes on with, before the backup is put back; returns both."""
        first, then = rng.sample(self.chain.tills, 2)
        for at_ms in sorted(rng.randint(0, until_ms) for _ in range(HANDED_ON)):
            self._images += 1
            event = Event(-1 - self._images, at_ms, "sell", 0, rng.getrandbits(32))
            self.chain.timeline.after(at_ms, partial(self._hand_on_once, event, first, then=then))
        return first, then

    def _hand_on_once(self, event: Event, first: TillMachine, *, then: TillMachine) -> None:
        def go_on(coupon: str | None) -> None:
            then.line.heal()
            self.chain.timeline.after(1, lambda: then.strand.do(lambda: self.cashiers.go_on(then, event, coupon)))

        first.line.heal()
        first.strand.do(lambda: self.cashiers.hand_on(first, event, go_on))

    def _server_put_back(self, image: Path, since_ms: int, told_ms: Mapping[str, int]) -> None:
        chain = self.chain
        chain.server.restart()  # What it has told until now is what is on its disk.
        sold, refunded = chain.server.services.read(told_as_done)
        known = chain.server.services.read(granted)
        chain.server.put_back(image)
        held = chain.server.services.read(frozen)
        # Also those of which the answer got lost: tills may have copied them.
        lost = known - chain.server.services.read(granted) - chain.truth.given_at.keys()
        chain.truth.unbacked.update(lost)
        chain.truth.set_back(SetBack(since_ms, chain.timeline.now_ms, sold, refunded, held, told_ms))
        for part in chain.tills:
            part.synced_ms = min(part.synced_ms, told_ms[part.id])
        self.office.set_back(since_ms)
        epochs = chain.server.services.read(epochs_known)
        for part in chain.tills:
            # The server knows no key that was made since, and no epoch that was begun with one.
            if self._keys.get(part.id, -1) >= since_ms or part.database.ledger.epoch != epochs[part.id]:
                self._give_key(part, fresh=False)
        chain.note("server", "server", "put back", detail=str(since_ms))

    # -------------------------------------------------------------- enrolled tills

    def _suspend(self, rng: random.Random, part: TillMachine) -> None:
        self.office.suspend(part)
        self.chain.timeline.after(rng.randint(60_000, LONGEST_CUT_MS), lambda: self.office.resume(part))

    # -------------------------------------------------------------- disasters

    def _reclaim(self, rng: random.Random, part: TillMachine) -> None:
        """Let headquarters give up a till that is silent; it sells on, and tells of it afterwards."""
        silent_ms = rng.randint(600_000, LONGEST_CUT_MS)
        self._cut(part, silent_ms)
        self.chain.timeline.after(rng.randint(0, silent_ms), lambda: self._give_up(part))

    def _give_up(self, part: TillMachine) -> None:
        """Take back what a till may spend; the till beside it wants all of that at once."""
        accounts = self.cashiers.leased(part)
        self.office.reclaim(part)
        beside = self.chain.till(self.chain.tills.index(part) + 1)
        beside.strand.do(lambda: self.cashiers.take_over(beside, accounts))

    def _roll_back(self, rng: random.Random, part: TillMachine) -> None:
        """Make an image of a till's disk, and put it back some time later: no file is left that would tell."""
        if part.id in self.chain.truth.disasters:
            return
        now_ms, end_ms = self.chain.timeline.now_ms, self.chain.plan.events[-1].time_ms
        delay_ms, what = rng.randint(30_000, max(60_000, (end_ms - now_ms) // 3)), rng.random()
        until_ms = now_ms + delay_ms
        if what < 0.4:
            # What it tells last arrives when it knows nothing of that any more.
            self._images += 1
            event = Event(-1 - self._images, until_ms, "sell", 0, rng.getrandbits(32))
            part.strand.do(lambda: self.cashiers.last_words(part, event, lambda: self._forget_next(part, until_ms)))
            return
        dark_ms = rng.choice([0, rng.randint(0, LONGEST_CUT_MS)])
        if what < 0.8:
            # It tells how far its ledger goes, and no entry of that arrives; then it sells past that place.
            part.line.jam(Jam(until_ms, stopped=(PUSH_PATH,)))
            greeting = Event(-1, until_ms, "sync", 0, rng.getrandbits(32))
            self.chain.timeline.at(until_ms - 15_000, lambda: self.cashiers.act(part, greeting))
            dark_ms = delay_ms + rng.randint(0, 2 * delay_ms)
        self._image(part, until_ms, dark_ms=dark_ms)

    def _forget_next(self, part: TillMachine, until_ms: int) -> None:
        until_ms = max(until_ms, self.chain.timeline.now_ms + 1)
        self._image(part, until_ms)
        part.line.jam(Jam(until_ms, late=True))

    def _image(self, part: TillMachine, until_ms: int, *, dark_ms: int = 0) -> None:
        self._images += 1
        image = self.chain.folder / f"image-{self._images}"
        since_ms = self.chain.timeline.now_ms
        part.disk.image(image)
        self.chain.timeline.at(until_ms, lambda: self._put_back(part, image, since_ms, dark_ms=dark_ms))

    def _new_disk(self, _rng: random.Random, part: TillMachine) -> None:
        """Destroy a till's disk; a new machine takes its place, with a new key and an empty file."""
        if self._destroy(part):
            self._give_key(part, fresh=True)

    def _damage(self, rng: random.Random, part: TillMachine) -> None:
        """Let bits of a till's file flip; what verifies of it is recovered into a new epoch, with a new key."""
        if self._destroy(part):
            seed = rng.getrandbits(32)
            self._with_new_key(part, lambda token: self._flip(part, token, seed))

    def _destroy(self, part: TillMachine) -> bool:
        """Cut a till's power and write down that its disk is lost; False: a disaster struck it before."""
        if part.id in self.chain.truth.disasters:
            return False
        disaster = self.chain.truth.disaster(part.id)
        disaster.since_ms, disaster.at_ms, disaster.destroyed = part.synced_ms, self.chain.timeline.now_ms, True
        part.cut()
        return True

    def _new_key(self, _rng: random.Random, part: TillMachine) -> None:
        """Give a till a new key, whether it needs one or not: with it, it may leave its ledger for a new one."""
        self._give_key(part, fresh=False)

    def _give_key(self, part: TillMachine, *, fresh: bool) -> None:
        self._with_new_key(part, lambda token: self._start_anew(part, token, fresh=fresh))

    def _start_anew(self, part: TillMachine, token: str, *, fresh: bool) -> None:
        if fresh:
            self._lost_until_now(part)
        self.cashiers.start_anew(part, token, fresh=fresh)

    def _flip(self, part: TillMachine, token: str, seed: int) -> None:
        self._lost_until_now(part)
        self.cashiers.damage(part, token, seed)

    def _lost_until_now(self, part: TillMachine) -> None:
        """Know that also what was done is lost while headquarters did not answer, on the disk that is given up."""
        self.chain.truth.disaster(part.id).at_ms = self.chain.timeline.now_ms

    def _with_new_key(self, part: TillMachine, do: Callable[[str], None]) -> None:
        """Do something at a till with a new key, as soon as headquarters has made one; it is switched off for that."""
        token = self.chain.take_in(part)
        if token is None:
            self.chain.timeline.after(ASK_AGAIN_MS, lambda: self._with_new_key(part, do))
            return
        self._keys[part.id] = self.chain.timeline.now_ms
        part.cut()
        part.strand.do(lambda: do(token))

    def _put_back(self, part: TillMachine, image: Path, since_ms: int, *, dark_ms: int) -> None:
        disaster = self.chain.truth.disaster(part.id)
        if disaster.since_ms is not None:
            return
        disaster.since_ms, disaster.at_ms = since_ms, self.chain.timeline.now_ms
        self._cut(part, dark_ms)
        part.cut()
        part.strand.do(lambda: self.cashiers.put_back(part, image))

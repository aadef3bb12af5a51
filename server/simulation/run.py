"""Run one seed from its plan to its end, hold the truth against the books, and tell how it went."""

import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from server.simulation.books import Books
from server.simulation.chain import Chain, Ground
from server.simulation.checking import compare
from server.simulation.duty import OnDuty
from server.simulation.faults import Faults
from server.simulation.machines import TillMachine
from server.simulation.office import Office
from server.simulation.plan import AT_TILL, Event, Plan
from server.simulation.truth import Broken, hold
from server.simulation.watching import Watch

QUEUE_MAX = 3
"""Customers who wait at one till; more go away."""
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Tell how a seed went: how many operations, how each ended, and what was violated ("" = nothing)."""

    seed: int
    operations: int
    violation: str
    digest: str
    seen: Counter[str] = field(default_factory=Counter)
    trace: tuple[str, ...] = ()

    def without_trace(self) -> "Outcome":
        """Return the same, without its trace."""
        return replace(self, trace=())


def run_plan(ground: Ground, plan: Plan, *, without: Collection[int] = ()) -> Outcome:
    """Run a plan, without some of its events."""
    violation = ""
    with ground.chain(plan) as chain:
        run = _Run(chain)
        try:
            run.play([event for event in plan.events if event.number not in without])
        except Broken as broken:
            violation = str(broken)
        except Exception as bug:
            place = traceback.extract_tb(bug.__traceback__)[-1]
            violation = f"{type(bug).__name__} in {place.name}:{place.lineno}: {str(bug)[:300]}"
    return Outcome(plan.seed, run.operations, violation, chain.trace.digest, chain.seen, tuple(chain.trace.lines))


class _Run:
    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.cashiers, self.office = OnDuty(chain), Office(chain)
        self.faults = Faults(chain, self.cashiers, self.office)
        self.watch = Watch(chain)
        self.operations = 0

    def play(self, events: Collection[Event]) -> None:
        """Do everything, heal everything, compare."""
        for event in events:
            self.chain.timeline.at(event.time_ms, partial(self._do, event))
        self.chain.timeline.run()
        self._heal()
        self.watch.look()
        compare(self.chain, self.chain.server.services.read(Books))
        if self.chain.server.counters is not None:
            self.chain.server.counters.check(self.chain.server.services)
        hold(self.chain.server.bugs == [], "bug", self.chain.server.bugs[:3])

    def _do(self, event: Event) -> None:
        if event.what in AT_TILL:
            part = self.chain.till(event.who)
            if part.strand.queued < QUEUE_MAX:
                self.operations += 1
                self.cashiers.act(part, event)
        elif event.is_operation:
            self.operations += 1
            self.office.act(event)
        else:
            self.faults.strike(event)
        self.watch.raise_found()

    # -------------------------------------------------------------- the end

    def _heal(self) -> None:
        """Put everything right, let everybody finish what was begun, and let all timers run out."""
        self._mend()
        # What one till has not told yet may keep another from being answered, so all tell before anybody asks.
        self._everywhere(self.cashiers.wake)
        # After a restore a till tells first, and then that it has told all.
        for _ in range(1 + bool(self.chain.truth.set_backs)):
            self._everywhere(self.cashiers.close)
        if self.chain.truth.set_backs:
            self.office.end_waiting()
            self._wait_for_jobs()
        if self.chain.server.counters is not None:
            # What was reserved lands, what is lost or differs is built anew: twice, as a message may be on its way.
            for _ in range(3):
                self._wait_for_jobs()
        for request in list(self.office.top_ups):
            self.office.ask_top_up(request)
        for task in self.office.issues:
            self.office.ask_issue(task)
        for request in self.office.claims:
            self.office.ask_claim(request)
        for step in (self.cashiers.finish, self.cashiers.give_back):
            self._everywhere(step)
        for _ in range(2):
            self._wait_for_jobs()
            self._everywhere(self.cashiers.close)
        self.office.count_issued()

    def _mend(self) -> None:
        chain = self.chain
        chain.weather.heal()
        chain.bug.mended = True
        chain.server.disk.disarm()
        chain.server.disk.fill(full=False)
        if chain.server.counters is not None:
            chain.server.counters.disarm()
            chain.server.counters.start()
        chain.server.restart()
        for part in chain.tills:
            part.disk.disarm()
            part.disk.fill(full=False)
            part.clock.skew(-part.clock.error)
            part.line.heal()
            part.terminal.silence = 0.0
        for part in chain.tills:
            if part.id in chain.truth.stranded:
                self.office.found(part)
            if chain.plan.signed:
                self.office.resume(part)

    def _wait_for_jobs(self) -> None:
        self.chain.timeline.after(HOUR_MS, self.office.jobs)
        self.chain.timeline.run()

    def _everywhere(self, step: Callable[[TillMachine], None]) -> None:
        for part in self.chain.tills:
            part.strand.do(partial(step, part))
        self.chain.timeline.run()

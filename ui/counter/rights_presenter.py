"""Show what this till may do by itself, and lead through the closing of the day. Plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.domain.refusals import Refusal, RefusalCode
from app.services.api import TillStatus
from app.services.rights_view import DayEnd, DayStep, RightsView
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, accepted, not_done, refused, waiting, warning
from ui.words import Text, tell

STEPS = tuple(DayStep)


@dataclass(frozen=True, slots=True)
class RightsState:
    """Show the rights; `view` None = the first reading is on its way.

    `asked`: a person is asked whether to close the day. `step` is how far the closing is, None = none is under way;
    `end` is what the last one came to, as long as the page is open.
    """

    view: RightsView | None = None
    asked: bool = False
    step: DayStep | None = None
    end: DayEnd | None = None
    verdict: Verdict | None = None

    @property
    def busy(self) -> bool:
        """Tell whether a closing is under way."""
        return self.step is not None


class RightsPresenter:
    """Hold what is shown; it is read beside the counter, so no scan waits for it.

    `online` tells whether the last contact succeeded, `basket_waits` whether a customer's goods are on the desk.
    """

    def __init__(
        self,
        till: Till,
        jobs: Jobs,
        *,
        online: Callable[[], bool],
        basket_waits: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._till, self._jobs, self._changed = till, jobs, changed
        self._online, self._basket_waits = online, basket_waits
        self.state = RightsState()
        self._reading = False
        self._seen: object = None
        self._turn = 0  # counts visits: a question that comes too late is not put

    def begin(self) -> None:
        """Open with a fresh reading; what an earlier closing said stays away."""
        self._turn += 1
        self._put(RightsState(view=self.state.view))
        self._read()

    def look_again(self, status: TillStatus | None) -> None:
        """Read anew where something was sold or synced since, and say when head office has heard of the closing."""
        end = self.state.end
        if end is not None and end.waiting_count and status is not None and status.pending_count == 0:
            heard = replace(end, waiting_count=0)
            self._put(replace(self.state, end=heard, verdict=_said(heard)))
        seen = None if status is None else (status.online, status.pending_count, status.last_sync_at)
        if seen != self._seen and not self._reading:
            self._seen = seen
            self._read()

    def ask(self) -> None:
        """Ask whether to close the day, with what it gives back now; says why it cannot be closed."""
        state = self.state
        if state.busy or state.view is None:
            return
        if self._basket_waits():
            self._put(replace(state, verdict=not_done("rights.basket_first")))
        elif not self._online():
            self._put(replace(state, verdict=_offline()))
        else:
            self._read(asked=True)

    def drop(self) -> None:
        """Close no day."""
        if self.state.asked:
            self._put(replace(self.state, asked=False))

    def close_day(self) -> None:
        """Close it, as was asked."""
        if not self.state.asked or self.state.busy:
            return
        self._put(replace(self.state, asked=False, end=None))
        self._stepped(STEPS[0])
        self._jobs.network(lambda: self._till.end_day(self._told), self._ended, self._failed)

    def leave(self) -> bool:
        """Leave the page; False while a closing is under way."""
        if self.state.busy:
            return False
        self._turn += 1
        self._put(RightsState(view=self.state.view))
        return True

    # ------------------------------------------------------------------ away from the screen, and back

    def _read(self, *, asked: bool = False) -> None:
        self._reading, turn = True, self._turn

        def read(view: RightsView) -> None:
            self._reading = False
            state = replace(self.state, view=view)
            if asked and turn == self._turn and not state.busy:
                state = replace(state, asked=True, verdict=None)
            self._put(state)

        def failed(error: Exception) -> None:
            self._reading = False
            self._put(replace(self.state, verdict=not_done("error.unexpected")))
            self._jobs.report(error)

        self._jobs.aside(self._till.rights, read, failed)

    def _told(self, step: DayStep) -> None:
        self._jobs.post(lambda: self._stepped(step))  # in order, and before the end

    def _stepped(self, step: DayStep) -> None:
        said = waiting(f"rights.step_{step.value}", step=STEPS.index(step) + 1, steps=len(STEPS))
        self._put(replace(self.state, step=step, verdict=said))

    def _ended(self, end: DayEnd | Refusal) -> None:
        done = None if isinstance(end, Refusal) else end
        self._put(replace(self.state, step=None, end=done, verdict=_said(end)))
        self._read()

    def _failed(self, error: Exception) -> None:
        self._put(replace(self.state, step=None, verdict=not_done("rights.not_done")))
        self._jobs.report(error)
        self._read()

    def _put(self, state: RightsState) -> None:
        self.state = state
        self._changed()


def question(view: RightsView) -> tuple[Text, ...]:
    """Say what closing the day gives back, what stays and why, and how the till goes on."""
    said = [tell("close_day.gives_back", leases=view.free_leases, coupons=view.free_coupons)]
    if view.asked_count:
        said.append(tell("close_day.asked_first", count=view.asked_count))
    if view.kept:
        said.append(tell("close_day.kept", count=view.kept))
    if view.waiting_orders or view.unknown_payments:
        said.append(tell("close_day.open", orders=view.waiting_orders, payments=view.unknown_payments))
    return (*said, tell("close_day.then"))


def _offline() -> Verdict:
    return not_done("rights.offline", title="rights.title_offline")


def _said(end: DayEnd | Refusal) -> Verdict:
    if isinstance(end, Refusal):
        return _offline() if end.code is RefusalCode.NEEDS_ONLINE else refused(end)
    title, leases, coupons = "rights.title_closed", end.closed, end.returned
    if end.waiting_count:
        return warning("rights.waits", title=title, leases=leases, coupons=coupons, count=end.waiting_count)
    if end.kept:
        return warning("rights.kept", title=title, leases=leases, coupons=coupons, kept=end.kept)
    if not (leases or coupons):
        return accepted("rights.nothing_left", title=title)
    return accepted("rights.closed", title=title, leases=leases, coupons=coupons)

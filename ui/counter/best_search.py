"""Search for the best coupons away from the screen, telling of the best so far; plain Python."""

from collections.abc import Callable, Mapping

from app.domain.best import Best
from app.domain.quote import Quote
from app.domain.refusals import Refusal
from app.services.api import BasketRequest
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, accepted, waiting
from ui.words import Name


class BestSearch:
    """Run one search. Nearly all end before anybody notices; a hard one shows what it has, and may be told to stop.

    `better` hears on the GUI thread of each better combination; `wanted` tells, from any thread, whether the question
    still stands.
    """

    def __init__(self, till: Till, jobs: Jobs, *, better: Callable[[Best], None], wanted: Callable[[], bool]) -> None:
        self._till, self._jobs = till, jobs
        self._better, self._wanted = better, wanted
        self._told_minor: int | None = None
        self._enough = False

    def start(self, request: BasketRequest, done: Callable[[Best | Refusal], None]) -> None:
        """Begin; `done` follows on the GUI thread with the best of all, or the best so far where it was stopped."""
        self._jobs.aside(lambda: self._till.best(request, keep_going=self._go_on), done)

    def stop(self) -> None:
        """Be content with the best so far."""
        self._enough = True

    def _go_on(self, best: Best) -> bool:
        payable_minor = best.quote.payable_minor
        if self._told_minor is None or payable_minor < self._told_minor:
            self._told_minor = payable_minor
            self._jobs.post(lambda: self._better(best))
        return not self._enough and self._wanted()


def saves_minor(best: Best, quote: Quote | None) -> int:
    """Return what the combination takes off the price that is shown, 0 where it is no better."""
    now_minor = quote.payable_minor if quote else best.quote.gross_minor
    return max(0, now_minor - best.quote.payable_minor)


def so_far(best: Best, quote: Quote | None) -> Verdict:
    """Say, while the search goes on, what the best so far would save."""
    return waiting("verdict.best_so_far_waiting", saves_minor=saves_minor(best, quote))


def found(best: Best, quote: Quote | None, names: Mapping[str, Name | str]) -> Verdict | None:
    """Say which coupons were chosen and what they save; None where they save nothing more."""
    minor = saves_minor(best, quote)
    if minor == 0:
        return None
    return accepted(
        "verdict.best" if best.exact else "verdict.best_so_far",
        title="verdict.title_best",
        names=[names.get(coupon_id, coupon_id) for coupon_id in best.coupon_ids],
        saves_minor=minor,
    )

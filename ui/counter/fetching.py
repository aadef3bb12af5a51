"""Fetch a coupon that is at home at another till: ask for it at once, and again until it has come. Plain Python.

The first question has the server ask it back (`server/services/recalls.py`), and where that till is connected it gives
the coupon up behind its next session, some seconds later. The cashier scans on meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.domain.refusals import Refusal, RefusalCode
from app.services.api import AtHome
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, refused, waiting
from ui.words import Name

ASK_EVERY_S = 3
ASKS_MAX = 10
"""Half a minute: a till that is connected had two sessions. Where all rest longer, a person asks again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold what is fetched, for which order, and whose it is (None = the order's member knows)."""

    coupon_id: str
    order_id: str
    member_id: str | None
    subject: Name | str


class CouponFetch:
    """Fetch one coupon at a time; the next one that is wanted takes its place.

    `came` hears what is at home here now, `told` what the cashier should know; `tick` is called each second.
    """

    def __init__(
        self, till: Till, jobs: Jobs, *, came: Callable[[Wanted], None], told: Callable[[Verdict], None]
    ) -> None:
        self._till, self._jobs, self._came, self._told = till, jobs, came, told
        self._wanted: Wanted | None = None
        self._asks, self._pause_s = 0, 0

    def begin(self, wanted: Wanted) -> None:
        """Ask for a coupon; who wants one that is asked for already waits on, and no second question goes out."""
        self._asks = 0
        if wanted != self._wanted:
            self._wanted = wanted
            self._ask(wanted)

    def stop(self) -> None:
        """Wait no more. What comes all the same is at home here, and good at the next scan."""
        self._wanted = None

    def tick(self) -> None:
        """Let a second pass."""
        self._pause_s -= 1
        if self._wanted is not None and self._pause_s == 0:
            self._ask(self._wanted)

    def _ask(self, wanted: Wanted) -> None:
        self._pause_s = 0
        self._jobs.network(
            lambda: self._till.take_home(wanted.coupon_id),
            lambda answer: self._answered(wanted, answer),
            lambda error: self._failed(wanted, error),
        )

    def _answered(self, wanted: Wanted, answer: AtHome | Refusal) -> None:
        if wanted is not self._wanted:
            return
        self._asks += 1
        if isinstance(answer, AtHome):
            self._wanted = None
            self._came(wanted)
        elif _comes_soon(answer) and self._asks < ASKS_MAX:
            if self._asks == 1:
                self._told(waiting("verdict.fetching", till=answer.facts["till"]))
            self._pause_s = ASK_EVERY_S
        else:
            self._wanted = None
            self._told(refused(answer, subject=wanted.subject))

    def _failed(self, wanted: Wanted, error: Exception) -> None:
        if wanted is self._wanted:
            self._wanted = None
        self._jobs.report(error)


def _comes_soon(refusal: Refusal) -> bool:
    return refusal.code is RefusalCode.LEASED_ELSEWHERE and "retry_after_s" in refusal.facts

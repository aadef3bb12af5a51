"""Give the hottest campaigns a label of their own, and call all the others `other`.

A label for each campaign would grow with the chain for ever, and its cost with it (Prometheus, "Instrumentation": keep
the cardinality of a metric below 10, a few hundred for very few). So at most `named_max` have a name at any time; who
has one changes when another campaign has run hotter for a whole window. Memory is bounded whatever is asked for.
"""

import threading
from collections.abc import Callable, Mapping

OTHER = "other"
WINDOW_S = 10.0
CANDIDATES_MAX = 1000
"""Campaigns without a name that are counted within one window; more than that are nobody's flash sale."""
CLEARLY = 2.0
"""How many times hotter a newcomer must be than the coldest that has a name: else names would flicker."""


class HotCampaigns:
    """Count what is asked of each campaign; safe from any thread. `monotonic` returns seconds that never go back.

    `forget` is told each campaign that loses its name, so that its series end.
    """

    def __init__(
        self, named_max: int, *, monotonic: Callable[[], float], forget: Callable[[str], None] = lambda _campaign: None
    ) -> None:
        self._named_max = named_max
        self._monotonic = monotonic
        self._forget = forget
        self._lock = threading.Lock()
        self._heat: dict[str, float] = {}  # asked of the named: this window, and half of each one before
        self._now: dict[str, int] = {}  # asked in this window
        self._rates: dict[str, float] = {}  # asked a second in the last whole window
        self._until = monotonic() + WINDOW_S

    def label(self, campaign_id: str) -> str:
        """Count one asking and return the label that it goes under."""
        with self._lock:
            if self._monotonic() >= self._until:
                self._turn()
            if campaign_id in self._now or len(self._now) < CANDIDATES_MAX + self._named_max:
                self._now[campaign_id] = self._now.get(campaign_id, 0) + 1
            if campaign_id not in self._heat and len(self._heat) < self._named_max:
                self._heat[campaign_id] = 0.0
            return campaign_id if campaign_id in self._heat else OTHER

    def named(self) -> tuple[str, ...]:
        """Return the campaigns that have a label now, hottest first."""
        with self._lock:
            return tuple(sorted(self._heat, key=lambda each: (-self._heat[each] - self._now.get(each, 0), each)))

    def rates(self) -> Mapping[str, float]:
        """Return how often a second each campaign was asked in the last whole window of 10 s, idle ones left out."""
        with self._lock:
            if self._monotonic() >= self._until:
                self._turn()
            return dict(self._rates)

    def _turn(self) -> None:
        """Close the window: cool everybody down, and let newcomers take the names of those that are clearly colder."""
        now = self._monotonic()
        idle = now >= self._until + WINDOW_S
        self._rates = {} if idle else {each: count / WINDOW_S for each, count in self._now.items()}
        for each in self._heat:
            self._heat[each] = self._heat[each] / 2 + self._now.get(each, 0)
        newcomers = sorted(((count, each) for each, count in self._now.items() if each not in self._heat), reverse=True)
        for count, each in newcomers[: self._named_max]:
            coldest = min(self._heat, key=lambda name: (self._heat[name], name))
            if count <= CLEARLY * self._heat[coldest]:
                break
            del self._heat[coldest]
            self._forget(coldest)
            self._heat[each] = float(count)
        self._now = {}
        self._until = now + WINDOW_S

"""Stop the clock: a scenario's time moves by `at` and `wait` alone, and each till may be wrong about it."""

from datetime import datetime, timedelta


class VirtualClock:
    """Tell the true time of the scenario, in UTC; it never goes back."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the instant."""
        return self._now

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        assert duration >= timedelta(), "time does not go back"
        self._now += duration

    def move_to(self, instant: datetime) -> bool:
        """Go to an instant; False, and nothing done, where it has passed."""
        if instant < self._now:
            return False
        self._now = instant
        return True


class TillClock:
    """Tell the time as a till's own clock shows it: the true time and an error that `skew` adds to."""

    def __init__(self, truth: VirtualClock) -> None:
        self._truth = truth
        self.error = timedelta()

    def now(self) -> datetime:
        """Return the instant as the till sees it."""
        return self._truth.now() + self.error

    def skew(self, by: timedelta) -> None:
        """Move the clock, as a person who sets it wrong, or a dying battery."""
        self.error += by

"""A clock that tests set, for till, window and server alike."""

from __future__ import annotations

from datetime import datetime, timedelta


class SetClock:
    """Stand still but for `pass_time`."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def pass_time(self, **span: float) -> None:
        self.at += timedelta(**span)

"""Let a part of a scenario die at a named point (FORMAT, `crash`)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class ProcessDied(BaseException):
    """Take a part down as a power cut does: no handler for errors may catch it."""


TILL_POINTS = {"after_reserve": "after_hold", "after_commit": "after_commit", "before_ack": "before_ack"}
"""The points of FORMAT, and what a till's own probe calls them (`app.services.ports.no_probe`)."""
SERVER_POINTS = {name: name for name in TILL_POINTS}


class Fuse:
    """Be the probe of one part: pass every point by, but die once at the armed one, while a step is under way.

    `died` tells that it has, until `reset`. Points outside of a step (background work) are passed by.
    """

    def __init__(self, points: Mapping[str, str]) -> None:
        self._points = points
        self._armed: str | None = None
        self._live = False
        self.died = False

    def __call__(self, point: str) -> None:
        """Pass a point, or die at it."""
        if self._live and self._armed == point:
            self._armed = None
            self.died = True
            raise ProcessDied(point)

    @property
    def lives_through_a_step(self) -> bool:
        """Tell whether the step itself is under way, and the part alive."""
        return self._live and not self.died

    def arm(self, when: str) -> None:
        """Choose the point, by its name in FORMAT."""
        self._armed = self._points[when]

    def disarm(self) -> None:
        """Wait for no point any more."""
        self._armed = None

    def reset(self) -> None:
        """Take the part as living, with nothing armed."""
        self._armed, self.died = None, False

    @contextmanager
    def lit(self) -> Iterator[None]:
        """Mark that what happens now is the step itself."""
        self._live = True
        try:
            yield
        finally:
            self._live = False

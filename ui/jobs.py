"""Name what presenters know of threads: three places to run work, and one to tell of errors. Plain Python."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    """Run work away from the screen; presenters know only this."""

    def local(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a call of the till's own; `done` or `failed` follows on the GUI thread."""
        ...

    def aside(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a reading that may compute for long, so that no scan waits behind it."""
        ...

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a call that may take seconds."""
        ...

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the GUI thread soon; may be called from any thread."""
        ...

    def report(self, error: Exception) -> None:
        """Tell of an error that the caller has no answer to; the window shows it."""
        ...

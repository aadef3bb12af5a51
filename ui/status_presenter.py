"""Watch how the till stands: online, what is not synced, whether its file is sound. Plain Python."""

from collections.abc import Callable

from app.services.api import TillStatus
from app.services.till import Till
from ui.jobs import Jobs


class StatusPresenter:
    """Ask the till for its status, one question at a time.

    `changed` hears of each answer, `turned` when the till went offline or came back.
    """

    def __init__(
        self,
        till: Till,
        jobs: Jobs,
        *,
        changed: Callable[[], None],
        turned: Callable[[bool], None] = lambda _online: None,
    ) -> None:
        self._till, self._jobs, self._changed, self._turned = till, jobs, changed, turned
        self.status: TillStatus | None = None
        self._asking = False

    @property
    def online(self) -> bool:
        """Tell whether the last contact with the head office succeeded, as of the last answer."""
        return self.status is not None and self.status.online

    def poll(self) -> None:
        """Ask for the status unless an answer is still on its way."""
        if self._asking:
            return
        self._asking = True
        self._jobs.local(self._till.status, self._answered, self._failed)

    def _answered(self, status: TillStatus) -> None:
        self._asking = False
        before, self.status = self.status, status
        self._changed()
        if before is not None and before.online != status.online:
            self._turned(status.online)

    def _failed(self, error: Exception) -> None:
        self._asking = False
        self._jobs.report(error)

"""Be the one door between the GUI thread and everything that may take time.

`local` runs the till's own calls (its database) one after another on one thread. `aside` runs what only reads but may
compute for long (the best of 50 coupons), on a thread of its own, so no scan waits behind it. `network` runs calls that
may wait for the head office or for a payment terminal, on a few threads: a hold that waits keeps nobody else waiting.
Results and exceptions come back on the GUI thread. Nothing else in `ui` starts a thread.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal

T = TypeVar("T")
NETWORK_THREADS = 4

log = logging.getLogger(__name__)


class Tasks(QObject):
    """Run jobs on threads and bring their ends back to the GUI thread, where this object must live.

    `on_error` hears of an exception whose caller brought no `failed`.
    """

    # Signal(object): a Signal(int) is 32 bits, and what travels here may be money (DESIGN, "Traps known beforehand").
    _arrived = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._local = ThreadPoolExecutor(1, thread_name_prefix="till")
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="aside")
        self._network = ThreadPoolExecutor(NETWORK_THREADS, thread_name_prefix="network")
        self._closed = threading.Event()
        self.on_error: Callable[[Exception], None] = _log_error
        self._arrived.connect(self._call, Qt.ConnectionType.QueuedConnection)

    def local(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a call of the till's own database, in order."""
        self._submit(self._local, job, done, failed=failed)

    def aside(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a reading that may compute for long."""
        self._submit(self._aside, job, done, failed=failed)

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run a call that may wait for the network or a terminal."""
        self._submit(self._network, job, done, failed=failed)

    def report(self, error: Exception) -> None:
        """Hand an error to `on_error`; on the GUI thread."""
        self.on_error(error)

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the GUI thread soon; may be called from any thread. After `close` it is dropped."""
        if not self._closed.is_set():
            self._arrived.emit(call)

    def close(self) -> None:
        """Drop what has not begun and wait for what has: a commit under way is never cut off."""
        self._closed.set()
        self._local.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)
        self._network.shutdown(wait=True, cancel_futures=True)

    def _submit(
        self,
        executor: Executor,
        job: Callable[[], T],
        done: Callable[[T], None],
        *,
        failed: Callable[[Exception], None] | None,
    ) -> None:
        if self._closed.is_set():
            return

        def ended(future: Future[T]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                self.post(lambda: done(future.result()))
            elif isinstance(error, Exception):
                self.post(lambda: (failed or self.on_error)(error))
            else:
                log.critical("a task died", exc_info=error)

        executor.submit(job).add_done_callback(ended)

    def _call(self, call: Callable[[], None]) -> None:
        if not self._closed.is_set():
            call()


def _log_error(error: Exception) -> None:
    log.error("a task failed", exc_info=error)

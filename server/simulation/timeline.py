"""Pass the time of a simulation: one heap of (time, number, action), and strands that wait within it.

A strand is a line of work that may wait (a till in the middle of a sale): it has a thread of its own, but one thread
alone ever runs, the one that has the baton. So the order of everything follows from the heap, never from the machine.
"""

import heapq
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from server.scenario.clock import VirtualClock
from server.scenario.crash import ProcessDied

Action = Callable[[], None]


def _taken() -> threading.Lock:
    """Return a lock that somebody has: the lightest thing that one thread can wait for until another lets it go."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Timeline:
    """Hold the heap and the true time, `now_ms` milliseconds since the start."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self.clock = VirtualClock(start)
        self.now_ms = 0
        self._count = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._main = _taken()
        self._strands: list[Strand] = []
        self._running: Strand | None = None
        self._failure: BaseException | None = None

    def at(self, time_ms: int, action: Action) -> None:
        """Do something at a time, behind what is to be done then already."""
        assert time_ms >= self.now_ms, "time does not go back"
        self._count += 1
        heapq.heappush(self._heap, (time_ms, self._count, action))

    def after(self, delay_ms: int, action: Action) -> None:
        """Do something that much later."""
        self.at(self.now_ms + delay_ms, action)

    def strand(self, name: str) -> "Strand":
        """Return a new line of work."""
        strand = Strand(self, name)
        self._strands.append(strand)
        return strand

    def run(self) -> None:
        """Do everything until nothing is left; raises what a strand or an action raised."""
        while self._heap:
            time_ms, _, action = heapq.heappop(self._heap)
            self._move(time_ms)
            action()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure

    def close(self) -> None:
        """End every strand's thread; one that waits in the middle of something dies there."""
        for strand in self._strands:
            strand.end()

    def seconds(self) -> float:
        """Tell the time as a monotonic clock does."""
        return self.now_ms / 1000

    def wait(self, delay_ms: int) -> None:
        """Let time pass for the strand that runs now; who acts at an instant of the heap waits for nothing."""
        if self._running is not None:
            self._running.wait(delay_ms)

    # -------------------------------------------------------------- for strands

    def _move(self, time_ms: int) -> None:
        if time_ms > self.now_ms:
            self.now_ms = time_ms
            self.clock.move_to(self._start + timedelta(milliseconds=time_ms))

    def pass_quietly(self, until_ms: int) -> bool:
        """Go on to a time at once, where nothing is to be done before; else False, and nothing was done."""
        if self._heap and self._heap[0][0] <= until_ms:
            return False
        self._move(until_ms)
        return True

    def give_baton_back(self) -> None:
        """Let the heap go on."""
        self._main.release()

    def hand_baton(self, strand: "Strand", baton: threading.Lock) -> None:
        """Let a strand run until it waits or is done."""
        assert self._running is None, "one thread alone runs"
        self._running = strand
        baton.release()
        self._main.acquire()
        self._running = None

    def fail(self, failure: BaseException) -> None:
        """End the whole run with this."""
        self._failure = self._failure or failure


class Strand:
    """Do one thing after the other; each may wait, and the others act meanwhile.

    `kill` lets what is under way die at the place where it waits.
    """

    def __init__(self, timeline: Timeline, name: str) -> None:
        self._timeline, self._name = timeline, name
        self._baton = _taken()
        self._jobs: deque[Action] = deque()
        self._doomed = False
        self._waiting: object | None = None
        self._ended = False
        self._thread: threading.Thread | None = None
        self.busy = False
        self.queued = 0

    def do(self, job: Action) -> None:
        """Do it, behind what is under way and waits here already."""
        self._jobs.append(job)
        self.queued = len(self._jobs)
        if not self.busy:
            self.busy = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._timeline.hand_baton(self, self._baton)

    def wait(self, delay_ms: int) -> None:
        """Let that much time pass for who runs here. Raises ProcessDied where it was killed meanwhile."""
        assert threading.current_thread() is self._thread, "a strand waits for itself"
        until_ms = self._timeline.now_ms + delay_ms
        if not self._timeline.pass_quietly(until_ms):
            self._waiting = ticket = object()
            self._timeline.at(until_ms, lambda: self._resume(ticket))
            self._timeline.give_baton_back()
            self._baton.acquire()
            self._waiting = None
        if self._doomed:
            self._doomed = False
            raise ProcessDied("while it waited")

    def _resume(self, ticket: object) -> None:
        if self._waiting is ticket:
            self._timeline.hand_baton(self, self._baton)

    def kill(self) -> None:
        """Let what waits in the middle of something die there, now; what has not begun is dropped."""
        self._jobs.clear()
        self.queued = 0
        if self._waiting is not None:
            self._doomed = True
            self._timeline.hand_baton(self, self._baton)

    def end(self) -> None:
        """End the thread."""
        if self._thread is None:
            return
        self._jobs.clear()
        self._ended = self._doomed = True
        self._baton.release()
        self._thread.join()
        self._thread = None

    def _serve(self) -> None:
        self._baton.acquire()
        while True:
            job = self._jobs.popleft() if self._jobs else None
            self.queued = len(self._jobs)
            if job is None:
                if self._ended:
                    return
                self.busy = False
                self._timeline.give_baton_back()
                self._baton.acquire()
                continue
            try:
                job()
            except BaseException as failure:
                self._timeline.fail(failure)

"""Run several server processes on one socket: a parent that answers nothing, children that are replaced when they die.

Each child is a process of its own from the start (spawned, not forked: there are threads and locks by then). Whoever is
free takes the next connection; what they share is the database. The parent ends them when it is told to stop, and a
child whose parent is gone ends by itself.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import structlog

TICK_S = 0.2
STEADY_S = 10.0
"""A child that lived so long is replaced at once; one that dies young waits, twice as long each time."""
PAUSE_FIRST_S, PAUSE_MAX_S = 0.5, 15.0
_log = structlog.get_logger()
_spawn = multiprocessing.get_context("spawn")


@dataclass(slots=True)
class _Place:
    """Hold one of the processes, and when it may be started again."""

    number: int
    process: BaseProcess | None = None
    started_s: float = 0.0
    pause_s: float = 0.0
    due_s: float = 0.0


def run_workers(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Keep `count` processes at `work(*arguments)` until SIGTERM or SIGINT, then end them and return.

    `work` and its arguments are pickled (a socket is handed over), so `work` is a function of a module.
    """
    stop = threading.Event()

    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    places = [_Place(number) for number in range(count)]
    try:
        while not stop.is_set():
            for place in places:
                _tend(place, work, arguments)
            wait([place.process.sentinel for place in places if place.process is not None], timeout=TICK_S)
    finally:
        _end([place.process for place in places if place.process is not None])
        for number, handler in before.items():
            signal.signal(number, handler)


def _tend(place: _Place, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Start the place's process where there is none, unless it has to wait."""
    now_s = time.monotonic()
    if place.process is not None:
        if place.process.is_alive():
            return
        lived_s = now_s - place.started_s
        grown = min(max(place.pause_s * 2, PAUSE_FIRST_S), PAUSE_MAX_S)
        place.pause_s = 0.0 if lived_s >= STEADY_S else grown
        place.due_s = now_s + place.pause_s
        code = place.process.exitcode
        _log.warning("worker_died", worker=place.number, code=code, lived_s=round(lived_s), again_s=place.pause_s)
        place.process = None
    if now_s < place.due_s:
        return
    place.process = _spawn.Process(target=_child, args=(work, arguments), name=f"pawtill-worker-{place.number}")
    place.process.start()
    place.started_s = now_s


def _end(processes: list[BaseProcess]) -> None:
    """Let every process finish what it answers; one that does not end by itself is killed."""
    for process in processes:
        process.terminate()
    deadline_s = time.monotonic() + GRACE_S
    for process in processes:
        process.join(max(deadline_s - time.monotonic(), 0.1))
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


GRACE_S = 15.0
"""More than a server waits for its last answers (SHUTDOWN_S in main.py)."""


def _child(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, name="pawtill-parent", daemon=True).start()
    work(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a child has one"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)

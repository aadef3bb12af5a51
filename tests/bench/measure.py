"""Time things fairly: rivals take turns within one run, so that a slow moment of the machine meets both alike."""

import gc
import time
from collections.abc import Callable, Sequence


def time_ms(work: Callable[[], object]) -> float:
    """Run `work` once and return how long it took, in milliseconds."""
    started = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started) / 1e6


def take_turns(rounds: int, *rivals: Callable[[], object]) -> tuple[list[float], ...]:
    """Run every rival once a round and return the milliseconds of each; who goes first rotates."""
    times: tuple[list[float], ...] = tuple([] for _ in rivals)
    gc.collect()
    for turn in range(rounds):
        for i in range(len(rivals)):
            which = (turn + i) % len(rivals)
            times[which].append(time_ms(rivals[which]))
    return times


def percentile(times: Sequence[float], percent: float) -> float:
    """Return the smallest time that at least `percent` of all do not exceed (nearest rank, never interpolated)."""
    ranked = sorted(times)
    rank = -(-len(ranked) * percent // 100)
    return ranked[max(0, int(rank) - 1)]


def median(times: Sequence[float]) -> float:
    """Return the middle time."""
    return percentile(times, 50)

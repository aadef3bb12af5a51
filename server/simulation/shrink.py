"""Make a failing seed small: the shortest time, then the fewest events that still fail in the same way."""

from collections.abc import Callable, Sequence

from server.simulation.chain import Ground
from server.simulation.plan import Plan
from server.simulation.run import Outcome, run_plan

RUNS_MAX = 80
"""Runs that are spent on one seed."""


def kind_of(violation: str) -> str:
    """Return what is broken, without whom it befell."""
    return violation.partition(":")[0]


def shrink(ground: Ground, plan: Plan, failed: Outcome) -> tuple[Outcome, tuple[int, ...]]:
    """Return the smallest run found that is broken in the same way, and the numbers of its events."""
    kind, best = kind_of(failed.violation), failed
    numbers = [event.number for event in plan.events]
    runs = 0

    def fails(kept: Sequence[int]) -> bool:
        nonlocal best, runs
        runs += 1
        without = frozenset(numbers).difference(kept)
        outcome = run_plan(ground, plan, without=without)
        if kind_of(outcome.violation) != kind:
            return False
        best = outcome
        return True

    kept = _shortest(numbers, fails)
    size = len(kept) // 2
    while size and runs < RUNS_MAX:
        kept, size = _without_chunks(kept, size, fails=lambda each: runs < RUNS_MAX and fails(each)), size // 2
    return best, tuple(kept)


def _shortest(numbers: list[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return the shortest beginning that fails, by bisection."""
    low, high = 0, len(numbers)
    while low + 1 < high:
        middle = (low + high) // 2
        if fails(numbers[:middle]):
            high = middle
        else:
            low = middle
    return numbers[:high]


def _without_chunks(kept: list[int], size: int, *, fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Leave out every chunk of that size without which it still fails."""
    at = 0
    while at < len(kept):
        rest = kept[:at] + kept[at + size :]
        if rest and fails(rest):
            kept = rest
        else:
            at += size
    return kept

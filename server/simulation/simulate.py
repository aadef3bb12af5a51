"""Run many seeds, in one process or several, and say how it went; the last line counts operations and violations."""

import hashlib
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from server import logs
from server.simulation.chain import open_ground
from server.simulation.plan import draw_plan
from server.simulation.run import Outcome, run_plan
from server.simulation.shrink import shrink
from server.simulation.sometimes import counted, missing

CHUNK = 10
"""Seeds that one process runs on one ground."""
TRACE_SHOWN = 60
OPERATIONS = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """Say what to run: seeds from `first` up to `last`, without it; `only` = some of a seed's events, () = all."""

    first: int
    last: int
    operations: int = OPERATIONS
    only: tuple[int, ...] = ()
    disasters: bool | None = None
    small: bool = True


def run_seeds(asked: Asked) -> list[Outcome]:
    """Run the seeds in this process."""
    with open_ground() as ground:
        outcomes = []
        for seed in range(asked.first, asked.last):
            plan = draw_plan(seed, asked.operations, disasters=asked.disasters)
            without = {event.number for event in plan.events}.difference(asked.only) if asked.only else ()
            outcome = run_plan(ground, plan, without=without)
            # A trace is read where something is broken, and only then worth carrying around.
            outcomes.append(outcome if outcome.violation else outcome.without_trace())
        return outcomes


def explain(asked: Asked, failed: Outcome) -> list[str]:
    """Return the lines that tell of a failing seed: how to see it again, small, and its trace."""
    plan = draw_plan(failed.seed, asked.operations, disasters=asked.disasters)
    numbers = asked.only
    if asked.small and not asked.only:
        with open_ground() as ground:
            failed, numbers = shrink(ground, plan, failed)
    how = {None: "", True: " --disasters", False: " --no-disasters"}[asked.disasters]
    only = f" --only {','.join(map(str, numbers))}" if numbers else ""
    again = f"--seeds {failed.seed}:{failed.seed + 1} --operations {asked.operations}{how}{only}"
    return [
        f"seed {failed.seed}: VIOLATION {failed.violation}",
        f"  again: pawtill simulate {again}",
        *(f"  {line}" for line in failed.trace[-TRACE_SHOWN:]),
    ]


def simulate(asked: Asked, *, workers: int = 1, tell: Callable[[str], None] = print) -> int:
    """Run everything and tell how it went; 1 = something was violated, or a branch was never gone through."""
    began_s, seen, operations, violations = time.perf_counter(), Counter[str](), 0, 0
    digest = hashlib.sha256()
    for outcome in _outcomes(asked, workers):
        seen += outcome.seen
        operations += outcome.operations
        digest.update(outcome.digest.encode())
        if outcome.violation:
            violations += 1
            for line in explain(asked, outcome):
                tell(line)
    for branch, times in counted(seen).items():
        tell(f"{times:8} {branch}")
    never = missing(seen, operations)
    for branch in never:
        tell(f"NEVER {branch}")
    seconds = time.perf_counter() - began_s
    tell(f"{operations / seconds:.0f} operations/s, {seconds:.0f} s")
    tell(f"trace {digest.hexdigest()}")
    tell(f"{operations} operations, {violations} violations")
    return 1 if violations or never else 0


def _outcomes(asked: Asked, workers: int) -> Iterator[Outcome]:
    """Yield each seed's outcome in the order of the seeds."""
    chunks = [
        Asked(first, min(first + CHUNK, asked.last), asked.operations, asked.only, asked.disasters)
        for first in range(asked.first, asked.last, CHUNK)
    ]
    if workers == 1:
        for chunk in chunks:
            yield from run_seeds(chunk)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_quiet) as pool:
        for outcomes in pool.map(run_seeds, chunks):
            yield from outcomes


def _quiet() -> None:
    logs.configure("critical")

"""The simulator keeps every promise on the real code, and is one with its seed.

A few seeds each time; `-m long` runs more, `pawtill simulate --seeds 0:1000 --operations 1000 --workers 2` a million
operations.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from server.simulation.chain import Ground, open_ground
from server.simulation.plan import draw_plan
from server.simulation.run import run_plan
from server.simulation.simulate import Asked, simulate
from server.simulation.sometimes import BRANCHES, ENOUGH_OPERATIONS, missing

OPERATIONS = 300
EACH_TIME, SEEDS = 2, 200


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with open_ground() as ground:
        yield ground


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= EACH_TIME)) for n in range(SEEDS)])
def test_every_promise_is_kept_under_faults(ground: Ground, seed: int) -> None:
    outcome = run_plan(ground, draw_plan(seed, OPERATIONS))

    assert outcome.violation == "", f"pawtill simulate --seeds {seed}:{seed + 1} --operations {OPERATIONS}"


def test_a_seed_gives_the_same_trace_whatever_the_hash_seed_of_python() -> None:
    def trace(hash_seed: str) -> str:
        command = [sys.executable, "-m", "cli.main", "simulate", "--seeds", "3:4", "--operations", "25", "--disasters"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=300)
        return next(line for line in done.stdout.splitlines() if line.startswith("trace "))

    assert trace("0") == trace("4711")


def test_without_an_event_the_others_stay_what_they_are(ground: Ground) -> None:
    plan = draw_plan(5, 40)
    last = plan.events[-1]

    whole, shorter = run_plan(ground, plan), run_plan(ground, plan, without={last.number})

    before = [line for line in whole.trace if int(line.partition(" ")[0]) < last.time_ms]
    assert len(before) > 20
    assert list(shorter.trace[: len(before)]) == before


def test_a_run_ends_with_its_count_of_operations_and_violations() -> None:
    told: list[str] = []

    code = simulate(Asked(0, 2, operations=10), tell=told.append)

    assert (code, told[-1]) == (0, "20 operations, 0 violations")


def test_a_long_run_that_never_went_through_a_branch_is_bad() -> None:
    seen = Counter({ends[0]: 1 for ends in BRANCHES.values()})
    assert missing(seen, ENOUGH_OPERATIONS) == []

    del seen["push: DUP"]

    assert missing(seen, ENOUGH_OPERATIONS) == ["DUP"]
    assert missing(seen, ENOUGH_OPERATIONS - 1) == []

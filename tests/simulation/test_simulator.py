"""The simulator keeps every promise on the real code, and is one with its seed.

20,000 operations each time, shared by the workers; `-m long` runs more, and
`pawtill simulate --seeds 0:1000 --operations 1000 --workers 2` a million.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.simulation.chain import Ground, open_ground
from server.simulation.plan import SET_BACK, draw_plan
from server.simulation.run import Outcome, run_plan
from server.simulation.simulate import Asked, explain, simulate
from server.simulation.sometimes import (
    BRANCHES,
    BY_REDIS,
    ENOUGH_OPERATIONS,
    MANY_OPERATIONS,
    RARE,
    missing,
)

OPERATIONS, SEEDS, TOGETHER = 400, 52, 2
"""How many operations a seed has, how many seeds make 20,000 operations of them, and how many make one test."""
GROUPS, MORE = range(0, SEEDS, TOGETHER), range(SEEDS, 4 * SEEDS, TOGETHER)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with open_ground() as ground:
        yield ground


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run share."""
    folder = tmp_path_factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "simulation"
    shared.mkdir(exist_ok=True)
    return shared


@pytest.mark.parametrize("first", [*GROUPS, *(pytest.param(n, marks=pytest.mark.long) for n in MORE)])
def test_every_promise_is_kept_under_faults(ground: Ground, ledger: Path, first: int) -> None:
    outcomes = [run_plan(ground, draw_plan(seed, OPERATIONS)) for seed in range(first, first + TOGETHER)]

    for each in outcomes:
        assert each.violation == "", f"pawtill simulate --seeds {each.seed}:{each.seed + 1} --operations {OPERATIONS}"
    if first in GROUPS:
        seen = sum((each.seen for each in outcomes), Counter[str]())
        _tell(ledger / f"{first}.json", {"operations": sum(each.operations for each in outcomes), "seen": seen})
        _look_at_all(ledger)


def test_a_server_that_is_put_back_to_a_backup_tells_again_what_it_had_told(ground: Ground) -> None:
    plans = [draw_plan(seed, 300, disasters=False, backups=True) for seed in (103, 108, 110)]

    outcomes = [run_plan(ground, plan) for plan in plans]

    assert [each.violation for each in outcomes] == ["", "", ""]
    seen = sum((each.seen for each in outcomes), Counter[str]())
    assert min(seen["server: put back"], seen["refused: restoring"], seen["adopt: taken over"]) > 0


def test_the_server_is_put_back_to_a_backup_in_one_of_ten_seeds_that_nobody_asked_for() -> None:
    plans = [draw_plan(seed, 10) for seed in range(300)]

    put_back = [plan for plan in plans if any(event.what == SET_BACK for event in plan.events)]

    assert 20 <= len(put_back) <= 40
    assert all(plan.put_back and plan.has_disasters for plan in put_back)


def _tell(file: Path, told: dict[str, Any]) -> None:
    """Write for the others, whole or not at all."""
    half = file.with_suffix(".half")
    half.write_text(json.dumps(told))
    half.replace(file)


def _look_at_all(ledger: Path) -> None:
    """Let the group that ends last, of whichever worker, look whether every branch was gone through."""
    told = [json.loads(file.read_text()) for file in ledger.glob("*.json")]
    if len(told) == len(GROUPS):
        operations = sum(each["operations"] for each in told)
        seen = sum((Counter[str](each["seen"]) for each in told), Counter[str]())
        assert operations >= ENOUGH_OPERATIONS
        assert missing(seen, operations) == []


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


@pytest.mark.parametrize(("disasters", "how"), [(None, ""), (True, " --disasters"), (False, " --no-disasters")])
def test_a_failing_seed_tells_how_to_see_it_again(disasters: bool | None, how: str) -> None:
    asked = Asked(3, 9, operations=5, only=(1, 2), disasters=disasters)

    told = explain(asked, Outcome(4, 5, "I7: a sale is lost", ""))

    assert told[1].strip() == f"again: pawtill simulate --seeds 4:5 --operations 5{how} --only 1,2"


def test_a_long_run_that_never_went_through_a_branch_is_bad() -> None:
    seen = Counter({ends[0]: 1 for ends in BRANCHES.values()})
    assert missing(seen, ENOUGH_OPERATIONS) == []

    del seen["push: DUP"]

    assert missing(seen, ENOUGH_OPERATIONS) == ["DUP"]
    assert missing(seen, ENOUGH_OPERATIONS - 1) == []


def test_a_branch_that_is_rare_is_missed_in_a_run_of_many_operations() -> None:
    seen = Counter({ends[0]: 1 for name, ends in BRANCHES.items() if name not in RARE})

    assert missing(seen, MANY_OPERATIONS - 1) == []
    assert set(missing(seen, MANY_OPERATIONS)) == RARE


def test_where_no_redis_is_bundled_nobody_asks_for_its_branches(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground.redis, "start", lambda: False)
    hot = next(plan for plan in (draw_plan(seed, 20) for seed in range(100)) if plan.hot)

    outcome = run_plan(ground, hot)

    branches = {ends[0]: 1 for name, ends in BRANCHES.items() if name not in BY_REDIS}
    assert outcome.violation == ""
    assert missing(outcome.seen + Counter(branches), MANY_OPERATIONS) == []
    assert set(missing(Counter(branches), MANY_OPERATIONS)) == BY_REDIS

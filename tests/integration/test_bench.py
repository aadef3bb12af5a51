"""Run each bench at its smallest and see that it says what it promises; never how fast it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEYS = {
    "till_commit": {"over_bare_commit"},
    "scan": {"p50_ms", "p99_ms", "p99_1m_over_1k"},
    "best_combination": {"p99_ms"},
    "sync": {"over_bare_insert"},
    "batch_issue": {"over_bare_insert", "long_task_members_per_s"},
}


LONG = {"scan", "batch_issue", "best_combination"}
"""Take long: two fill a database before they measure anything, one searches."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in KEYS])
def test_a_bench_ends_with_its_figures_as_one_json_object(name: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.bench", name, "--quick"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures.keys() == {name}
    assert KEYS[name] <= figures[name].keys()
    assert all(figures[name][key] > 0 for key in KEYS[name])


def test_an_unknown_bench_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "tests.bench", "speed"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)

    assert done.returncode == 2
    assert "'speed'" in done.stderr and "till_commit" in done.stderr

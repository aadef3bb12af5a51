"""Every scenario file passes on the real parts, and the runner can fail."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from server.scenario.run import run_file, run_paths
from server.scenario.world import Workshop

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*/*.toml"))


def _cases() -> Iterator[ParameterSet]:
    """Play every file on SQLite; on PostgreSQL the given ones always, our own in the long run."""
    for database in ("sqlite", "postgres"):
        for path in FILES:
            is_long = database == "postgres" and path.parent.name == "own"
            marks = [pytest.mark.long] if is_long else []
            yield pytest.param(database, path, id=f"{database}-{path.parent.name}/{path.stem}", marks=marks)


@pytest.mark.parametrize(("workshop", "path"), list(_cases()), indirect=["workshop"])
def test_the_scenario_passes(path: Path, workshop: Workshop) -> None:
    played = run_file(path, workshop)

    assert played.problems == ()


def test_a_given_file_for_each_number_is_there() -> None:
    given = [path.name[:3] for path in FILES if path.parent.name == "given"]

    assert given == [f"{number:03}" for number in range(1, 30)]


# ------------------------------------------------------------------ the runner can fail

WORLD = """
title = "wrong on purpose"
product = [{sku = "A", price = "100.00"}]
member = [{id = "m1"}]
[[campaign]]
id = "c1"
benefit = {type = "amount_off", amount = "10.00"}
stock = 1
[[step]]
do = "claim"
campaign = "c1"
member = "m1"
as = "k1"
"""

WRONG = {
    "an amount": (
        'do = "quote"\nmember = "m1"\nlines = [{sku = "A", qty = 1}]\nuse = ["k1"]\nexpect = {payable = "90.01"}',
        'step 2 (quote): payable: expected "90.01", came "90.00"',
    ),
    "an outcome": (
        'do = "claim"\ncampaign = "c1"\nmember = "m1"\nexpect = {outcome = "ok"}',
        'step 2 (claim): outcome: expected "ok", came "already_claimed"',
    ),
    "a refusal": (
        'do = "quote"\nmember = "m1"\nlines = [{sku = "A", qty = 1}]\nuse = ["k1"]\n'
        'expect = {refused = {k1 = "expired"}}',
        'step 2 (quote): refused.k1: expected "expired", came nothing',
    ),
    "a state": (
        'do = "check"\nexpect = {coupons = {k1 = "USED"}}',
        'step 2 (check): coupons.k1: expected "USED", came "ISSUED"',
    ),
    "a count": (
        'do = "check"\nexpect = {stock = {c1 = {available = 1}}}',
        "step 2 (check): stock.c1.available: expected 1, came 0",
    ),
    "an audit": ('do = "check"\nexpect = {audit = "dirty"}', 'step 2 (check): audit: expected "dirty", came "clean"'),
    "a coupon that nobody claimed": (
        'do = "check"\nexpect = {coupons = {k9 = "ISSUED"}}',
        'step 2 (check): coupons.k9: expected "ISSUED", came nothing',
    ),
    "a sync": ('do = "sync"\nexpect = {pushed = 1}', "step 2 (sync): pushed: expected 1, came 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_expectation_fails_by_name(name: str, workshop: Workshop, tmp_path: Path) -> None:
    step, problem = WRONG[name]
    path = tmp_path / "wrong.toml"
    path.write_text(f"{WORLD}\n[[step]]\n{step}\n", "utf-8")

    played = run_file(path, workshop)

    assert played.problems == (problem,)


def test_the_report_has_a_line_for_each_file_and_the_tally(tmp_path: Path) -> None:
    good, bad, broken = tmp_path / "a.toml", tmp_path / "b.toml", tmp_path / "c.toml"
    good.write_text('title = "good"\n[[step]]\ndo = "check"\nexpect = {audit = "clean"}\n', "utf-8")
    bad.write_text('title = "bad"\n[[step]]\ndo = "check"\nexpect = {findings = {late_payment = 1}}\n', "utf-8")
    broken.write_text('title = "broken"\n[[step]]\ndo = "fly"\n', "utf-8")
    out = io.StringIO()

    code = run_paths([tmp_path], out=out)

    assert code == 1
    assert out.getvalue().splitlines() == [
        f"passed  {good}: good",
        f"FAILED  {bad}: bad: step 1 (check): findings.late_payment: expected 1, came nothing",
        f"FAILED  {broken}: broken: step 1: verb 'fly' is not known",
        "1 passed, 2 failed",
    ]


def test_one_that_passes_alone_is_exit_code_0(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('title = "good"\n', "utf-8")
    out = io.StringIO()

    assert run_paths([path], out=out) == 0
    assert out.getvalue().endswith("\n1 passed, 0 failed\n")


def test_a_path_that_holds_no_scenario_is_a_failure(tmp_path: Path) -> None:
    out = io.StringIO()

    code = run_paths([tmp_path, tmp_path / "none.toml"], out=out)

    assert code == 1
    assert out.getvalue().splitlines()[-1] == "0 passed, 2 failed"


def test_explain_tells_every_step_with_what_was_expected_and_what_came(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        f'{WORLD}\n[[step]]\nat = "+10m"\ndo = "quote"\nmember = "m1"\nlines = [{{sku = "A", qty = 1}}]\n'
        'use = ["k1"]\nexpect = {payable = "80.00"}\n',
        "utf-8",
    )
    out = io.StringIO()

    run_paths([path], explain=True, out=out)

    told = out.getvalue()
    assert 'step 2  2026-06-01T10:10:00+08:00  quote {member = "m1", lines = [{sku = "A", qty = "1"}]' in told
    assert '    expected  {outcome = "ok", payable = "80.00"}' in told
    assert (
        '    came      {outcome = "ok", gross = "100.00", discount = "10.00", payable = "90.00", used = ["k1"]' in told
    )
    assert '    WRONG     payable: expected "80.00", came "90.00"' in told

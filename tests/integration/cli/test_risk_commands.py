"""`pawtill risk` and `risk-budget`: the worst case is a number, with or without a running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exits import Exit
from cli.server_process import ServerProcess
from tests.integration.cli.command import Ended, pawtill_here
from tests.integration.cli.enrolling import new_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data folder of a server with two tills."""
    for till in ("R1", "R2"):
        new_code(tmp_path / "server", till)
    return tmp_path / "server"


def grant(folder: Path, till: str, amount: str, *more: str) -> Ended:
    return pawtill_here("risk-budget", till, amount, "--by", "Hana", "--reason", "fair", "--data-dir", folder, *more)


def shown(folder: Path, *more: str) -> list[list[str]]:
    ended = pawtill_here("risk", "--data-dir", folder, *more)
    assert ended.code == Exit.OK
    return [line.split() for line in ended.said.splitlines()]


def test_the_worst_case_is_shown_for_each_till_and_for_all(folder: Path) -> None:
    assert shown(folder)[0] == ["No", "till", "takes", "a", "risk."]
    assert shown(folder)[-1] == ["Worst", "case:", "0.00", "CNY"]

    assert (grant(folder, "R1", "300.00").code, grant(folder, "R2", "50.00").code) == (Exit.OK, Exit.OK)

    assert shown(folder) == [
        ["till", "budget", "granted", "lost", "left", "at", "till", "accepted"],
        ["R1", "300.00", "300.00", "0.00", "300.00", "0.00", "0", "for", "0.00"],
        ["R2", "50.00", "50.00", "0.00", "50.00", "0.00", "0", "for", "0.00"],
        ["all", "350.00", "350.00", "0.00", "350.00", "0.00", "0", "for", "0.00"],
        ["Worst", "case:", "350.00", "CNY"],
    ]


def test_what_makes_no_sense_is_said_and_changes_nothing(folder: Path) -> None:
    wrong, nobody = grant(folder, "R1", "lots"), grant(folder, "R9", "1.00")

    assert (wrong.code, nobody.code) == (Exit.CANNOT_START, Exit.CANNOT_START)
    assert "lots is no amount" in wrong.complained and "no till R9" in nobody.complained
    assert shown(folder)[-1] == ["Worst", "case:", "0.00", "CNY"]


def test_a_manager_is_named_by_a_pin_that_is_typed_twice(folder: Path) -> None:
    where = ("--data-dir", folder)

    def appoint(pin: str, *more: str) -> Ended:
        return pawtill_here("manager", "meg", "--name", "Meg", *more, *where, typed=f"{pin}\n{pin}\n")

    assert "123456" in appoint("123456").complained
    assert "no store moon" in appoint("270581", "--store", "moon").complained
    named = appoint("270581", "--store", "riverside")
    left = pawtill_here("manager-left", "meg", "--reason", "moved", *where)
    nobody = pawtill_here("manager-left", "leo", "--reason", "moved", *where)

    assert (named.code, left.code, nobody.code) == (Exit.OK, Exit.OK, Exit.CANNOT_START)
    assert "Meg may approve" in named.said and "270581" not in named.said + named.complained
    assert "no manager leo" in nobody.complained


@pytest.mark.long
def test_a_server_that_has_the_data_open_is_asked(folder: Path) -> None:
    with ServerProcess(folder) as server:
        assert grant(folder, "R2", "50.00", "--url", server.url).code == Exit.OK
        assert grant(folder, "R9", "50.00", "--url", server.url).code == Exit.CANNOT_START

        assert shown(folder, "--url", server.url)[-1] == ["Worst", "case:", "50.00", "CNY"]

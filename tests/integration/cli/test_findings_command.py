"""`pawtill findings`: the same words whether a server runs on the folder or not, in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exits import Exit
from cli.findings_command import _to_the_end
from cli.server_process import ServerProcess
from server.services import findings
from tests.fakes.counter import finding, open_counter
from tests.fakes.headquarters import Headquarters
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import new_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a server's folder with one finding, number 1."""
    headquarters = Headquarters(tmp_path)
    detail = {"till": "t1", "order": "o1"}
    headquarters.services.write(
        lambda conn, ctx: findings.open_finding(
            conn, kind="late_payment", key="o1/e1", amount_minor=1250, detail=detail, now=ctx.now
        )
    )
    headquarters.close()
    return tmp_path


def say(folder: Path, *words: object, language: str = "en") -> tuple[int, str]:
    ended = pawtill_here("findings", *words, "--language", language, "--data-dir", folder)
    return ended.code, ended.said + ended.complained


def test_a_finding_is_listed_shown_decided_and_closed(folder: Path) -> None:
    listed = say(folder, "list", "--state", "OPEN")
    shown = say(folder, "show", 1)
    decided = say(folder, "decide", 1, "remedy", "--by", "Lin", "--reason", "paid back")
    closed = say(folder, "close", 1, "--by", "Lin", "--reason", "done")
    after = say(folder, "show", 1)

    assert [each[0] for each in (listed, shown, decided, closed, after)] == [Exit.OK] * 5
    assert "Money came for an order that was off" in listed[1] and "o1/e1" in listed[1]
    assert "Loss: the customer, 12.50 CNY" in shown[1] and '"order": "o1"' in shown[1]
    assert "Pay the customer back" in shown[1]
    assert "Lin (headquarters:command line)" in decided[1]
    assert "closed" in after[1] and "paid back" in after[1]
    assert say(folder, "list", "--state", "OPEN") == (Exit.OK, "No findings\n")


def test_it_speaks_chinese(folder: Path) -> None:
    code, text = say(folder, "show", 1, language="zh")

    assert (code, "损失：顾客 12.50 CNY" in text, "把钱退给顾客" in text) == (Exit.OK, True, True)


def test_what_cannot_be_done_is_said(folder: Path) -> None:
    early = say(folder, "close", 1, "--by", "Lin", "--reason", "done")
    missing = say(folder, "show", 9)

    assert early == (Exit.FOUND_SOMETHING, "pawtill: Finding 1 is open: that cannot be done with it\n")
    assert missing == (Exit.FOUND_SOMETHING, "pawtill: There is no finding 9\n")


def test_a_server_on_another_port_is_asked_where_its_address_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    new_code(folder, store="s1")
    with ServerProcess(folder) as server:
        named = say(folder, "show", 1, "--url", server.url)
        unnamed = say(folder, "show", 1, "--url", "http://127.0.0.1:9")
        elsewhere = say(folder, "show", 1, "--url", "http://hq.example")

    assert named == (Exit.FOUND_SOMETHING, "pawtill: There is no finding 1\n")
    assert (unnamed[0], "--url" in unnamed[1]) == (Exit.DATA_IN_USE, True)
    assert (elsewhere[0], "another machine" in elsewhere[1]) == (Exit.CANNOT_START, True)


def test_an_entry_in_quarantine_is_judged_again_and_no_other_finding_is(tmp_path: Path) -> None:
    headquarters = Headquarters(tmp_path)
    headquarters.furnish()
    counter = open_counter(headquarters)
    counter.append("news", {})
    counter.push()
    number = finding(headquarters, "quarantined")["id"]
    headquarters.close()
    word = ("--by", "Lin", "--reason", "a new version")

    tried = say(tmp_path, "judge", number, *word)
    say(tmp_path, "decide", number, "accept", *word)
    say(tmp_path, "close", number, *word)
    closed = say(tmp_path, "judge", number, *word)

    assert (tried[0], "open" in tried[1]) == (Exit.OK, True)
    assert closed == (Exit.FOUND_SOMETHING, f"pawtill: Finding {number} is closed: that cannot be done with it\n")


@pytest.mark.parametrize(("lefts", "asked"), [([2, 1, 0], 3), ([1, 1, 1], 2), ([None], 1)])
def test_judging_goes_on_as_long_as_it_leaves_less(lefts: list[int | None], asked: int) -> None:
    told = iter([{"outcome": "ok"} if left is None else {"outcome": "ok", "left": left} for left in lefts])
    answers = []

    last = _to_the_end(lambda: answers.append(next(told)) or answers[-1])

    assert len(answers) == asked and last is answers[-1]

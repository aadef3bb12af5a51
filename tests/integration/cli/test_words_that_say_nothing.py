"""What the API refuses as an id, a name or a reason no command writes past it: it may have the database to itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exits import Exit
from tests.integration.cli.command import pawtill_here

WHY = ("--reason", "fair")
SAYS_NOTHING = {
    "a till without an id": ("enrolment-code", "", "--store", "riverside"),
    "a till that is a path": ("enrolment-code", "../R1", "--store", "riverside"),
    "a till that is a place": ("enrol", "..", "--code", "QMK8A-0EWHD-N50JQ"),
    "a till with a blank": ("enrolment-code", "R 1", "--store", "riverside"),
    "a till of 65 characters": ("revoke", "R" * 65, *WHY),
    "a store without an id": ("enrolment-code", "R1", "--store", ""),
    "no reason": ("strand", "R1", "--reason", "", "--confirm", "R1"),
    "a blank reason": ("suspend", "R1", "--reason", "\u3000 ", "--confirm", "R1"),
    "a reason of 501 characters": ("reclaim", "R1", "--reason", "x" * 501, "--confirm", "R1"),
    "a finder without a reason": ("found", "R1", "--reason", " "),
    "nobody grants": ("risk-budget", "R1", "300", "--by", " ", *WHY),
    "nobody decides": ("findings", "decide", "1", "accept", "--by", "", *WHY),
    "nobody closes": ("findings", "close", "1", "--by", " ", *WHY),
    "a manager without an id": ("manager", "", "--name", "Meg"),
    "a manager without a name": ("manager", "meg", "--name", " "),
    "a backup without a reason": ("restored", "--reason", ""),
}


@pytest.mark.parametrize("words", SAYS_NOTHING.values(), ids=SAYS_NOTHING)
def test_it_is_refused_before_anything_is_opened(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / "data"

    ended = pawtill_here(*words, "--data-dir", folder, typed="270581\n270581\n")

    assert (ended.code, folder.exists()) == (Exit.CANNOT_START, False)
    assert "Invalid value" in ended.complained

"""`pawtill risk` and `risk-budget`: the worst case is a number, with or without a running server."""

from __future__ import annotations

from pathlib import Path

from cli.add_till_command import write_till_pass
from cli.exits import Exit
from cli.server_process import ServerProcess
from cli.settings import server_settings
from tests.integration.cli.command import pawtill_here

URL = "http://127.0.0.1:9"


def test_the_worst_case_is_shown_for_each_till_and_for_all(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    for till in ("R1", "R2"):
        write_till_pass(
            server_settings(data_dir=folder), till_id=till, store="riverside", url=URL, out=tmp_path / f"{till}.pass"
        )
    where = ("--data-dir", folder, "--url", URL)
    said = ("--by", "Hana", "--reason", "fair")

    before = pawtill_here("risk", *where)
    first = pawtill_here("risk-budget", "R1", "300.00", *said, *where)
    wrong = pawtill_here("risk-budget", "R1", "lots", *said, *where)
    nobody = pawtill_here("risk-budget", "R9", "1.00", *said, *where)
    with ServerProcess(folder) as server:
        asked = ("--data-dir", folder, "--url", server.url)
        second = pawtill_here("risk-budget", "R2", "50.00", *said, *asked)
        after = pawtill_here("risk", *asked)

    assert before.code == Exit.OK and "No till takes a risk." in before.said
    assert before.said.splitlines()[-1] == "Worst case: 0.00 CNY"
    assert (first.code, second.code) == (Exit.OK, Exit.OK) and "300.00" in first.said
    assert (wrong.code, nobody.code) == (Exit.CANNOT_START, Exit.CANNOT_START)
    assert "lots is no amount" in wrong.complained and "no till R9" in nobody.complained
    assert [line.split() for line in after.said.splitlines()] == [
        ["till", "budget", "granted", "lost", "left", "at", "till", "accepted"],
        ["R1", "300.00", "300.00", "0.00", "300.00", "0.00", "0", "for", "0.00"],
        ["R2", "50.00", "50.00", "0.00", "50.00", "0.00", "0", "for", "0.00"],
        ["all", "350.00", "350.00", "0.00", "350.00", "0.00", "0", "for", "0.00"],
        ["Worst", "case:", "350.00", "CNY"],
    ]

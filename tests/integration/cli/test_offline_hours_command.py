"""`pawtill offline-hours`: shown, set, and told by the server that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exits import Exit
from cli.offline_hours_command import run_offline_hours
from cli.server_process import ServerProcess
from cli.settings import server_settings
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import new_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_code(tmp_path / "server")
    return tmp_path / "server"


def test_the_hours_are_shown_and_set(folder: Path) -> None:
    before = pawtill_here("offline-hours", "--data-dir", folder)
    done = pawtill_here("offline-hours", "12", "--data-dir", folder)
    after = pawtill_here("offline-hours", "--data-dir", folder)

    assert (before.code, done.code, after.code) == (Exit.OK, Exit.OK, Exit.OK)
    assert "in 8 hours" in before.said and "in 12 hours" in done.said and "in 12 hours" in after.said
    assert "next sync" in done.said and "next sync" not in after.said


def test_hours_that_make_no_sense_are_not_set(folder: Path) -> None:
    for wrong in ("0", "169", "x"):
        assert pawtill_here("offline-hours", wrong, "--data-dir", folder).code == Exit.CANNOT_START
    assert "in 8 hours" in pawtill_here("offline-hours", "--data-dir", folder).said


def test_a_running_server_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = server_settings(data_dir=folder)
    with ServerProcess(folder) as server:
        assert run_offline_hours(settings, server.url, hours=168) == Exit.OK
        assert run_offline_hours(settings, server.url, hours=None) == Exit.OK

    assert capsys.readouterr().out.count("in 168 hours") == 2

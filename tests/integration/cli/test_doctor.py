"""`pawtill doctor` on machines that have everything, something and nothing."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.doctor.check import Health
from cli.doctor.data import LOW_BYTES, STOP_BYTES, WARN_BYTES, room
from cli.doctor.network import DRIFT_NOTED, drift
from cli.exits import Exit
from cli.no_terminal import NoTerminal
from cli.server_process import PLAIN, ServerProcess
from cli.till_folder import find_enrolment, write_joined
from tests.integration.cli.command import pawtill, pawtill_here
from tests.integration.cli.enrolling import NOWHERE, enrolled, new_code
from ui.running_till import open_running_till


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a till that has joined and synced once, and with its server, not running."""
    base = tmp_path_factory.mktemp("synced")
    folder = base / "till"
    (base / "server").mkdir()
    with ServerProcess(base / "server", PLAIN) as server:
        enrolment = enrolled(folder, new_code(base / "server", url=server.url), url=server.url)
        with open_running_till(folder / "till.db", enrolment, payments=NoTerminal()) as running:
            running.engine.run_once()
    write_joined(folder, replace(enrolment.joined, url=NOWHERE))
    return base


@pytest.fixture
def till(tmp_path: Path, synced: Path) -> Path:
    """Return the folder of such a till; its server stands beside it."""
    shutil.copytree(synced, tmp_path, dirs_exist_ok=True)
    return tmp_path / "till"


def test_a_machine_without_a_till_and_a_server_is_not_ill(tmp_path: Path) -> None:
    ended = pawtill("doctor", "--data-dir", tmp_path)

    assert ended.code == Exit.OK, ended.said
    assert "Python" in ended.said and "Packages" in ended.said and "none yet" in ended.said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system brings its own fonts")
def test_the_font_of_the_window_is_known_on_a_machine_without_the_tools_of_fontconfig(tmp_path: Path) -> None:
    ended = pawtill("doctor", "--data-dir", tmp_path, PATH=str(tmp_path))

    (row,) = [line for line in ended.said.splitlines() if "Chinese font" in line]
    assert "fine" in row and "unknown" not in row, row


def test_a_server_that_answers_is_fine_with_its_clock_and_its_round_trip(till: Path) -> None:
    with ServerProcess(till.parent / "server", PLAIN) as server:
        ended = pawtill_here("doctor", "--data-dir", till, "--url", server.url)

    assert ended.code == Exit.OK, ended.said
    for said in ("answers", "Round trip", "Clock", "reads and writes", "Last sync", "R1 in store riverside"):
        assert said in ended.said, said


def test_a_server_that_the_till_has_joined_and_that_is_silent_is_broken(till: Path) -> None:
    ended = pawtill_here("doctor", "--data-dir", till)

    assert ended.code == Exit.FOUND_SOMETHING
    assert "Broken: Server." in ended.said


def test_the_doctor_shows_no_secret(till: Path) -> None:
    secrets = find_enrolment(till).secrets

    ended = pawtill_here("doctor", "--data-dir", till, "--url", "http://127.0.0.1:9", COLUMNS="400")

    assert secrets.device.private_key.hex() not in ended.said + ended.complained
    assert secrets.code_key.hex() not in ended.said + ended.complained


def test_a_ledger_of_a_newer_version_is_broken(till: Path) -> None:
    with closing(sqlite3.connect(till / "till.db")) as connection:
        connection.execute("PRAGMA user_version = 999")

    ended = pawtill_here("doctor", "--data-dir", till)

    assert ended.code == Exit.FOUND_SOMETHING
    assert "Till schema" in ended.said.splitlines()[-1]


def test_a_file_that_is_no_database_is_broken_and_stays_as_it_is(till: Path) -> None:
    (till / "till.db").write_bytes(b"x" * 5000)

    ended = pawtill_here("doctor", "--data-dir", till)

    assert ended.code == Exit.FOUND_SOMETHING
    assert "Till database" in ended.said.splitlines()[-1]
    assert (till / "till.db").read_bytes() == b"x" * 5000


@pytest.mark.parametrize(
    ("free_bytes", "health"),
    [
        (WARN_BYTES, Health.FINE),
        (WARN_BYTES - 1, Health.NOTE),
        (LOW_BYTES - 1, Health.NOTE),
        (STOP_BYTES, Health.NOTE),
        (STOP_BYTES - 1, Health.BROKEN),
    ],
)
def test_free_room_is_judged_by_the_watermarks(free_bytes: int, health: Health) -> None:
    assert room("Till disk", free_bytes).health is health


@pytest.mark.parametrize(
    ("apart", "health"), [(DRIFT_NOTED, Health.FINE), (DRIFT_NOTED + timedelta(seconds=1), Health.NOTE)]
)
def test_clocks_that_are_far_apart_are_worth_a_note_either_way(apart: timedelta, health: Health) -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)

    assert {drift(now, now + apart).health, drift(now, now - apart).health} == {health}
    assert "ahead of" in drift(now, now + apart).detail and "behind" in drift(now, now - apart).detail

"""`pawtill server`, `enrolment-code` and `audit` on real files."""

from __future__ import annotations

import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from cli.exits import Exit
from cli.server_process import PLAIN, ServerDidNotStart, ServerProcess
from server.db.migrate import HEAD
from sync.client import ServerClient
from tests.integration.cli.command import pawtill, pawtill_here, running
from tests.integration.cli.enrolling import new_code


def _ready(process: subprocess.Popen[str]) -> list[str]:
    """Return what a server says until it is ready."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "ready on" in line:
            break
    return lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data folder of a server with a chain, a store and a till."""
    new_code(tmp_path / "server")
    return tmp_path / "server"


class Busy(NamedTuple):
    """Hold the data folder of a server that runs, and where it answers."""

    folder: Path
    url: str


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """Run one server for all who come beside it."""
    base = tmp_path_factory.mktemp("busy")
    new_code(base / "server")
    with ServerProcess(base / "server", PLAIN) as server:
        yield Busy(base / "server", server.url)


# ------------------------------------------------------------------ server


def test_the_first_run_says_where_headquarters_key_is_and_the_second_does_not(tmp_path: Path) -> None:
    key_file = tmp_path / "headquarters.key"

    with running("server", "--data-dir", tmp_path, "--port", 0) as first:
        said_first = _ready(first)
        first.send_signal(signal.SIGTERM)
        first.wait(30)
    with running("server", "--data-dir", tmp_path, "--port", 0) as second:
        said_second = _ready(second)

    assert str(key_file) in said_first[0] and len(said_first) == 2
    assert len(said_second) == 1 and re.search(r"ready on http://127\.0\.0\.1:\d+ .*/docs", said_second[0])
    assert key_file.read_text() not in "".join(said_first + said_second)


def test_a_database_that_lies_elsewhere_has_headquarters_key_beside_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "books.db"

    with running("server", "--port", 0, PAWTILL_DATABASE_URL=f"sqlite:///{elsewhere}") as server:
        said = _ready(server)

    assert str(elsewhere.parent / "headquarters.key") in said[0]
    assert said[1].endswith(f"data in {elsewhere.parent}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_what_is_secret_is_for_its_owner_alone(folder: Path) -> None:
    for name in ("headquarters.key", "code.key", "chain.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_second_server_on_one_port_is_refused_in_both_languages(busy: Busy, tmp_path: Path) -> None:
    port = urlsplit(busy.url).port

    ended = pawtill("server", "--data-dir", tmp_path, "--port", port)

    assert ended.code == Exit.PORT_IN_USE
    assert "端口已被其他程序占用" in ended.complained
    assert f"port {port} of 127.0.0.1 is in use by another program" in ended.complained
    with ServerClient(busy.url, (busy.folder / "headquarters.key").read_text().strip()) as client:
        assert client.get("/v1/keys"), "the first one goes on"


def test_a_second_server_on_one_folder_is_refused(busy: Busy) -> None:
    ended = pawtill_here("server", "--data-dir", busy.folder, "--port", 0)

    assert ended.code == Exit.DATA_IN_USE
    assert "数据文件夹正被另一个 Pawtill 服务器使用" in ended.complained
    assert f"another server is running on {busy.folder}" in ended.complained


@pytest.mark.parametrize("port", ["65536", "-1"])
def test_a_port_that_is_none_is_a_wrong_command_line(tmp_path: Path, port: str) -> None:
    by_option = pawtill_here("server", "--data-dir", tmp_path, "--port", port)
    by_environment = pawtill_here("server", "--data-dir", tmp_path, PAWTILL_PORT=port)

    assert (by_option.code, by_environment.code) == (2, 2)
    assert "port" in by_environment.complained


def test_a_server_process_that_cannot_start_gives_its_last_words(folder: Path) -> None:
    (folder / "server.db").write_bytes(b"no database at all" * 1000)

    with pytest.raises(ServerDidNotStart, match=r"server\.db|damaged|database"):
        ServerProcess(folder, PLAIN)


# ------------------------------------------------------------------ enrolment-code


def test_a_running_server_that_does_not_know_headquarters_is_left_alone(busy: Busy) -> None:
    key_file = busy.folder / "headquarters.key"
    key = key_file.read_text()
    key_file.write_text("pt_none_of_ours")

    there = ("--data-dir", busy.folder, "--url", busy.url)
    ended = pawtill_here("enrolment-code", "R4", "--store", "riverside", *there)

    key_file.write_text(key)
    assert ended.code == Exit.DATA_IN_USE
    assert busy.url in ended.complained and "stop it first" in ended.complained


def test_a_running_server_makes_a_new_store_for_a_code(busy: Busy) -> None:
    assert new_code(busy.folder, "R3", url=busy.url, store="a-new-one")


@pytest.mark.parametrize("url", ["localhost:8420", "http://", "http://[::1"])
def test_a_code_for_no_address_is_not_made(folder: Path, url: str) -> None:
    ended = pawtill_here("enrolment-code", "R2", "--store", "riverside", "--data-dir", folder, "--url", url)

    assert ended.code == Exit.CANNOT_START and url in ended.complained


# ------------------------------------------------------------------ audit


def test_an_audit_of_a_sound_database_ends_with_its_verdict(folder: Path) -> None:
    ended = pawtill("audit", "--data-dir", folder)

    assert (ended.code, ended.said.splitlines()[-1]) == (Exit.OK, "audit: clean")


def test_an_audit_runs_beside_a_running_server(busy: Busy) -> None:
    ended = pawtill_here("audit", "--data-dir", busy.folder)

    assert (ended.code, ended.said.splitlines()[-1]) == (Exit.OK, "audit: clean")


def test_a_violation_is_named_and_gives_exit_code_1(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "server.db")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO account (id, kind, total, available) VALUES ('stock:gone', 'stock', 5, 6)")

    ended = pawtill_here("audit", "--data-dir", folder)

    assert ended.code == Exit.FOUND_SOMETHING
    assert "VIOLATION" in ended.said and "gone" in ended.said
    assert re.fullmatch(r"audit: \d+ violations?", ended.said.splitlines()[-1])


def test_an_audit_changes_no_byte(folder: Path) -> None:
    before = (folder / "server.db").read_bytes()

    pawtill_here("audit", "--data-dir", folder)

    assert (folder / "server.db").read_bytes() == before


def test_an_audit_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    ended = pawtill_here("audit", "--data-dir", tmp_path / "nowhere")

    assert ended.code == Exit.CANNOT_START
    assert "pawtill server" in ended.complained
    assert not (tmp_path / "nowhere").exists()


# ------------------------------------------------------------------ newer and damaged databases


def _newer(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "server.db")) as connection, connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (HEAD,)
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def _damaged(folder: Path) -> None:
    (folder / "server.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64)


@pytest.mark.parametrize(
    ("harm", "code", "chinese", "english"),
    [
        (_newer, Exit.NEWER_DATA, "请运行新版本", "run the newer version"),
        (_damaged, Exit.DAMAGED_DATA, "请从备份恢复", "restore it from a backup"),
    ],
    ids=["newer", "damaged"],
)
def test_a_database_that_this_version_cannot_use_is_said_by_every_command_in_both_languages(
    folder: Path, harm: object, code: Exit, chinese: str, english: str
) -> None:
    assert callable(harm)
    harm(folder)

    ended = [
        pawtill_here("server", "--data-dir", folder, "--port", 0),
        pawtill_here("audit", "--data-dir", folder),
        pawtill_here("enrolment-code", "R1", "--store", "riverside", "--data-dir", folder),
    ]

    assert [each.code for each in ended] == [code] * 3
    assert [each for each in ended if not (chinese in each.complained and english in each.complained)] == []

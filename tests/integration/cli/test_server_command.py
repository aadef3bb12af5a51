"""`pawtill server`, `add-till` and `audit` as processes on real files."""

from __future__ import annotations

import json
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

from cli.add_till_command import write_till_pass
from cli.exits import Exit
from cli.server_process import PLAIN, ServerDidNotStart, ServerProcess
from cli.settings import server_settings
from cli.till_folder import read_pass
from server.db.migrate import HEAD
from sync.client import KeyRefused, ServerClient
from tests.integration.cli.command import pawtill, pawtill_here, running


def _ready(process: subprocess.Popen[str]) -> list[str]:
    """Return what a server says until it is ready."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "ready on" in line:
            break
    return lines


def _add_till(data_dir: Path, out: Path) -> None:
    """Do what `pawtill add-till` does, in this process: most tests want its result only."""
    settings = server_settings(data_dir=data_dir)
    assert write_till_pass(settings, till_id="R1", store="riverside", url="http://127.0.0.1:9", out=out) == Exit.OK


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data folder of a server with a chain, a store and a till."""
    _add_till(tmp_path / "server", tmp_path / "R1.json")
    return tmp_path / "server"


class Busy(NamedTuple):
    """Hold the data folder of a server that runs, and where it answers."""

    folder: Path
    url: str


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """Run one server for all who come beside it; till R1 was given two passes, `old.json` and `R1.json`."""
    base = tmp_path_factory.mktemp("busy")
    _add_till(base / "server", base / "old.json")
    _add_till(base / "server", base / "R1.json")
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
def test_what_is_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    _add_till(tmp_path / "server", tmp_path / "R1.json")

    for file in (tmp_path / "server" / "headquarters.key", tmp_path / "server" / "code.key", tmp_path / "R1.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE((tmp_path / "server").stat().st_mode) == 0o700


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


# ------------------------------------------------------------------ add-till


def test_a_pass_opens_the_server_for_its_till(busy: Busy) -> None:
    granted = read_pass(busy.folder.parent / "R1.json")

    with ServerClient(busy.url, granted.secrets.api_key) as client:
        answer = client.get("/v1/orders/none")

    assert (granted.joined.till_id, granted.joined.store_id) == ("R1", "riverside")
    assert getattr(answer, "code", None) == "unknown_code"


def test_a_new_pass_makes_the_old_one_worthless(busy: Busy) -> None:
    old = read_pass(busy.folder.parent / "old.json")

    with ServerClient(busy.url, old.secrets.api_key) as client, pytest.raises(KeyRefused):
        client.get("/v1/orders/none")


@pytest.mark.parametrize(("till", "store"), [("R2", "riverside"), ("R3", "a-new-one")])
def test_a_running_server_is_asked_for_the_pass(busy: Busy, tmp_path: Path, till: str, store: str) -> None:
    out = tmp_path / "pass.json"
    there = ("--data-dir", busy.folder, "--url", busy.url)

    ended = pawtill_here("add-till", till, "--store", store, "--out", out, *there)
    granted = read_pass(out)
    with ServerClient(busy.url, granted.secrets.api_key) as client:
        answer = client.get("/v1/orders/none")

    assert ended.code == Exit.OK, ended.complained
    assert (granted.joined.till_id, granted.joined.store_id) == (till, store)
    assert granted.secrets.code_key == read_pass(busy.folder.parent / "R1.json").secrets.code_key
    assert getattr(answer, "code", None) == "unknown_code"


def test_a_running_server_that_gives_no_key_is_left_alone(busy: Busy, tmp_path: Path) -> None:
    out, key_file = tmp_path / "pass.json", busy.folder / "headquarters.key"
    key = key_file.read_text()
    key_file.write_text("pt_none_of_ours")

    there = ("--data-dir", busy.folder, "--url", busy.url)
    ended = pawtill_here("add-till", "R4", "--store", "riverside", "--out", out, *there)

    key_file.write_text(key)
    assert ended.code == Exit.DATA_IN_USE
    assert busy.url in ended.complained and "stop it first" in ended.complained
    assert not out.exists()


@pytest.mark.parametrize("url", ["localhost:8420", "http://", "http://[::1"])
def test_a_pass_to_no_address_is_not_made(folder: Path, url: str) -> None:
    out = folder / "R2.json"

    ended = pawtill_here("add-till", "R2", "--store", "riverside", "--out", out, "--data-dir", folder, "--url", url)

    assert ended.code == Exit.CANNOT_START and url in ended.complained
    assert not out.exists()


def test_a_pass_never_shows_its_secrets_on_the_screen(tmp_path: Path) -> None:
    ended = pawtill("add-till", "R1", "--store", "s", "--out", tmp_path / "R1.json", "--data-dir", tmp_path / "server")

    secrets = json.loads((tmp_path / "R1.json").read_text())
    assert secrets["key"] not in ended.said + ended.complained
    assert secrets["code_key"] not in ended.said + ended.complained


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
        pawtill_here("add-till", "R1", "--store", "riverside", "--out", folder / "R1.json", "--data-dir", folder),
    ]

    assert [each.code for each in ended] == [code] * 3
    assert [each for each in ended if not (chinese in each.complained and english in each.complained)] == []

"""`pawtill till`: joining by a pass, and what it says where it cannot open or cannot sell."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.services.secrets import Secrets, Vault
from app.store.instance_lock import InstanceLock
from cli.exits import Exit
from cli.no_terminal import NoTerminal
from cli.till_command import join_chain
from cli.till_folder import NoSuchPass, find_pass, read_joined
from tests.integration.cli.command import pawtill, pawtill_here, running
from ui.running_till import Joined, TillPass, open_running_till

SECRETS = Secrets("pt_" + "0" * 32 + "_" + "1" * 64, bytes(range(32)))


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def _write_pass(file: Path, **changes: object) -> Path:
    content = {
        "url": "http://127.0.0.1:9",
        "till": "R1",
        "store": "riverside",
        "key": SECRETS.api_key,
        "code_key": SECRETS.code_key.hex(),
    }
    file.write_text(json.dumps(content | changes))
    return file


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """Return the folder of a till that has joined and was open once."""
    folder = tmp_path / "till"
    folder.mkdir()
    granted = join_chain(folder, _write_pass(tmp_path / "R1.json"))
    open_running_till(folder / "till.db", granted, payments=NoTerminal()).close()
    return folder


# ------------------------------------------------------------------ joining


def test_a_till_that_has_not_joined_says_how(tmp_path: Path) -> None:
    ended = pawtill_here("till", "--data-dir", tmp_path)

    assert ended.code == Exit.CANNOT_START
    assert "pawtill enrolment-code" in ended.complained and "pawtill enrol" in ended.complained


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux runs without a screen")
def test_joining_keeps_the_secrets_and_without_a_screen_says_so(tmp_path: Path) -> None:
    file = _write_pass(tmp_path / "R1.json")

    ended = pawtill("till", "--join", file, "--data-dir", tmp_path / "till")

    assert ended.code == Exit.NO_SCREEN
    assert SECRETS.api_key not in ended.said + ended.complained
    assert Vault(tmp_path / "till").load("R1") == SECRETS
    assert read_joined(tmp_path / "till") == Joined("http://127.0.0.1:9", "R1", "riverside")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_without_a_keyring_the_secrets_are_in_a_file_for_the_owner_alone(joined: Path) -> None:
    holding = [file for file in joined.iterdir() if SECRETS.api_key in file.read_text("utf-8", "replace")]

    assert len(holding) == 1
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600


def test_a_till_finds_later_what_it_joined_with(joined: Path) -> None:
    assert find_pass(joined) == TillPass(Joined("http://127.0.0.1:9", "R1", "riverside"), SECRETS)


def test_the_same_till_may_join_again_with_a_new_key(joined: Path) -> None:
    new_key = "pt_" + "2" * 32 + "_" + "3" * 64

    join_chain(joined, _write_pass(joined.parent / "new.json", key=new_key, url="https://hq.example"))

    assert find_pass(joined).secrets.api_key == new_key
    assert find_pass(joined).joined.url == "https://hq.example"


def test_the_folder_of_a_till_is_not_given_to_another(joined: Path) -> None:
    file = _write_pass(joined.parent / "R2.json", till="R2")

    with pytest.raises(NoSuchPass, match=r"till R1.*till R2"):
        join_chain(joined, file)

    assert find_pass(joined).secrets == SECRETS


@pytest.mark.parametrize(
    "changes",
    [{"key": ""}, {"code_key": "00"}, {"code_key": "no hex"}, {"code_key": 7}, {"url": "ftp://elsewhere"}],
    ids=["no key", "short code key", "no hex", "a number", "no web address"],
)
def test_a_pass_that_makes_no_sense_is_refused_without_quoting_it(tmp_path: Path, changes: dict[str, object]) -> None:
    file = _write_pass(tmp_path / "R1.json", **changes)

    with pytest.raises(NoSuchPass, match="is no till pass") as refused:
        join_chain(tmp_path, file)

    assert SECRETS.api_key not in str(refused.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "{}"])
def test_a_file_that_is_no_pass_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "R1.json").write_text(content)

    with pytest.raises(NoSuchPass, match="is no till pass"):
        join_chain(tmp_path, tmp_path / "R1.json")


def test_lost_secrets_are_said_with_what_to_do(joined: Path) -> None:
    Vault(joined).forget("R1")

    with pytest.raises(NoSuchPass, match="enrol anew"):
        find_pass(joined)


# ------------------------------------------------------------------ a ledger that does not open


def _newer(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "till.db")) as connection:
        connection.execute("PRAGMA user_version = 999")


def _foreign(folder: Path) -> None:
    (folder / "till.db").unlink()
    with closing(sqlite3.connect(folder / "till.db")) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def _open_and_close(folder: Path) -> tuple[int, str]:
    """Start the till offscreen, close what it shows, and return its exit code and what it complained of."""
    with running("till", "--data-dir", folder, "--language", "en", QT_QPA_PLATFORM="offscreen") as process:
        assert process.stderr is not None
        lines = (line for line in process.stderr if line.startswith("pawtill:"))
        complained = [next(lines, ""), next(lines, "")]  # in Chinese, in English
        process.send_signal(signal.SIGTERM)
        complained += process.communicate(timeout=60)[1].splitlines()
        return process.returncode, "".join(complained)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGTERM")
@pytest.mark.parametrize(
    ("harm", "code", "chinese", "english"),
    [
        (_newer, Exit.NEWER_DATA, "请在本机安装最新版本", "newest version"),
        (_foreign, Exit.CANNOT_START, "请用本机的数据文件夹启动", "not a till of Pawtill"),
    ],
    ids=["newer", "foreign"],
)
def test_a_ledger_that_must_not_be_touched_is_said_and_stays_as_it_is(
    joined: Path, harm: object, code: Exit, chinese: str, english: str
) -> None:
    assert callable(harm)
    harm(joined)
    before = (joined / "till.db").read_bytes()

    ended = _open_and_close(joined)

    assert ended[0] == code
    assert chinese in ended[1] and english in ended[1] and "Traceback" not in ended[1]
    assert (joined / "till.db").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGTERM")
def test_a_ledger_that_another_till_has_open_is_said(joined: Path) -> None:
    with closing(InstanceLock(joined / "till.db")):
        ended = _open_and_close(joined)

    assert ended[0] == Exit.DATA_IN_USE
    assert "请关闭另一个窗口" in ended[1] and "another Pawtill uses this till" in ended[1]

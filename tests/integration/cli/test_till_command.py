"""`pawtill till`: what it finds of its enrolment, and what it says where it cannot open or cannot sell."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import sys
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.services.ports import Offline
from app.services.secrets import Vault
from app.store import meta
from app.store.instance_lock import InstanceLock
from cli.exits import Exit
from cli.no_terminal import NoTerminal
from cli.till_folder import NotEnrolled, find_enrolment
from tests.integration.cli.command import pawtill, pawtill_here, running
from tests.integration.cli.enrolling import NOWHERE, SECRETS, had_enrolled
from ui.running_till import Enrolment, Joined, open_running_till


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """Return the folder of a till that has enrolled and was open once."""
    folder = tmp_path / "till"
    open_running_till(folder / "till.db", had_enrolled(folder), payments=NoTerminal()).close()
    return folder


# ------------------------------------------------------------------ enrolled, or not


def test_a_till_that_has_not_joined_says_how(tmp_path: Path) -> None:
    ended = pawtill_here("till", "--data-dir", tmp_path)

    assert ended.code == Exit.CANNOT_START
    assert "pawtill enrolment-code" in ended.complained and "pawtill enrol" in ended.complained


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux runs without a screen")
def test_without_a_screen_a_till_says_so(joined: Path) -> None:
    ended = pawtill("till", "--data-dir", joined)

    assert ended.code == Exit.NO_SCREEN
    assert SECRETS.code_key.hex() not in ended.said + ended.complained


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_without_a_keyring_the_secrets_are_in_a_file_for_the_owner_alone(joined: Path) -> None:
    holding = [file for file in joined.iterdir() if SECRETS.code_key.hex() in file.read_text("utf-8", "replace")]

    assert len(holding) == 1
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600


def test_a_till_finds_later_what_it_enrolled_with(joined: Path) -> None:
    assert find_enrolment(joined) == Enrolment(Joined(NOWHERE, "R1", "riverside"), SECRETS)


@pytest.mark.parametrize("content", ["", "[]", "{", "{}", '{"url": "x"}'])
def test_a_folder_that_says_nothing_of_its_till_is_said_with_what_to_do(joined: Path, content: str) -> None:
    (joined / "till.json").write_text(content)

    with pytest.raises(NotEnrolled, match="enrol anew with a code"):
        find_enrolment(joined)


class Portal(BaseHTTPRequestHandler):
    """Answer 200 to whatever is asked, in the words of the protocol."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        hello = {"incarnation": 0, "epoch": 1, "acked": (0, ""), "tail": (0, ""), "state": "OK"}
        served = {"now_ms": round(time.time() * 1000), "schema_accept": (1, 1), "head": 9}
        body = json.dumps({**hello, **served, "records": [], "next": 9, "more": False}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def test_a_till_believes_nothing_that_its_server_has_not_signed(joined: Path) -> None:
    portal = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=portal.serve_forever, daemon=True).start()
    enrolment = Enrolment(Joined(f"http://127.0.0.1:{portal.server_port}", "R1", "riverside"), SECRETS)

    with open_running_till(joined / "till.db", enrolment, payments=NoTerminal()) as running:
        for step in (running.engine.run_once, running.engine.pull_now):
            with pytest.raises(Offline, match="unsigned_answer"):
                step()
        with running.till.database.read() as conn:
            cursor = meta.load(conn).cursor
    portal.shutdown()
    portal.server_close()

    assert cursor == 0


def test_lost_secrets_are_said_with_what_to_do(joined: Path) -> None:
    Vault(joined).forget("R1")

    with pytest.raises(NotEnrolled, match="pawtill enrol R1"):
        find_enrolment(joined)


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

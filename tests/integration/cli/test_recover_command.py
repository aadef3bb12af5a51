"""`pawtill recover`: what it says where it cannot, and that nothing has changed then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.store.database import TillDatabase
from cli.exits import Exit
from tests.integration.cli.command import pawtill_here


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a till's pass; its server does not answer, and its ledger is damaged."""
    content = {"url": "http://127.0.0.1:9", "till": "R1", "store": "s1", "key": "pt_x_y", "code_key": "00" * 32}
    (tmp_path / "R1.json").write_text(json.dumps(content))
    (tmp_path / "till").mkdir()
    TillDatabase.open(tmp_path / "till" / "till.db", till_id="R1", store_id="s1").close()
    data = bytearray((tmp_path / "till" / "till.db").read_bytes())
    data[4096:8192] = bytes(4096)
    (tmp_path / "till" / "till.db").write_bytes(bytes(data))
    return tmp_path / "R1.json"


def test_without_the_server_nothing_changes(file: Path) -> None:
    ledger = file.with_name("till") / "till.db"
    before = ledger.read_bytes()

    ended = pawtill_here("recover", "--join", file, "--data-dir", ledger.parent)

    assert (ended.code, "nothing has changed" in ended.complained) == (Exit.UNAVAILABLE, True)
    assert ledger.read_bytes() == before


def test_beside_an_open_till_it_does_nothing(file: Path) -> None:
    folder = file.with_name("till")
    (folder / "till.db").unlink()
    (folder / "till.db.lock").unlink()
    opened = TillDatabase.open(folder / "till.db", till_id="R1", store_id="s1")

    ended = pawtill_here("recover", "--join", file, "--data-dir", folder)
    opened.close()

    assert ended.code == Exit.DATA_IN_USE
    assert "请关闭另一个窗口" in ended.complained and "Close the other window" in ended.complained


def test_what_is_no_pass_is_said(tmp_path: Path) -> None:
    ended = pawtill_here("recover", "--join", tmp_path / "none.json", "--data-dir", tmp_path)

    assert ended.code == Exit.CANNOT_START


def test_a_sound_ledger_is_left_as_it_is_without_a_server(file: Path) -> None:
    folder = file.with_name("till")
    for part in folder.iterdir():
        part.unlink()
    TillDatabase.open(folder / "till.db", till_id="R1", store_id="s1").close()
    before = (folder / "till.db").read_bytes()

    ended = pawtill_here("recover", "--join", file, "--data-dir", folder)

    assert ended.code == Exit.OK and "账本完好" in ended.said and "The ledger is sound" in ended.said
    assert (folder / "till.db").read_bytes() == before and not list(folder.glob("*.damaged-*"))

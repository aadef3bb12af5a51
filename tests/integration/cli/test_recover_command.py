"""`pawtill recover`: what it says where it cannot, and that nothing has changed then."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.store.database import TillDatabase
from cli.exits import Exit
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import had_enrolled


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return the ledger of a till that had enrolled; its server does not answer, and the ledger is damaged."""
    had_enrolled(tmp_path, store="s1")
    ledger = tmp_path / "till.db"
    TillDatabase.open(ledger, till_id="R1", store_id="s1").close()
    data = bytearray(ledger.read_bytes())
    data[4096:8192] = bytes(4096)
    ledger.write_bytes(bytes(data))
    return ledger


def test_without_the_server_nothing_changes(ledger: Path) -> None:
    before = ledger.read_bytes()

    ended = pawtill_here("recover", "--data-dir", ledger.parent)

    assert (ended.code, "nothing has changed" in ended.complained) == (Exit.UNAVAILABLE, True)
    assert ledger.read_bytes() == before


def test_beside_an_open_till_it_does_nothing(ledger: Path) -> None:
    ledger.unlink()
    ledger.with_name("till.db.lock").unlink()
    opened = TillDatabase.open(ledger, till_id="R1", store_id="s1")

    ended = pawtill_here("recover", "--data-dir", ledger.parent)
    opened.close()

    assert ended.code == Exit.DATA_IN_USE
    assert "请关闭另一个窗口" in ended.complained and "Close the other window" in ended.complained


def test_a_till_that_has_not_enrolled_recovers_nothing_and_says_how(tmp_path: Path) -> None:
    ended = pawtill_here("recover", "--data-dir", tmp_path)

    assert (ended.code, "pawtill enrol" in ended.complained) == (Exit.CANNOT_START, True)

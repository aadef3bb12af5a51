"""Controls: with a guard taken out the checker has something to say, so that its silence means something."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sync.push
from tests.chaos import verdict
from tests.chaos.run import Asked, play

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are looked up in /proc"),
    # That the checker sees a truth that is another, the suite asks beside its short run.
    pytest.mark.long,
]


def _asked(folder: Path, *faults: str, server: tuple[str, ...] = (), till: tuple[str, ...] = ()) -> Asked:
    return Asked(
        folder, seconds=8, tills=2, pace_s=0.05, sales=3, large=False, only=faults, weak_server=server, weak_till=till
    )


def test_a_till_that_forgets_its_outbox_loses_sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync.push, "_next", lambda session, size: None)  # when all is healed it tells nothing either
    monkeypatch.setattr(verdict, "PATIENCE_S", 3.0)

    outcome = play(_asked(tmp_path, "line cut", till=("outbox",)))

    assert any("is lost" in each for each in outcome.verdict.violations), outcome.verdict.violations


def test_a_server_that_forgets_its_answers_gives_a_coupon_twice(tmp_path: Path) -> None:
    outcome = play(_asked(tmp_path, "line cut", server=("answers",)))

    assert any("was answered" in each for each in outcome.verdict.violations), outcome.verdict.violations


def test_requests_that_a_line_doubles_are_answered_twice_where_neither_nonce_nor_memory_says_no(tmp_path: Path) -> None:
    asked = _asked(tmp_path, *["requests doubled"] * 20, server=("refunds", "nonces"))

    outcome = play(replace(asked, seconds=15, acts=("sell", "refund", "refund", "sync")))

    assert any("nobody was paid" in each for each in outcome.verdict.violations), outcome.verdict.violations

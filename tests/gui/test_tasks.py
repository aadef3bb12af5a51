"""The one door between threads: work runs elsewhere, its end arrives on the GUI thread, and nothing is cut off."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from tests.gui.conftest import PATIENCE_MS
from ui.tasks import NETWORK_THREADS, Tasks


@pytest.fixture
def tasks(qtbot: QtBot) -> Iterator[Tasks]:
    made = Tasks()
    yield made
    made.close()


def test_work_runs_elsewhere_and_its_result_arrives_here(qtbot: QtBot, tasks: Tasks) -> None:
    here, seen = threading.get_ident(), []

    tasks.local(threading.get_ident, lambda worker: seen.append((worker, threading.get_ident())))

    qtbot.waitUntil(lambda: bool(seen), timeout=PATIENCE_MS)
    assert seen[0][0] != here and seen[0][1] == here


def test_money_beyond_32_bits_arrives_whole(qtbot: QtBot, tasks: Tasks) -> None:
    seen: list[int] = []

    tasks.local(lambda: 10**12, seen.append)

    qtbot.waitUntil(lambda: bool(seen), timeout=PATIENCE_MS)
    assert seen == [10**12]


def test_an_exception_arrives_as_a_value(qtbot: QtBot, tasks: Tasks) -> None:
    failed: list[Exception] = []
    unanswered: list[Exception] = []
    tasks.on_error = unanswered.append

    tasks.network(lambda: 1 // 0, lambda _: None, failed.append)
    tasks.network(lambda: int("x"), lambda _: None)

    qtbot.waitUntil(lambda: bool(failed and unanswered), timeout=PATIENCE_MS)
    assert isinstance(failed[0], ZeroDivisionError) and isinstance(unanswered[0], ValueError)


def test_local_work_keeps_its_order(qtbot: QtBot, tasks: Tasks) -> None:
    seen: list[int] = []

    for number in range(50):
        tasks.local(lambda number=number: number, seen.append)

    qtbot.waitUntil(lambda: len(seen) == 50, timeout=PATIENCE_MS)
    assert seen == list(range(50))


def test_network_work_that_waits_keeps_local_work_free(qtbot: QtBot, tasks: Tasks) -> None:
    release, seen = threading.Event(), []
    for _ in range(NETWORK_THREADS):
        tasks.network(release.wait, lambda _: None)

    tasks.local(lambda: "here", seen.append)

    qtbot.waitUntil(lambda: seen == ["here"], timeout=PATIENCE_MS)
    release.set()


def test_a_long_computation_keeps_local_work_free(qtbot: QtBot, tasks: Tasks) -> None:
    release, seen = threading.Event(), []
    tasks.aside(release.wait, lambda _: None)

    tasks.local(lambda: "here", seen.append)

    qtbot.waitUntil(lambda: seen == ["here"], timeout=PATIENCE_MS)
    release.set()


def test_closing_waits_for_what_has_begun_and_drops_the_rest(qtbot: QtBot) -> None:
    tasks, began, ended, never = Tasks(), threading.Event(), [], []

    def work() -> None:
        began.set()
        ended.append(1)

    tasks.local(work, lambda _: never.append("shown"))
    assert began.wait(5)
    tasks.close()
    tasks.local(lambda: never.append("run"), lambda _: None)

    assert ended == [1] and never == []

"""The background loop, one session at a time, and what is asked in between."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Iterator

import httpx
import pytest

from app.services.ports import Busy, Offline
from app.store.errors import DiskFull
from sync.engine import IDLE_S, SyncEngine, SyncStatus
from sync.protocol import HELLO_PATH, PULL_PATH, PUSH_PATH
from tests.fakes.transport import Fault
from tests.integration.sync.conftest import Rig

PATIENCE_S = 20.0
"""For a thread that must come; nothing here takes a hundredth of it."""


class HandWait:
    """Note how long the loop wants to wait, and let it until it is woken."""

    def __init__(self) -> None:
        self.asked: queue.Queue[float] = queue.Queue()
        self.woken_already: list[bool] = []

    def __call__(self, event: threading.Event, seconds: float) -> object:
        self.woken_already.append(event.is_set())
        self.asked.put(seconds)
        return event.wait(PATIENCE_S)

    def next(self) -> float:
        return self.asked.get(timeout=PATIENCE_S)


@pytest.fixture
def loop(rig: Rig) -> Iterator[tuple[SyncEngine, HandWait]]:
    wait = HandWait()
    engine = SyncEngine(rig.db, rig.client, clock=rig.clock, rng=random.Random(7), wait=wait)
    yield engine, wait
    engine.stop()


def test_the_loop_begins_at_once_and_rests_some_seconds_after_each_session(
    rig: Rig, loop: tuple[SyncEngine, HandWait]
) -> None:
    engine, wait = loop
    rig.sell(2)

    engine.start()
    rests = [wait.next()]
    engine.wake()
    rests.append(wait.next())

    assert all(IDLE_S[0] <= rest <= IDLE_S[1] for rest in rests) and rests[0] != rests[1]
    assert (len(rig.server.entries), rig.line.requests.count(HELLO_PATH)) == (2, 2)
    assert wait.woken_already == [False, False]


def test_what_is_to_be_done_behind_a_session_is_done_behind_each_that_succeeded(
    rig: Rig, loop: tuple[SyncEngine, HandWait]
) -> None:
    engine, wait = loop
    done: list[int] = []
    engine.behind = lambda: done.append(len(rig.server.entries))
    rig.sell(1)

    engine.start()
    wait.next()
    rig.line.offline = True
    engine.wake()
    wait.next()
    assert done == [1]

    rig.line.heal()
    engine.wake()
    wait.next()
    assert done == [1, 1]


def test_the_loop_waits_longer_and_longer_while_the_line_is_down_and_forgets_that_when_it_is_up(
    rig: Rig, loop: tuple[SyncEngine, HandWait]
) -> None:
    engine, wait = loop
    rig.line.offline = True

    engine.start()
    rests = []
    for _ in range(8):
        rests.append(wait.next())
        engine.wake()
    last = wait.next()
    rig.line.heal()
    engine.wake()
    healed = wait.next()

    assert 5 <= rests[0] <= 10 and 10 <= rests[1] <= 20 and 20 <= rests[2] <= 40
    assert 150 <= last <= 300
    assert IDLE_S[0] <= healed <= IDLE_S[1]


def test_the_loop_rests_as_long_as_a_large_chain_asks_it_to_and_never_longer_than_five_minutes(
    rig: Rig, loop: tuple[SyncEngine, HandWait]
) -> None:
    engine, wait = loop
    engine.start()
    wait.next()
    rests = []
    for asked_s in (100.0, 1.0, 1e9):
        rig.server.rest_s = asked_s
        engine.wake()
        rests.append(wait.next())

    assert 50 <= rests[0] <= 150
    assert IDLE_S[0] <= rests[1] <= IDLE_S[1]
    assert rests[2] <= 300


def test_the_loop_gives_a_busy_server_the_time_that_it_asks_for(rig: Rig, loop: tuple[SyncEngine, HandWait]) -> None:
    engine, wait = loop
    busy = httpx.Response(503, json={"outcome": "busy", "facts": {}}, headers={"retry-after": "120"})
    rig.server.routes[HELLO_PATH] = lambda body: busy

    engine.start()

    assert wait.next() == 120


def test_the_loop_outlives_what_nobody_thought_of(
    rig: Rig, loop: tuple[SyncEngine, HandWait], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, wait = loop
    failures = iter([DiskFull(rig.path, "no room"), RuntimeError("a bug")])

    def fail_twice(session: object) -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure

    monkeypatch.setattr("sync.engine.greet", fail_twice)
    seen: queue.Queue[SyncStatus] = queue.Queue()
    engine.observe(seen.put)
    rig.sell(1)

    engine.start()
    reasons = []
    for _ in range(2):
        wait.next()
        reasons.append(engine.status.reason)
        engine.wake()
    wait.next()

    assert reasons == ["DiskFull", "RuntimeError"]
    assert (engine.status.online, engine.status.reason, rig.states()) == (True, "", {"ACKNOWLEDGED"})


def test_a_stopped_loop_sends_nothing_more_and_can_be_started_again(
    rig: Rig, loop: tuple[SyncEngine, HandWait]
) -> None:
    engine, wait = loop
    engine.start()
    wait.next()
    engine.stop()
    sent = len(rig.line.requests)
    engine.wake()
    quiet = len(rig.line.requests)

    engine.start()
    wait.next()

    assert (sent, quiet) == (2, 2)
    assert len(rig.line.requests) > quiet


class Gate(httpx.BaseTransport):
    """Hold requests to one path until a test lets them pass."""

    def __init__(self, inner: httpx.BaseTransport, path: str) -> None:
        self._inner, self._path = inner, path
        self.reached, self.open = threading.Event(), threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if request.url.path == self._path:
            self.reached.set()
            assert self.open.wait(PATIENCE_S)
        return self._inner.handle_request(request)


def test_two_sessions_at_the_same_moment_go_one_after_the_other(rig: Rig) -> None:
    rig.sell(3)
    gate = Gate(rig.server, PUSH_PATH)
    rig.line = gate  # type: ignore[assignment]
    rig.wire()
    first, second = (threading.Thread(target=rig.engine.run_once) for _ in range(2))

    first.start()
    assert gate.reached.wait(PATIENCE_S)
    second.start()
    hellos_meanwhile = sum(path == HELLO_PATH for path, _ in rig.server.asked)
    gate.open.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)

    paths = [path for path, _ in rig.server.asked]
    assert hellos_meanwhile == 1
    assert (paths.count(PUSH_PATH), paths.count(HELLO_PATH), rig.states()) == (1, 2, {"ACKNOWLEDGED"})


def test_nothing_is_pushed_before_a_question_where_nothing_waits(rig: Rig) -> None:
    assert rig.engine.push_before_asking()
    assert rig.line.requests == []


def test_before_a_question_at_most_two_batches_are_pushed(rig: Rig) -> None:
    rig.sell(401)

    knows_all = rig.engine.push_before_asking()

    assert (knows_all, len(rig.server.entries)) == (False, 400)


def test_before_a_question_an_entry_that_the_server_cannot_take_holds_nothing_up(rig: Rig) -> None:
    rig.sell(note="x" * 20_000)
    rig.server.max_bytes = 10_000

    assert not rig.engine.push_before_asking()


def test_a_question_does_not_wait_for_a_long_session(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sync.engine.ASKING_PATIENCE_S", 0.01)
    rig.sell(3)
    gate = Gate(rig.server, PUSH_PATH)
    rig.line = gate  # type: ignore[assignment]
    rig.wire()
    session = threading.Thread(target=rig.engine.run_once)
    session.start()
    assert gate.reached.wait(PATIENCE_S)

    knows_all = rig.engine.push_before_asking()

    gate.open.set()
    session.join(PATIENCE_S)
    assert not knows_all


def test_flush_says_hello_only_where_the_line_was_down(rig: Rig) -> None:
    rig.engine.run_once()
    rig.line.requests.clear()

    rig.sell(1)
    rig.office.flush()
    rig.sell(1)
    rig.line.plan(Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        rig.office.flush()
    rig.office.flush()

    assert rig.line.requests == [PUSH_PATH, PUSH_PATH, HELLO_PATH, PUSH_PATH]
    assert rig.states() == {"ACKNOWLEDGED"}


def test_refresh_pulls_and_the_office_knows_whether_the_line_is_up(rig: Rig) -> None:
    before = rig.office.online

    rig.office.refresh()

    assert (before, rig.office.online, rig.office.offline_since) == (False, True, None)
    assert rig.line.requests == [HELLO_PATH, PULL_PATH]


def test_a_busy_server_leaves_the_office_as_it_was(rig: Rig) -> None:
    rig.office.refresh()
    rig.line.plan(Fault.BUSY)

    with pytest.raises(Busy):
        rig.office.refresh()

    assert rig.office.online

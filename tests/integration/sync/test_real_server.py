"""A till and the real server: whatever the line does, every entry is in the books once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.ports import Clock
from app.domain.refusals import Refusal
from app.services.ports import Busy, HoldGranted, Offline
from sync.engine import SyncEngine, SyncReport
from sync.hello import Stop, SyncStopped
from tests.examples import share
from tests.fakes.transport import Fault
from tests.integration.sync.shop import Shop
from tests.integration.sync.test_faults import FAULTS, ProcessDied, die_at


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()


def assert_both_are_one(shop: Shop) -> None:
    assert shop.server_entries() == shop.till_entries()
    assert {state for state, _ in shop.outbox()} <= {"ACKNOWLEDGED"}
    assert shop.findings() == []


def test_a_session_with_the_real_server_leaves_both_sides_alike(shop: Shop) -> None:
    coupon = shop.claim()
    shop.sell("o1")
    granted = shop.office.hold(shop.hold_request("o2", [coupon]))
    assert isinstance(granted, HoldGranted)
    shop.sell_held("o2", granted)

    report = shop.engine.run_once()

    assert (report.pushed, report.conflicts, report.pending, report.differences) == (1, 0, 0, ())
    assert (shop.coupon_here(coupon), report.skipped) == ("USED", 0)
    assert shop.engine.run_once() == SyncReport(pushed=0, pulled=0, conflicts=0, pending=0)
    assert_both_are_one(shop)


def test_an_unknown_sku_is_parked_and_blocks_nothing_behind_it(shop: Shop) -> None:
    shop.sell("o1", sku="nobody knows")
    shop.sell("o2")

    report = shop.engine.run_once()

    assert shop.outbox() == [("PARKED", "CONFLICT unknown_sku"), ("ACKNOWLEDGED", "")]
    assert (report.pushed, report.conflicts, report.pending) == (2, 1, 0)
    assert shop.findings() == ["unknown_sku"]


def test_a_parked_verdict_whose_answer_was_lost_reads_the_same_when_it_is_heard(shop: Shop) -> None:
    shop.sell("o1", sku="nobody knows")
    shop.append("hologram", "o2")
    shop.line.plan(Fault.NONE, Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        shop.engine.run_once()

    report = shop.engine.run_once()

    assert shop.outbox() == [("PARKED", "CONFLICT unknown_sku"), ("PARKED", "QUARANTINED quarantined")]
    assert (report.conflicts, report.pending) == (2, 0)


def test_a_ledger_of_another_till_under_our_name_stops_at_its_first_entry(shop: Shop, tmp_path: Path) -> None:
    shop.sell("o1")
    shop.engine.run_once()
    (tmp_path / "other").mkdir()
    mine, shop._path = shop._path, tmp_path / "other" / "t1.db"
    shop.restart()
    shop.sell("o1")
    shop.sell("o2")

    with pytest.raises(SyncStopped) as caught:
        shop.engine.run_once()

    assert caught.value.stop is Stop.FORK
    assert {state for state, _ in shop.outbox()} == {"PENDING"}
    shop._path = mine


@pytest.mark.parametrize("place", range(4), ids=["hello", "push", "pull", "sanity"])
@pytest.mark.parametrize(
    "fault", [Fault.LOSE_ANSWER, Fault.DOUBLE_LATE, Fault.DELAY, Fault.HOLD_BACK, Fault.STALE_ANSWER]
)
def test_one_fault_anywhere_in_a_session_leaves_nothing_behind(shop: Shop, fault: Fault, place: int) -> None:
    shop.sell("o1")
    shop.sell("o2")
    shop.line.plan(*[Fault.NONE] * place, fault)
    with suppress(Offline, Busy):
        shop.engine.run_once()

    shop.sell("o3")
    shop.line.heal()
    report = shop.engine.run_once()

    assert (report.pending, report.differences) == (0, ())
    assert_both_are_one(shop)


faults = st.lists(st.sampled_from([Fault.NONE, Fault.NONE, *FAULTS]), max_size=6)
actions = st.one_of(
    st.tuples(st.just("sell"), st.just([])),
    st.tuples(st.just("hold and sell"), faults),
    st.tuples(st.just("session"), faults),
    st.tuples(st.just("die"), faults),
)


@settings(max_examples=share(1 / 3))
@given(st.lists(actions, min_size=2, max_size=8))
def test_any_story_ends_with_equal_books_and_every_coupon_where_it_belongs(
    story: list[tuple[str, list[Fault]]],
) -> None:
    with TemporaryDirectory() as folder, closing(Shop(Path(folder))) as shop:
        used, back = set(), set()
        for number, (action, plan) in enumerate(story):
            shop.office_side.clock.pass_time(seconds=1)
            if action == "sell":
                shop.sell(f"o{number}")
                continue
            coupon = shop.claim()
            shop.line.plan(*plan)
            if action == "hold and sell":
                _hold_and_sell(shop, f"o{number}", coupon, used, back)
            else:
                probe = {"probe": die_at("before_ack")} if action == "die" else {}
                shop.restart(**probe)
                with suppress(Offline, Busy, ProcessDied):
                    shop.engine.run_once()
                shop.restart()

        shop.line.heal()
        report = shop.engine.run_once()

        assert (report.pending, report.differences) == (0, ())
        assert_both_are_one(shop)
        assert {shop.coupon(coupon) for coupon in used} <= {"USED"}
        assert {shop.coupon(coupon) for coupon in back} <= {"ISSUED"}
        assert all(shop.coupon_here(coupon) == shop.coupon(coupon) for coupon in used | back)


def _hold_and_sell(shop: Shop, order_id: str, coupon: str, used: set[str], back: set[str]) -> None:
    try:
        granted = shop.office.hold(shop.hold_request(order_id, [coupon]))
    except Busy:
        back.add(coupon)
        return
    except Offline:
        shop.give_up(order_id)
        back.add(coupon)
        return
    assert not isinstance(granted, Refusal)
    shop.sell_held(order_id, granted)
    used.add(coupon)


def test_a_greeting_that_comes_late_is_no_sign_of_lost_rows(shop: Shop) -> None:
    shop.sell("o1")
    shop.engine.run_once()
    shop.line.plan(Fault.HOLD_BACK)
    with pytest.raises(Offline):
        shop.engine.run_once()
    shop.office_side.clock.pass_time(seconds=1)
    shop.sell("o2")
    shop.engine.run_once()

    shop.line.heal()

    assert shop.findings() == []


class Ahead:
    """Show a time that is wrong."""

    def __init__(self, clock: Clock, error: timedelta) -> None:
        self._clock, self._error = clock, error

    def now(self) -> datetime:
        return self._clock.now() + self._error


def test_a_greeting_of_a_fast_clock_that_comes_late_is_no_sign_of_lost_rows(shop: Shop) -> None:
    clock = shop.office_side.clock
    shop.engine = SyncEngine(shop.db, shop.engine._session.client, clock=Ahead(clock, timedelta(hours=2)))
    shop.sell("o1")
    shop.engine.run_once()
    shop.line.plan(Fault.HOLD_BACK)
    with pytest.raises(Offline):
        shop.engine.run_once()
    # Somebody sets the clock right.
    shop.restart()
    shop.sell("o2")
    shop.engine.run_once()

    shop.line.heal()

    assert shop.findings() == []


def test_a_store_that_moves_to_another_time_zone_still_counts_as_the_server_does(shop: Shop) -> None:
    shop.sell("o1")
    shop.engine.run_once()
    shop.office_side.call("PUT", "/v1/stores/s1", {"zone": "America/New_York"}, status=200)
    shop.sell("o2")

    report = shop.engine.run_once()

    assert (report.differences, shop.findings()) == ((), [])


def test_a_till_whose_file_went_back_stops_and_the_server_opens_a_finding(shop: Shop) -> None:
    shop.sell("o1")
    shop.engine.run_once()
    shop.keep_a_copy()
    shop.sell("o2")
    shop.engine.run_once()
    shop.go_back_to_the_copy()

    for _ in range(2):
        with pytest.raises(SyncStopped) as caught:
            shop.engine.run_once()

    assert (caught.value.stop, shop.findings()) == (Stop.ROWS_LOST, ["ledger_rows_lost"])


def test_a_till_that_sold_on_after_its_file_went_back_stops_and_the_server_opens_a_finding(shop: Shop) -> None:
    shop.sell("o1")
    shop.engine.run_once()
    shop.keep_a_copy()
    shop.sell("o2")
    shop.engine.run_once()
    shop.go_back_to_the_copy()
    shop.sell("o3")
    shop.sell("o4")

    for _ in range(2):
        with pytest.raises(SyncStopped) as caught:
            shop.engine.run_once()

    assert (caught.value.stop, shop.findings()) == (Stop.FORK, ["ledger_fork"])
    assert (len(shop.server_entries()), shop.outbox()[1:]) == (2, [("PENDING", ""), ("PENDING", "")])


# ------------------------------------------------------------------ over a real socket, with a real kill


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an application on a port of the system's choice; yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from app.store.database import TillDatabase
from sync.client import ServerClient
from sync.engine import SyncEngine

class Clock:
    def now(self):
        return datetime.now(UTC)

def probe(point):
    if point == "before_ack":
        os.kill(os.getpid(), signal.SIGKILL)

db = TillDatabase.open(Path(sys.argv[1]), till_id="t1", store_id="s1")
client = ServerClient(sys.argv[2], sys.stdin.readline().strip(), answer_timeout_s=30)
SyncEngine(db, client, clock=Clock(), probe=probe).run_once()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_killed_between_answer_and_cursor_sends_again_and_is_booked_once(shop: Shop) -> None:
    for number in range(5):
        shop.sell(f"o{number}")
    shop.db.close()

    with listening(shop.office_side.app) as url:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(shop._path), url],
            input=shop._key,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": "."},
            timeout=60,
            check=False,
        )
    shop.restart()
    before = ({state for state, _ in shop.outbox()}, len(shop.server_entries()))
    report = shop.engine.run_once()

    assert killed.returncode == -signal.SIGKILL
    assert before == ({"PENDING"}, 5)
    assert (report.pushed, report.pending) == (5, 0)
    assert_both_are_one(shop)


def test_a_till_that_was_ninety_days_offline_catches_up_whole_and_in_bounded_requests(shop: Shop) -> None:
    """Its figure against bare inserts is `run.py bench catch_up`."""
    for day in range(90):
        for number in range(5):
            shop.sell(f"d{day}n{number}")
        shop.office_side.clock.at += timedelta(days=1)
    shop.line.requests.clear()

    report = shop.engine.run_once()

    assert (report.pushed, report.conflicts, report.pending, report.differences) == (450, 0, 0, ())
    assert shop.line.requests.count("/v1/sync/push") == 3
    assert_both_are_one(shop)
    assert shop.findings() == []

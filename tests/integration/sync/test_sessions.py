"""A session end to end on a real till's file: what is sent, what is believed, what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.domain.ledger import Entry
from app.domain.ports import Step, UnderWay
from app.services.ports import Busy, Offline
from sync.client import KeyRefused, Misunderstood, ProtocolRefused, TooLarge
from sync.engine import SyncReport, SyncStatus
from sync.hello import SyncStopped
from sync.protocol import HELLO_PATH, PULL_PATH, PUSH_MAX_BYTES, PUSH_PATH, SANITY_PATH, EntryResult
from tests.fakes.transport import Fault
from tests.integration.sync.conftest import START, Rig


def test_a_session_brings_the_ledger_up_and_the_records_down(rig: Rig) -> None:
    rig.sell(3)
    rig.sell(kind="cancel")
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})

    report = rig.engine.run_once()

    assert report == SyncReport(pushed=3, pulled=2, conflicts=0, pending=0)
    assert [entry.hash.hex() for entry in rig.server.entries] == rig.hashes()
    assert rig.states() == {"ACKNOWLEDGED"}
    assert (rig.known().acked_seq, rig.known().acked_hash) == rig.server.acked
    assert (rig.known().cursor, rig.known().last_sync_at) == (2, START)


def test_the_steps_come_in_the_order_of_the_protocol(rig: Rig) -> None:
    rig.sell()

    rig.engine.run_once()

    assert rig.line.requests == [HELLO_PATH, PUSH_PATH, PULL_PATH, SANITY_PATH]


def test_a_second_session_sends_nothing_again(rig: Rig) -> None:
    rig.sell(3)
    rig.engine.run_once()
    rig.line.requests.clear()

    report = rig.engine.run_once()

    assert report == SyncReport(pushed=0, pulled=0, conflicts=0, pending=0)
    assert rig.line.requests == [HELLO_PATH, PULL_PATH]


def test_a_long_ledger_goes_in_batches_of_two_hundred(rig: Rig) -> None:
    rig.sell(401)

    report = rig.engine.run_once()

    assert [len(body["entries"]) for body in rig.server.messages(PUSH_PATH)] == [200, 200, 1]
    assert (report.pushed, report.pending, len(rig.server.entries)) == (401, 0, 401)


def test_a_batch_that_leaves_something_behind_goes_after_telling_of_it(rig: Rig) -> None:
    rig.engine.run_once()
    rig.line.requests.clear()
    rig.sell(201)

    rig.engine.push_now()

    assert rig.line.requests == [HELLO_PATH, PUSH_PATH, PUSH_PATH]
    assert rig.server.messages(HELLO_PATH)[-1]["last"][0] == 201


def test_entries_with_long_bodies_go_in_smaller_batches(rig: Rig) -> None:
    # In base64 a little less than a third of a request.
    rig.sell(5, note="x" * (PUSH_MAX_BYTES // 4 - 1000))

    rig.engine.run_once()

    assert [len(body["entries"]) for body in rig.server.messages(PUSH_PATH)] == [3, 2]


def test_a_server_that_reads_less_gets_smaller_batches(rig: Rig) -> None:
    rig.sell(40, note="x" * 1000)
    rig.server.max_bytes = 10_000

    report = rig.engine.run_once()

    assert (report.pushed, report.pending, len(rig.server.entries)) == (40, 0, 40)


def test_an_entry_that_is_too_large_by_itself_stays_and_everything_else_still_comes(rig: Rig) -> None:
    rig.sell(2)
    rig.sell(note="x" * 20_000)
    rig.sell()
    rig.server.max_bytes = 10_000

    with pytest.raises(TooLarge):
        rig.engine.run_once()

    assert [state for _, state, _ in rig.outbox()] == ["ACKNOWLEDGED", "ACKNOWLEDGED", "PENDING", "PENDING"]
    assert rig.known().cursor == rig.server.head
    assert (rig.engine.status.online, rig.engine.status.reason, rig.engine.status.pending) == (True, "too_large", 2)


# ------------------------------------------------------------------ verdicts


def judge_odd(entry: Entry) -> EntryResult:
    if entry.seq % 2:
        return EntryResult(seq=entry.seq, result="CONFLICT", code="unknown_sku", finding="f1")
    return EntryResult(seq=entry.seq, result="QUARANTINED", code="quarantined") if entry.seq == 2 else _fine(entry)


def _fine(entry: Entry) -> EntryResult:
    return EntryResult(seq=entry.seq, result="OK")


def test_a_bad_entry_is_parked_with_its_reason_and_blocks_nothing_behind_it(rig: Rig) -> None:
    rig.server.judge = judge_odd
    rig.sell(4)

    report = rig.engine.run_once()

    assert rig.outbox() == [
        (1, "PARKED", "CONFLICT unknown_sku"),
        (2, "PARKED", "QUARANTINED quarantined"),
        (3, "PARKED", "CONFLICT unknown_sku"),
        (4, "ACKNOWLEDGED", ""),
    ]
    assert (report.pushed, report.conflicts, report.pending, rig.engine.status.parked) == (4, 3, 0, 3)


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.CUT, Fault.TRUNCATE, Fault.ERROR_500_LATE])
def test_a_verdict_whose_answer_was_lost_is_heard_in_the_next_session(rig: Rig, fault: Fault) -> None:
    rig.server.judge = judge_odd
    rig.sell(3)
    rig.line.plan(Fault.NONE, fault)
    with pytest.raises(Offline):
        rig.engine.run_once()
    lost = (rig.states(), len(rig.server.entries))

    report = rig.engine.run_once()

    assert lost == ({"PENDING"}, 3)
    assert (report.pushed, report.conflicts, report.pending) == (3, 3, 0)
    assert len(rig.server.entries) == 3


def test_an_entry_is_counted_in_one_session_only(rig: Rig) -> None:
    rig.sell(2)
    rig.line.plan(Fault.NONE, Fault.NONE, Fault.LOSE_REQUEST)
    with pytest.raises(Offline):
        rig.engine.run_once()
    rig.sell(1)

    assert rig.engine.run_once().pushed == 1


# ------------------------------------------------------------------ what is believed


def test_what_is_on_its_way_is_noted_before_it_is_sent(rig: Rig) -> None:
    rig.sell(2)
    rig.line.plan(Fault.NONE, Fault.LOSE_REQUEST)

    with pytest.raises(Offline):
        rig.engine.run_once()

    assert (rig.known().sent_seq, rig.known().acked_seq, len(rig.server.entries)) == (2, 0, 0)


@pytest.mark.parametrize("fault", [Fault.PORTAL, Fault.PORTAL_JSON, Fault.REDIRECT, Fault.GATEWAY, Fault.STALE_ANSWER])
def test_an_answer_that_is_not_the_servers_acknowledges_nothing(rig: Rig, fault: Fault) -> None:
    rig.sell(2)
    rig.line.plan(Fault.NONE, fault)

    with pytest.raises(Offline):
        rig.engine.run_once()

    assert (rig.states(), rig.known().acked_seq) == ({"PENDING"}, 0)


def test_a_copy_of_the_answer_to_an_older_push_acknowledges_nothing(rig: Rig) -> None:
    rig.sell(2)
    rig.engine.push_now()
    rig.sell(1)
    rig.line.plan(Fault.STALE_ANSWER)

    with pytest.raises(Offline, match="stale_answer"):
        rig.engine.push_now()

    assert [state for _, state, _ in rig.outbox()] == ["ACKNOWLEDGED", "ACKNOWLEDGED", "PENDING"]
    assert rig.known().acked_seq == 2


def test_a_verdict_beyond_the_acknowledged_prefix_counts_for_nothing(rig: Rig) -> None:
    rig.sell(3)
    first = rig.hashes()[0]
    results = [{"seq": seq, "result": "OK"} for seq in (1, 2, 3)]
    rig.server.routes[PUSH_PATH] = lambda body: httpx.Response(
        200, json={"acked": [1, first], "results": results, "error": "GAP"}
    )

    with pytest.raises(SyncStopped):
        rig.engine.push_now()

    assert [state for _, state, _ in rig.outbox()] == ["ACKNOWLEDGED", "PENDING", "PENDING"]


@pytest.mark.parametrize("ahead", [0, 1], ids=["ends where we are", "goes further"])
def test_a_copy_of_an_older_page_puts_no_old_record_over_a_new_one(rig: Rig, ahead: int) -> None:
    for zone in ("Asia/Urumqi", "Asia/Shanghai"):
        rig.server.publish("store", "s2", {"id": "s2", "zone": zone})
        rig.engine.pull_now()
    old = {"seq": 2, "kind": "store", "key": "s2", "record": {"id": "s2", "zone": "Asia/Urumqi"}}
    rig.server.routes[PULL_PATH] = lambda body: httpx.Response(
        200, json={"records": [old], "next": body["cursor"] + ahead, "more": False}
    )

    rig.engine.pull_now()

    with rig.db.read() as conn:
        assert conn.exec_driver_sql("SELECT zone FROM store WHERE id = 's2'").scalar_one() == "Asia/Shanghai"
    assert rig.known().cursor == 3 + ahead


def test_the_cursor_of_the_feed_never_goes_back(rig: Rig) -> None:
    rig.engine.pull_now()
    rig.server.routes[PULL_PATH] = lambda body: httpx.Response(200, json={"records": [], "next": 0, "more": False})

    with pytest.raises(Offline, match="stale_answer"):
        rig.engine.pull_now()

    assert rig.known().cursor == 1


def test_a_copy_of_a_page_further_on_passes_no_record_over(rig: Rig) -> None:
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})
    further = {"seq": 9, "kind": "store", "key": "s3", "record": {"id": "s3", "zone": "Asia/Shanghai"}}
    rig.server.routes[PULL_PATH] = lambda body: httpx.Response(
        200, json={"records": [further], "next": 9, "more": False, "since": 8}
    )

    with pytest.raises(Offline, match="stale_answer"):
        rig.engine.pull_now()

    assert rig.known().cursor == 0


def test_a_feed_that_says_more_and_gives_nothing_ends(rig: Rig) -> None:
    rig.server.routes[PULL_PATH] = lambda body: httpx.Response(
        200, json={"records": [], "next": body["cursor"], "more": True}
    )

    with pytest.raises(Misunderstood):
        rig.engine.pull_now()


@pytest.mark.parametrize(
    ("kind", "record"),
    [("product", {"sku": "A"}), ("store", {"zone": None}), ("coupon", {"digest": "no hex"})],
    ids=["lacks a field", "breaks a constraint", "makes no sense"],
)
def test_a_page_comes_whole_with_its_cursor_or_not_at_all(rig: Rig, kind: str, record: dict[str, Any]) -> None:
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})
    rig.server.publish(kind, "A", record)

    with pytest.raises(Misunderstood, match="bad_record"):
        rig.engine.pull_now()

    with rig.db.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM store").scalar_one() == 0
    assert rig.known().cursor == 0


def test_records_of_kinds_that_come_later_are_passed_over_and_counted(rig: Rig) -> None:
    rig.server.publish("hologram", "h1", {"id": "h1"})

    report = rig.engine.run_once()

    assert (report.pulled, report.skipped, rig.known().cursor) == (2, 1, 2)


def test_more_records_than_a_page_come_page_by_page(rig: Rig) -> None:
    for number in range(1001):
        rig.server.publish("store", f"x{number}", {"id": f"x{number}", "zone": "Asia/Shanghai"})

    report = rig.engine.run_once()

    assert (report.pulled, len(rig.server.messages(PULL_PATH))) == (1002, 3)


def test_who_watches_sees_each_page_and_each_batch_up_to_the_end_and_no_later_session(rig: Rig) -> None:
    for number in range(1001):
        rig.server.publish("store", f"x{number}", {"id": f"x{number}", "zone": "Asia/Shanghai"})
    rig.sell(201)
    seen: list[tuple[Step, int, int]] = []

    with rig.engine.watched(lambda *told: seen.append(told)):
        rig.engine.run_once()
    rig.sell()
    rig.engine.run_once()

    assert seen[:2] == [(Step.SEND, 200, 201), (Step.SEND, 201, 201)]
    assert seen[2:] == [(Step.FETCH, 500, 1002), (Step.FETCH, 1000, 1002), (Step.FETCH, 1002, 1002)]


def test_who_comes_back_with_much_to_fetch_sees_only_what_came_meanwhile(rig: Rig) -> None:
    rig.engine.run_once()
    for number in range(501):
        rig.server.publish("store", f"x{number}", {"id": f"x{number}", "zone": "Asia/Shanghai"})
    seen: list[tuple[Step, int, int]] = []

    with rig.engine.watched(lambda *told: seen.append(told)):
        rig.engine.run_once()

    assert seen == [(Step.FETCH, 500, 501), (Step.FETCH, 501, 501)]


def test_what_is_under_way_is_known_until_the_last_request_of_its_step(rig: Rig) -> None:
    for number in range(501):
        rig.server.publish("store", f"x{number}", {"id": f"x{number}", "zone": "Asia/Shanghai"})
    rig.sell(201)
    seen: list[UnderWay | None] = []

    with rig.engine.watched(lambda *_told: seen.append(rig.office.under_way)):
        rig.engine.run_once()

    assert seen == [UnderWay(Step.SEND, 200, 201), None, UnderWay(Step.FETCH, 500, 502), None]


def test_a_session_that_breaks_off_is_not_under_way_any_more(rig: Rig) -> None:
    rig.sell(401)
    rig.line.plan(Fault.NONE, Fault.NONE, Fault.LOSE_REQUEST)

    with pytest.raises(Offline):
        rig.engine.run_once()

    assert rig.known().acked_seq == 200 and rig.office.under_way is None


# ------------------------------------------------------------------ the line's state


def test_status_tells_since_when_the_line_is_down_and_that_it_is_back(rig: Rig) -> None:
    seen: list[SyncStatus] = []
    rig.engine.observe(seen.append)
    rig.line.offline = True
    for _ in range(2):
        with pytest.raises(Offline):
            rig.engine.run_once()
        rig.forward(minutes=1)
    down = rig.engine.status

    rig.line.heal()
    rig.engine.run_once()

    assert (down.online, down.offline_since, down.reason) == (False, START, "unreachable")
    up = rig.engine.status
    assert (up.online, up.offline_since, up.reason) == (True, None, "")
    assert up.last_sync_at == START + timedelta(minutes=2)
    assert [status.online for status in seen] == [False, True, True]


@pytest.mark.parametrize(
    ("status", "error"), [(401, KeyRefused), (426, ProtocolRefused), (422, Misunderstood)], ids=["key", "proto", "bug"]
)
def test_a_server_that_will_not_have_us_is_shown_as_what_it_is(rig: Rig, status: int, error: type[Exception]) -> None:
    rig.server.routes[HELLO_PATH] = lambda body: httpx.Response(status, json={"error": "no"})
    rig.sell(1)

    with pytest.raises(error):
        rig.engine.run_once()

    assert (rig.engine.status.reason != "", rig.states()) == (True, {"PENDING"})


def test_a_busy_server_does_not_make_us_offline(rig: Rig) -> None:
    rig.engine.run_once()
    rig.line.plan(Fault.BUSY)

    with pytest.raises(Busy):
        rig.engine.run_once()

    assert rig.engine.status.online


def test_the_clocks_difference_is_measured_and_kept(rig: Rig) -> None:
    rig.server.now_ms += 90_000

    rig.engine.run_once()

    assert (rig.known().clock_offset_ms, rig.engine.status.offset_ms) == (90_000, 90_000)
    assert rig.known().time_floor_ms == rig.server.now_ms
    assert rig.known().last_sync_at == START + timedelta(seconds=90)


def test_a_server_whose_clock_went_back_takes_back_no_time_that_was_told(rig: Rig) -> None:
    rig.engine.run_once()
    told = rig.server.now_ms
    rig.server.now_ms -= 60_000

    rig.engine.run_once()

    assert (rig.known().time_floor_ms, rig.known().clock_offset_ms) == (told, -60_000)


@pytest.mark.parametrize(("back_ms", "forgotten"), [(3_600_000, False), (3_600_001, True)])
def test_a_server_whose_clock_was_far_ahead_once_does_not_leave_the_till_there(
    rig: Rig, back_ms: int, forgotten: bool
) -> None:
    rig.server.now_ms += 10 * 365 * 86_400_000
    rig.engine.run_once()
    ahead = rig.server.now_ms
    rig.server.now_ms -= back_ms

    rig.engine.run_once()

    assert rig.known().time_floor_ms == (rig.server.now_ms if forgotten else ahead)


def test_what_both_sides_count_differently_is_reported(rig: Rig) -> None:
    rig.sell(1)
    rig.server.differences = [{"day": "2026-06-01", "field": "sales", "till": 1, "server": 0}]

    report = rig.engine.run_once()

    assert report.differences == (rig.server.differences[0],)
    assert rig.engine.status.differences == 1
    assert rig.server.messages(SANITY_PATH)[0]["days"] == {
        "2026-06-01": {"sales": 1, "refunds": 0, "tenders": {"cash": 100}, "discount_minor": 0}
    }


def test_a_comparison_that_got_no_answer_is_made_again(rig: Rig) -> None:
    rig.sell(1)
    rig.line.plan(Fault.NONE, Fault.NONE, Fault.NONE, Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        rig.engine.run_once()

    rig.engine.run_once()

    assert len(rig.server.messages(SANITY_PATH)) == 2


def test_what_was_sold_during_the_session_waits_for_the_next_comparison(rig: Rig) -> None:
    rig.sell(1)

    def sell_meanwhile(body: Any) -> httpx.Response:
        rig.sell(1)
        return httpx.Response(200, json={"records": [], "next": body["cursor"], "more": False})

    rig.engine.pull_now()
    rig.server.routes[PULL_PATH] = sell_meanwhile
    meanwhile = rig.engine.run_once()
    compared = len(rig.server.messages(SANITY_PATH))
    del rig.server.routes[PULL_PATH]
    rig.engine.run_once()

    assert (meanwhile.pending, compared) == (1, 0)
    assert [body["days"]["2026-06-01"]["sales"] for body in rig.server.messages(SANITY_PATH)] == [2]


def test_after_months_without_a_line_the_newest_days_are_compared(rig: Rig) -> None:
    for _ in range(32):
        rig.sell(1)
        rig.forward(days=1)

    rig.engine.run_once()

    days = sorted(rig.server.messages(SANITY_PATH)[0]["days"])
    assert (len(days), days[0], days[-1]) == (31, "2026-06-02", "2026-07-02")

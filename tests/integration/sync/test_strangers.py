"""Till and server that are not one any more: forked, restored, enrolled anew. Nothing is deleted or overwritten."""

from __future__ import annotations

import httpx
import pytest

from app.domain.ledger import Entry
from app.services.ports import Offline
from sync.hello import Stop, SyncStopped
from sync.protocol import HELLO_PATH, PUSH_PATH
from tests.fakes.transport import Fault
from tests.integration.sync.conftest import Rig


def test_a_server_that_knows_another_entry_under_our_number_stops_the_sync_and_deletes_nothing(rig: Rig) -> None:
    rig.sell(2)
    rig.engine.run_once()
    rig.sell(1)
    other = rig.server.entries[1]
    rig.server.entries[1] = Entry(1, 2, "x", "sale", 1, b"{}", other.prev_hash, b"\x01" * 32)

    with pytest.raises(SyncStopped) as caught:
        rig.engine.run_once()

    assert caught.value.stop is Stop.FORK
    assert (len(rig.outbox()), rig.engine.status.online, rig.engine.status.reason) == (3, False, "fork")


def test_a_fork_that_push_finds_stops_the_sync(rig: Rig) -> None:
    rig.sell(2)
    rig.line.plan(Fault.NONE, Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        rig.engine.push_now()
    rig.engine.pull_now()
    first = rig.server.entries[0]
    rig.server.entries[0] = Entry(1, 1, "x", "sale", 1, b"{}", first.prev_hash, b"\x01" * 32)

    with pytest.raises(SyncStopped) as caught:
        rig.engine.push_now()

    assert (caught.value.stop, rig.states()) == (Stop.FORK, {"PENDING"})


@pytest.mark.parametrize(
    ("acked", "stop"),
    [((2, "ab" * 32), Stop.FORK), ((2, ""), Stop.FORK), ((3, "ab" * 32), Stop.ROWS_LOST)],
    ids=["another hash", "no hash", "beyond our end"],
)
def test_an_acknowledgement_that_does_not_name_our_hash_moves_nothing(
    rig: Rig, acked: tuple[int, str], stop: Stop
) -> None:
    rig.sell(2)
    results = [{"seq": seq, "result": "OK"} for seq in (1, 2)]
    rig.server.routes[PUSH_PATH] = lambda body: httpx.Response(200, json={"acked": acked, "results": results})

    with pytest.raises(SyncStopped) as caught:
        rig.engine.push_now()

    assert (caught.value.stop, rig.states(), rig.known().acked_seq) == (stop, {"PENDING"}, 0)


def test_a_till_that_the_server_put_aside_sends_nothing_more(rig: Rig) -> None:
    rig.sell(1)
    rig.server.state = "FORK"

    with pytest.raises(SyncStopped) as caught:
        rig.engine.run_once()

    assert (caught.value.stop, rig.line.requests, rig.known().incarnation) == (Stop.FORK, [HELLO_PATH], 0)


def test_a_till_whose_file_is_damaged_says_so_and_sends_nothing_more(rig: Rig) -> None:
    rig.sell(1)
    rig.db.damaged = "a bit flipped"

    with pytest.raises(SyncStopped) as caught:
        rig.engine.run_once()

    assert (caught.value.stop, rig.line.requests) == (Stop.DAMAGED, [HELLO_PATH])
    assert (rig.server.messages(HELLO_PATH)[0]["db"], rig.engine.status.reason) == ("damaged", "damaged")


def test_a_till_that_was_enrolled_anew_elsewhere_stops(rig: Rig) -> None:
    rig.sell(1)
    rig.server.epoch = 2

    with pytest.raises(SyncStopped) as caught:
        rig.engine.run_once()

    assert (caught.value.stop, rig.states()) == (Stop.EPOCH, {"PENDING"})


def test_an_entry_whose_hash_the_server_finds_wrong_stops_the_sync_behind_what_is_sound(rig: Rig) -> None:
    rig.sell(3)
    rig.server.till = "t9"

    with pytest.raises(SyncStopped) as caught:
        rig.engine.run_once()

    assert (caught.value.stop, rig.states(), len(rig.server.messages(PUSH_PATH))) == (Stop.BROKEN_CHAIN, {"PENDING"}, 2)


def test_a_server_restored_from_a_backup_gets_again_what_it_lost(rig: Rig) -> None:
    rig.sell(5)
    rig.engine.run_once()
    rig.server.restore(2)
    rig.sell(1)

    report = rig.engine.run_once()

    assert (report.pushed, report.pending) == (4, 0)
    assert [entry.hash.hex() for entry in rig.server.entries] == rig.hashes()
    assert rig.known().incarnation == 2


def test_a_gap_that_only_push_notices_is_filled_from_where_the_server_is(rig: Rig) -> None:
    rig.sell(5)
    rig.engine.run_once()
    rig.server.restore(2)
    rig.sell(1)

    pushed = rig.engine.push_now()

    assert pushed.counted == 4
    assert [entry.hash.hex() for entry in rig.server.entries] == rig.hashes()


def test_a_restored_servers_feed_is_read_from_the_beginning(rig: Rig) -> None:
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})
    rig.engine.run_once()
    rig.server.incarnation += 1

    report = rig.engine.run_once()

    assert (report.pulled, rig.known().cursor) == (2, 2)


def test_a_feed_that_was_read_before_any_greeting_may_be_anothers_and_is_read_from_the_beginning(rig: Rig) -> None:
    """A file that is recovered pulls first; the server may be set back before it comes to greet."""
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})
    rig.engine.pull_first()
    rig.server.incarnation += 1

    report = rig.engine.run_once()

    assert (report.pulled, rig.known().cursor) == (2, 2)


def test_a_feed_that_ends_before_our_place_in_it_is_read_from_the_beginning(rig: Rig) -> None:
    """Somebody put an old copy of the server's database back, and nothing but the feed shows it."""
    rig.server.publish("store", "s2", {"id": "s2", "zone": "Asia/Urumqi"})
    rig.engine.run_once()
    del rig.server.feed["store", "s2"]
    rig.server.head = 1
    rig.engine.run_once()
    rig.server.publish("store", "s1", {"id": "s1", "zone": "Europe/Berlin"})

    rig.engine.run_once()

    with rig.db.read() as conn:
        zones = dict(conn.exec_driver_sql("SELECT id, zone FROM store").fetchall())
    assert (zones["s1"], rig.known().cursor) == ("Europe/Berlin", 2)


def test_the_server_learns_our_tail_only_from_who_knew_its_own(rig: Rig) -> None:
    rig.sell(2)
    rig.engine.run_once()

    rig.sell(1)
    rig.line.plan(Fault.NONE, Fault.LOSE_REQUEST)
    with pytest.raises(Offline):
        rig.engine.run_once()

    assert (rig.server.tail[0], rig.known().seen_seq) == (3, 3)

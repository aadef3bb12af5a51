"""Whatever the line does, after it heals every entry is at the server once, and every record at the till."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ledger import Entry
from app.services.ports import Busy, Offline
from app.store import meta
from sync.protocol import EntryResult
from tests.fakes.transport import Fault
from tests.integration.sync.conftest import Rig, make_rig

FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


class ProcessDied(BaseException):
    """Stand for the end of the process at a named point."""


def die_at(point: str, *, times: int = 1):  # type: ignore[no-untyped-def]
    left = itertools.count(times, -1)

    def probe(passed: str) -> None:
        if passed == point and next(left) > 0:
            raise ProcessDied

    return probe


def judge_some(entry: Entry) -> EntryResult:
    if entry.seq % 3 == 0:
        return EntryResult(seq=entry.seq, result="CONFLICT", code="unknown_sku")
    return EntryResult(seq=entry.seq, result="OK")


def assert_both_are_one(rig: Rig) -> None:
    assert [entry.hash.hex() for entry in rig.server.entries] == rig.hashes()
    assert rig.outbox() == [
        (seq, "PARKED", "CONFLICT unknown_sku") if seq % 3 == 0 else (seq, "ACKNOWLEDGED", "")
        for seq in range(1, len(rig.hashes()) + 1)
    ]
    with rig.db.read() as conn:
        zones = dict(conn.exec_driver_sql("SELECT id, zone FROM store").fetchall())
        assert meta.load(conn).cursor == rig.server.head
    assert zones == {
        record.key: record.record["zone"] for record in rig.server.feed.values() if record.record is not None
    }


@contextmanager
def fresh_rig() -> Iterator[Rig]:
    with TemporaryDirectory() as folder:
        rig = make_rig(Path(folder) / "t1.db")
        rig.server.judge = judge_some
        rig.server.publish("store", "s1", {"id": "s1", "zone": "Asia/Shanghai"})
        yield rig
        rig.db.close()


@pytest.mark.parametrize("place", range(4), ids=["hello", "push", "pull", "sanity"])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_anywhere_in_a_session_leaves_nothing_behind(rig: Rig, fault: Fault, place: int) -> None:
    rig.server.judge = judge_some
    rig.sell(4)
    rig.line.plan(*[Fault.NONE] * place, fault)
    with suppress(Offline, Busy):
        rig.engine.run_once()

    rig.sell(2)
    rig.line.heal()
    rig.engine.run_once()

    assert_both_are_one(rig)


actions = st.one_of(
    st.tuples(st.just("sell"), st.integers(1, 5)),
    st.tuples(st.just("publish"), st.integers(1, 4)),
    st.tuples(st.just("session"), st.lists(st.sampled_from(list(Fault)), max_size=8)),
    st.tuples(st.just("flush"), st.lists(st.sampled_from(list(Fault)), max_size=3)),
    st.tuples(st.just("die"), st.integers(1, 2)),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.lists(actions, min_size=1, max_size=10))
def test_any_sequence_of_faults_ends_with_equal_ledgers(story: list[tuple[str, object]]) -> None:
    zones = itertools.cycle(["Asia/Urumqi", "Asia/Shanghai", "Europe/Berlin"])
    with fresh_rig() as rig:
        for action, what in story:
            if action == "sell":
                rig.sell(what)  # type: ignore[arg-type]
            elif action == "publish":
                rig.server.publish("store", f"s{what}", {"id": f"s{what}", "zone": next(zones)})
            elif action == "restart":
                rig.restart()
            elif action == "die":
                rig.restart(probe=die_at("before_ack"))
                with suppress(Offline, Busy, ProcessDied):
                    rig.engine.run_once()
                rig.restart()
            else:
                rig.line.plan(*what)  # type: ignore[misc]
                with suppress(Offline, Busy):
                    rig.engine.run_once() if action == "session" else rig.engine.push_now()

        rig.line.heal()
        report = rig.engine.run_once()

        assert report.pending == 0
        assert_both_are_one(rig)


def test_death_between_answer_and_cursor_sends_the_same_again_and_books_it_once(rig: Rig) -> None:
    rig.server.judge = judge_some
    rig.sell(4)
    rig.wire(probe=die_at("before_ack"))
    with pytest.raises(ProcessDied):
        rig.engine.run_once()
    before = ([state for _, state, _ in rig.outbox()], len(rig.server.entries))

    rig.restart()
    report = rig.engine.run_once()

    assert before == (["PENDING"] * 4, 4)
    assert (report.pushed, report.conflicts, report.pending) == (4, 1, 0)
    assert_both_are_one(rig)

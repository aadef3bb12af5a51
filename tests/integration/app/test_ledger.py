"""The ledger in the till's file: append-only by triggers, chained, its outbox row with it, its projections derived."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.domain.ledger import genesis, verifies
from app.store import meta, projections
from app.store.database import TillDatabase
from app.store.ledger import Result, Stamp
from tests.fakes.memory_world import NOON
from tests.fakes.shop import K1, Shop, basket, card, cash
from tests.fakes.terminal import Habit


def append(database: TillDatabase, number: int, kind: str = "sale") -> None:
    with database.write() as tx:
        database.ledger.append(tx, kind, {"n": number}, stamp=Stamp(f"id-{number}", NOON, "amy"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[TillDatabase]:
    opened = TillDatabase.open(tmp_path / "till.db", till_id="T1", store_id="s1")
    yield opened
    opened.close()


def test_entries_are_numbered_from_one_and_each_builds_on_the_one_before(database: TillDatabase) -> None:
    for number in range(1, 4):
        append(database, number)

    with database.read() as conn:
        entries = database.ledger.since(conn, 0, limit=10)
        tail = database.ledger.tail(conn)
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.prev_hash for entry in entries] == [genesis("T1", 1), entries[0].hash, entries[1].hash]
    assert all(verifies(entry, "T1") for entry in entries)
    assert tail == (3, entries[2].hash)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body = x'00' WHERE seq = 1",
        "UPDATE entry SET operator = 'eve'",
        "DELETE FROM entry WHERE seq = 1",
        "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE seq = 1",
        "REPLACE INTO entry SELECT epoch, seq, 'other', kind, schema, x'00', prev_hash, hash, 0, 0, '', '' FROM entry",
        "DELETE FROM outbox",
    ],
)
def test_the_database_refuses_every_change_of_what_was_written(database: TillDatabase, statement: str) -> None:
    append(database, 1)

    with pytest.raises(IntegrityError, match=r"append-only|never dropped"), database.write() as tx:
        tx.exec_driver_sql(statement)

    with database.read() as conn:
        assert database.ledger.verify(conn) == []


def test_an_entry_and_its_place_in_the_outbox_are_there_together_or_not_at_all(database: TillDatabase) -> None:
    append(database, 1)

    with pytest.raises(ZeroDivisionError), database.write() as tx:
        database.ledger.append(tx, "sale", {}, stamp=Stamp("id-2", NOON))
        _ = 1 // 0

    with database.read() as conn:
        assert database.ledger.tail(conn)[0] == 1
        assert database.ledger.counts(conn) == (1, 0)


def test_many_threads_append_without_a_gap(database: TillDatabase) -> None:
    threads = [
        threading.Thread(target=lambda t=t: [append(database, 100 * t + n) for n in range(20)])  # type: ignore[misc]
        for t in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with database.read() as conn:
        assert database.ledger.tail(conn)[0] == 80
        assert database.ledger.verify(conn) == []


def test_acknowledged_entries_leave_the_outbox_and_a_parked_one_stays_in_sight(database: TillDatabase) -> None:
    for number in range(1, 5):
        append(database, number)

    with database.write() as tx:
        database.ledger.settle(tx, 3, [Result(2, "PARKED", "CONFLICT unknown_sku")])
    with database.read() as conn:
        first = database.ledger.counts(conn)
    with database.write() as tx:
        database.ledger.settle(tx, 4)

    with database.read() as conn:
        assert (first, database.ledger.counts(conn)) == ((1, 1), (0, 1))


def test_a_result_beyond_the_acknowledged_prefix_changes_nothing(database: TillDatabase) -> None:
    for number in range(1, 4):
        append(database, number)

    with database.write() as tx:
        database.ledger.settle(tx, 1, [Result(2, "PARKED", "CONFLICT unknown_sku")])

    with database.read() as conn:
        assert database.ledger.counts(conn) == (2, 0)


def busy_day(shop: Shop) -> None:
    """Sell by cash, card and coupon, fail, stay without an answer, cancel, refund here and at the server."""
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    shop.sell("cash", "A", "B")
    shop.sell("card", "B", tenders=(card(6_000),))
    shop.sell("coupon", "A", member="m1", use=["k1"])
    shop.terminal.next(Habit.DECLINES)
    shop.till.checkout("failed", basket("A"))
    shop.till.pay("failed", (card(10_000),))
    shop.till.refund("r0", "cash", None)
    shop.till.head_office.flush()
    shop.till.refund("r1", "coupon", None)
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    shop.till.checkout("unknown", basket("A", "A"))
    shop.till.pay("unknown", (card(15_000), cash(5_000)))
    shop.till.receipt_shown("card")
    shop.till.checkout("open", basket("B"))


def test_orders_and_refunds_are_what_the_ledger_says(shop: Shop) -> None:
    busy_day(shop)

    with shop.till.database.write() as tx:
        drift = projections.rebuild(tx, shop.till.database.ledger)

    assert drift == []


def test_orders_and_refunds_that_were_lost_are_made_anew_from_the_ledger(shop: Shop) -> None:
    busy_day(shop)
    with shop.till.database.write() as tx:
        before = rows(tx)
        tx.exec_driver_sql("DELETE FROM orders WHERE id NOT IN ('open')")
        tx.exec_driver_sql("DELETE FROM refund")

    with shop.till.database.write() as tx:
        drift = projections.rebuild(tx, shop.till.database.ledger)
        after = rows(tx)

    assert len(drift) == 7
    cancelled = [row for row in before if row[1] == "CANCELLED"]
    assert [row for row in after if row[1] != "CANCELLED"] == [row for row in before if row not in cancelled]
    assert {row[0] for row in after} == {row[0] for row in before}


def rows(tx: Connection) -> list[tuple[object, ...]]:
    """Read orders and refunds whole, but for whether their receipts were shown: no entry says that."""
    found = tx.exec_driver_sql(
        "SELECT id, state, attempt, held, content, member_id, lines, quote, tenders, change_minor, payment, entry_seq, "
        "entry_epoch, updated_at FROM orders ORDER BY id"
    ).fetchall()
    refunds = tx.exec_driver_sql(
        "SELECT id, 'refund', order_id, content, request, body, entry_seq, entry_epoch, updated_at FROM refund "
        "ORDER BY id"
    ).fetchall()
    return [tuple(row) for row in (*found, *refunds)]


def test_an_unknown_payment_can_be_settled_from_the_ledger_alone(shop: Shop) -> None:
    busy_day(shop)
    with shop.till.database.write() as tx:
        tx.exec_driver_sql("DELETE FROM orders WHERE id = 'unknown'")
        projections.rebuild(tx, shop.till.database.ledger)

    paid = shop.till.resolve("unknown")

    assert paid.state == "PAID"  # type: ignore[union-attr]
    assert paid.tenders == (card(15_000), cash(5_000))  # type: ignore[union-attr]


def test_drift_is_named_and_repaired(shop: Shop) -> None:
    shop.sell("o1", "A")
    with shop.till.database.write() as tx:
        tx.exec_driver_sql("UPDATE orders SET change_minor = 5")

    with shop.till.database.write() as tx:
        first = projections.rebuild(tx, shop.till.database.ledger)
        second = projections.rebuild(tx, shop.till.database.ledger)

    assert first == ["order o1"]
    assert second == []


def test_the_mark_beside_the_file_follows_every_entry(database: TillDatabase) -> None:
    append(database, 1)
    append(database, 2)

    mark = database._lock.read_mark()

    with database.read() as conn:
        _, digest = database.ledger.tail(conn)
    assert f'"seq": 2, "hash": "{digest[:8].hex()}"' in mark


def test_settings_that_are_written_are_read_back_whatever_they_look_like(database: TillDatabase) -> None:
    with database.write() as tx:
        meta.put(tx, acked_hash="00", acked_seq=7, last_sync_at_ms=None)

    with database.read() as conn:
        known = meta.load(conn)
    assert (known.acked_hash, known.acked_seq, known.last_sync_at_ms) == ("00", 7, None)

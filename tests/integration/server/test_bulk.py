"""Bulk inserts and lookups write and find what Core's own would."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, insert, select
from sqlalchemy.exc import IntegrityError

from server.db.bulk import COPIED_FROM, BulkInsert, Present
from server.db.engine import Database
from server.db.schema import feed, metadata, order_tender, orders, product

AT = datetime(2026, 6, 1, 2, 0, 0, 123000, tzinfo=UTC)


@pytest.fixture
def conn(server_url: URL | None, tmp_path: Path) -> Iterator[Connection]:
    """Open either database in the middle of a write."""
    database = Database(server_url or tmp_path / "server.db")
    with database.migration_connection() as connection, connection.begin():
        if server_url is None:
            metadata.create_all(connection)
        yield connection
    database.close()


COLUMNS = ("id", "attempt", "state", "store_id", "till_id", "lines", "quote", "payable_minor", "sold_at", "received_at")


FEW, MANY = 2, COPIED_FROM + 1


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_row_is_bound_by_the_types_of_its_columns(conn: Connection, count: int) -> None:
    lines = [{"sku": "猫粮", "qty_milli": 1000, "note": None, "by_weight": False}]
    values = (1, "PAID", "s\\1\t\n", "t1", lines, {"gross_minor": 2**53}, 100, None, AT)
    rows = [(f"o{number}", *values) for number in range(count)]

    BulkInsert(orders, *COLUMNS).run(conn, rows)

    found = conn.execute(select(*(orders.c[name] for name in COLUMNS)).order_by(orders.c.id)).all()
    assert [tuple(row) for row in found] == rows


@pytest.mark.parametrize("count", [1, MANY])
def test_it_writes_what_core_writes(conn: Connection, count: int) -> None:
    values = ("o1", 1, "PAID", "s1", "t1", [{"a": 1}], {}, 100, AT, AT)
    conn.execute(insert(orders), [dict(zip(COLUMNS, values, strict=True))])

    BulkInsert(orders, *COLUMNS).run(conn, [(f"o{number}", *values[1:]) for number in range(2, count + 2)])

    first, second, *_ = conn.execute(select(orders).order_by(orders.c.id)).mappings().all()
    assert {**first, "id": ""} == {**second, "id": ""}


def test_no_rows_are_no_call(conn: Connection) -> None:
    BulkInsert(order_tender, "order_id", "position", "type", "amount_minor").run(conn, [])

    assert conn.execute(select(order_tender)).all() == []


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_the_database_refuses_is_an_integrity_error_that_tells_no_values(conn: Connection, count: int) -> None:
    bulk = BulkInsert(product, "sku", "name", "price_minor")
    savepoint = conn.begin_nested()

    with pytest.raises(IntegrityError) as refused:
        bulk.run(conn, [("s3cret", "A", 1)] * count)
    savepoint.rollback()

    assert "s3cret" not in str(refused.value)
    assert conn.execute(select(product)).all() == []


@pytest.mark.parametrize("count", [FEW, MANY])
def test_rows_are_numbered_in_their_order(conn: Connection, count: int) -> None:
    keys = [f"k{number}" for number in range(count)]

    BulkInsert(feed, "kind", "key").run(conn, [("coupon", key) for key in keys])

    assert list(conn.execute(select(feed.c.key).order_by(feed.c.seq)).scalars()) == keys


def test_columns_are_named_in_the_order_of_the_table(conn: Connection) -> None:
    with pytest.raises(AssertionError):
        BulkInsert(product, "name", "sku", "price_minor").run(conn, [("A", "A", 1)])


@pytest.mark.parametrize("names", [[], ["A"], ["A", "B", "C"], [f"n{i}" for i in range(2000)] + ["A"]])
def test_names_that_are_there_are_found(conn: Connection, names: list[str]) -> None:
    conn.execute(insert(product), [{"sku": sku, "name": sku, "price_minor": 1} for sku in ("A", "B", '"quoted"')])

    found = Present(product.c.sku).among(conn, names)

    assert found == {"A", "B"} & set(names)


def test_names_are_found_only_in_rows_that_meet_the_conditions(conn: Connection) -> None:
    conn.execute(
        insert(product),
        [
            {"sku": "A", "name": "A", "price_minor": 1},
            {"sku": "B", "name": "B", "price_minor": 0},
        ],
    )

    assert Present(product.c.sku, product.c.price_minor > 0).among(conn, ["A", "B"]) == {"A"}

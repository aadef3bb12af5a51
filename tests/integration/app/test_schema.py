"""The guards of the till's schema: what its database refuses, whichever code asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import CheckConstraint, UniqueConstraint
from sqlalchemy.exc import IntegrityError

from app.store.schema import metadata
from tests.fakes.shop import K1, K2, Shop

COPY = "INSERT INTO entry SELECT epoch, {seq}, {id}, kind, schema, body, prev_hash, hash, 0, 0, '', '' FROM entry"

ROWS = (
    "INSERT INTO lease (id, account_id, asked, qty, state) VALUES ('l1', 'uses:p1', 1, 1, 'OPEN')",
    "INSERT INTO lease_coupon (coupon_id, lease_id, code, request) "
    "VALUES ('k8', 'l1', '8', 'r1'), ('k9', 'l1', '9', 'r2')",
    "INSERT INTO home (coupon_id, version, state) VALUES ('k1', 2, 'HOME')",
)

# Each guard with the statement that it refuses; the triggers are tried in test_ledger.
REFUSED = {
    "ck_entry_seq": COPY.format(seq=0, id="'other'"),
    "uq_entry_entry_id": COPY.format(seq=2, id="entry_id"),
    "ck_lease_used": "UPDATE lease SET used = 1, held = 1",
    "ck_lease_state": "UPDATE lease SET state = 'LOST'",
    "uq_lease_coupon_request": "UPDATE lease_coupon SET request = 'r1'",
    "ck_home_state": "UPDATE home SET state = 'LOST'",
    "ck_home_order_when_held": "UPDATE home SET state = 'USED'",
    "uq_coupon_code_digest": "UPDATE coupon SET code_digest = (SELECT code_digest FROM coupon WHERE id = 'k1')",
}


def _says() -> Iterator[tuple[str, str]]:
    """Yield the name of each guard, and what SQLite says when it is broken: it calls a unique one by its columns."""
    for table in metadata.tables.values():
        for each in table.constraints:
            if isinstance(each, CheckConstraint):
                yield str(each.name), f"CHECK constraint failed: {each.name}"
            elif isinstance(each, UniqueConstraint):
                columns = ", ".join(f"{table.name}.{column.name}" for column in each.columns)
                yield str(each.name), f"UNIQUE constraint failed: {columns}"


SAYS = dict(_says())


@pytest.mark.parametrize("guard", REFUSED)
def test_the_tills_database_refuses_what_breaks_a_guard(shop: Shop, guard: str) -> None:
    shop.coupon("k1", K1)
    shop.coupon("k2", K2)
    shop.till.head_office.refresh()
    shop.sell("o1", "A")
    with shop.till.database.write() as tx:
        for row in ROWS:
            tx.exec_driver_sql(row)

    with pytest.raises(IntegrityError) as refused, shop.till.database.write() as tx:
        tx.exec_driver_sql(REFUSED[guard])

    assert str(refused.value.orig) == SAYS[guard]


def test_every_guard_of_the_tills_schema_is_tried_here() -> None:
    assert sorted(REFUSED) == sorted(SAYS)

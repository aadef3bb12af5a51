"""The guards of the schema: what the database refuses, whichever code asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import CheckConstraint, Connection, Index, UniqueConstraint, text
from sqlalchemy.exc import IntegrityError

from server.db.schema import metadata
from tests.fakes.headquarters import Headquarters

# One sound row of each table that a guard looks at.
ROWS = (
    "INSERT INTO campaign (id, kind, state, version, snapshot_id) VALUES ('c1', 'coupon', 'ACTIVE', 1, 'c1/1')",
    "INSERT INTO snapshot (id, campaign_id, rule) VALUES ('c1/1', 'c1', '{}')",
    "INSERT INTO admission (campaign_id, generation, state, since_at) VALUES ('c1', 1, 'OPEN', 0)",
    "INSERT INTO account (id, kind, total, available, held) VALUES ('stock:c1', 'stock', 10, 9, 1)",
    "INSERT INTO transfer (id, account_id, source, target, amount, state, reason, created_at) "
    "VALUES ('move', 'stock:c1', 'available', 'spent', 1, 'PENDING', 'test', 0)",
    "INSERT INTO coupon (id, campaign_id, snapshot_id, member_id, member_nth, code, code_digest, state, source, "
    "granted_at, granted_on) VALUES ('k1', 'c1', 'c1/1', 'm1', 1, 'code1', 'a', 'ISSUED', 'app', 0, '2026-06-01'), "
    "('k2', 'c1', 'c1/1', 'm1', 2, 'code2', 'b', 'ISSUED', 'app', 0, '2026-06-01')",
    "INSERT INTO issue_task (id, campaign_id, state, chunk_size, total, granted, failed, created_at, created_by) "
    "VALUES ('b1', 'c1', 'RUNNING', 2, 2, 1, 0, 0, 'test')",
    "INSERT INTO issue_chunk (task_id, number, state, first_line, size, granted, failed, members) "
    "VALUES ('b1', 1, 'OPEN', 1, 2, 1, 0, '[]')",
    "INSERT INTO orders (id, attempt, state, store_id, till_id, lines, quote, payable_minor, received_at) "
    "VALUES ('o1', 1, 'PAID', 's1', 't1', '[]', '{}', 100, 0), ('o2', 1, 'PAID', 's1', 't1', '[]', '{}', 100, 0)",
    "INSERT INTO order_line (order_id, number, sku, qty_milli, gross_minor, discount_minor, net_minor) "
    "VALUES ('o1', 1, 'food', 2000, 100, 10, 90)",
    "INSERT INTO redemption (order_id, position, campaign_id, coupon_id, discount_minor) "
    "VALUES ('o1', 0, 'c1', 'k1', 10), ('o2', 0, 'c1', 'k2', 10)",
    "INSERT INTO product (sku, name, price_minor, barcode) VALUES ('food', 'Food', 100, '1'), ('toy', 'Toy', 100, '2')",
    "INSERT INTO finding (kind, key, detail, opened_at) VALUES ('sanity', 'a', '{}', 0), ('sanity', 'b', '{}', 0)",
    "INSERT INTO till (id, store_id) VALUES ('t1', 's1')",
    "INSERT INTO shut_till (till_id, access, reason, since_at) VALUES ('t1', 'SUSPENDED', '', 0)",
    "INSERT INTO device (id, till_id, public_key, certificate, enrolled_at, replaced_at) "
    "VALUES ('d1', 't1', '', '', 0, NULL), ('d2', 't1', '', '', 0, 1)",
    "INSERT INTO enrolment_code (id, till_id, store_id, until_at, tries) VALUES ('n1', 't1', 's1', 0, 4)",
    "INSERT INTO api_key (id, digest, scope, name, created_at) VALUES ('x1', 'a', 'till', 'x', 0), "
    "('x2', 'b', 'till', 'x', 0)",
    "INSERT INTO enrolment (id, till_id, epoch, key_id, from_epoch, from_state, known_seq, tail_seq, last_seq, "
    "enrolled_at) VALUES ('n1', 't1', 2, 'x1', 1, 'OK', 0, 0, 0, 0), ('n2', 't1', 3, 'x2', 2, 'OK', 0, 0, 0, 0)",
    "INSERT INTO lease (id, till_id, epoch, account_id, qty, used, state, granted_at) "
    "VALUES ('l1', 't1', 1, 'stock:c1', 2, 1, 'OPEN', 0)",
    "INSERT INTO lease_coupon (coupon_id, lease_id, code) VALUES ('k8', 'l1', 'code8'), ('k9', 'l1', 'code9')",
    "INSERT INTO ledger_entry (till_id, epoch, seq, entry_id, kind, schema, body, hash, result, received_at) "
    "VALUES ('t1', 1, 1, 'e1', 'sale', 1, '', '', 'OK', 0), ('t1', 1, 2, 'e2', 'sale', 1, '', '', 'OK', 0)",
)

# Each guard with the statement that it refuses.
REFUSED = {
    "ck_account_equation": "UPDATE account SET spent = 1 WHERE id = 'stock:c1'",
    "ck_account_total": "UPDATE account SET total = -1, available = 0, held = 0, over = 1 WHERE id = 'stock:c1'",
    "ck_account_over": "UPDATE account SET over = -1, available = 8 WHERE id = 'stock:c1'",
    "ck_account_available": "UPDATE account SET available = -1, held = 11 WHERE id = 'stock:c1'",
    "ck_account_held": "UPDATE account SET available = 11, held = -1 WHERE id = 'stock:c1'",
    "ck_account_reserved": "UPDATE account SET available = 10, reserved = -1 WHERE id = 'stock:c1'",
    "ck_account_leased": "UPDATE account SET available = 10, leased = -1 WHERE id = 'stock:c1'",
    "ck_account_spent": "UPDATE account SET available = 10, spent = -1 WHERE id = 'stock:c1'",
    "ck_account_stranded": "UPDATE account SET available = 10, stranded = -1 WHERE id = 'stock:c1'",
    "ck_admission_state": "UPDATE admission SET state = 'LOST'",
    "ck_transfer_amount": "UPDATE transfer SET amount = 0 WHERE id = 'move'",
    "ck_transfer_state": "UPDATE transfer SET state = 'DONE' WHERE id = 'move'",
    "ck_lease_used": "UPDATE lease SET used = 3",
    "ck_lease_state": "UPDATE lease SET state = 'LOST'",
    "uq_lease_coupon_code": "UPDATE lease_coupon SET code = 'code8' WHERE coupon_id = 'k9'",
    "ck_coupon_state": "UPDATE coupon SET state = 'LOST' WHERE id = 'k1'",
    "ck_coupon_order_when_held": "UPDATE coupon SET state = 'USED' WHERE id = 'k1'",
    "uq_coupon_campaign_id_member_id_member_nth": "UPDATE coupon SET member_nth = 1 WHERE id = 'k2'",
    "uq_coupon_code": "UPDATE coupon SET code = 'code1' WHERE id = 'k2'",
    "uq_coupon_code_digest": "UPDATE coupon SET code_digest = 'a' WHERE id = 'k2'",
    "ck_issue_task_counts": "UPDATE issue_task SET failed = 2",
    "ck_issue_task_chunk_size": "UPDATE issue_task SET chunk_size = 0",
    "ck_issue_chunk_counts": "UPDATE issue_chunk SET failed = 2",
    "ck_issue_chunk_done_is_all": "UPDATE issue_chunk SET state = 'DONE'",
    "ck_issue_chunk_state": "UPDATE issue_chunk SET state = 'LOST', failed = 1",
    "ck_orders_refunded": "UPDATE orders SET refunded_minor = 101 WHERE id = 'o1'",
    "ck_order_line_net": "UPDATE order_line SET net_minor = 91",
    "ck_order_line_refunded": "UPDATE order_line SET refunded_milli = 2001",
    "one_live_use": "UPDATE redemption SET coupon_id = 'k1' WHERE order_id = 'o2'",
    "ck_product_price": "UPDATE product SET price_minor = -1 WHERE sku = 'food'",
    "uq_product_barcode": "UPDATE product SET barcode = '1' WHERE sku = 'toy'",
    "ck_finding_state": "UPDATE finding SET state = 'LOST' WHERE key = 'a'",
    "ck_finding_decided": "UPDATE finding SET state = 'DECIDED', decision = 'accept' WHERE key = 'a'",
    "uq_finding_kind_key": "UPDATE finding SET key = 'a' WHERE key = 'b'",
    "uq_enrolment_key_id": "UPDATE enrolment SET key_id = 'x1' WHERE id = 'n2'",
    "uq_enrolment_till_id_epoch": "UPDATE enrolment SET epoch = 2 WHERE id = 'n2'",
    "uq_feed_kind_key": "INSERT INTO feed (kind, key) SELECT kind, key FROM feed LIMIT 1",
    "uq_ledger_entry_entry_id": "UPDATE ledger_entry SET entry_id = 'e1' WHERE seq = 2",
    "ck_chain_one_chain": "UPDATE chain SET id = 2",
    "ck_code_key_one_code_key": "UPDATE code_key SET id = 2",
    "ck_chain_key_one_chain_key": "UPDATE chain_key SET id = 2",
    "ck_shut_till_access": "UPDATE shut_till SET access = 'OPEN'",
    "ck_enrolment_code_tries": "UPDATE enrolment_code SET tries = 6",
    "uq_device_of_till": "UPDATE device SET replaced_at = NULL",
    "ck_risk_budget_limit": "INSERT INTO risk_budget (till_id, limit_minor, changed_at) VALUES ('t1', -1, 0)",
    "ck_risk_use_amount": "INSERT INTO risk_use (order_id, coupon_id, till_id, amount_minor, approval_id, approved_by, "
    "reason, lost, told_at) VALUES ('o1', 'k1', 't1', 0, 'a1', 'x', '', FALSE, 0)",
    "uq_outbox_topic_key": "INSERT INTO outbox (topic, key, body, created_at, due_at, next_at) "
    "VALUES ('alert', 'a', '{}', 0, 0, 0), ('alert', 'a', '{}', 0, 0, 0)",
}

# Beyond them, in the same columns.
AT_THE_BOUNDARY = (
    "UPDATE account SET available = 0, held = 10 WHERE id = 'stock:c1'",
    "UPDATE coupon SET state = 'USED', order_id = 'o1' WHERE id = 'k1'",
    "UPDATE lease SET used = 2",
    "UPDATE finding SET state = 'DECIDED', decision = 'accept', decided_by = 'x' WHERE key = 'a'",
    "UPDATE issue_chunk SET state = 'DONE', failed = 1",
    "UPDATE issue_task SET failed = 1",
    "UPDATE orders SET refunded_minor = 100 WHERE id = 'o1'",
    "UPDATE order_line SET refunded_milli = 2000",
    "UPDATE redemption SET coupon_id = 'k1', reversed = TRUE WHERE order_id = 'o2'",
    "UPDATE redemption SET coupon_id = 'k1', conflict = TRUE WHERE order_id = 'o2'",
    "UPDATE redemption SET coupon_id = NULL",
    "UPDATE product SET price_minor = 0, barcode = NULL",
    "INSERT INTO risk_budget (till_id, limit_minor, changed_at) VALUES ('t1', 0, 0)",
)


def _run(headquarters: Headquarters, statement: str) -> None:
    def write(conn: Connection) -> None:
        for row in (*ROWS, statement):
            conn.execute(text(row))

    headquarters.database.write(write)


def _says() -> Iterator[tuple[str, str]]:
    """Yield the name of each guard, and what SQLite says when it is broken: it calls a unique one by its columns."""
    for table in metadata.tables.values():
        for each in (*table.constraints, *table.indexes):
            if isinstance(each, CheckConstraint):
                yield str(each.name), f"CHECK constraint failed: {each.name}"
            elif isinstance(each, UniqueConstraint) or (isinstance(each, Index) and each.unique):
                columns = ", ".join(f"{table.name}.{column.name}" for column in each.columns)
                yield str(each.name), f"UNIQUE constraint failed: {columns}"


SAYS = dict(_says())


def _named(error: BaseException | None) -> str:
    """Return what the database says of the broken guard; PostgreSQL names it."""
    return str(error.diag.constraint_name if isinstance(error, psycopg.Error) else error)


@pytest.mark.parametrize("guard", REFUSED)
def test_the_database_refuses_what_breaks_a_guard(headquarters: Headquarters, guard: str) -> None:
    with pytest.raises(IntegrityError) as refused:
        _run(headquarters, REFUSED[guard])

    assert _named(refused.value.orig) in (guard, SAYS[guard])


@pytest.mark.parametrize("statement", AT_THE_BOUNDARY)
def test_what_just_keeps_a_guard_is_written(headquarters: Headquarters, statement: str) -> None:
    _run(headquarters, statement)


def test_every_guard_of_the_schema_is_tried_here() -> None:
    assert sorted(REFUSED) == sorted(SAYS)

"""The audit: clean after a whole day of everything, and each planted fault is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import Connection, create_engine

from app.domain.quote_json import write_refund
from app.domain.refunds import RefundLine, SoldOrder, decide_refund
from server.db.engine import Database
from server.jobs import run_due
from server.jobs.issuing import work_off
from server.services.audit import SHOWN, AuditReport, audit
from server.services.audit_checks import checks
from server.services.context import Context
from tests.fakes.counter import Counter, cash, coupon, covers, open_counter, stored_value
from tests.fakes.headquarters import Headquarters
from tests.postgres.cluster import Cluster
from tests.postgres.schema import lend_migrated


class World:
    """A chain after a day of everything: held, unknown, paid, refunded, cancelled, in conflict."""

    def __init__(self, headquarters: Headquarters) -> None:
        self.hq = headquarters
        self.counter = open_counter(headquarters)
        self.coupons: dict[str, str] = {}
        self._furnish()
        self._sell()

    def _furnish(self) -> None:
        hq = self.hq
        hq.campaign("c1", stock=20, budget="100.00", per_member=9, per_member_per_day=9)
        hq.campaign("auto", kind="automatic", benefit={"type": "amount_off", "amount": "1.00"}, budget="50.00")
        hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "100.00"}, status=200)
        card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
        hq.call("POST", "/v1/punch-cards", card, status=200)
        hq.campaign("batch", stock=2)
        issue = {"task": "b1", "campaign": "batch", "members": ["m1", "nobody"], "chunk": 1}
        hq.call("POST", "/v1/issues", issue, status=201)
        work_off(hq.services)
        hq.call("PUT", "/v1/tills/t1/risk", {"amount": "5.00", "by": "Hana", "reason": "fair"}, status=200)
        hq.campaign("lent", stock=3)
        self.counter.lease("stock", "lent", 2)
        Counter(hq, "t2").lease("stock", "lent", 1, lease="l2")
        hq.give_up("strand", "t2")
        self.coupons = {name: coupon(hq, request=name) for name in ("paid", "held", "unknown", "back", "free")}
        self.counter.take_home(self.coupons["free"])

    def _sell(self) -> None:
        counter, mine = self.counter, self.coupons
        lines = ("A", ("WASH", 2000))
        basket = counter.basket("paid", *lines, member="m1", use=(mine["paid"],), covers=covers("p1", 2))
        counter.hold_and_sell(basket, tenders=[stored_value(5000), cash(16900 - 5000)])
        counter.hold(counter.basket("held", "A", member="m1", use=(mine["held"],)), value_minor=1000, status=200)
        counter.hold(counter.basket("unknown", "A", member="m1", use=(mine["unknown"],)), status=200)
        payment = {"id": "pay1", "type": "card", "amount_minor": 8900}
        counter.append("payment_unknown", counter.body("unknown", payment=payment))
        counter.hold_and_sell(counter.basket("back", "A", ("B", 2000), member="m1", use=(mine["back"],)))
        counter.sell(counter.basket("plain", "A", promotions=False))
        counter.cancel("never")
        verdicts = counter.verdicts()
        assert [result for result, _ in verdicts] == ["OK"] * 5, verdicts
        answer = counter.refund("back", (2, 1000), request="r1", status=200)
        counter.append("refund", counter.body("back", refund="r1", body=answer["refund"], decided_by="server"))
        counter.push()

    def report(self, **keys: bool) -> AuditReport:
        return self.hq.services.read(lambda conn, ctx: audit(conn, ctx, **keys))  # type: ignore[arg-type]


@pytest.fixture
def world(headquarters: Headquarters) -> World:
    return World(headquarters)


class Copy(Protocol):
    """A copy of the sound chain's database, to be broken behind everybody's back, constraints off."""

    def plant(self, *statements: str) -> None:
        """Run the statements, each of which changes something."""

    def report(self) -> AuditReport:
        """Audit what is there now."""


class CopiedFile:
    """Break a file of one's own."""

    def __init__(self, path: Path, context: Context) -> None:
        self.path, self.context = path, context

    def plant(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as conn:
            conn.execute("PRAGMA ignore_check_constraints = ON")
            for statement in statements:
                done = conn.execute(statement)
                assert done.rowcount, f"nothing was changed by {statement}"

    def report(self) -> AuditReport:
        engine = create_engine(f"sqlite:///{self.path}")
        with engine.connect() as conn:
            report = audit(conn, self.context)
        engine.dispose()
        return report


class OpenTransaction:
    """Break what is never committed."""

    def __init__(self, conn: Connection, context: Context) -> None:
        self.conn, self.context = conn, context

    def plant(self, *statements: str) -> None:
        for statement in statements:
            done = self.conn.exec_driver_sql(statement)
            assert done.rowcount, f"nothing was changed by {statement}"

    def report(self) -> AuditReport:
        return audit(self.conn, self.context)


# What lets PostgreSQL take the same statements: SQLite's two functions, its name of a type, and 1 for true.
SAME_WORDS = r"""
    CREATE DOMAIN blob AS bytea;
    CREATE FUNCTION zeroblob(n int) RETURNS bytea LANGUAGE sql RETURN decode(repeat('00', n), 'hex');
    CREATE FUNCTION json_set(old json, path text, new int) RETURNS json LANGUAGE sql RETURN
        jsonb_set(old::jsonb, regexp_split_to_array(trim(both '$.[]' from path), '[].[]+'), to_jsonb(new))::json;
    CREATE FUNCTION json_set(old json, path text, new text) RETURNS json LANGUAGE sql RETURN
        jsonb_set(old::jsonb, regexp_split_to_array(trim(both '$.[]' from path), '[].[]+'), to_jsonb(new))::json;
    UPDATE pg_cast SET castcontext = 'a' WHERE castsource = 'int'::regtype AND casttarget = 'bool'::regtype;
"""
NO_CHECKS = """
    SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || conname FROM pg_constraint
    WHERE contype = 'c' AND connamespace = 'public'::regnamespace
"""


def _live(hq: Headquarters) -> Context:
    """Live the day once for all tests that break it."""
    hq.furnish()
    World(hq)
    context = hq.context()
    hq.close()
    return context


@pytest.fixture(scope="module")
def sound_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Context]:
    folder = tmp_path_factory.mktemp("sound")
    context = _live(Headquarters(folder))
    return (folder / "server.db").read_bytes(), context


@pytest.fixture(scope="module")
def sound_server(
    tmp_path_factory: pytest.TempPathFactory, postgres: Cluster
) -> Iterator[tuple[Callable[[], AbstractContextManager[Connection]], Context]]:
    with lend_migrated(postgres) as url:
        context = _live(Headquarters(tmp_path_factory.mktemp("sound"), url=url))
        database = Database(url)
        with database.migration_connection() as conn, conn.begin():
            conn.exec_driver_sql(SAME_WORDS)
            for drop in conn.exec_driver_sql(NO_CHECKS).scalars().all():
                conn.exec_driver_sql(drop)
        yield database.migration_connection, context
        database.close()


@pytest.fixture
def file(sound_file: tuple[bytes, Context], tmp_path: Path) -> CopiedFile:
    path = tmp_path / "server.db"
    path.write_bytes(sound_file[0])
    return CopiedFile(path, sound_file[1])


@pytest.fixture(params=["sqlite", "postgres"])
def copy(request: pytest.FixtureRequest) -> Iterator[Copy]:
    if request.param == "sqlite":
        yield request.getfixturevalue("file")
        return
    connect, context = request.getfixturevalue("sound_server")
    with connect() as conn:
        outer = conn.begin()
        conn.exec_driver_sql("SET LOCAL session_replication_role = replica")  # neither references nor triggers
        yield OpenTransaction(conn, context)
        outer.rollback()


# ------------------------------------------------------------------ the sound chain


def test_a_day_of_everything_is_clean(world: World) -> None:
    report = world.report()

    assert report.violations == ()
    assert (report.clean, report.count, report.lines[-1]) == (True, 0, "audit: clean")


def test_the_equation_of_each_campaign_card_and_balance_is_printed(world: World) -> None:
    lines = world.report().lines

    assert "campaign c1: total 20 + over 0 = available 15 + reserved 0 + leased 0 + granted 5 + stranded 0" in lines
    assert (
        "budget c1: total 100.00 + over 0.00 = available 60.00 + held 20.00 + reserved 0.00 + leased 0.00 "
        "+ given 20.00 + stranded 0.00" in lines
    )
    assert "card p1: total 5 + over 0 = available 4 + held 0 + reserved 0 + leased 0 + used 1 + stranded 0" in lines
    assert (
        "balance m1: total 100.00 + over 0.00 = available 40.00 + held 10.00 + reserved 0.00 + leased 0.00 "
        "+ paid 50.00 + stranded 0.00" in lines
    )


def test_it_stays_clean_after_timeouts_and_the_rest_of_the_refund(world: World) -> None:
    world.hq.clock.pass_time(hours=1)
    run_due(world.hq.services)
    world.counter.refund("back", request="r2", status=200)
    world.counter.refund("paid", request="r3", status=200)

    assert world.report().violations == ()


def test_open_findings_are_listed_and_are_no_violation(world: World) -> None:
    world.counter.sell(world.counter.basket("plain", "B", promotions=False))
    world.counter.push()

    report = world.report()

    assert "finding duplicate_order: 1 open" in report.lines
    assert report.clean


def test_many_equations_are_counted_and_all_are_written_on_request(world: World) -> None:
    world.hq.furnish(members=SHOWN + 5)

    some, everything = world.report().lines, world.report(everything=True).lines

    assert "balance: and 5 more" in some
    assert sum(line.startswith("balance ") for line in everything) == SHOWN + 5
    assert everything[-1] == "audit: clean"


def test_a_campaign_without_a_stock_tells_what_it_granted(world: World) -> None:
    world.hq.campaign("c2")
    coupon(world.hq, "c2")

    assert "campaign c2: without limit, granted 1" in world.report().lines


def test_with_a_listener_nothing_is_kept(world: World) -> None:
    told: list[str] = []

    report = world.hq.services.read(lambda conn, ctx: audit(conn, ctx, everything=True, tell=told.append))

    assert report.lines == ()
    assert told[-1] == "audit: clean"


# ------------------------------------------------------------------ planted faults

_FREE = "(SELECT id FROM coupon WHERE state = 'ISSUED' LIMIT 1)"

_RISK = "'plain', 'k1', 't1', 1, 'a1', 'meg', 'known'"
FAULTS = [
    ("account_equation", ["UPDATE account SET available = available + 1 WHERE id = 'value:m1'"]),
    ("account_equation", ["UPDATE account SET available = -1, total = total - 41 * 100 - 1 WHERE id = 'value:m1'"]),
    ("account_transfers", ["UPDATE account SET total = total + 5, available = available + 5 WHERE id = 'value:m1'"]),
    (
        "account_transfers",
        ["UPDATE transfer SET amount = amount + 1 WHERE account_id = 'uses:p1' AND state = 'POSTED'"],
    ),
    ("account_transfers", ["UPDATE transfer SET state = 'POSTED' WHERE account_id = 'value:m1' AND state = 'PENDING'"]),
    ("account_transfers", ["UPDATE transfer SET state = 'VOIDED' WHERE account_id = 'value:m1' AND state = 'PENDING'"]),
    ("stock_granted", ["UPDATE coupon SET campaign_id = 'auto' WHERE state = 'ISSUED'"]),
    ("budget_spent", ["UPDATE redemption SET discount_minor = 999 WHERE order_id = 'paid' AND coupon_id IS NOT NULL"]),
    ("budget_spent", ["UPDATE redemption SET reversed = 1 WHERE order_id = 'paid' AND coupon_id IS NULL"]),
    ("uses_spent", ["UPDATE punch_use SET reversed = 1"]),
    ("uses_spent", ["INSERT INTO punch_use VALUES ('p1', 'plain', 1, 1, 0)"]),
    ("value_spent", ["UPDATE order_tender SET type = 'card' WHERE type = 'stored_value'"]),
    ("pending_without_hold", ["UPDATE orders SET state = 'CANCELLED', held_until_at = NULL WHERE id = 'held'"]),
    ("pending_without_hold", ["UPDATE transfer SET attempt = 9 WHERE order_id = 'held'"]),
    ("coupon_frozen", ["UPDATE orders SET state = 'CANCELLED', held_until_at = NULL WHERE id = 'held'"]),
    ("coupon_frozen", ["UPDATE coupon SET attempt = 9 WHERE order_id = 'unknown'"]),
    ("coupon_frozen", ["UPDATE coupon SET order_id = 'nobody' WHERE order_id = 'held'"]),
    ("coupon_used", ["UPDATE redemption SET reversed = 1 WHERE order_id = 'paid' AND coupon_id IS NOT NULL"]),
    ("coupon_used", ["UPDATE coupon SET order_id = 'plain' WHERE order_id = 'paid'"]),
    ("coupon_used", ["UPDATE coupon SET state = 'USED', order_id = 'plain' WHERE state = 'ISSUED'"]),
    ("redemption_without_coupon", ["UPDATE coupon SET state = 'ISSUED', order_id = NULL WHERE order_id = 'paid'"]),
    (
        "redemption_without_coupon",
        ["UPDATE redemption SET coupon_id = 'ghost' WHERE order_id = 'paid' AND position = 1"],
    ),
    ("redemption_without_coupon", [f"INSERT INTO redemption VALUES ('plain', 0, 'c1', {_FREE}, 0, 0, 0)"]),
    ("member_limit", ["UPDATE snapshot SET rule = json_set(rule, '$.per_member', 4) WHERE campaign_id = 'c1'"]),
    (
        "member_day_limit",
        ["UPDATE snapshot SET rule = json_set(rule, '$.per_member_per_day', 4) WHERE campaign_id = 'c1'"],
    ),
    (
        "account_leased",
        ["UPDATE account SET leased = leased - 1, available = available + 1 WHERE id = 'stock:lent'"],
    ),
    ("account_leased", ["UPDATE lease SET used = 1"]),
    (
        "account_stranded",
        ["UPDATE account SET stranded = stranded - 1, available = available + 1 WHERE id = 'stock:lent'"],
    ),
    ("account_stranded", ["UPDATE lease SET stranded_at = NULL WHERE id = 'l2'"]),
    ("lease_stranded", ["UPDATE till SET lost_at = 5 WHERE id = 't1'"]),
    ("lease_used", ["UPDATE lease SET used = qty + 1"]),
    ("lease_transfers", ["UPDATE transfer SET amount = 2 WHERE id = 'strand:l2'"]),
    ("lease_transfers", ["UPDATE lease SET state = 'CLOSED'"]),
    ("lease_transfers", ["UPDATE transfer SET amount = amount - 1 WHERE lease_id IS NOT NULL"]),
    ("lease_coupons", ["DELETE FROM lease_coupon"]),
    ("risk_spent", [f"INSERT INTO risk_use VALUES ({_RISK}, TRUE, 5)"]),
    ("risk_bound", [f"INSERT INTO risk_use VALUES ({_RISK}, FALSE, 5)"]),
    ("coupon_home", ["UPDATE coupon SET home = 't1' WHERE state = 'USED'"]),
    ("coupon_home", ["UPDATE coupon SET home = 't9' WHERE home = 't1'"]),
    ("hold_deadline", ["UPDATE orders SET held_until_at = NULL WHERE id = 'held'"]),
    ("hold_deadline", ["UPDATE orders SET held_until_at = 1 WHERE id = 'unknown'"]),
    ("unsold_parts", ["INSERT INTO order_tender VALUES ('held', 0, 'cash', 1)"]),
    ("unsold_parts", ["UPDATE orders SET state = 'CANCELLED' WHERE id = 'plain'"]),
    ("line_net", ["UPDATE order_line SET net_minor = net_minor + 1 WHERE order_id = 'plain'"]),
    ("order_lines", ["DELETE FROM order_line WHERE order_id = 'plain'"]),
    ("order_lines", ["UPDATE orders SET payable_minor = payable_minor + 1 WHERE id = 'plain'"]),
    ("order_tenders", ["UPDATE order_tender SET amount_minor = amount_minor - 1 WHERE order_id = 'plain'"]),
    ("order_discounts", ["DELETE FROM redemption WHERE order_id = 'paid' AND coupon_id IS NULL"]),
    ("order_copies", ["UPDATE orders SET quote = json_set(quote, '$.lines[0].net_minor', 1) WHERE id = 'plain'"]),
    ("order_copies", ["UPDATE orders SET quote = json_set(quote, '$.lines[0].number', 7) WHERE id = 'plain'"]),
    ("order_copies", ["UPDATE order_line SET sku = 'B' WHERE order_id = 'plain'"]),
    ("order_copies", ["UPDATE orders SET tenders = json_set(tenders, '$[0].type', 'card') WHERE id = 'plain'"]),
    ("order_copies", ["UPDATE order_tender SET position = 5 WHERE order_id = 'plain'"]),
    ("order_state", ["UPDATE orders SET state = 'REFUNDED' WHERE id = 'plain'"]),
    ("order_state", ["UPDATE orders SET state = 'PAID' WHERE id = 'back'"]),
    ("refund_amount", ["UPDATE orders SET refunded_minor = refunded_minor + 1 WHERE id = 'back'"]),
    (
        "refund_amount",
        ["UPDATE refund SET amount_minor = 999999", "UPDATE orders SET refunded_minor = 999999 WHERE id = 'back'"],
    ),
    ("refund_quantity", ["UPDATE order_line SET refunded_milli = 2000 WHERE order_id = 'back' AND number = 2"]),
    ("refund_tenders", ["UPDATE refund SET body = json_set(body, '$.tenders[0].type', 'card')"]),
    ("refund_entry", ["UPDATE refund SET entry_id = 'ghost'"]),
    ("overdraft_unseen", ["UPDATE account SET over = 1, spent = spent + 1 WHERE id = 'value:m1'"]),
    (
        "redemption_without_coupon",
        [
            "UPDATE coupon SET state = 'ISSUED', order_id = NULL, attempt = NULL WHERE order_id = 'paid'",
            "UPDATE redemption SET conflict = TRUE WHERE order_id = 'paid' AND coupon_id IS NOT NULL",
        ],
    ),
    ("overdraft_unpaid", ["UPDATE account SET over = 1, available = available + 1 WHERE id = 'budget:c1'"]),
    ("conflict_unseen", ["UPDATE ledger_entry SET result = 'CONFLICT', detail = 'x x y' WHERE seq = 1"]),
    ("conflict_unseen", ["UPDATE redemption SET conflict = 1 WHERE order_id = 'paid' AND coupon_id IS NOT NULL"]),
    ("claim_without_coupon", ["DELETE FROM coupon WHERE source = 'issue:b1'"]),
    ("claim_without_coupon", ["UPDATE coupon SET id = 'other' WHERE source = 'issue:b1'"]),
    (
        "claim_without_coupon",
        [
            "INSERT INTO request (id, digest, answer, created_at) "
            "SELECT 'claim:twice', digest, answer, created_at FROM request WHERE id = 'claim:free'"
        ],
    ),
    ("coupon_without_claim", ["DELETE FROM request WHERE id = 'claim:free'"]),
    ("coupon_without_claim", ["UPDATE coupon SET id = 'other' WHERE source = 'issue:b1'"]),
    ("coupon_without_grant", ["DELETE FROM history WHERE subject = 'coupon' AND event = 'grant'"]),
    ("issue_counts", ["UPDATE issue_task SET granted = granted + 1, failed = failed - 1"]),
    ("issue_counts", ["UPDATE issue_task SET total = total + 1"]),
    ("issue_counts", ["DELETE FROM issue_chunk WHERE number = 2"]),
    ("issue_chunk", ["UPDATE issue_chunk SET failed = 0, granted = 0 WHERE number = 2"]),
    ("issue_chunk", ["UPDATE issue_chunk SET state = 'OPEN' WHERE number = 1"]),
    ("issue_coupons", ["UPDATE coupon SET source = 'app' WHERE source = 'issue:b1'"]),
    ("issue_coupons", ["UPDATE coupon SET campaign_id = 'c1', member_nth = 99 WHERE source = 'issue:b1'"]),
    ("issue_unfinished", ["UPDATE issue_task SET total = total + 1"]),
    ("dangling_reference", ["DELETE FROM member"]),
    ("dangling_reference", ["DELETE FROM till"]),
    ("dangling_reference", ["UPDATE coupon SET snapshot_id = 'ghost' WHERE state = 'ISSUED'"]),
    ("ledger_chain", ["DELETE FROM ledger_entry WHERE seq = 2"]),
    ("ledger_chain", ["DELETE FROM ledger_entry WHERE seq = (SELECT max(seq) FROM ledger_entry)"]),
    ("ledger_chain", ["UPDATE ledger_entry SET body = body || ' ' WHERE seq = 3"]),
    ("ledger_chain", ["UPDATE ledger_entry SET body = CAST(body || ' ' AS BLOB) WHERE seq = 3"]),
    ("ledger_chain", ["UPDATE ledger_entry SET hash = zeroblob(32) WHERE seq = 3"]),
    ("ledger_chain", ["UPDATE till SET acked_seq = acked_seq + 1"]),
    ("ledger_booked", ["UPDATE orders SET till_id = 't9' WHERE id = 'plain'"]),
    ("ledger_booked", ["UPDATE refund SET entry_id = NULL"]),
    ("ledger_booked", ["UPDATE refund SET id = 'r2'"]),
    ("ledger_booked", ["UPDATE orders SET id = 'other' WHERE id = 'plain'"]),
    ("ledger_booked", ["UPDATE orders SET payable_minor = payable_minor + 1 WHERE id = 'plain'"]),
]


@pytest.mark.parametrize(("kind", "statements"), FAULTS)
def test_a_planted_fault_is_named(copy: Copy, kind: str, statements: list[str]) -> None:
    copy.plant(*statements)

    report = copy.report()

    assert kind in {violation.kind for violation in report.violations}
    assert not report.clean
    assert report.lines[-1] == f"audit: {report.count} violation{'s' if report.count > 1 else ''}"


def test_a_row_that_breaks_its_constraint_is_named(file: CopiedFile) -> None:
    file.plant("UPDATE account SET available = available - 1, held = -1 WHERE id = 'value:m1'")

    assert "database_file" in {violation.kind for violation in file.report().violations}


def test_a_constraint_that_holds_for_new_rows_alone_is_named(
    sound_server: tuple[Callable[[], AbstractContextManager[Connection]], Context],
) -> None:
    connect, context = sound_server
    with connect() as conn:
        outer = conn.begin()
        conn.exec_driver_sql("ALTER TABLE account ADD CONSTRAINT planted CHECK (held >= 0) NOT VALID")
        violations = audit(conn, context).violations
        outer.rollback()

    assert [violation.kind for violation in violations] == ["database_file"]


def test_every_check_has_a_planted_fault() -> None:
    named = {kind for kind, _ in FAULTS}

    others = {"dangling_reference", "ledger_chain", "ledger_booked"}
    assert named == {kind for kind, _ in checks()} | others


def test_a_violation_is_written_with_its_numbers(copy: Copy) -> None:
    copy.plant("UPDATE orders SET payable_minor = payable_minor + 1 WHERE id = 'plain'")

    lines = copy.report().lines

    assert "VIOLATION order_lines plain: order_minor=10001 parts_minor=10000" in lines
    assert "VIOLATION ledger_booked t1 sales: ledger=3 ledger_minor=41800 books=3 books_minor=41801" in lines


def test_what_cannot_be_read_is_a_violation_and_hides_nothing_behind_it(file: CopiedFile) -> None:
    file.plant("UPDATE refund SET body = 'no json'", "UPDATE refund SET entry_id = 'ghost'")

    kinds = {violation.kind for violation in file.report().violations}

    assert {"refund_tenders", "refund_quantity", "refund_entry"} <= kinds


def test_many_violations_of_one_kind_are_counted(file: CopiedFile) -> None:
    file.plant(
        f"""
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {SHOWN + 3})
        INSERT INTO orders
        SELECT 'x' || i, 1, 'HELD', 's1', 't1', NULL, '', '[]', '{{}}', '[]', 0, 0, NULL, NULL, 0 FROM n
        """
    )

    report = file.report()

    assert "VIOLATION hold_deadline: and 3 more" in report.lines
    assert report.lines[-1] == f"audit: {SHOWN + 3} violations"
    assert len(report.violations) == SHOWN


def test_a_till_decided_refund_is_in_the_books_too(world: World) -> None:
    counter = world.counter
    basket = counter.basket("own", ("B", 2000), promotions=False)
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket))
    decided = decide_refund(SoldOrder("own", "PAID", lines, quote, (cash(6000),)), [RefundLine(1, 1000)])
    body = write_refund(decided)  # type: ignore[arg-type]
    counter.append("refund", counter.body("own", refund="r9", body=body, decided_by="till"))
    counter.push()

    assert world.report().violations == ()

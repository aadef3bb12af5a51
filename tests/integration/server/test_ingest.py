"""Ingest over HTTP: every fact is kept, the chain is verified, and nothing that a till says stops its queue."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from app.domain.ledger import CARRY, Entry, carry, encode_body, entry_hash, genesis, make_entry
from app.store import projections
from server.db.schema import ledger_entry, orders
from server.services import ingest, sales
from sync.protocol import ENTRY_KINDS
from tests.fakes.counter import Counter, finding, findings, violations
from tests.fakes.headquarters import Headquarters

# ------------------------------------------------------------------ plain sales


def test_plain_sales_of_a_batch_are_booked_whole_and_once(headquarters: Headquarters, counter: Counter) -> None:
    for number in range(200):
        counter.sell(counter.basket(f"o{number}", "A", ("W", 735), "B"))

    answer = counter.push()

    assert [row["result"] for row in answer["results"]] == ["OK"] * 200
    assert answer["acked"] == [200, counter.entries[-1].hash.hex()]
    assert answer["error"] == ""
    shown = counter.call("GET", "/v1/orders/o199", status=200)
    assert (shown["state"], shown["payable_minor"]) == ("PAID", 10000 + 728 + 3000)
    assert violations(headquarters) == []


def test_pushing_the_same_entries_again_changes_nothing(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o2", "B"))
    counter.push()

    again = counter.push(counter.entries)

    assert [row["result"] for row in again["results"]] == ["DUP", "DUP"]
    assert again["acked"][0] == 2
    assert violations(headquarters) == []
    counted = headquarters.services.read(
        lambda conn, _: conn.execute(select(func.count()).select_from(orders)).scalar()
    )
    assert counted == 2


def test_a_repeat_of_an_entry_in_conflict_gets_the_first_verdict(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o1", "B"))
    first = counter.push()

    again = counter.push(counter.entries)

    assert [row["result"] for row in again["results"]] == ["DUP", "CONFLICT"]
    assert again["results"][1] == first["results"][1]


def test_a_batch_that_overlaps_what_is_acknowledged_brings_the_rest(counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    counter.sell(counter.basket("o2", "B"))

    answer = counter.push(counter.entries)

    assert [row["result"] for row in answer["results"]] == ["DUP", "OK"]
    assert answer["acked"][0] == 2


def test_the_first_order_of_a_member_moves_the_member_in_the_feed_and_the_second_does_not(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A", member="m1"))
    counter.push()
    page = {"proto": 1, "till": "t1", "cursor": 0, "limit": 1000}
    told = counter.call("POST", "/v1/sync/pull", page, status=200)
    (member,) = [each["record"] for each in told["records"] if each["kind"] == "member"]
    counter.sell(counter.basket("o2", "A", member="m1"))

    counter.push()

    assert member["has_ordered"] is True
    later = counter.call("POST", "/v1/sync/pull", {**page, "cursor": told["next"]}, status=200)
    assert later["records"] == []


def test_a_sale_of_a_member_that_nobody_knows_is_booked_and_touches_nothing(
    headquarters: Headquarters, counter: Counter
) -> None:
    basket = counter.basket("o1", "A")
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    counter.append("sale", {**body, "member": "ghost"})

    assert counter.verdicts() == [("OK", "")]


# ------------------------------------------------------------------ the chain


def test_a_gap_stops_the_batch_at_the_prefix_and_is_no_broken_chain(
    headquarters: Headquarters, counter: Counter
) -> None:
    for number in range(4):
        counter.sell(counter.basket(f"o{number}", "A"))

    answer = counter.push([counter.entries[0], counter.entries[2], counter.entries[3]])

    assert (answer["error"], answer["acked"][0]) == ("GAP", 1)
    assert [row["seq"] for row in answer["results"]] == [1]
    assert findings(headquarters) == {}
    assert [row["result"] for row in counter.push()["results"]] == ["OK"] * 3


def test_a_batch_that_begins_beyond_the_end_is_a_gap_and_nothing_is_taken(counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o2", "A"))

    answer = counter.push(counter.entries[1:])

    assert (answer["error"], answer["acked"], answer["results"]) == ("GAP", [0, ""], [])


def test_an_entry_that_does_not_continue_the_chain_is_refused_and_found(
    headquarters: Headquarters, counter: Counter
) -> None:
    for number in range(3):
        counter.sell(counter.basket(f"o{number}", "A"))
    good, bad, _ = counter.entries
    forged = Entry(bad.epoch, bad.seq, bad.entry_id, bad.kind, bad.schema, bad.body + b" ", bad.prev_hash, bad.hash)

    answer = counter.push([good, forged, counter.entries[2]])

    assert (answer["error"], answer["acked"][0]) == ("GAP", 1)
    assert findings(headquarters) == {"broken_chain": 1}
    assert finding(headquarters, "broken_chain")["detail"]["seq"] == 2


def test_another_entry_under_a_number_that_is_taken_is_a_fork_and_strands_the_till(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    clone = Counter.__new__(Counter)
    clone.__dict__.update(counter.__dict__, entries=[], acked=0)
    clone.sell(clone.basket("o2", "B"))

    fork = clone.push(clone.entries)
    counter.sell(counter.basket("o3", "A"))
    after = counter.push()

    assert (fork["error"], fork["acked"]) == ("FORK", [1, counter.entries[0].hash.hex()])
    assert (after["error"], after["acked"][0]) == ("FORK", 1)
    evidence = finding(headquarters, "ledger_fork")["detail"]
    assert evidence["entries"][0]["hash"] == clone.entries[0].hash.hex()
    counter.call("GET", "/v1/orders/o2", status=404)
    assert counter.hello()["state"] == "FORK"


def test_another_epoch_takes_nothing(counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))

    answer = counter.push(epoch=2)

    assert (answer["error"], answer["acked"], answer["results"]) == ("EPOCH", [0, ""], [])


def test_an_entry_id_that_is_in_the_books_elsewhere_is_parked_and_not_booked_twice(
    headquarters: Headquarters, counter: Counter
) -> None:
    other = Counter(headquarters, "t2")
    body = counter.sell(counter.basket("o1", "A"))
    counter.push()
    other.append("sale", {**body, "order": "o2"}, entry_id=counter.entries[0].entry_id)
    other.sell(other.basket("o3", "A"))

    assert other.verdicts() == [("CONFLICT", "duplicate_entry"), ("OK", "")]
    assert findings(headquarters) == {"duplicate_entry": 1}
    other.call("GET", "/v1/orders/o2", status=404)
    assert violations(headquarters) == []


# ------------------------------------------------------------------ poison


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("dance", {}, "kind 'dance' is not known"),
        ("sale", {"order": None}, "order: Input should be a valid string"),
        ("sale", {"at": "yesterday"}, "at: "),
        ("sale", {"at": "2026-06-01T10:00:00"}, "at: Input should have timezone info"),
        ("sale", {"attempt": True}, "attempt: Input should be a valid integer"),
        ("sale", {"tenders": [{"type": "cash", "amount_minor": 1.5}]}, "tenders.0.amount_minor"),
        ("sale", {"tenders": [{"type": "cash", "amount_minor": 10**40}]}, "tenders.0.amount_minor"),
        ("sale", {"lines": []}, "lines: List should have at least 1 item"),
        ("sale", {"lines": [{"number": 1, "sku": "A", "price_minor": 10_000, "qty_milli": 1000}]}, "lines.0.category"),
        ("sale", {"tenders": [{"type": "shells", "amount_minor": 10_000}]}, "tenders.0.type"),
        ("cancel", {"reason": "why not"}, "reason: Input should be"),
    ],
)
def test_an_entry_that_cannot_be_judged_is_parked_and_blocks_nothing(
    headquarters: Headquarters, counter: Counter, kind: str, change: dict[str, Any], reason: str
) -> None:
    counter.sell(counter.basket("o1", "A"))
    basket = counter.basket("o2", "A")
    lines, quote = counter.price(basket)
    counter.append(kind, {**counter.sale_body(lines, quote, basket), **change})
    counter.sell(counter.basket("o3", "A"))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("QUARANTINED", "quarantined"), ("OK", "")]
    assert finding(headquarters, "quarantined")["detail"]["reason"].startswith(reason)
    assert violations(headquarters) == []


def test_a_body_that_is_no_json_is_parked_with_its_bytes(headquarters: Headquarters, counter: Counter) -> None:
    body = b"\xff\x00 no json"
    digest = entry_hash(genesis("t1", 1), till_id="t1", epoch=1, seq=1, entry_id="e1", kind="sale", body=body, schema=1)
    counter.entries.append(Entry(1, 1, "e1", "sale", 1, body, genesis("t1", 1), digest))

    assert counter.verdicts() == [("QUARANTINED", "quarantined")]
    kept = headquarters.services.read(lambda conn, _: conn.execute(select(ledger_entry.c.body)).scalar_one())
    assert kept == body


@pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_body_with_what_is_no_number_is_parked_and_the_order_can_be_shown(
    headquarters: Headquarters, counter: Counter, constant: bytes
) -> None:
    lines, quote = counter.price(counter.basket("o1", "A"))
    sale = encode_body(counter.sale_body(lines, quote, counter.basket("o1", "A")))
    body = sale.replace(b'"by_weight":', b'"news":%s,"by_weight":' % constant)
    before = genesis("t1", 1)
    digest = entry_hash(before, till_id="t1", epoch=1, seq=1, entry_id="e1", kind="sale", body=body, schema=1)
    counter.entries.append(Entry(1, 1, "e1", "sale", 1, body, before, digest))

    assert counter.verdicts() == [("QUARANTINED", "quarantined")]
    assert headquarters.call("GET", "/v1/findings", status=200)["open"] == {"quarantined": 1}


def test_a_product_may_be_called_infinity(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("POST", "/v1/products", [{"sku": "NaN", "price": "1.00", "brand": "Infinity"}], status=200)
    counter.sell(counter.basket("o1", "NaN"))

    assert counter.verdicts() == [("OK", "")]


def test_an_entry_of_a_newer_schema_is_kept_and_parked(headquarters: Headquarters, counter: Counter) -> None:
    body = encode_body({"order": "o1"})
    before = genesis("t1", 1)
    digest = entry_hash(before, till_id="t1", epoch=1, seq=1, entry_id="e1", kind="sale", body=body, schema=2)
    counter.entries.append(Entry(1, 1, "e1", "sale", 2, body, before, digest))
    counter.sell(counter.basket("o2", "A"))

    verdicts = counter.verdicts()

    assert verdicts == [("QUARANTINED", "quarantined"), ("OK", "")]
    assert finding(headquarters, "quarantined")["detail"]["reason"] == "schema 2 is newer than 1"


def test_a_bug_in_judging_parks_one_entry_and_never_the_queue(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sales.Rows.add_parts

    def buggy(self: sales.Rows, sale: Any, **keys: Any) -> None:
        if sale["order"] == "o2":
            raise ZeroDivisionError("a bug of ours")
        real(self, sale, **keys)

    monkeypatch.setattr(sales.Rows, "add_parts", buggy)
    for number in (1, 2, 3):
        counter.sell(counter.basket(f"o{number}", "A"))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("QUARANTINED", "quarantined"), ("OK", "")]
    assert finding(headquarters, "quarantined")["detail"]["reason"] == "ZeroDivisionError: a bug of ours"
    counter.call("GET", "/v1/orders/o2", status=404)
    assert violations(headquarters) == []


def test_a_row_that_the_database_refuses_parks_its_entry_alone(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sales.order_values

    def broken(sale: Any, told: Any) -> dict[str, Any]:
        return {**real(sale, told), **({"payable_minor": -1} if sale["order"] == "o2" else {})}

    monkeypatch.setattr(sales, "order_values", broken)
    for number in (1, 2, 3):
        counter.sell(counter.basket(f"o{number}", "A"))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("QUARANTINED", "quarantined"), ("OK", "")]
    assert "IntegrityError" in finding(headquarters, "quarantined")["detail"]["reason"]


@pytest.mark.parametrize("together", [True, False])
def test_a_full_disk_is_no_fault_of_an_entry_and_parks_none(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """SQLite undoes the whole transaction by itself then, and with it the savepoint that one would go back to."""
    if headquarters.services.database.path is None:
        pytest.skip("how SQLite runs out of room")

    def full(_rows: sales.Rows, conn: Connection) -> None:
        conn.exec_driver_sql("PRAGMA max_page_count = 1")
        conn.exec_driver_sql("CREATE TABLE more AS SELECT zeroblob(1000000)")

    monkeypatch.setattr(sales.Rows, "flush", full)
    monkeypatch.setattr(ingest, "_is_plain", lambda _item, _known: together)
    counter.sell(counter.basket("o1", "A"))

    answer = counter.push(status=503)

    assert answer["facts"]["reason"] == "disk_full"
    assert findings(headquarters) == {}


# ------------------------------------------------------------------ facts that do not fit


def _bodies(counter: Counter) -> dict[str, dict[str, Any]]:
    """Return a body of each kind that a till may send."""
    basket = counter.basket("o1", "A")
    lines, quote = counter.price(basket)
    tender = {"type": "cash", "amount_minor": 10000}
    back: dict[str, Any] = {"lines": [{"number": 1, "qty_milli": 1000}], "amount_minor": 10000, "tenders": [tender]}
    back |= {"uses": {}, "returned": [], "budget_minor": {}, "whole": True}
    return {
        "sale": counter.sale_body(lines, quote, basket),
        "cancel": counter.body("o1", reason="cancelled"),
        "payment_unknown": counter.body("o1", payment={"id": "p", "type": "card", "amount_minor": 10000}),
        "late_payment": counter.body("o1", tenders=[tender]),
        "refund": counter.body("o1", refund="r1", body=back, decided_by="till"),
        "claim": counter.told(
            lease="l1",
            coupon="k1",
            request="q1",
            source="till:t1",
            campaign="c1",
            snapshot="c1/1",
            member="m1",
            valid_until_ms=None,
        ),
        "lease_close": counter.told(lease="l1", used=0),
        "coupon_return": counter.told(coupon="k1", version=2),
        "approval": counter.told(
            approval="a1",
            order="o1",
            coupon="k1",
            campaign="c1",
            by="meg",
            pin_version=1,
            reason="known",
            max_minor=2_000,
        ),
        "pin_failed": counter.told(by="meg", pin_version=1, failures=1),
        "carry": carry(_earlier(counter)),
    }


def _earlier(counter: Counter) -> Entry:
    """Return a sale that the till made in an epoch before this one."""
    basket = counter.basket("o9", "A")
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    return make_entry(genesis("t1", 1), till_id="t1", epoch=1, seq=1, entry_id="earlier", kind="sale", data=body)


@pytest.mark.parametrize("kind", ENTRY_KINDS)
def test_every_kind_of_entry_can_be_read_and_judged(counter: Counter, kind: str) -> None:
    counter.append(kind, _bodies(counter)[kind])

    (verdict,) = counter.verdicts()

    assert verdict[0] != "QUARANTINED"


def test_the_till_writes_the_kinds_that_the_wire_has() -> None:
    kinds = {value for name, value in vars(projections).items() if name.isupper() and isinstance(value, str)}

    assert kinds | {CARRY} == set(ENTRY_KINDS)

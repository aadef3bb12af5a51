"""Bodies of every schema ever shipped are read for ever, and none changes its shape under the same number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.ledger import CARRY, SCHEMA, Entry, entry_hash, genesis, original
from app.domain.ports import no_progress
from app.domain.quote_json import read_quote, read_refund
from app.services.api import OrderView
from app.store import meta, projections, recovery
from app.store.database import TillDatabase
from app.store.driver import run_each
from server.jobs.quarantine import judge_again
from server.services import entries as server_entries
from sync.protocol import ENTRY_KINDS, QUARANTINED
from tests.fakes.counter import Counter, findings, furnish, violations
from tests.fakes.headquarters import Headquarters
from tests.fakes.memory_world import CNY
from tests.fakes.shop import Shop
from tests.golden.kept import TILL, read, versions
from tests.golden.story import tell

VERSIONS = versions()


@pytest.fixture(scope="module")
def written_now(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    return tell(tmp_path_factory.mktemp("till"))


def shape(value: Any) -> Any:
    """Return what a body is made of: keys and types, of a list all that it holds."""
    if isinstance(value, dict):
        return tuple(sorted((key, shape(each)) for key, each in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({repr(shape(each)) for each in value}))
    return type(value).__name__


def shapes(entries: Iterable[Entry]) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for entry in entries:
        found.setdefault(entry.kind, set()).add(shape(entry.read()))
    return found


def of_epoch(entries: Iterable[Entry], epoch: int) -> list[Entry]:
    return [entry for entry in entries if entry.epoch == epoch]


# ------------------------------------------------------------------ what is kept, and what is written


def test_every_schema_has_its_ledger_with_every_kind_and_the_server_judges_from_the_first_on() -> None:
    assert list(range(1, SCHEMA + 1)) == VERSIONS and server_entries.SCHEMAS == (1, SCHEMA)
    assert {entry.kind for entry in read(SCHEMA)} == set(ENTRY_KINDS)
    for version in VERSIONS:
        assert {entry.schema for entry in read(version)} == {version}


def test_what_a_till_writes_now_has_the_shape_that_its_schema_was_shipped_with(written_now: list[Entry]) -> None:
    """Whoever comes here by a change: raise `SCHEMA`, read both in `entries.py`, then `python -m tests.golden`."""
    assert {entry.schema for entry in written_now} == {SCHEMA}
    assert shapes(written_now) == shapes(read(SCHEMA))


@pytest.mark.parametrize("kind", [kind for kind in ENTRY_KINDS if kind != CARRY])
def test_a_key_more_or_less_and_another_type_are_another_shape(kind: str) -> None:
    body = next(entry.read() for entry in read(SCHEMA) if entry.kind == kind)

    for key, value in body.items():
        assert shape({name: each for name, each in body.items() if name != key}) != shape(body)
        assert shape({**body, key: [value]}) != shape(body)
    assert shape({**body, "news": 1}) != shape(body)


# ------------------------------------------------------------------ the server


@pytest.fixture
def headquarters(tmp_path: Path) -> Iterator[Headquarters]:
    opened = Headquarters(tmp_path)
    opened.furnish()
    yield opened
    opened.close()


def counter(headquarters: Headquarters) -> Counter:
    furnish(headquarters)
    return Counter(headquarters, TILL)


def told(asked: Counter, entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Push a ledger whole; return result and code of each entry."""
    asked.entries = list(entries)
    answer = asked.push()
    assert answer["error"] == "" and answer["acked"][0] == len(entries)
    return [(row["result"], row["code"]) for row in answer["results"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_server_takes_every_entry_ever_written_for_a_fact(headquarters: Headquarters, version: int) -> None:
    ledger = read(version)
    asked = counter(headquarters)
    asked.hello()
    first = told(asked, of_epoch(ledger, 1))
    asked.enrol()
    second = told(asked, of_epoch(ledger, 2))

    assert QUARANTINED not in {result for result, _ in first + second}
    assert headquarters.call("GET", "/v1/orders/plain", status=200)["state"] == "PARTLY_REFUNDED"
    assert violations(headquarters) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_server_takes_what_is_carried_for_a_fact_too(headquarters: Headquarters, version: int) -> None:
    ledger = read(version)
    asked = counter(headquarters)
    asked.entries = of_epoch(ledger, 1)
    asked.hello()
    asked.enrol()

    results = told(asked, of_epoch(ledger, 2))

    assert QUARANTINED not in {result for result, _ in results}
    assert headquarters.call("GET", "/v1/orders/plain", status=200)["state"] == "PARTLY_REFUNDED"


def test_a_reader_that_wants_more_than_was_shipped_is_found(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server_entries._READERS, "cancel", server_entries._READERS["late_payment"])

    results = told(counter(headquarters), of_epoch(read(1), 1))

    assert (QUARANTINED, "quarantined") in results


def newer(entries: Iterable[Entry]) -> list[Entry]:
    """Chain the same bodies anew, as a till of the next schema would."""
    chained: list[Entry] = []
    for entry in entries:
        before = chained[-1].hash if chained else genesis(TILL, entry.epoch)
        digest = entry_hash(
            before,
            till_id=TILL,
            epoch=entry.epoch,
            seq=entry.seq,
            entry_id=entry.entry_id,
            kind=entry.kind,
            body=entry.body,
            schema=SCHEMA + 1,
        )
        chained.append(replace(entry, schema=SCHEMA + 1, prev_hash=before, hash=digest))
    return chained


def test_what_a_newer_till_tells_is_held_and_judged_by_the_server_that_knows_it(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counter(headquarters)
    ledger = newer(of_epoch(read(SCHEMA), 1))
    asked.entries = ledger
    greeted = asked.hello(schema_range=(SCHEMA + 1, SCHEMA + 1))

    held = told(asked, ledger)
    before = judge_again(headquarters.services).repaired
    monkeypatch.setattr(server_entries, "SCHEMAS", (1, SCHEMA + 1))
    after = judge_again(headquarters.services).repaired

    assert greeted["state"] == "OK" and set(held) == {(QUARANTINED, "quarantined")}
    assert (before, after) == (0, len(ledger)) and "quarantined" not in findings(headquarters)
    assert headquarters.call("GET", "/v1/orders/plain", status=200)["state"] == "PARTLY_REFUNDED"
    assert violations(headquarters) == []


# ------------------------------------------------------------------ the till


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a till that was never opened yet; a test puts a ledger on its disk."""
    made = Shop(tmp_path)
    made.close()
    return made


def put_on_disk(path: Path, ledger: Sequence[Entry]) -> None:
    """Write a ledger as an older version left it: entries, and nothing that was made of them."""
    columns = "epoch, seq, entry_id, kind, schema, body, prev_hash, hash, wall_ms, mono_ms, boot, operator"
    db = TillDatabase.open(path, till_id=TILL, store_id="s1")
    with db.write() as tx:
        rows = [(*(getattr(entry, name) for name in Entry.__slots__), 0, 0, "b", "amy") for entry in ledger]
        run_each(tx, f"INSERT INTO entry ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", rows)
        run_each(tx, "INSERT INTO outbox VALUES (?, ?, 'PENDING', '')", [row[:2] for row in rows])
        meta.put(tx, epoch=ledger[-1].epoch)
    db.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_till_reads_every_ledger_ever_written(shop: Shop, version: int) -> None:
    ledger = read(version)
    put_on_disk(shop.path, ledger)

    till = shop.open()
    with till.database.write() as tx:
        problems = till.database.ledger.verify_all(tx)
        projections.rebuild(tx, till.database.ledger)
        again = projections.rebuild(tx, till.database.ledger)
    facts = [original(entry, TILL) for entry in ledger]
    sold = {fact.read()["order"]: fact.read() for fact in facts if fact.kind == "sale"}

    assert (problems, again, till.database.damaged) == ([], [], "")
    for order_id, body in sold.items():
        view, receipt = till.order(order_id), till.receipt(order_id)
        assert isinstance(view, OrderView) and receipt is not None
        assert read_quote(body["quote"], CNY).payable_minor == body["quote"]["payable_minor"]
    assert all(read_refund(fact.read()["body"]).amount_minor for fact in facts if fact.kind == "refund")
    shop.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recovery_keeps_every_entry_ever_written(shop: Shop, version: int) -> None:
    ledger = read(version)
    put_on_disk(shop.path, ledger)

    saved = recovery.salvage(shop.path, till_id=TILL, store_id="s1", copy=None, enrolment="n1", progress=no_progress)

    assert (saved.entries, saved.epoch, saved.whole) == (len(ledger), ledger[-1].epoch, True)

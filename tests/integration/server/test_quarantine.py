"""What is in quarantine is judged again: by a job once this version can, or because a person asks; never twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, update

from app.domain.ledger import Entry, encode_body, entry_hash
from server.db.schema import carried_entry, ledger_entry
from server.db.schema import finding as finding_table
from server.jobs.quarantine import judge_again
from server.services import entries, quarantine, sales
from tests.fakes.counter import Counter, cash, finding, findings, violations
from tests.fakes.headquarters import Headquarters

ASK = {"by": "Lin", "reason": "the new version is here"}


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have a bug in judging order o2; `undo` repairs it."""
    real = sales.Rows.add_parts

    def buggy(self: sales.Rows, sale: Any, **keys: Any) -> None:
        if sale["order"] == "o2":
            raise ZeroDivisionError("a bug of ours")
        real(self, sale, **keys)

    monkeypatch.setattr(sales.Rows, "add_parts", buggy)
    yield monkeypatch


def sell_three(counter: Counter) -> None:
    for number in (1, 2, 3):
        counter.sell(counter.basket(f"o{number}", "A", member="m1"))
    assert [result for result, _ in counter.verdicts()] == ["OK", "QUARANTINED", "OK"]


def of_a_newer_schema(counter: Counter) -> Entry:
    """Append a sale as a newer version writes it; this one knows neither its schema nor what it says."""
    basket = counter.basket("o2", "A")
    lines, quote = counter.price(basket)
    body = encode_body({**counter.sale_body(lines, quote, basket), "news": True})
    before = counter.entries[-1]
    place: dict[str, Any] = {"till_id": "t1", "epoch": 1, "seq": before.seq + 1, "entry_id": "e-new", "kind": "sale"}
    digest = entry_hash(before.hash, **place, body=body, schema=2)
    entry = Entry(1, before.seq + 1, "e-new", "sale", 2, body, before.hash, digest)
    counter.entries.append(entry)
    return entry


def kept(headquarters: Headquarters) -> list[tuple[str, str]]:
    wanted = select(ledger_entry.c.result, ledger_entry.c.detail).order_by(ledger_entry.c.epoch, ledger_entry.c.seq)
    return headquarters.services.read(lambda conn, _: [(row[0], row[1]) for row in conn.execute(wanted)])


def path(headquarters: Headquarters, kind: str = "quarantined") -> str:
    return f"/v1/findings/{finding(headquarters, kind)['id']}"


# ------------------------------------------------------------------ by itself


def test_what_a_bug_parked_is_booked_when_the_bug_is_gone_and_only_once(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    sell_three(counter)
    before = judge_again(headquarters.services)
    bug.undo()

    reports = [judge_again(headquarters.services) for _ in range(2)]

    assert (before.repaired, [report.repaired for report in reports]) == (0, [1, 0])
    assert counter.state("o2") == "PAID" and findings(headquarters) == {}
    assert kept(headquarters) == [("OK", "")] * 3 and violations(headquarters) == []
    told = headquarters.call("GET", path(headquarters), status=200)["history"]
    assert [(event["event"], event["reason"]) for event in told] == [("resolve", "judged again")]
    assert [row["result"] for row in counter.push(counter.entries)["results"]] == ["DUP"] * 3


def test_an_entry_of_a_newer_schema_is_booked_by_the_version_that_knows_it(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.sell(counter.basket("o1", "A"))
    of_a_newer_schema(counter)
    counter.sell(counter.basket("o3", "A"))
    counter.push()
    assert judge_again(headquarters.services).repaired == 0

    monkeypatch.setattr(entries, "SCHEMAS", (1, 2))

    assert judge_again(headquarters.services).repaired == 1
    assert counter.state("o2") == "PAID" and violations(headquarters) == []


def test_what_is_judged_again_and_does_not_fit_is_the_finding_that_it_would_have_been(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    basket = counter.basket("o2", "A")
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket, tenders=[cash(1)]))
    bug.setattr(sales, "sums_problem", lambda _sale: 1 // 0)
    counter.push()
    bug.undo()

    judge_again(headquarters.services)

    assert findings(headquarters) == {"bad_sums": 1}
    assert [result for result, _ in kept(headquarters)] == ["CONFLICT"]


def test_more_than_are_looked_at_at_once_are_all_judged(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.jobs.quarantine.LOOKED_AT", 2)
    counter.sell(counter.basket("o1", "A"))
    for number in range(3):
        counter.append("news", {"number": number})
    of_a_newer_schema(counter)
    counter.push()
    monkeypatch.setattr(entries, "SCHEMAS", (1, 2))

    assert judge_again(headquarters.services).repaired == 1


def test_what_somebody_decided_about_is_left_to_people(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    """The sale may have been booked by hand since."""
    sell_three(counter)
    word = {"decision": "other", "by": "Lin", "reason": "booked by hand"}
    late = finding(headquarters, "quarantined")["id"]
    assert headquarters.services.read(partial(quarantine.legible, above=0, limit=9)) == ([late], None)
    headquarters.call("POST", f"{path(headquarters)}/decide", word, status=200)
    bug.undo()

    assert headquarters.services.read(partial(quarantine.legible, above=0, limit=9)) == ([], None)
    assert not headquarters.services.write(partial(quarantine.try_again, finding_id=late)), "it was looked at before"
    counter.call("GET", "/v1/orders/o2", status=404)


def test_an_entry_that_is_in_the_books_is_not_judged_again_whatever_its_finding_says(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    sell_three(counter)
    bug.undo()
    judge_again(headquarters.services)
    headquarters.database.write(lambda conn: conn.execute(update(finding_table).values(state="OPEN")))

    assert judge_again(headquarters.services).repaired == 0
    assert headquarters.call("POST", f"{path(headquarters)}/judge", ASK, status=409)["outcome"] == "illegal_transition"
    assert kept(headquarters) == [("OK", "")] * 3


# ------------------------------------------------------------------ because a person asks


def test_headquarters_has_an_entry_judged_again_by_name(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    sell_three(counter)
    early = headquarters.call("POST", f"{path(headquarters)}/judge", ASK, status=200)
    bug.undo()

    late = headquarters.call("POST", f"{path(headquarters)}/judge", ASK, status=200)

    assert [(each["result"], each["state"]) for each in (early, late)] == [("QUARANTINED", "OPEN"), ("OK", "CLOSED")]
    assert late["history"][-1]["operator"].startswith("Lin (headquarters:")
    assert late["history"][-1]["reason"] == "judged again: the new version is here"
    assert counter.state("o2") == "PAID" and violations(headquarters) == []


def test_only_an_open_finding_of_quarantine_is_judged_and_only_by_headquarters(
    headquarters: Headquarters, counter: Counter, bug: pytest.MonkeyPatch
) -> None:
    sell_three(counter)
    counter.sell(counter.basket("o1", "B"))
    counter.push()
    other, mine = path(headquarters, "duplicate_order"), path(headquarters)

    headquarters.call("POST", f"{mine}/judge", ASK, key=headquarters.new_key("manager"), status=403)
    headquarters.call("POST", "/v1/findings/99/judge", ASK, status=404)
    assert headquarters.call("POST", f"{other}/judge", ASK, status=409)["outcome"] == "illegal_transition"
    for step in ("decide", "close"):
        word = {"by": "Lin", "reason": "by hand", **({"decision": "accept"} if step == "decide" else {})}
        headquarters.call("POST", f"{mine}/{step}", word, status=200)
    bug.undo()
    assert headquarters.call("POST", f"{mine}/judge", ASK, status=409)["outcome"] == "illegal_transition"
    counter.call("GET", "/v1/orders/o2", status=404)


# ------------------------------------------------------------------ what was carried over


def test_what_was_carried_unread_is_booked_once_when_it_can_be_read(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    entry = of_a_newer_schema(counter)
    counter.hello()
    counter.enrol()
    counter.carry(entry)
    assert counter.verdicts() == [("QUARANTINED", "quarantined")]
    monkeypatch.setattr(entries, "SCHEMAS", (1, 2))

    judge_again(headquarters.services)

    assert counter.state("o2") == "PAID" and violations(headquarters) == []
    assert findings(headquarters) == {}


def test_an_envelope_that_could_not_be_read_brings_its_entry_when_it_can(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.hello()
    lost = counter.entries[-1]
    counter.enrol()
    counter.carry(lost)
    with monkeypatch.context() as older:
        older.delitem(entries._READERS, "carry")
        assert counter.verdicts() == [("QUARANTINED", "quarantined")]
    assert findings(headquarters) == {"quarantined": 1, "tail_lost": 1}

    judge_again(headquarters.services)

    assert counter.state("o1") == "PAID" and violations(headquarters) == []
    assert findings(headquarters) == {}
    there = headquarters.services.read(lambda conn, _: conn.execute(select(carried_entry.c.entry_id)).scalars().all())
    assert there == [lost.entry_id]


def test_an_envelope_whose_entry_came_another_way_meanwhile_books_nothing(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.hello()
    lost = counter.entries[-1]
    counter.enrol()
    counter.carry(lost)
    with monkeypatch.context() as older:
        older.delitem(entries._READERS, "carry")
        counter.push()
    counter.renew_key()
    counter.enrol("n2")
    counter.carry(lost)
    assert counter.verdicts() == [("OK", "")]

    judge_again(headquarters.services)

    assert kept(headquarters) == [("OK", ""), ("OK", "")] and findings(headquarters) == {}
    assert violations(headquarters) == []

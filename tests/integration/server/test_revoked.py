"""A revoked till gets nothing; what it tells is kept, in one bounded finding, until a person has it judged."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.ledger import Entry
from app.domain.refusals import RefusalCode, refuse
from server.jobs.quarantine import judge_again
from server.services import devices, ingest, quarantine, revoked
from server.services.context import Actor
from sync.protocol import (
    ADOPT_PATH,
    ENROL_PATH,
    HELLO_PATH,
    PROTOCOL,
    PULL_PATH,
    PUSH_PATH,
    SANITY_PATH,
    UNKNOWN_PATH,
    Push,
    PushedEntry,
)
from tests.fakes.counter import Counter, balance, cash, coupon, finding, findings, stored_value, violations
from tests.fakes.headquarters import Headquarters

ASK = {"by": "Lin", "reason": "compared with the receipts"}
PLACE = {"proto": PROTOCOL, "till": "t1", "epoch": 1, "last": [0, ""]}


def revoke(headquarters: Headquarters, access: str = "revoke") -> None:
    headquarters.call("POST", f"/v1/tills/t1/{access}", {"reason": "stolen"}, status=200)


def sell(counter: Counter, *orders: str) -> None:
    for order in orders:
        counter.sell(counter.basket(order, "A"))


def judge(headquarters: Headquarters) -> dict[str, Any]:
    return headquarters.call("POST", f"{path(headquarters)}/judge", ASK, status=200)


def path(headquarters: Headquarters) -> str:
    """Return where the newest finding of a revoked till is."""
    listed = headquarters.call("GET", f"/v1/findings?kind={revoked.KIND}", status=200)["findings"]
    return f"/v1/findings/{listed[0]['id']}"


def held(headquarters: Headquarters) -> dict[str, Any]:
    """Return what that finding says."""
    return dict(headquarters.call("GET", path(headquarters), status=200)["detail"])


# ------------------------------------------------------------------ held


def test_what_a_revoked_till_tells_is_kept_in_one_finding_and_booked_by_nothing(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    counter.push()
    revoke(headquarters)
    sell(counter, "o2", "o3")
    counter.append("news", {"number": 1})
    first = counter.push()
    sell(counter, "o4")

    second = counter.push()

    told = {row["code"] for row in first["results"] + second["results"]}
    assert told == {"revoked_till"} and (second["acked"][0], second["error"]) == (5, "")
    assert findings(headquarters) == {"revoked_till": 1} and judge_again(headquarters.services).repaired == 0
    detail = finding(headquarters, "revoked_till")["detail"]
    assert [detail[name] for name in ("first", "last", "entries", "sold_minor", "paid_back_minor")] == [
        2,
        5,
        4,
        30_000,
        0,
    ]
    assert finding(headquarters, "revoked_till")["amount_minor"] == 30_000
    for order in ("o2", "o3", "o4"):
        headquarters.call("GET", f"/v1/orders/{order}", status=404)
    assert [row["result"] for row in counter.push(counter.entries)["results"]] == ["DUP"] + ["QUARANTINED"] * 4
    assert violations(headquarters) == []


def test_a_revoked_till_gets_nothing_but_where_its_ledger_stands(headquarters: Headquarters, counter: Counter) -> None:
    sell(counter, "o1")
    counter.push()
    revoke(headquarters)

    greeted = counter.hello()
    refused = [
        counter.call("POST", PULL_PATH, {"proto": PROTOCOL, "till": "t1", "cursor": 0}, status=403),
        counter.call("POST", SANITY_PATH, {**PLACE, "days": {}}, status=403),
        counter.call("POST", ENROL_PATH, {**PLACE, "enrolment": "n1"}, status=403),
        counter.call("POST", UNKNOWN_PATH, {"proto": PROTOCOL, "till": "t1", "entries": []}, status=403),
        counter.call("POST", ADOPT_PATH, {"proto": PROTOCOL, "till": "t1", "epoch": 1}, status=403),
        counter.lease("value", "m1", 1, status=403),
        counter.take_home("k1", status=403),
        counter.hold(counter.basket("o2", "A"), payable_minor=10_000, status=403),
        counter.refund("o1", request="r1", status=403),
        counter.call("GET", "/v1/orders/o1", status=403),
    ]

    assert (greeted["state"], greeted["acked"][0], greeted["directives"]) == ("REVOKED", 1, [])
    assert {answer["error"] for answer in refused} == {"till_revoked"}


@pytest.mark.parametrize("path", [HELLO_PATH, PUSH_PATH])
def test_a_suspended_till_is_not_heard_before_it_is_resumed(
    headquarters: Headquarters, counter: Counter, path: str
) -> None:
    revoke(headquarters, "suspend")

    assert counter.call("POST", path, {}, status=403)["error"] == "till_suspended"


def test_a_right_that_a_revoked_till_says_it_used_is_not_spent_by_its_word(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    counter.lease("value", "m1", 2_000)
    revoke(headquarters)
    basket = counter.basket("o1", "A", member="m1")
    counter.sell_by_rights(basket, leases={"l1": 2_000}, tenders=[stored_value(2_000), cash(8_000)])
    counter.push()
    before = balance(headquarters, "value:m1")

    judge(headquarters)

    assert before != balance(headquarters, "value:m1") and counter_state(headquarters, "o1") == "PAID"
    assert violations(headquarters) == []


def counter_state(headquarters: Headquarters, order: str) -> str:
    return str(headquarters.call("GET", f"/v1/orders/{order}", status=200)["state"])


# ------------------------------------------------------------------ the bound


@pytest.mark.parametrize(("name", "most"), [("ENTRIES_MAX", 2), ("BYTES_MAX", 2_500)])
def test_a_thief_fills_no_more_than_the_bound_and_what_is_beyond_stays_at_the_till(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    revoke(headquarters)
    monkeypatch.setattr(revoked, name, most)
    sell(counter, "o1", "o2")
    counter.push()
    sell(counter, *(f"more {number}" for number in range(4)))

    refused = counter.push(status=403)

    assert refused["error"] == "till_revoked" and counter.acked == 2
    assert counter.hello()["acked"][0] == 2 and held(headquarters)["entries"] == 2
    headquarters.call("POST", f"{path(headquarters)}/decide", {**ASK, "decision": "accept"}, status=200)
    assert counter.push(status=403)["error"] == "till_revoked"


def test_what_a_revoked_till_says_of_itself_opens_no_finding(headquarters: Headquarters, counter: Counter) -> None:
    revoke(headquarters)

    for number in range(3):
        assert counter.hello(db="damaged", boot=f"b{number}", stopped="fork")["state"] == "REVOKED"

    assert findings(headquarters) == {}


def test_many_entries_whose_ids_are_in_the_books_are_one_finding_too(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    known = counter.entries[0].entry_id
    counter.push()
    revoke(headquarters)
    counter.append("sale", counter.entries[0].read(), entry_id=known)
    counter.append("sale", counter.entries[0].read(), entry_id=known)
    counter.push()
    before = findings(headquarters)

    judge(headquarters)

    assert before == {"revoked_till": 1} and findings(headquarters) == {"duplicate_entry": 2}
    assert violations(headquarters) == []


def test_a_broken_chain_is_no_fact(headquarters: Headquarters, counter: Counter) -> None:
    revoke(headquarters)
    sell(counter, "o1")
    (entry,) = counter.entries
    made_up = Entry(1, 1, "e-made-up", entry.kind, entry.schema, entry.body, entry.prev_hash, entry.hash)

    assert counter.push([made_up])["error"] == "GAP" and findings(headquarters) == {"broken_chain": 1}


def test_what_comes_from_before_a_till_enrolled_anew_stays_there_until_it_tells_again(
    headquarters: Headquarters, counter: Counter
) -> None:
    """Its key was looked at while it was revoked, and its entries are taken behind the enrolment."""
    sell(counter, "o1")
    message = Push(
        proto=PROTOCOL,
        till="t1",
        epoch=1,
        entries=[PushedEntry.of(entry) for entry in counter.entries],
        last=(1, counter.entries[0].hash.hex()),
    )
    before = Actor("till", "k", till_id="t1", access=devices.REVOKED)

    answer = headquarters.services.write(lambda conn, ctx: ingest.push(conn, ctx, message), before)

    assert answer == refuse(RefusalCode.NOT_ALLOWED, reason="till_revoked")
    assert counter.push()["results"][0]["result"] == "OK" and findings(headquarters) == {}


# ------------------------------------------------------------------ judged


def test_what_a_person_has_judged_is_booked_as_if_it_had_come_in_time(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "HELD_AT_ONCE", 2)
    revoke(headquarters)
    used = coupon_of(headquarters)
    counter.sell(counter.basket("o1", "A", member="m1", use=(used,)))
    counter.append("news", {"number": 1})
    sell(counter, "o2")
    counter.push()

    answers = [judge(headquarters) for _ in range(2)]

    assert [(each["left"], each["result"], each["state"]) for each in answers] == [
        (1, "QUARANTINED", "OPEN"),
        (0, "OK", "CLOSED"),
    ]
    assert (counter_state(headquarters, "o1"), counter_state(headquarters, "o2")) == ("PAID", "PAID")
    assert findings(headquarters) == {"no_hold": 1, "quarantined": 1}, "what cannot be read waits for who can"
    assert headquarters.call("POST", f"{path(headquarters)}/judge", ASK, status=409)["outcome"] == "illegal_transition"
    assert violations(headquarters) == []


def test_what_it_carries_over_is_held_and_booked_too(headquarters: Headquarters, counter: Counter) -> None:
    sell(counter, "o1")
    counter.hello()
    lost = counter.entries[-1]
    counter.enrol()
    counter.carry(lost)
    revoke(headquarters)
    before = [row["result"] for row in counter.push()["results"]]

    judge(headquarters)

    assert before == ["QUARANTINED"] and counter_state(headquarters, "o1") == "PAID"
    assert findings(headquarters) == {} and violations(headquarters) == []


def test_what_a_revoked_till_carries_over_mends_no_lost_tail_before_it_is_judged(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1", "o2")
    counter.hello()
    old = counter.entries
    counter.enrol()
    revoke(headquarters)
    for entry in old:
        counter.carry(entry)
    counter.push()
    before = findings(headquarters)

    judge(headquarters)

    assert before == {"revoked_till": 1, "tail_lost": 1} and findings(headquarters) == {}
    assert violations(headquarters) == []


def coupon_of(headquarters: Headquarters) -> str:
    headquarters.campaign("c1")
    return coupon(headquarters)


def test_what_comes_after_somebody_decided_is_another_finding(headquarters: Headquarters, counter: Counter) -> None:
    revoke(headquarters)
    sell(counter, "o1")
    counter.push()
    headquarters.call("POST", f"{path(headquarters)}/decide", {**ASK, "decision": "accept"}, status=200)
    sell(counter, "o2")
    counter.push()

    assert findings(headquarters) == {"revoked_till": 1}
    assert held(headquarters)["first"] == 2
    judge(headquarters)
    headquarters.call("GET", "/v1/orders/o1", status=404)
    assert counter_state(headquarters, "o2") == "PAID"

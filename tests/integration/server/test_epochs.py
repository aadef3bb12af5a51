"""A till whose ledger is not the one that is here: found before anything of it counts, and led into a new epoch."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from app.domain.ledger import Entry, make_entry
from server.services import boots
from server.services.feed_records import COUPON, READERS
from tests.fakes.counter import Counter, coupon, finding, findings, violations
from tests.fakes.headquarters import Headquarters


def sell(counter: Counter, *orders: str) -> None:
    for order in orders:
        counter.sell(counter.basket(order, "A"))


def mark(counter: Counter, seq: int) -> tuple[int, str]:
    return (seq, counter.entries[seq - 1].hash.hex()) if seq else (0, "")


# ------------------------------------------------------------------ compare and announce


def roll_back_and_sell_past_the_end(counter: Counter) -> Entry:
    """Announce three entries, go back to the first, and sell three others; returns the last one that was announced."""
    sell(counter, "o1")
    counter.push()
    sell(counter, "o2", "o3")
    counter.hello(seen=(0, ""))
    lost = counter.entries[2]
    del counter.entries[1:]
    for order in ("p2", "p3", "p4"):
        basket = counter.basket(order, "B")
        lines, quote = counter.price(basket)
        counter.append("sale", counter.sale_body(lines, quote, basket), entry_id=f"again-{order}")
    return lost


def test_a_disk_rolled_back_that_has_sold_past_its_end_pushes_nothing_over_the_evidence(
    headquarters: Headquarters, counter: Counter
) -> None:
    lost = roll_back_and_sell_past_the_end(counter)

    answer = counter.push()

    assert (answer["error"], answer["acked"][0]) == ("FORK", 1)
    evidence = finding(headquarters, "ledger_fork")["detail"]
    assert evidence["tail"] == [3, lost.hash.hex()]
    assert [each["hash"] for each in evidence["entries"]] == [each.hash.hex() for each in counter.entries[1:]]
    counter.call("GET", "/v1/orders/p2", status=404)


def test_entries_that_end_before_the_announced_tail_wait_until_the_till_has_shown_it(
    headquarters: Headquarters, counter: Counter
) -> None:
    roll_back_and_sell_past_the_end(counter)

    answer = counter.push(counter.entries[1:2])

    assert (answer["error"], answer["acked"][0], answer["results"]) == ("ANNOUNCE", 1, [])
    assert findings(headquarters) == {}
    counter.call("GET", "/v1/orders/p2", status=404)


def test_a_till_that_goes_on_from_its_announced_tail_is_taken_at_its_word(counter: Counter) -> None:
    sell(counter, "o1", "o2")
    counter.hello()
    sell(counter, "o3")

    assert counter.push()["acked"][0] == 3


def test_a_fork_shows_the_entries_of_both_sides(headquarters: Headquarters, counter: Counter) -> None:
    sell(counter, "o1", "o2")
    counter.push()
    ours = counter.entries[1]
    del counter.entries[1:]
    basket = counter.basket("p2", "B")
    lines, quote = counter.price(basket)
    theirs = counter.append("sale", counter.sale_body(lines, quote, basket), entry_id="theirs")

    counter.push(counter.entries)

    evidence = finding(headquarters, "ledger_fork")["detail"]
    assert [(each["id"], each["hash"]) for each in evidence["entries"]] == [("theirs", theirs.hash.hex())]
    assert [(each["id"], each["hash"]) for each in evidence["ours"]] == [(ours.entry_id, ours.hash.hex())]


# ------------------------------------------------------------------ two that think they are one


class Run:
    """Be one run of a till's program: it tells back the number of the last answer that it heard."""

    def __init__(self, counter: Counter, boot: str) -> None:
        self._counter, self.boot, self.heard = counter, boot, 0

    def letter(self) -> dict[str, Any]:
        return {"boot": self.boot, "heard": self.heard}

    def hello(self) -> str:
        answer = self._counter.hello(**self.letter())
        self.heard = answer["contact"]
        return str(answer["state"])


def test_two_live_copies_of_a_till_are_found_before_either_has_sold(
    headquarters: Headquarters, counter: Counter
) -> None:
    first, copy = Run(counter, "first"), Run(counter, "copy")

    told = [first.hello(), copy.hello(), first.hello(), copy.hello(), first.hello()]

    assert told == ["OK", "OK", "OK", "OK", "FORK"]
    assert copy.hello() == "FORK"
    evidence = finding(headquarters, "till_cloned")["detail"]
    assert sorted(evidence["boots"]) == ["copy", "first"]


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= 3)) for n in range(20)])
def test_restarts_lost_doubled_and_late_greetings_never_look_like_a_copy(
    headquarters: Headquarters, counter: Counter, seed: int
) -> None:
    """One run at a time is alive; whatever it said may arrive, again and much later, and its answers may be lost."""
    draw, letters = random.Random(seed), []
    for number in range(4):
        run = Run(counter, f"run{number}")
        for _ in range(draw.randint(1, 3)):
            letters.append(run.letter())
            if draw.random() < 0.7:
                assert run.hello() == "OK"
            for _ in range(draw.randint(0, 2)):
                assert counter.hello(**draw.choice(letters))["state"] == "OK"

    assert findings(headquarters) == {}


def test_the_runs_of_a_year_are_not_all_kept(headquarters: Headquarters, counter: Counter) -> None:
    for number in range(boots.KEPT + 5):
        counter.hello(boot=f"b{number}")

    count = headquarters.database.read(lambda conn: conn.exec_driver_sql("SELECT count(*) FROM till_boot").scalar())
    assert count == boots.KEPT


# ------------------------------------------------------------------ a new epoch


def test_the_same_enrolment_gets_the_same_epoch_and_the_old_one_is_closed(counter: Counter) -> None:
    sell(counter, "o1")
    counter.push()
    old = counter.entries

    first = counter.enrol("n1")
    counter.epoch, counter.entries = 1, old
    again = counter.enrol("n1")

    assert (first["epoch"], again["epoch"]) == (2, 2)
    assert counter.push(old, epoch=1)["error"] == "EPOCH"
    assert counter.hello()["epoch"] == 2


def test_a_pass_begins_one_epoch_and_no_second(counter: Counter) -> None:
    counter.enrol("n1")

    copy = counter.enrol("n2", status=409)
    counter.renew_key()
    renewed = counter.enrol("n2")

    assert copy["outcome"] == "not_allowed"
    assert renewed["epoch"] == 3


def test_a_till_that_knows_a_later_epoch_than_a_restored_server_gets_one_behind_it(counter: Counter) -> None:
    counter.epoch = 5

    assert counter.enrol()["epoch"] == 6


def test_what_was_announced_and_is_not_here_is_a_finding_until_it_is_carried_over(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    counter.push()
    sell(counter, "o2", "o3")
    counter.hello(seen=(0, ""))
    old = counter.entries

    counter.enrol()

    lost = finding(headquarters, "tail_lost")
    assert (lost["detail"]["entries"], lost["detail"]["here"][0], lost["detail"]["tail"][0]) == (2, 1, 3)
    counter.carry(old[1])
    counter.push()
    assert findings(headquarters) == {"tail_lost": 1}
    counter.carry(old[2])
    counter.push()
    assert findings(headquarters) == {}
    assert violations(headquarters) == []


def test_a_ledger_that_is_left_twice_is_told_both_times_where_it_ended(counter: Counter) -> None:
    """The first answer got lost, and the till asks anew: its end is that of the ledger, not of the empty epoch."""
    sell(counter, "o1", "o2", "o3")
    counter.hello()
    old = counter.entries
    first = counter.enrol("n1")
    counter.renew_key()
    counter.epoch, counter.entries = 1, old[:1]

    second = counter.enrol("n2")

    assert (first["epoch"], second["epoch"]) == (2, 3)
    assert first["tail"] == second["tail"] == [3, old[2].hash.hex()]


def test_what_is_carried_over_is_another_ledger_so_the_lost_one_stays_a_finding(
    headquarters: Headquarters, counter: Counter
) -> None:
    roll_back_and_sell_past_the_end(counter)
    counter.push()
    counter.renew_key()
    rolled = counter.entries
    counter.enrol()

    for entry in rolled[1:]:
        counter.carry(entry)

    assert counter.verdicts() == [("OK", "")] * 3
    assert findings(headquarters) == {"ledger_fork": 1, "tail_lost": 1}
    assert counter.state("p4") == "PAID"
    assert violations(headquarters) == []


def test_a_till_that_says_it_had_more_than_it_announced_is_believed(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    counter.push()

    counter.enrol(last=(4, ""))

    assert finding(headquarters, "tail_lost")["detail"]["entries"] == 3


def test_an_entry_is_carried_once_whatever_is_sent_again(headquarters: Headquarters, counter: Counter) -> None:
    sell(counter, "o1", "o2")
    old = counter.entries
    assert counter.unknown(*(entry.entry_id for entry in old)) == [entry.entry_id for entry in old]
    counter.enrol()
    counter.carry(old[0])
    counter.push()
    known = counter.unknown(*(entry.entry_id for entry in old))
    counter.renew_key()
    counter.enrol("n2")
    counter.carry(old[0])
    counter.carry(old[1])

    assert known == [old[1].entry_id]
    assert counter.verdicts() == [("OK", ""), ("OK", "")]
    assert (counter.state("o1"), counter.state("o2")) == ("PAID", "PAID")
    assert findings(headquarters) == {}
    assert violations(headquarters) == []


def test_another_entry_under_an_id_that_is_here_is_parked_and_not_booked(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    counter.push()
    (known,) = counter.entries
    basket = counter.basket("o2", "A")
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    other = make_entry(known.hash, till_id="t1", epoch=1, seq=2, entry_id=known.entry_id, kind="sale", data=body)
    counter.enrol()
    counter.carry(other)

    assert counter.verdicts() == [("CONFLICT", "duplicate_entry")]
    counter.call("GET", "/v1/orders/o2", status=404)
    assert violations(headquarters) == []


def test_what_was_never_in_that_tills_ledger_is_parked_and_not_booked(
    headquarters: Headquarters, counter: Counter
) -> None:
    sell(counter, "o1")
    (entry,) = counter.entries
    counter.enrol()
    counter.carry(dataclasses.replace(entry, body=entry.body.replace(b'"A"', b'"B"')))
    sell(counter, "o2")

    assert counter.verdicts() == [("QUARANTINED", "quarantined"), ("OK", "")]
    counter.call("GET", "/v1/orders/o1", status=404)
    assert violations(headquarters) == []


def test_a_receipt_of_an_epoch_that_is_over_is_found(counter: Counter) -> None:
    sell(counter, "o1")
    (entry,) = counter.entries
    counter.enrol()
    counter.carry(entry)
    counter.push()

    assert counter.call("GET", "/v1/orders/t1-1-1", status=200)["order"] == "o1"


# ------------------------------------------------------------------ rights that stay behind


def test_rights_of_the_old_epoch_are_frozen_and_what_is_carried_over_still_uses_them(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign(stock=5, per_member=5)
    mine, other = coupon(headquarters), coupon(headquarters, request="r2")
    for number, name in enumerate((mine, other)):
        counter.take_home(name, request=f"h{number}")
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: 2})
    (sold,) = counter.entries
    counter.enrol()

    refused = counter.take_home(other, request="h9", status=409)
    counter.carry(sold)

    assert (refused["outcome"], counter.verdicts()) == ("leased_elsewhere", [("OK", "")])
    states = [headquarters.call("GET", f"/v1/coupons/{name}", status=200) for name in (mine, other)]
    assert [(state["state"], state["home"]) for state in states] == [("USED", None), ("ISSUED", "t1")]
    assert violations(headquarters) == []


def test_a_lease_of_the_old_epoch_is_drawn_on_and_closed_from_the_new_one(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    counter.lease("value", "m1", 30_000)
    counter.enrol()
    leased = [headquarters.call("GET", "/v1/tills/t1/rights", status=200)["leases"][0]["left"]]

    counter.append("lease_close", counter.told(lease="l1", used=0))

    assert (counter.verdicts(), leased) == ([("OK", "")], [30_000])
    assert headquarters.call("GET", "/v1/tills/t1/rights", status=200)["leases"] == []
    assert violations(headquarters) == []


def test_a_coupon_whose_claim_is_carried_over_is_frozen_until_its_till_returns_it(
    headquarters: Headquarters, counter: Counter
) -> None:
    """The entry behind the claim is lost, and may have used the coupon; a ledger that is whole says that it did not."""
    headquarters.campaign(stock=1)
    (given,) = counter.lease("stock", "c1", 1)["coupons"]
    mine = given["coupon"]
    told = {"lease": "l1", "coupon": mine, "request": "q1", "source": "till:t1"}
    rule = {"campaign": "c1", "snapshot": "c1/1", "member": "m1", "valid_until_ms": None}
    claim = counter.append("claim", counter.told(**told, **rule))
    sell(counter, "o1")
    counter.enrol()
    counter.carry(claim)
    assert counter.verdicts() == [("OK", "")]

    refused = counter.take_home(mine, status=409)

    assert refused["outcome"] == "leased_elsewhere"
    record = headquarters.services.read(lambda conn, _: READERS[COUPON](conn, [mine]))[mine]
    assert (record["home"], record["frozen"]) == ("t1", True)
    counter.append("coupon_return", counter.told(coupon=mine, version=1))
    assert counter.verdicts() == [("OK", "")]
    assert counter.take_home(mine, request="h2")["version"] == 3


def test_a_lease_of_another_till_is_not_closed(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    other = Counter(headquarters, "t2")
    other.lease("value", "m1", 30_000)
    counter.append("lease_close", counter.told(lease="l1", used=0))

    assert counter.verdicts() == [("CONFLICT", "lease_mismatch")]


def test_an_order_that_waits_for_a_payment_is_told_to_a_till_that_has_forgotten_it(counter: Counter) -> None:
    lines, quote = counter.price(basket := counter.basket("o1", "A"))
    whole = counter.sale_body(lines, quote, basket)
    counter.append("payment_unknown", {**whole, "payment": {"id": "p1", "type": "card", "amount_minor": 10_000}})
    counter.push()

    (waiting,) = counter.enrol()["pending"]

    assert (waiting["order"], waiting["state"], waiting["attempt"]) == ("o1", "UNKNOWN", 1)
    assert waiting["told"]["payment"]["id"] == "p1"
    assert waiting["told"]["quote"] == whole["quote"]

"""The sync routes: bound to the till of the key, one version, hello by compare-and-announce, sums of business days."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.domain.basket import MAX_LINES
from app.domain.money import MAX_MINOR
from sync.protocol import HELLO_PATH, PULL_PATH, PUSH_PATH, SANITY_PATH
from tests.fakes.counter import (
    Counter,
    coupon,
    finding,
    findings,
)
from tests.fakes.headquarters import Headquarters

PATHS = (HELLO_PATH, PUSH_PATH, PULL_PATH, SANITY_PATH)


def _mark(counter: Counter, seq: int) -> tuple[int, str]:
    return (seq, counter.entries[seq - 1].hash.hex()) if seq else (0, "")


# ------------------------------------------------------------------ who may speak


def test_a_till_of_a_later_version_is_greeted(counter: Counter) -> None:
    assert counter.hello(of_a_later_version=[1])["state"] == "OK"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scope", ["app", "manager", "headquarters"])
def test_only_a_till_syncs(headquarters: Headquarters, path: str, scope: str) -> None:
    key = headquarters.key if scope == "headquarters" else headquarters.new_key(scope)

    headquarters.call("POST", path, {}, key=key, status=403)


@pytest.mark.parametrize("path", PATHS)
def test_nobody_syncs_without_a_key(headquarters: Headquarters, path: str) -> None:
    headquarters.call("POST", path, {}, key="", status=401)


def test_a_till_speaks_for_itself_alone(headquarters: Headquarters, counter: Counter) -> None:
    other = Counter(headquarters, "t2")
    counter.sell(counter.basket("o1", "A"))
    counter.key = other.key

    answer = counter.push(status=403)

    assert answer == {"error": "wrong_till"}
    found = finding(headquarters, "wrong_till")
    assert (found["detail"]["till"], found["detail"]["spoke_as"]) == ("t2", "t1")


@pytest.mark.parametrize("name", ["t1\x00", "t" * 100_000, ""])
def test_a_till_that_calls_itself_anything_is_found_once_a_day(
    headquarters: Headquarters, counter: Counter, name: str
) -> None:
    for days in (0, 0, 1):
        headquarters.clock.pass_time(days=days)
        message = {"proto": 1, "till": name, "cursor": 0, "limit": 1}
        assert counter.call("POST", PULL_PATH, message, status=403) == {"error": "wrong_till"}

    assert findings(headquarters) == {"wrong_till": 2}
    assert headquarters.call("GET", "/v1/findings", status=200)["findings"][0]["detail"]["spoke_as"] == ""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "tables"])
def test_a_message_nested_beyond_reason_is_422(counter: Counter, path: str, body: str) -> None:
    headers = {"Authorization": f"Bearer {counter.key}"}

    answer = counter.hq.send(httpx.Request("POST", f"http://headquarters{path}", content=body, headers=headers))

    assert (answer.status_code, answer.json()["error"]) == (422, "invalid_request")


@pytest.mark.parametrize("path", PATHS)
def test_another_version_of_the_protocol_is_refused_with_those_that_are_spoken(counter: Counter, path: str) -> None:
    answer = counter.call("POST", path, {"proto": 2, "till": "t1", "news": True}, status=426)

    assert answer == {"error": "UNKNOWN_PROTOCOL", "accept": [1, 1]}


def test_another_version_is_refused_though_its_message_looks_like_ours(counter: Counter) -> None:
    counter.call("POST", PULL_PATH, {"proto": 1, "till": "t1", "cursor": 0}, status=200)

    counter.call("POST", PULL_PATH, {"proto": 2, "till": "t1", "cursor": 0}, status=426)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [None, [], {"proto": 1}, {"proto": 1, "till": "t1", "typo": 1}])
def test_a_message_that_makes_no_sense_is_422(counter: Counter, path: str, body: Any) -> None:
    answer = counter.call("POST", path, body, status=422)

    assert answer["error"] == "invalid_request"


def test_the_largest_basket_of_the_longest_names_is_taken_in(headquarters: Headquarters, counter: Counter) -> None:
    long = "\N{CAT}" * 200
    skus = [f"{number:04d}" + "\N{CAT}" * 60 for number in range(MAX_LINES)]
    goods = [{"sku": sku, "price": "9999.99", "category": long, "brand": long} for sku in skus]
    for start in range(0, MAX_LINES, 100):
        headquarters.call("POST", "/v1/products", goods[start : start + 100], status=200)
    headquarters.campaign("p1", kind="automatic")
    counter.sell(counter.basket("o1", *skus))

    assert counter.verdicts() == [("OK", "")]


def test_more_entries_than_a_batch_holds_are_422(counter: Counter) -> None:
    for number in range(201):
        counter.sell(counter.basket(f"o{number}", "A"))

    counter.push(status=422)
    answer = counter.push(counter.entries[:200])

    assert answer["acked"][0] == 200


# ------------------------------------------------------------------ hello


def test_hello_tells_what_the_server_holds(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()

    answer = counter.hello()

    assert answer["acked"] == list(_mark(counter, 1))
    assert (answer["epoch"], answer["incarnation"], answer["state"]) == (1, 1, "OK")
    assert answer["now_ms"] == round(headquarters.clock.at.timestamp() * 1000)
    assert answer["schema_accept"] == [1, 1]
    assert answer["head"] > 0


def test_a_tail_is_announced_only_by_a_till_that_knows_the_one_before(counter: Counter) -> None:
    for number in range(3):
        counter.sell(counter.basket(f"o{number}", "A"))
    first = counter.hello(last=_mark(counter, 2))
    stale = counter.hello(last=_mark(counter, 3), seen=(0, ""))

    second = counter.hello(last=_mark(counter, 3), seen=_mark(counter, 2))

    assert first["tail"] == list(_mark(counter, 2))
    assert stale["tail"] == list(_mark(counter, 2))
    assert second["tail"] == list(_mark(counter, 3))


def test_a_tail_never_goes_back(counter: Counter) -> None:
    for number in range(2):
        counter.sell(counter.basket(f"o{number}", "A"))
    counter.hello(last=_mark(counter, 2))

    answer = counter.hello(last=_mark(counter, 1), seen=_mark(counter, 2))

    assert answer["tail"] == list(_mark(counter, 2))


def test_a_till_whose_disk_was_rolled_back_cannot_announce_over_the_evidence(
    headquarters: Headquarters, counter: Counter
) -> None:
    for number in range(3):
        counter.sell(counter.basket(f"o{number}", "A"))
    counter.hello(last=_mark(counter, 1))
    counter.hello(last=_mark(counter, 3), seen=_mark(counter, 1))
    told = counter.entries[2].hash.hex()
    # The disk goes back to number 1, where `seen` was number 1 too, and sells on past the old end.
    del counter.entries[1:]
    for number in range(7, 10):
        counter.sell(counter.basket(f"o{number}", "A"))

    answer = counter.hello(last=_mark(counter, 4), seen=_mark(counter, 1))

    assert answer["tail"] == [3, told]
    assert counter.entries[2].hash.hex() != told


def test_a_till_that_knows_less_than_the_server_is_found(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o2", "A"))
    counter.push()

    counter.hello(last=_mark(counter, 1), seen=(0, ""), stopped="rows_lost")
    counter.hello(last=_mark(counter, 1), seen=(0, ""), stopped="rows_lost")

    assert findings(headquarters) == {"ledger_rows_lost": 1}


def test_a_till_whose_ledger_is_another_is_found_once(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()

    counter.hello(last=(2, "ab" * 32), seen=(0, ""), stopped="fork")
    counter.hello(last=(3, "cd" * 32), seen=(0, ""), stopped="fork")

    assert findings(headquarters) == {"ledger_fork": 1}


def test_a_copy_of_an_old_greeting_is_no_sign_of_lost_rows(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o2", "A"))
    counter.push()

    counter.hello(last=_mark(counter, 1), seen=(0, ""))

    assert findings(headquarters) == {}


def test_a_damaged_ledger_is_found_once_for_each_start_of_the_till(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.hello(db="damaged", boot="b1")
    counter.hello(db="damaged", boot="b1")
    counter.hello(db="damaged", boot="b2")

    assert findings(headquarters) == {"till_damaged": 2}


def test_hello_of_another_epoch_announces_nothing(counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))

    answer = counter.hello(epoch=2)

    assert (answer["epoch"], answer["tail"]) == (1, [0, ""])


# ------------------------------------------------------------------ pull


def test_pull_gives_pages_in_feed_order(counter: Counter) -> None:
    message = {"proto": 1, "till": "t1", "cursor": 0, "limit": 2}
    seen: list[int] = []
    while True:
        page = counter.call("POST", PULL_PATH, message, status=200)
        seen += [record["seq"] for record in page["records"]]
        message["cursor"] = page["next"]
        if not page["more"]:
            break

    assert seen == sorted(set(seen))
    assert len(seen) == len({"chain": 1, "s1": 1, "m1": 1} | dict.fromkeys(["A", "B", "W", "WASH"], 1))


def test_a_hold_moves_coupon_member_and_campaign_in_the_feed(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(budget="100.00")
    mine = coupon(headquarters)
    message = {"proto": 1, "till": "t1", "cursor": 0, "limit": 1000}
    cursor = counter.call("POST", PULL_PATH, message)["next"]

    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)

    page = counter.call("POST", PULL_PATH, {**message, "cursor": cursor}, status=200)
    told = {record["kind"]: record["record"] for record in page["records"]}
    assert set(told) == {"coupon", "member", "campaign"}
    assert (told["coupon"]["state"], told["coupon"]["order"], told["coupon"]["store"]) == ("FROZEN", "o1", "s1")
    assert told["member"]["has_ordered"] is True
    assert told["campaign"]["budget_left_minor"] == 9000


# ------------------------------------------------------------------ sanity


def _day(**fields: Any) -> dict[str, Any]:
    return {"sales": 0, "refunds": 0, "tenders": {}, "discount_minor": 0, **fields}


def test_both_sides_agree_on_a_business_day_in_the_stores_zone(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    headquarters.clock.pass_time(hours=13, minutes=59)
    counter.sell(counter.basket("o2", "B"))
    headquarters.clock.pass_time(minutes=1)
    counter.sell(counter.basket("o3", "B"))
    counter.push()

    differences = counter.sanity(
        {
            "2026-06-01": _day(sales=2, tenders={"cash": 13000}),
            "2026-06-02": _day(sales=1, tenders={"cash": 3000}),
        }
    )

    assert differences == []
    assert findings(headquarters) == {}


@pytest.mark.parametrize(("zone", "day"), [("Pacific/Kiritimati", "2026-06-02"), ("../../etc/passwd", "2026-06-01")])
def test_days_begin_where_the_till_says_or_else_in_its_store(counter: Counter, zone: str, day: str) -> None:
    counter.hq.clock.pass_time(hours=10)
    counter.sell(counter.basket("o1", "A"))
    counter.push()

    differences = counter.sanity({day: _day(sales=1, tenders={"cash": 10000})}, zone=zone)

    assert differences == []


def test_a_day_that_differs_is_told_and_found_once(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    theirs = {"2026-06-01": _day(sales=2, tenders={"cash": 10500})}

    first = counter.sanity(theirs)
    again = counter.sanity(theirs)

    assert (
        first
        == again
        == [
            {"day": "2026-06-01", "field": "sales", "till": 2, "server": 1},
            {"day": "2026-06-01", "field": "tenders", "till": {"cash": 10500}, "server": {"cash": 10000}},
        ]
    )
    (found,) = headquarters.call("GET", "/v1/findings")["findings"]
    assert (found["kind"], found["amount_minor"]) == ("sanity", 500)


def test_sums_that_are_no_numbers_differ(headquarters: Headquarters, counter: Counter) -> None:
    differences = counter.sanity({"2026-06-01": _day(tenders={"cash": {"type": ["x"]}, "card": "1", "wallet": 5})})

    assert [each["field"] for each in differences] == ["tenders"]
    (found,) = headquarters.call("GET", "/v1/findings")["findings"]
    assert (found["kind"], found["amount_minor"]) == ("sanity", 5)


def test_refunds_count_on_the_day_of_their_entry(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", ("A", 2000)))
    counter.push()
    answer = counter.refund("o1", (1, 1000), request="r1")
    headquarters.clock.pass_time(days=1)
    counter.append("refund", counter.body("o1", refund="r1", body=answer["refund"], decided_by="server"))
    counter.push()

    differences = counter.sanity(
        {
            "2026-06-01": _day(sales=1, tenders={"cash": 20000}),
            "2026-06-02": _day(refunds=1, tenders={"cash": -10000}),
        }
    )

    assert differences == []


def test_refunds_of_a_till_whose_clock_is_years_behind_count_on_its_own_day(
    headquarters: Headquarters, counter: Counter
) -> None:
    back_then = headquarters.clock.at - timedelta(days=3653)
    counter.sell(counter.basket("o1", ("A", 2000)), at=back_then)
    counter.push()
    answer = counter.refund("o1", (1, 1000), request="r1")
    told = counter.body("o1", at=back_then, refund="r1", body=answer["refund"], decided_by="server")
    counter.append("refund", told)
    counter.push()

    differences = counter.sanity({"2016-05-31": _day(sales=1, refunds=1, tenders={"cash": 10000})})

    assert differences == []


def test_what_was_kept_out_of_the_books_as_a_conflict_is_no_second_difference(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o1", "B"))
    counter.cancel("o2")
    counter.sell(counter.basket("o2", "B"))
    counter.push()

    differences = counter.sanity({"2026-06-01": _day(sales=3, tenders={"cash": 16000})})

    assert differences == []
    assert findings(headquarters) == {"duplicate_order": 1, "late_payment": 1}


def test_nothing_is_compared_while_entries_are_on_their_way(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))

    differences = counter.sanity({"2026-06-01": _day(sales=1, tenders={"cash": 10000})})

    assert differences == []


def test_a_day_that_is_no_date_is_a_difference_and_no_crash(counter: Counter) -> None:
    differences = counter.sanity({"soon": _day()})

    assert differences == [{"day": "soon", "field": "day", "till": "soon", "server": None}]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_what_is_no_number_never_gets_into_a_finding(headquarters: Headquarters, counter: Counter, number: str) -> None:
    body = {"proto": 1, "till": "t1", "epoch": 1, "last": (0, ""), "days": {"2026-06-01": {"sales": "here"}}}
    content = json.dumps(body).replace('"here"', number)
    headers = {"Authorization": f"Bearer {counter.key}"}

    answer = headquarters.send(httpx.Request("POST", f"http://hq{SANITY_PATH}", content=content, headers=headers))

    assert (answer.status_code, answer.json()["error"]) == (422, "invalid_request")
    assert headquarters.call("GET", "/v1/findings", status=200)["findings"] == []


def test_sums_beyond_all_money_are_a_difference_as_others_are(headquarters: Headquarters, counter: Counter) -> None:
    counter.sanity({"2026-06-01": _day(tenders={"cash": 10**30})})

    (found,) = headquarters.call("GET", "/v1/findings", status=200)["findings"]
    assert (found["kind"], found["amount_minor"]) == ("sanity", MAX_MINOR)


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31", "2026-02-30", ""])
def test_a_day_that_no_calendar_has_is_a_difference(counter: Counter, day: str) -> None:
    assert counter.sanity({day: _day()}) == [{"day": day, "field": "day", "till": day, "server": None}]


@pytest.mark.parametrize("mark", ["zz", "A" * 64, "0" * 63])
def test_a_place_in_a_ledger_that_is_no_hash_is_422(counter: Counter, mark: str) -> None:
    message = {"proto": 1, "till": "t1", "epoch": 1, "entries": [], "last": (1, mark)}

    counter.call("POST", PUSH_PATH, message, status=422)


def test_a_version_that_is_no_number_is_no_version(counter: Counter) -> None:
    counter.call("POST", PULL_PATH, {"proto": {}, "till": "t1", "cursor": 0}, status=422)

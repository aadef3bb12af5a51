"""The list of tills: what may speak, when it was heard, how far its ledger is here, what it may spend; page by page."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, event, insert

from server.db.schema import till
from server.services import till_list
from server.services.context import Context
from tests.fakes.counter import Counter, cash, coupon, events, open_counter, stored_value
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    made = open_counter(headquarters)
    for member in ("m1", "m2"):
        headquarters.call("POST", f"/v1/members/{member}/top-ups", {"request": member, "amount": "50.00"}, status=200)
    return made


def listed(headquarters: Headquarters, query: str = "") -> list[dict[str, Any]]:
    tills: list[dict[str, Any]] = headquarters.call("GET", f"/v1/tills{query}", status=200)["tills"]
    return tills


def post(headquarters: Headquarters, path: str, body: Any = None) -> None:
    headquarters.call("POST", f"/v1/tills/{path}", body, status=200)


def test_a_till_that_spoke_is_listed_with_its_ledger_and_its_clock(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    counter.sell(counter.basket("o2", "A"))
    counter.hello()

    (told,) = listed(headquarters)

    assert (told["acked"], told["announced"], told["epoch"]) == (1, 2, 1)
    assert told["last_seen_at"] == headquarters.clock.at.isoformat() and told["clock_drift_ms"] == 0
    assert (told["access"], told["ledger"], told["lost_at"], told["has_key"]) == ("OPEN", "OK", None, True)


def test_what_each_may_spend_is_what_its_rights_show(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=3)
    mine = coupon(headquarters)
    other = Counter(headquarters, "t2")
    counter.lease("value", "m1", 3_000)
    tenders = [stored_value(1_000), cash(9_000)]
    counter.sell_by_rights(counter.basket("o1", "A", member="m1"), tenders=tenders, leases={"l1": 1_000})
    counter.push()
    counter.take_home(mine)
    other.lease("stock", "c1", 2, lease="l2")
    other.lease("value", "m1", 500, lease="l3")
    other.lease("value", "m2", 700, lease="l4")
    other.append("lease_close", other.told(lease="l4", used=0))
    other.push()

    first, second = listed(headquarters)

    assert (first["money"], first["pieces"]) == ("30.00", {"stock": 0, "uses": 0, "coupons": 1})
    assert (second["money"], second["pieces"]) == ("25.00", {"stock": 2, "uses": 0, "coupons": 0})
    for each in (first, second):
        rights = headquarters.call("GET", f"/v1/tills/{each['till']}/rights", status=200)
        assert {
            name: rights[name] for name in ("money", "parts", "pieces", "without_limit", "acked", "announced", "store")
        }.items() <= each.items()


def test_what_headquarters_decided_is_listed_and_in_the_history(headquarters: Headquarters, counter: Counter) -> None:
    post(headquarters, "t1/resume")
    post(headquarters, "t1/suspend", {"reason": "looked at"})
    headquarters.give_up("strand")
    (shut,) = listed(headquarters)
    post(headquarters, "t1/resume")
    (open_again,) = listed(headquarters)
    post(headquarters, "t1/revoke", {"reason": "sold"})

    (revoked,) = listed(headquarters)

    assert (shut["access"], shut["reason"], shut["lost_at"] is None) == ("SUSPENDED", "looked at", False)
    assert (open_again["access"], open_again["reason"]) == ("OPEN", None)
    assert (revoked["access"], revoked["reason"]) == ("REVOKED", "sold")
    assert [name for name, _, _ in events(headquarters, "till", "t1")] == ["suspend", "strand", "resume", "revoke"]


def test_a_till_that_has_not_enrolled_has_no_key(headquarters: Headquarters) -> None:
    post_code = {"store": "s1"}
    headquarters.call("POST", "/v1/tills/t7/enrolment-codes", post_code, status=201)

    (told,) = listed(headquarters)

    assert (told["has_key"], told["last_seen_at"], told["clock_drift_ms"]) == (False, None, None)


def test_pages_follow_each_other_and_none_costs_more_for_more_tills(headquarters: Headquarters) -> None:
    def add(conn: Connection, ctx: Context) -> None:
        conn.execute(insert(till), [{"id": f"r{number:03}", "store_id": "s1"} for number in range(250)])

    headquarters.services.write(add)
    seen, after = [], "r"
    for _ in range(3):
        page = headquarters.call("GET", f"/v1/tills?limit=100&after={after}", status=200)
        seen.append([each["till"] for each in page["tills"]])
        after = page["next"]

    assert after is None
    assert [len(page) for page in seen] == [100, 100, 50]
    assert [name for page in seen for name in page] == [f"r{number:03}" for number in range(250)]
    assert _queries(headquarters, limit=1) == _queries(headquarters, limit=200) == 3


def test_the_last_full_page_has_none_behind_it(headquarters: Headquarters) -> None:
    assert headquarters.call("GET", "/v1/tills", status=200)["tills"] == []
    headquarters.new_key("till")

    assert headquarters.call("GET", "/v1/tills?limit=1", status=200)["next"] is None


def test_only_headquarters_lists_tills(headquarters: Headquarters) -> None:
    for scope in ("till", "app", "manager"):
        headquarters.call("GET", "/v1/tills", key=headquarters.new_key(scope), status=403)
    for wrong in ("limit=0", "limit=1001", "after=a%20b"):
        headquarters.call("GET", f"/v1/tills?{wrong}", status=422)


def _queries(headquarters: Headquarters, *, limit: int) -> int:
    asked: list[str] = []

    def listed(conn: Any, ctx: Any) -> None:
        def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            asked.append(statement)

        event.listen(conn, "before_cursor_execute", note)
        try:
            assert len(till_list.overview(conn, ctx, limit=limit)["tills"]) == limit
        finally:
            event.remove(conn, "before_cursor_execute", note)

    headquarters.services.read(listed)
    return len(asked)

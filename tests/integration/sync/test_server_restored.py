"""The server comes back from yesterday's backup: the tills tell again what that lacks before anything is given out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.domain.refusals import Refusal
from app.domain.tenders import Tender, TenderType
from app.services.ports import Busy, Offline, RefundRequest
from server.jobs import run_due
from sync.protocol import ADOPT_PATH, HELLO_PATH
from tests.fakes.counter import finding, findings, violations
from tests.fakes.shop import basket
from tests.fakes.station import Chain, Station
from tests.fakes.transport import Fault


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path)
    made.hq.campaign(stock=10, per_member=9)
    made.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    yield made
    made.close()


@pytest.fixture
def station(chain: Chain) -> Station:
    made = chain.station()
    made.sync()
    return made


def waiting(chain: Chain) -> list[str]:
    return list(chain.hq.call("GET", "/v1/restore", status=200)["waiting_for"])


def test_tills_push_again_what_the_backup_lacks_and_then_the_waiting_ends(chain: Chain, station: Station) -> None:
    other = chain.station("t2")
    other.sync()
    station.sell("o1")
    station.sync()
    backup = chain.keep_a_copy()
    station.sell("o2")
    other.sell("o3")
    for each in (station, other):
        each.sync()

    chain.go_back_to(backup)
    before = waiting(chain)
    station.sync()
    between = waiting(chain)
    other.sync()

    assert (before, between, waiting(chain)) == (["t1", "t2"], ["t2"], [])
    assert [chain.order(name)["state"] for name in ("o1", "o2", "o3")] == ["PAID"] * 3
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


def test_nothing_is_given_out_before_every_till_has_told(chain: Chain, station: Station) -> None:
    other = chain.station("t2")
    other.sync()
    app = chain.hq.new_key("app")
    backup = chain.keep_a_copy()
    chain.go_back_to(backup)
    claim = {"request": "q1", "campaign": "c1", "member": "m1"}

    claimed = chain.hq.call("POST", "/v1/claims", claim, key=app, status=503)
    with pytest.raises(Busy):
        station.till.head_office.refund(RefundRequest("r1", "o9", None))
    lent = station.till.lease("value:m1", 1_000)
    station.sync()
    other.sync()

    assert claimed["facts"]["reason"] == "restoring"
    assert isinstance(lent, Refusal)
    assert chain.hq.call("POST", "/v1/claims", claim, key=app, status=201)["outcome"] == "ok"
    assert not isinstance(station.till.lease("value:m1", 1_000), Refusal)


def test_rights_that_the_backup_does_not_know_are_taken_over_before_they_are_used(
    chain: Chain, station: Station
) -> None:
    backup = chain.keep_a_copy()
    station.lent("value:m1", 20_000)
    station.lent("stock:c1", 3)
    station.line.offline = True
    station.till.give("q1", "c1", "m1")
    station.sell("o1", "B", member="m1", tenders=[Tender(TenderType.STORED_VALUE, 6_000)], stored_value_minor=6_000)
    station.line.offline = False
    station.sync()

    chain.go_back_to(backup)
    station.sync()

    leases = chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]
    assert sorted((each["account"], each["lent"], each["left"]) for each in leases) == [
        ("stock:c1", 3, 2),
        ("value:m1", 20_000, 14_000),
    ]
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


def test_a_right_that_is_not_there_any_more_is_an_overdraft_and_found(chain: Chain, station: Station) -> None:
    """Another till got the same units again, before anybody said that the database had been set back."""
    backup = chain.keep_a_copy()
    station.lent("value:m1", 20_000)
    station.line.offline = True
    chain.go_back_to(backup, said=False)
    other = chain.station("t2")
    other.sync()
    other.lent("value:m1", 25_000)
    chain.say_restored()
    station.line.offline = False

    station.sync()

    assert finding(chain.hq, "overdraft")["amount_minor"] == 15_000
    assert violations(chain.hq) == []


def test_what_a_till_tells_that_the_backup_takes_for_lost_is_set_aside(chain: Chain, station: Station) -> None:
    """It was found after the backup was made, and lent to again."""
    chain.hq.give_up("strand")
    backup = chain.keep_a_copy()
    chain.hq.call("POST", "/v1/tills/t1/found", {"reason": "it was in the van"}, status=200)
    station.lent("value:m1", 20_000)

    chain.go_back_to(backup)
    station.sync()

    (lease,) = chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]
    assert (lease["left"], lease["stranded"]) == (20_000, True)
    assert violations(chain.hq) == []


def test_a_copy_of_what_was_asked_while_nothing_is_given_out_holds_nothing_when_it_comes_late(
    chain: Chain, station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[httpx.Request] = []
    chain.go_back_to(chain.keep_a_copy())
    deliver = chain.wire.handle_request

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return deliver(request)

    monkeypatch.setattr(chain.wire, "handle_request", keep)
    refused = station.till.checkout("o1", basket("B", member="m1"), stored_value_minor=6_000)
    assert isinstance(refused, Refusal) and refused.code.value == "busy"
    (asked,) = (each for each in sent if each.url.path.endswith("/hold"))

    station.sync()
    between = chain.hq.call("GET", "/v1/restore", status=200)["restoring"]
    deliver(asked)

    assert (between, chain.order("o1")["state"]) == (False, "CANCELLED")


def test_a_greeting_from_before_the_restore_that_comes_late_is_no_second_till(
    chain: Chain, station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it heard was counted behind the backup, and the server counts anew from there."""
    station.sync()
    backup = chain.keep_a_copy()
    sent: list[httpx.Request] = []
    deliver = chain.wire.handle_request

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return deliver(request)

    monkeypatch.setattr(chain.wire, "handle_request", keep)
    for _ in range(4):
        station.engine.look()
    late = [each for each in sent if each.url.path == HELLO_PATH][-1]
    station.restart()

    chain.go_back_to(backup)
    for _ in range(6):
        station.engine.look()
    chain.wire.handle_request(httpx.Request("POST", late.url, headers=late.headers, content=late.content))
    station.engine.look()

    assert findings(chain.hq) == {}


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.DOUBLE, Fault.LOSE_REQUEST])
def test_rights_are_taken_over_once_whatever_the_line_does(chain: Chain, station: Station, fault: Fault) -> None:
    backup = chain.keep_a_copy()
    station.lent("value:m1", 20_000)
    chain.go_back_to(backup)
    station.line.plan(Fault.NONE, fault)

    for _ in range(2):
        try:
            station.sync()
        except Offline:
            continue

    assert [each["lent"] for each in chain.hq.call("GET", "/v1/tills/t1/rights")["leases"]] == [20_000]
    assert violations(chain.hq) == []


def test_a_coupon_is_at_home_again_where_it_was(chain: Chain, station: Station) -> None:
    app = chain.hq.new_key("app")
    claim = {"request": "q1", "campaign": "c1", "member": "m1"}
    coupon = chain.hq.call("POST", "/v1/claims", claim, key=app, status=201)["coupon"]
    station.sync()
    backup = chain.keep_a_copy()
    station.till.take_home(coupon)
    station.line.offline = True
    station.sell("o1", "A", member="m1", use=(coupon,))
    station.line.offline = False

    chain.go_back_to(backup)
    station.sync()

    shown = chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)
    assert (shown["state"], shown["home"]) == ("USED", None)
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


def test_an_older_home_that_is_told_again_takes_nothing_back(chain: Chain, station: Station) -> None:
    """The coupon went home and to another till since: the greater version wins, whoever tells first."""
    app, other = chain.hq.new_key("app"), chain.station("t2")
    claim = {"request": "q1", "campaign": "c1", "member": "m1"}
    coupon = chain.hq.call("POST", "/v1/claims", claim, key=app, status=201)["coupon"]
    station.sync()
    station.till.take_home(coupon)
    station.till.return_home(coupon)
    station.sync()
    other.sync()
    other.till.take_home(coupon)
    chain.go_back_to(chain.keep_a_copy())

    other.sync()
    station.sync()

    assert chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)["home"] == "t2"
    assert violations(chain.hq) == []


def test_a_till_that_will_never_tell_is_written_off_by_name(chain: Chain, station: Station) -> None:
    chain.station("t2").sync()
    backup = chain.keep_a_copy()
    chain.go_back_to(backup)
    station.sync()

    before = waiting(chain)
    answer = chain.hq.call("POST", "/v1/tills/t2/write-off", {"reason": "burnt"}, status=200)

    assert (before, answer["restoring"], waiting(chain)) == (["t2"], False, [])
    chain.hq.call("POST", "/v1/tills/t9/write-off", {"reason": "burnt"}, status=404)


def test_a_till_with_entries_to_tell_is_waited_for(chain: Chain, station: Station) -> None:
    station.sell("o1")
    station.sync()
    backup = chain.keep_a_copy()
    chain.go_back_to(backup)
    station.sell("o2")
    station.line.plan(Fault.NONE, Fault.LOSE_REQUEST)
    with pytest.raises(Offline):
        station.sync()
    station.engine.look()

    before = waiting(chain)
    station.sync()
    station.sync()

    assert (before, waiting(chain)) == (["t1"], [])


def test_rights_are_taken_over_from_nobody_else_at_no_other_time(chain: Chain, station: Station) -> None:
    """Whoever writes leases into his own file gets nothing by it."""
    with station.till.database.write() as tx:
        tx.exec_driver_sql(
            "INSERT INTO lease (id, account_id, asked, qty, state) VALUES ('forged', 'value:m1', 100, 100, 'OPEN')"
        )
    leases = [{"lease": "forged", "account": "value:m1", "asked": 100, "amount": 100}]

    message = {"proto": 1, "till": "t1", "epoch": 1, "leases": leases}
    told = chain.hq.call("POST", ADOPT_PATH, message, key=station.key, status=200)

    assert told == {"leases": 0, "homes": 0}
    assert chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"] == []


def test_a_database_that_was_set_back_in_silence_is_found_by_what_a_till_knows(chain: Chain, station: Station) -> None:
    backup = chain.keep_a_copy()
    station.sell("o1")
    station.sync()
    station.sync()

    chain.go_back_to(backup, said=False)
    station.sync()

    assert finding(chain.hq, "server_set_back")["detail"]["seen"][0] == 1
    assert chain.order("o1")["state"] == "PAID"


def test_a_server_set_back_behind_an_enrolment_lets_the_till_go_on_behind_it(chain: Chain, station: Station) -> None:
    station.sell("o1")
    station.sync()
    backup = chain.keep_a_copy()
    chain.hq.database.write(lambda conn: conn.exec_driver_sql("UPDATE till SET state = 'FORK'"))
    station.sell("o2")
    station.rejoin()
    station.sync()
    station.sell("o3")
    station.sync()

    chain.go_back_to(backup)
    begun = station.rejoin()
    station.sync()
    station.sync()

    assert begun is not None and begun.epoch == 3
    assert [chain.order(name)["state"] for name in ("o1", "o2", "o3")] == ["PAID"] * 3
    assert waiting(chain) == []
    assert violations(chain.hq) == []


def test_holds_wait_too_while_goods_still_sell(chain: Chain, station: Station) -> None:
    backup = chain.keep_a_copy()
    chain.station("t2")
    chain.go_back_to(backup)

    opened = station.till.checkout("v1", basket("B", member="m1"), stored_value_minor=6_000)
    station.sell("o1", "A")

    assert isinstance(opened, Refusal)
    station.sync()
    assert chain.order("o1")["state"] == "PAID"


def test_a_till_that_did_not_notice_tells_its_rights_before_the_entries_that_use_them(
    chain: Chain, station: Station
) -> None:
    """The server came back while the till's line was good: its next word is a push, without a greeting."""
    backup = chain.keep_a_copy()
    station.lent("value:m1", 20_000)
    station.line.offline = True
    station.sell("o1", "B", member="m1", tenders=[Tender(TenderType.STORED_VALUE, 6_000)], stored_value_minor=6_000)
    station.line.offline = False

    chain.go_back_to(backup)
    station.engine.push_now()

    assert findings(chain.hq) == {}
    assert [each["left"] for each in chain.hq.call("GET", "/v1/tills/t1/rights")["leases"]] == [14_000]


def test_a_hold_that_was_paid_since_the_backup_waits_for_its_till(chain: Chain, station: Station) -> None:
    station.till.checkout("o1", basket("B", member="m1"), stored_value_minor=6_000)
    backup = chain.keep_a_copy()
    station.till.pay("o1", [Tender(TenderType.STORED_VALUE, 6_000)])
    station.sync()

    chain.go_back_to(backup)
    chain.hq.clock.pass_time(hours=1)
    run_due(chain.hq.services)
    station.sync()

    assert chain.order("o1")["state"] == "PAID"
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


def test_a_coupon_that_was_used_since_the_backup_does_not_expire_before_its_till_has_told(
    chain: Chain, station: Station
) -> None:
    chain.hq.campaign("c2", stock=10, valid_days=1)
    app = chain.hq.new_key("app")
    claim = {"request": "q1", "campaign": "c2", "member": "m1"}
    coupon = chain.hq.call("POST", "/v1/claims", claim, key=app, status=201)["coupon"]
    station.sync()
    backup = chain.keep_a_copy()
    station.sell("o1", "A", member="m1", use=(coupon,))
    station.sync()

    chain.go_back_to(backup)
    chain.hq.clock.pass_time(days=3)
    run_due(chain.hq.services)
    station.sync()

    assert chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)["state"] == "USED"
    assert set(findings(chain.hq)) == {"no_hold"}

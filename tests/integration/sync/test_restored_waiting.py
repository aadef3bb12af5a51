"""What depends on what another till has to tell waits while a server is being restored, and is judged when all have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.refusals import Refusal
from app.services.ports import Busy, RefundRequest
from server.jobs import run_due
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


def claimed(chain: Chain, request: str = "q1", campaign: str = "c1") -> str:
    claim = {"request": request, "campaign": campaign, "member": "m1"}
    answer = chain.hq.call("POST", "/v1/claims", claim, key=chain.hq.new_key("app"), status=201)
    return str(answer["coupon"])


def test_a_refund_waits_for_the_sale_that_another_till_has_to_tell(chain: Chain, station: Station) -> None:
    """Else it were in no book, and the order could be refunded once more."""
    other = chain.station("t2")
    other.sync()
    backup = chain.keep_a_copy()
    station.sell("o1")
    station.sync()
    other.till.refund("r1", "o1")
    other.sync()

    chain.go_back_to(backup)
    other.sync()
    before = findings(chain.hq)
    station.sync()
    asked = RefundRequest("r2", "o1", None)
    with pytest.raises(Busy):
        station.till.head_office.refund(asked)
    run_due(chain.hq.services)

    assert before == {"quarantined": 1}
    assert chain.order("o1")["refunded_minor"] == 10_000
    assert isinstance(station.till.head_office.refund(asked), Refusal)
    assert finding(chain.hq, "unknown_refund")["detail"]["refund"] == "r1"
    assert finding(chain.hq, "quarantined")["state"] == "CLOSED"
    assert violations(chain.hq) == []


def test_a_refund_whose_sale_nobody_tells_is_found_when_the_waiting_ends(chain: Chain, station: Station) -> None:
    other = chain.station("t2")
    other.sync()
    backup = chain.keep_a_copy()
    station.sell("o1")
    station.sync()
    other.till.refund("r1", "o1")
    other.sync()

    chain.go_back_to(backup)
    other.sync()
    answer = chain.hq.call("POST", "/v1/tills/t1/write-off", {"reason": "burnt"}, status=200)
    run_due(chain.hq.services)

    assert (answer["restoring"], answer["waiting_for"]) == (True, [])
    assert chain.hq.call("GET", "/v1/restore", status=200)["restoring"] is False
    assert finding(chain.hq, "refund_mismatch")["detail"]["order"] == "o1"


def test_what_waits_is_no_difference_between_the_books(chain: Chain, station: Station) -> None:
    other = chain.station("t2")
    other.sync()
    backup = chain.keep_a_copy()
    station.sell("o1")
    station.sync()
    other.till.refund("r1", "o1")
    other.sync()

    chain.go_back_to(backup)
    other.sell("o2")
    other.sync()

    assert set(findings(chain.hq)) == {"quarantined"}


def test_a_coupon_that_another_till_gave_out_is_at_home_where_it_went_since(chain: Chain, station: Station) -> None:
    """The till where it is tells first: of a coupon that nobody knows yet."""
    other = chain.station("t2")
    other.sync()
    station.lent("stock:c1", 3)
    backup = chain.keep_a_copy()
    coupon = station.till.give("q1", "c1", "m1").coupon_id
    station.till.return_home(coupon)
    station.sync()
    other.sync()
    other.till.take_home(coupon)

    chain.go_back_to(backup)
    other.sync()
    before = findings(chain.hq)
    station.sync()
    run_due(chain.hq.services)

    assert before == {"home_mismatch": 1}
    assert chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)["home"] == "t2"
    assert finding(chain.hq, "home_mismatch")["state"] == "CLOSED"
    assert violations(chain.hq) == []


def test_a_home_that_an_entry_names_is_believed_behind_a_backup(chain: Chain, station: Station) -> None:
    """The backup has the coupon in an order that let go of it; then it went to the other till, and home."""
    coupon, other = claimed(chain), chain.station("t2")
    station.sync()
    station.till.checkout("o1", basket("A", member="m1", use=(coupon,)))
    backup = chain.keep_a_copy()
    station.till.cancel("o1")
    station.sync()
    other.sync()
    other.till.take_home(coupon)
    other.till.return_home(coupon)
    other.sync()

    chain.go_back_to(backup)
    other.sync()
    station.sync()
    run_due(chain.hq.services)

    shown = chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)
    assert (shown["state"], shown["home"]) == ("ISSUED", None)
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


def test_a_hold_that_was_over_when_all_have_told_does_not_keep_its_coupon_from_the_next(
    chain: Chain, station: Station
) -> None:
    """The server alone knew that the first order was not paid in time, and that the second held the coupon then."""
    coupon, other = claimed(chain), chain.station("t2")
    station.sync()
    station.till.checkout("o1", basket("A", member="m1", use=(coupon,)))
    backup = chain.keep_a_copy()
    chain.hq.clock.pass_time(hours=1)
    run_due(chain.hq.services)
    other.sync()
    other.sell("o2", "A", member="m1", use=(coupon,))
    other.sync()

    chain.go_back_to(backup)
    other.sync()
    station.sync()
    run_due(chain.hq.services)

    assert chain.hq.call("GET", f"/v1/coupons/{coupon}", status=200)["order"] == "o2"
    assert findings(chain.hq) == {"no_hold": 1}
    assert violations(chain.hq) == []


def test_a_coupon_that_the_backup_lacks_goes_from_the_copies_of_tills(chain: Chain, station: Station) -> None:
    kept = claimed(chain, "q1")
    backup = chain.keep_a_copy()
    lost = claimed(chain, "q2")
    at_home = claimed(chain, "q3")
    station.sync()
    station.till.take_home(at_home)

    chain.go_back_to(backup)
    station.sync()

    with station.till.database.read() as conn:
        copies = set(conn.exec_driver_sql("SELECT id FROM coupon").scalars())
    assert lost not in copies
    assert copies == {kept, at_home}


def test_of_two_backups_that_lie_in_each_other_neither_takes_back_a_right(chain: Chain, station: Station) -> None:
    """Asked for under one id the server said no, then it was put back behind that, and said yes."""
    other = chain.station("t2")
    other.sync()
    first = chain.keep_a_copy().rename(chain.folder / "first.db")
    other.lent("value:m1", 30_000)
    station.line.plan(Fault.LOSE_ANSWER)
    assert isinstance(station.till.lease("value:m1", 5_000), Refusal)
    second = chain.keep_a_copy()
    other.line.offline = True
    chain.go_back_to(first)
    station.sync()
    chain.hq.call("POST", "/v1/tills/t2/write-off", {"reason": "burnt"}, status=200)
    station.till.resume_leases()
    before = chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]

    chain.go_back_to(second)
    station.sync()

    assert [each["lent"] for each in before] == [5_000]
    assert chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"] == before
    assert finding(chain.hq, "overdraft")["amount_minor"] == 5_000
    assert violations(chain.hq) == []

"""A till that was revoked tells what happened at it all the same, gets nothing, and goes on when it enrols anew."""

from __future__ import annotations

import pytest

from app.services.ports import LineTrouble, Offline
from sync.client import TillShut
from sync.hello import Stop, SyncStopped
from sync.protocol import PUSH_MAX_ENTRIES
from tests.fakes.counter import findings, violations
from tests.fakes.enrolled import NewTill
from tests.fakes.station import Chain, Station
from tests.fakes.transport import Fault


@pytest.fixture
def station(chain: Chain) -> Station:
    """Return a till with a sale that the server has."""
    made = chain.station()
    made.sync()
    made.sell("o1")
    made.sync()
    return made


def revoke(chain: Chain) -> None:
    chain.hq.call("POST", "/v1/tills/t1/revoke", {"reason": "stolen"}, status=200)


def tell(station: Station) -> SyncStopped:
    """Let the till sync; return why it stopped."""
    with pytest.raises(SyncStopped) as stopped:
        station.sync()
    return stopped.value


def held(chain: Chain) -> int:
    listed = chain.hq.call("GET", "/v1/findings?kind=revoked_till", status=200)["findings"]
    return int(listed[0]["detail"]["entries"])


def judge(chain: Chain) -> None:
    listed = chain.hq.call("GET", "/v1/findings?kind=revoked_till", status=200)["findings"]
    said = {"by": "Lin", "reason": "it was ours"}
    chain.hq.call("POST", f"/v1/findings/{listed[0]['id']}/judge", said, status=200)


def enrol_anew(station: Station) -> None:
    station.close()
    station.key = NewTill(station.chain.hq, station.line).enrol()  # type: ignore[assignment]
    station.open()


def test_what_a_revoked_till_sold_waits_at_the_server_and_at_the_till_is_parked(chain: Chain, station: Station) -> None:
    station.sell("o2")
    revoke(chain)
    chain.hq.call("POST", "/v1/products", [{"sku": "C", "price": "1.00"}], status=200)

    stopped = tell(station)
    station.sell("o3")
    tell(station)

    assert stopped.stop is Stop.REVOKED and held(chain) == 2
    assert [state for _, _, state in station.outbox()] == ["ACKNOWLEDGED", "PARKED", "PARKED"]
    assert station.till.product_names(["C"]) == {}, "it gets no news"
    assert station.till.status().trouble is LineTrouble.REVOKED
    chain.hq.call("GET", "/v1/orders/o2", status=404)
    assert violations(chain.hq) == []


def test_headquarters_books_it_and_the_till_goes_on_behind_a_new_enrolment(chain: Chain, station: Station) -> None:
    station.sell("o2")
    revoke(chain)
    tell(station)

    judge(chain)
    enrol_anew(station)
    station.sell("o3")
    station.sync()

    assert [chain.order(name)["state"] for name in ("o1", "o2", "o3")] == ["PAID"] * 3
    assert findings(chain.hq) == {} and violations(chain.hq) == []


def test_more_than_a_batch_is_told_over_a_bad_line_each_entry_once(chain: Chain, station: Station) -> None:
    for number in range(PUSH_MAX_ENTRIES + 1):
        station.sell(f"more {number}")
    revoke(chain)
    station.line.plan(Fault.NONE, Fault.LOSE_ANSWER)
    with pytest.raises(Offline, match="no_answer"):
        station.sync()
    station.line.heal()

    tell(station)

    assert held(chain) == PUSH_MAX_ENTRIES + 1 and station.till.status().pending_count == 0
    assert findings(chain.hq) == {"revoked_till": 1}


def test_a_till_that_is_revoked_in_the_middle_of_a_session_tells_the_rest(chain: Chain, station: Station) -> None:
    station.engine.look()
    for number in range(PUSH_MAX_ENTRIES + 1):
        station.sell(f"more {number}")
    revoke(chain)

    station.engine.push_now()
    with pytest.raises(TillShut, match="till_revoked"):
        station.engine.pull_now()

    assert held(chain) == PUSH_MAX_ENTRIES + 1 and station.engine.status.reason == "till_revoked"


def test_what_a_revoked_till_knew_of_its_rights_is_told_a_restored_server_when_it_may_speak(
    chain: Chain, station: Station
) -> None:
    backup = chain.keep_a_copy()
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    station.sync()
    station.lent("value:m1", 2_000)
    chain.go_back_to(backup)
    revoke(chain)
    station.sell("o2")

    tell(station)
    before = chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]
    enrol_anew(station)
    station.sync()

    assert held(chain) >= 1 and before == []
    assert [each["left"] for each in chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]] == [2_000]

"""Coupons come home behind every session, so also while a checkout is under way."""

from __future__ import annotations

import pytest

from app.domain.refusals import Refusal
from app.services.api import AtHome, OpenOrder, PaidOrder
from app.services.ports import HoldGranted, HoldRequest
from app.store.errors import DiskFull
from tests.fakes.counter import coupon, coupon_state, findings, violations
from tests.fakes.shop import basket
from tests.fakes.station import Chain, Station


def test_a_coupon_that_comes_home_while_its_hold_is_asked_for_is_used(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    station: Station = chain.station()
    station.sync()
    chain.hq.campaign(stock=5, per_member=5)
    names = (coupon(chain.hq), coupon(chain.hq, request="second"))
    station.sync()
    office = station.till.head_office
    ask = office.hold

    def hold(asked: HoldRequest) -> HoldGranted | Refusal:
        """Let the answer that brings both home still be on its way when the server hears of the hold."""
        for name in names:
            station.client.post("/v1/homes", {"request": f"behind-a-session-{name}", "coupon": name})
        return ask(asked)

    monkeypatch.setattr(office, "hold", hold)

    station.sell("o1", "A", "A", member="m1", use=names[:1])
    station.sync()

    assert coupon_state(chain.hq, names[0]) == "USED"
    assert findings(chain.hq) == {} and violations(chain.hq) == []


def test_an_order_waits_although_its_coupon_was_refused_as_at_home_here_and_that_could_not_be_written_down(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    station, name = with_a_coupon(chain)
    office = station.till.head_office
    ask, heard = office.hold, []

    def hold(asked: HoldRequest) -> HoldGranted | Refusal:
        station.client.post("/v1/homes", {"request": "behind-a-session", "coupon": name})
        heard.append(ask(asked))
        raise DiskFull(station.path, "no room")

    with monkeypatch.context() as full, pytest.raises(DiskFull):
        full.setattr(office, "hold", hold)
        station.till.checkout("o1", basket("A", member="m1", use=(name,)))
    (refused,) = heard
    assert isinstance(refused, Refusal) and refused.facts["till"] == station.till_id

    parked_and_paid(chain, station, name)


@pytest.mark.parametrize("comes_back", [False, True])
def test_an_order_waits_although_its_coupon_left_the_till_since_its_checkout(chain: Chain, *, comes_back: bool) -> None:
    station, name = with_a_coupon(chain)
    assert isinstance(station.till.take_home(name), AtHome)
    opened = station.till.checkout("o1", basket("A", member="m1", use=(name,)))
    assert isinstance(opened, OpenOrder) and not opened.held
    station.till.return_home(name)
    station.sync()
    if comes_back:
        assert isinstance(station.till.take_home(name), AtHome)

    parked_and_paid(chain, station, name)


def with_a_coupon(chain: Chain) -> tuple[Station, str]:
    station = chain.station()
    station.sync()
    chain.hq.campaign(stock=5, per_member=5)
    name = coupon(chain.hq)
    station.sync()
    return station, name


def parked_and_paid(chain: Chain, station: Station, name: str) -> None:
    """Let order o1 wait and be paid; it used the coupon, and no book is wrong."""
    parked = station.till.park("o1")
    assert isinstance(parked, OpenOrder) and parked.state == "HELD", parked
    paid = station.till.pay("o1")
    assert isinstance(paid, PaidOrder), paid
    station.sync()
    assert coupon_state(chain.hq, name) == "USED"
    assert findings(chain.hq) == {} and violations(chain.hq) == []

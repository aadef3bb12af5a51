"""Coupons come home behind every session, so also while a checkout is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.refusals import Refusal
from app.services.ports import HoldGranted, HoldRequest
from tests.fakes.counter import coupon, coupon_state, findings, violations
from tests.fakes.station import Chain, Station


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path)
    yield made
    made.close()


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

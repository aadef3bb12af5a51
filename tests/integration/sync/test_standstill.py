"""A server whose database stands still answers a hold in time; what came of it all the same is given back."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.domain.refusals import Refusal
from server import lookout
from server.http import in_time
from server.services import orders
from tests.fakes.counter import coupon, coupon_state, findings, violations
from tests.fakes.shop import basket
from tests.fakes.station import Chain


def test_a_hold_that_nobody_knows_of_is_given_back_once_the_database_goes_on(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    station = chain.station()
    station.sync()
    chain.hq.campaign(stock=5)
    name = coupon(chain.hq)
    station.sync()
    hangs, goes_on, hold = threading.Event(), threading.Event(), orders.hold

    def stuck(*args: Any) -> Any:
        hangs.set()
        goes_on.wait(30)
        return hold(*args)

    with monkeypatch.context() as patched:
        patched.setattr(orders, "hold", stuck)
        patched.setattr(chain.hq.app.state.reading, "_ask", lambda: hangs.is_set() and goes_on.wait(30))
        patched.setattr(lookout, "PATIENCE_S", 0.1)
        patched.setattr(in_time, "LOOK_AFTER_S", 0.1)
        refused = station.till.checkout("o1", basket("A", member="m1", use=(name,)))
        goes_on.set()
    assert isinstance(refused, Refusal) and refused.code == "needs_online"
    chain.hq.services.write(lambda _conn, _ctx: None)  # behind it
    assert (chain.order("o1")["state"], coupon_state(chain.hq, name)) == ("HELD", "FROZEN")

    station.sync()

    assert (chain.order("o1")["state"], coupon_state(chain.hq, name)) == ("CANCELLED", "ISSUED")
    assert findings(chain.hq) == {} and violations(chain.hq) == []

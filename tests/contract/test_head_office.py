"""What a till may expect of its head office: the same tests for the fake in memory and for the real server behind sync.

A rule that the fake lacks would let the till's own tests pass for the wrong reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal
from app.services.ports import (
    HeadOffice,
    HoldGranted,
    HoldLine,
    HoldRequest,
    Offline,
    RefundGranted,
    RefundRequest,
    SoldOrderView,
)
from app.store import catalog
from app.store.coupons import by_ids
from app.store.database import TillDatabase
from tests.fakes.clock import SetClock
from tests.fakes.head_office import Cable, FakeHeadOffice
from tests.fakes.memory_server import FakeServer
from tests.fakes.memory_world import CNY, NOON
from tests.integration.sync import shop as sync_shop


class Ends(Protocol):
    """Both ends of a line: a product A at 100.00, a member m1, and coupons of 10.00 off."""

    office: HeadOffice
    database: TillDatabase

    def claim(self) -> str:
        """Give m1 a coupon and return its id."""

    def coupon(self, coupon_id: str) -> str:
        """Return the coupon's state at the server."""

    def plug(self, plugged: bool) -> None:
        """Cut the line, or mend it."""

    def sell(self, order_id: str) -> None:
        """Append the sale of one A without any right."""

    def sell_held(self, order_id: str, granted: HoldGranted) -> None:
        """Append the sale of what was held."""

    def give_up(self, order_id: str, attempt: int = 1) -> None:
        """Append that a hold got no answer."""


class RealEnds(sync_shop.Shop):
    """The real server over its real HTTP, and the sync."""

    @property
    def database(self) -> TillDatabase:
        return self.db

    def plug(self, plugged: bool) -> None:
        self.line.offline = not plugged


class FakeEnds(sync_shop.Shop):
    """The fake in memory; entries are written as for the real one."""

    def __init__(self, folder: Path) -> None:
        self.clock = SetClock(NOON)
        self.server = FakeServer(self.clock)
        self.server.product("A", 10_000)
        self.server.member("m1")
        self.server.campaign("c1", benefit={"type": "amount_off", "amount": "10.00"})
        self.cable = Cable()
        self._count = 0
        self._ids = iter(range(1, 1000))  # type: ignore[assignment]
        self.db = self.database = TillDatabase.open(folder / "t1.db", till_id="t1", store_id="s1")
        self.office = FakeHeadOffice(self.server, self.db, self.cable)  # type: ignore[assignment]
        self.office_side = self  # type: ignore[assignment]

    def close(self) -> None:
        self.db.close()

    def claim(self) -> str:
        self._count += 1
        self.server.coupon(f"k{self._count}", f"{self._count:016d}", "c1", member="m1")
        return f"k{self._count}"

    def coupon(self, coupon_id: str) -> str:
        return self.server.coupons[coupon_id].state

    def plug(self, plugged: bool) -> None:
        self.cable.plugged = plugged


@pytest.fixture(params=[FakeEnds, RealEnds], ids=["fake", "real"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    made = request.param(tmp_path)
    made.office.refresh()
    yield made
    made.close()


def hold(order_id: str, *use: str, attempt: int = 1, payable_minor: int | None = None) -> HoldRequest:
    due = 10_000 - 1_000 * len(use) if payable_minor is None else payable_minor
    return HoldRequest(
        order_id=order_id,
        attempt=attempt,
        store_id="s1",
        member_id="m1",
        lines=(HoldLine(1, "A", 1000),),
        use=use,
        covers=(),
        stored_value_minor=0,
        promotions=True,
        payable_minor=due,
    )


def granted(answer: object) -> HoldGranted:
    assert isinstance(answer, HoldGranted), answer
    return answer


def refused(answer: object) -> tuple[str, dict[str, object]]:
    assert isinstance(answer, Refusal), answer
    return answer.code.value, dict(answer.facts)


def test_a_hold_freezes_the_coupon_and_answers_with_the_price(ends: Ends) -> None:
    coupon = ends.claim()

    answer = granted(ends.office.hold(hold("o1", coupon)))

    assert (answer.attempt, answer.quote["payable_minor"], answer.quote["member"]) == (1, 9_000, "m1")
    assert [stage["coupon"] for stage in answer.quote["laid"]] == [coupon]
    assert answer.held_until_at.tzinfo is not None
    assert ends.coupon(coupon) == "FROZEN"


def test_the_same_hold_again_gets_the_same_answer_and_other_content_none(ends: Ends) -> None:
    coupon = ends.claim()
    first = ends.office.hold(hold("o1", coupon))

    again = ends.office.hold(hold("o1", coupon))
    other = ends.office.hold(hold("o1"))

    assert again == first
    assert refused(other)[0] == "duplicate_mismatch"


def test_a_coupon_that_an_order_holds_is_refused_to_another(ends: Ends) -> None:
    coupon = ends.claim()
    ends.office.hold(hold("o1", coupon))

    code, facts = refused(ends.office.hold(hold("o2", coupon)))

    assert (code, facts["order"]) == ("frozen", "o1")


def test_another_total_than_the_servers_is_not_held(ends: Ends) -> None:
    coupon = ends.claim()

    code, facts = refused(ends.office.hold(hold("o1", coupon, payable_minor=8_999)))

    assert (code, facts["shown_minor"], facts["now_minor"]) == ("payment_mismatch", 8_999, 9_000)
    assert ends.coupon(coupon) == "ISSUED"


def test_a_hold_that_was_given_up_is_given_back_and_a_later_attempt_may_follow(ends: Ends) -> None:
    coupon = ends.claim()
    ends.office.hold(hold("o1", coupon))
    ends.give_up("o1")
    ends.office.flush()
    back = ends.coupon(coupon)

    again = ends.office.hold(hold("o1", coupon, attempt=2))

    assert back == "ISSUED"
    assert granted(again).attempt == 2


def test_a_hold_that_arrives_after_it_was_given_up_is_refused(ends: Ends) -> None:
    coupon = ends.claim()
    ends.give_up("o1")
    ends.office.flush()

    code, _ = refused(ends.office.hold(hold("o1", coupon)))

    assert code == "illegal_transition"
    assert ends.coupon(coupon) == "ISSUED"


def test_a_pushed_sale_settles_its_hold(ends: Ends) -> None:
    coupon = ends.claim()
    answer = granted(ends.office.hold(hold("o1", coupon)))
    ends.sell_held("o1", answer)

    ends.office.flush()

    with ends.database.read() as conn:
        assert ends.database.ledger.counts(conn) == (0, 0)
    assert ends.coupon(coupon) == "USED"
    view = ends.office.order("o1")
    assert isinstance(view, SoldOrderView)
    assert (view.state, view.attempt, view.quote["payable_minor"]) == ("PAID", 1, 9_000)
    assert [tender["amount_minor"] for tender in view.tenders] == [9_000]


def test_an_order_that_is_held_says_so(ends: Ends) -> None:
    ends.office.hold(hold("o1", ends.claim()))

    view = ends.office.order("o1")

    assert isinstance(view, SoldOrderView)
    assert (view.state, view.attempt) == ("HELD", 1)


def test_an_order_that_nobody_knows_is_unknown(ends: Ends) -> None:
    assert refused(ends.office.order("nothing"))[0] == "unknown_code"
    assert refused(ends.office.refund(RefundRequest("r1", "nothing", None)))[0] == "unknown_code"


def test_a_refund_gives_the_coupon_back_once_however_often_it_is_asked_for(ends: Ends) -> None:
    coupon = ends.claim()
    ends.sell_held("o1", granted(ends.office.hold(hold("o1", coupon))))
    ends.office.flush()
    first = ends.office.refund(RefundRequest("r1", "o1", None))

    again = ends.office.refund(RefundRequest("r1", "o1", None))
    other = ends.office.refund(RefundRequest("r1", "o1", (RefundLine(1, 1000),)))
    more = ends.office.refund(RefundRequest("r2", "o1", None))

    assert isinstance(first, RefundGranted)
    assert (first.state, first.refund["amount_minor"], first.refund["returned"]) == ("REFUNDED", 9_000, [coupon])
    assert again == first
    assert refused(other)[0] == "duplicate_mismatch"
    assert refused(more)[0] == "not_refundable"
    assert ends.coupon(coupon) == "ISSUED"


def test_an_order_sold_without_rights_is_refunded_too(ends: Ends) -> None:
    ends.sell("o1")
    ends.office.flush()

    back = ends.office.refund(RefundRequest("r1", "o1", (RefundLine(1, 1000),)))

    assert isinstance(back, RefundGranted)
    assert (back.state, back.refund["amount_minor"], back.uses_after) == ("REFUNDED", 10_000, {})


def test_what_the_server_knows_is_in_the_copy_after_a_refresh(ends: Ends) -> None:
    coupon = ends.claim()

    ends.office.refresh()

    with ends.database.read() as conn:
        chain = catalog.chain(conn)
        products = catalog.products(conn, ["A"])
        found = by_ids(conn, [coupon])[coupon]
    assert chain is not None
    assert (chain.currency, products["A"].price_minor) == (CNY, 10_000)
    assert (found.state, found.member_id, found.campaign_state) == ("ISSUED", "m1", "ACTIVE")
    assert found.rule is not None


def test_a_cut_line_is_offline_until_it_answers_again(ends: Ends) -> None:
    ends.plug(False)
    for ask in (
        lambda: ends.office.hold(hold("o1")),
        lambda: ends.office.order("o1"),
        lambda: ends.office.refund(RefundRequest("r1", "o1", None)),
        ends.office.refresh,
    ):
        with pytest.raises(Offline):
            ask()
    cut = (ends.office.online, ends.office.offline_since is not None)

    ends.plug(True)
    ends.office.refresh()

    assert cut == (False, True)
    assert (ends.office.online, ends.office.offline_since) == (True, None)

"""A till leaves its ledger for a new epoch: nothing that it has is lost, nothing is booked twice, whatever happens."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.domain.ports import Step
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import Tender, TenderType
from app.services.api import OpenOrder, PaidOrder, PaymentPending
from app.services.epochs import Begun
from app.services.ports import Offline
from app.store import projections, rights
from sync.enrol import ServerRegistry
from sync.hello import Stop, SyncStopped
from sync.protocol import ENROL_PATH, UNKNOWN_PATH
from tests.fakes.counter import coupon, coupon_state, findings, violations
from tests.fakes.shop import basket
from tests.fakes.station import Chain, Station
from tests.fakes.terminal import Habit
from tests.fakes.transport import Fault


@pytest.fixture
def station(chain: Chain) -> Station:
    made = chain.station()
    made.sync()
    return made


def stopped(station: Station) -> Stop:
    with pytest.raises(SyncStopped) as caught:
        station.sync()
    return caught.value.stop


def homes(station: Station) -> list[rights.Home]:
    with station.till.database.read() as conn:
        return rights.homes(conn)


def rolled_back(station: Station, *, announced: bool) -> None:
    """Sell o1, copy the disk, sell o2 and o3, put the copy back, and sell p2, which the server has never heard of."""
    station.sell("o1")
    station.sync()
    copy = station.keep_a_copy()
    station.sell("o2")
    if announced:
        station.sync()
    station.sell("o3")
    if announced:
        station.engine.look()
    station.go_back_to(copy)
    station.line.offline = True
    station.sell("p2", "B")
    station.line.offline = False


def test_who_watches_sees_what_is_compared_and_carried_over(chain: Chain, station: Station) -> None:
    rolled_back(station, announced=True)
    station.line.offline = True
    station.sell("p3", "B")
    station.line.offline = False
    seen: list[tuple[Step, int, int]] = []

    station.rejoin(lambda *told: seen.append(told))

    assert [told for told in seen if told[0] is not Step.FETCH] == [
        (Step.COMPARE, 3, 3),
        (Step.CARRY, 1, 2),
        (Step.CARRY, 2, 2),
    ]


def test_a_restored_disk_goes_on_in_a_new_epoch_with_all_that_it_has(chain: Chain, station: Station) -> None:
    rolled_back(station, announced=True)
    why = stopped(station)

    begun = station.rejoin()
    station.sell("q1")
    station.sync()

    assert (why, begun) == (Stop.ROWS_LOST, Begun(2, 1, whole=False))
    assert [chain.order(name)["state"] for name in ("o1", "o2", "p2", "q1")] == ["PAID"] * 4
    assert findings(chain.hq) == {"ledger_rows_lost": 1, "tail_lost": 1}
    assert {state for _, _, state in station.outbox()} == {"ACKNOWLEDGED", "CARRIED"}
    assert violations(chain.hq) == []


@pytest.mark.parametrize("carried", [True, False])
def test_a_day_on_which_two_epochs_sold_is_not_compared_whatever_the_clock_said(
    chain: Chain, station: Station, carried: bool
) -> None:
    """The clock was days ahead in the old epoch, and comes to that day in the new one."""
    clock = chain.hq.clock
    today = clock.at
    clock.at += timedelta(days=3)
    station.sell("o1")
    station.sync()
    copy = station.keep_a_copy()
    station.sell("o2")
    station.sync()
    station.go_back_to(copy)
    if carried:
        clock.at += timedelta(days=1)
        station.line.offline = True
        station.sell("p2")
        station.line.offline = False
    ahead = clock.at
    clock.at = today
    stopped(station)
    station.rejoin()
    station.sync()

    clock.at = ahead
    station.sell("q1")
    report = station.engine.run_once()

    assert report.differences == ()
    assert "sanity" not in findings(chain.hq)


def test_a_disk_that_went_back_further_than_anybody_knew_loses_nothing_that_it_has(
    chain: Chain, station: Station
) -> None:
    """Nothing of the lost entries was ever announced: that cannot be seen (PROTOCOL, F13), and all else goes on."""
    rolled_back(station, announced=False)

    station.sync()

    assert chain.order("p2")["state"] == "PAID"
    assert findings(chain.hq) == {}


def test_a_new_machine_can_read_what_it_takes_over_though_the_line_dies_behind_the_new_epoch(
    chain: Chain, station: Station
) -> None:
    station.terminal.next(Habit.PAYS_IN_SILENCE)
    station.till.checkout("o1", basket("A"))
    station.till.pay("o1", [Tender(TenderType.CARD, 10_000)])
    station.sync()
    station.close()
    station.path = station.path.with_name("new-machine.db")

    station.rejoin()
    station.line.offline = True
    shown = station.till.checkout("o1", basket("A"))
    paid = station.till.resolve("o1")

    assert isinstance(shown, OpenOrder) and shown.state == "UNKNOWN"
    assert isinstance(paid, PaidOrder)


def test_nothing_is_booked_twice_where_an_answer_got_lost(chain: Chain, station: Station) -> None:
    """The server had the sale when the till was enrolled anew; the till did not know, and asks before it carries."""
    station.sell("o1")
    station.line.plan(Fault.NONE, Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        station.sync()
    chain.hq.database.write(lambda conn: conn.exec_driver_sql("UPDATE till SET state = 'FORK'"))

    begun = station.rejoin()
    station.sync()

    assert begun == Begun(2, 0, whole=False)
    assert station.outbox() == [(1, 1, "ACKNOWLEDGED")]
    assert chain.order("o1")["state"] == "PAID"
    assert violations(chain.hq) == []


@pytest.mark.parametrize(
    "faults",
    [
        (Fault.LOSE_REQUEST,),
        (Fault.LOSE_ANSWER,),
        (Fault.NONE, Fault.LOSE_REQUEST),
        (Fault.NONE, Fault.LOSE_ANSWER),
        (Fault.NONE, Fault.PORTAL),
        (Fault.NONE, Fault.STALE_ANSWER),
    ],
    ids="-".join,
)
def test_an_enrolment_that_broke_off_is_the_same_when_it_is_asked_again(
    chain: Chain, station: Station, faults: tuple[Fault, ...]
) -> None:
    rolled_back(station, announced=True)
    stopped(station)
    station.close()
    station.join()
    registry = ServerRegistry(station.client, "t1")
    station.line.plan(*faults)

    with station.engine.paused(), pytest.raises(Offline):
        station.till.begin_epoch(registry)
    before = station.till.database.ledger.epoch
    station.restart()
    with station.engine.paused():
        begun = station.till.begin_epoch(ServerRegistry(station.client, "t1"))
    station.sync()

    assert (before, begun.epoch, begun.carried) == (1, 2, 1)
    assert chain.order("p2")["state"] == "PAID"
    assert violations(chain.hq) == []


def test_a_till_that_has_asked_for_an_epoch_and_sells_on_in_its_old_one_is_checked_as_ever(
    chain: Chain, station: Station
) -> None:
    station.line.plan(Fault.LOSE_REQUEST)
    with station.engine.paused(), pytest.raises(Offline):
        station.till.begin_epoch(ServerRegistry(station.client, "t1"))
    image, mark = station.keep_a_copy(), station.path.with_name("till.db.lock")
    station.line.offline = True
    station.sell("o1")
    station.close()
    newest = mark.read_bytes()
    station.write_over(image)
    mark.write_bytes(newest)

    station.open()

    assert "this machine had written 1" in station.till.status().damaged


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_till_that_dies_while_it_enters_a_new_epoch_is_in_the_old_or_the_new_one(
    chain: Chain, station: Station, point: str
) -> None:
    rolled_back(station, announced=True)
    stopped(station)
    station.close()
    station.join()

    def die(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    station.till._parts.probe = die
    with station.engine.paused(), pytest.raises(KeyboardInterrupt):
        station.till.begin_epoch(ServerRegistry(station.client, "t1"))
    alive = station.till.database.ledger.epoch
    station.restart()
    epoch = station.till.database.ledger.epoch
    if point == "before_commit":
        with station.engine.paused():
            station.till.begin_epoch(ServerRegistry(station.client, "t1"))
    station.sync()

    assert alive == epoch == (1 if point == "before_commit" else 2)
    assert chain.order("p2")["state"] == "PAID"
    assert violations(chain.hq) == []


def test_two_live_copies_are_found_stopped_and_each_keeps_what_it_sold(chain: Chain, station: Station) -> None:
    station.sell("o1")
    station.sync()
    copy = Station(chain, station.path.with_name("other"), "t1")
    image = station.keep_a_copy()
    copy.write_over(image)
    copy.key = station.key
    copy.open()
    for each, order in ((station, "a1"), (copy, "b1")):
        each.line.offline = True
        each.sell(order, "B")
        each.line.offline = False

    station.sync()
    why = [stopped(copy), *(stopped(copy) for _ in range(1))]
    begun = copy.rejoin()
    copy.sync()
    station.line.offline = False
    with pytest.raises(Offline):
        station.sync()

    assert set(why) <= {Stop.FORK, Stop.ROWS_LOST}
    assert begun is not None and (begun.epoch, begun.whole) == (2, False)
    assert [chain.order(name)["state"] for name in ("o1", "a1", "b1")] == ["PAID"] * 3
    assert "ledger_fork" in findings(chain.hq)
    assert violations(chain.hq) == []


def test_two_live_copies_that_have_not_sold_yet_are_found_by_their_greetings(chain: Chain, station: Station) -> None:
    copy = Station(chain, station.path.with_name("other"), "t1")
    copy.write_over(station.keep_a_copy())
    copy.key = station.key
    copy.open()

    with pytest.raises(SyncStopped):
        for _ in range(3):
            copy.sync()
            station.sync()

    assert (stopped(station), stopped(copy)) == (Stop.FORK, Stop.FORK)
    assert findings(chain.hq) == {"till_cloned": 1}


def test_a_copy_with_the_old_key_is_shut_out_when_the_till_has_joined_anew(chain: Chain, station: Station) -> None:
    copy = Station(chain, station.path.with_name("other"), "t1")
    copy.write_over(station.keep_a_copy())
    copy.key = station.key
    copy.open()
    chain.hq.database.write(lambda conn: conn.exec_driver_sql("UPDATE till SET state = 'FORK'"))
    station.rejoin()

    with pytest.raises(Offline, match="till_replaced"):
        copy.sync()
    with copy.engine.paused(), pytest.raises(Offline, match="till_replaced"):
        copy.till.begin_epoch(ServerRegistry(copy.client, "t1"))


# ------------------------------------------------------------------ answers of another time


def test_a_new_machine_in_a_tills_place_takes_over_no_coupon_that_the_old_one_may_use(
    chain: Chain, station: Station
) -> None:
    """Nothing was ever announced in this epoch, so nothing tells that machine that it has another ledger."""
    chain.hq.campaign(stock=5, per_member=5)
    name = coupon(chain.hq)
    station.client.post("/v1/homes", {"request": "h1", "coupon": name})
    station.sync()

    machine = Station(chain, chain.folder / "another machine", "t1")
    machine.join()
    machine.sync()

    assert (homes(station), homes(machine)) == ([(name, 2)], [])


def test_a_till_with_a_new_key_uses_the_coupons_that_are_at_home_there(chain: Chain, station: Station) -> None:
    chain.hq.campaign(stock=5, per_member=5)
    name = coupon(chain.hq)
    station.client.post("/v1/homes", {"request": "h1", "coupon": name})
    station.sync()

    station.rejoin()
    station.line.offline = True
    station.sell("o1", member="m1", use=(name,))
    station.line.offline = False
    station.sync()

    assert coupon_state(chain.hq, name) == "USED"
    assert findings(chain.hq) == {} and violations(chain.hq) == []


def test_an_answer_to_an_old_greeting_starts_no_new_epoch(chain: Chain, station: Station) -> None:
    """A proxy gives the answer of the epoch before: taken at its word, the till would leave what it has sold since."""
    rolled_back(station, announced=True)
    stopped(station)
    old_answer = station.line.last_answer
    station.rejoin()
    station.sell("q1")
    station.line.last_answer = old_answer
    station.line.plan(Fault.STALE_ANSWER)

    with pytest.raises(Offline, match="stale_answer") as caught:
        station.engine.look()

    assert not isinstance(caught.value, SyncStopped)
    station.sync()
    assert chain.order("q1")["state"] == "PAID"


# ------------------------------------------------------------------ rights and payments


def test_a_whole_ledger_gives_back_what_it_did_not_use(chain: Chain, station: Station) -> None:
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    station.sync()
    station.lent("value:m1", 20_000)
    station.line.offline = True
    value = Tender(TenderType.STORED_VALUE, 6_000)
    station.sell("o1", "B", member="m1", tenders=[value], stored_value_minor=6_000)
    station.line.offline = False
    chain.hq.database.write(lambda conn: conn.exec_driver_sql("UPDATE till SET epoch = 4"))

    begun = station.rejoin()
    station.sync()

    assert begun == Begun(5, 1, whole=True)
    assert chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"] == []
    balance = chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "u", "amount": "1.00"}, status=200)
    assert balance["balance"] == "241.00"
    assert violations(chain.hq) == []


def test_a_ledger_that_lost_its_end_spends_none_of_its_rights_and_gives_none_back(
    chain: Chain, station: Station
) -> None:
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    station.sync()
    station.lent("value:m1", 20_000)
    rolled_back(station, announced=True)
    stopped(station)

    begun = station.rejoin()
    station.sync()
    station.line.offline = True
    opened = station.till.checkout("v1", basket("B", member="m1"), stored_value_minor=6_000)

    assert begun is not None and not begun.whole
    assert isinstance(opened, Refusal) and opened.code is RefusalCode.NEEDS_ONLINE
    assert [each["left"] for each in chain.hq.call("GET", "/v1/tills/t1/rights")["leases"]] == [20_000]
    assert violations(chain.hq) == []


def test_a_payment_without_an_answer_comes_back_to_a_till_that_has_forgotten_it(chain: Chain, station: Station) -> None:
    copy = station.keep_a_copy()
    station.terminal.next(Habit.PAYS_IN_SILENCE)
    station.terminal.silent = True
    station.till.checkout("o1", basket("A"))
    pending = station.till.pay("o1", [Tender(TenderType.CARD, 10_000)])
    station.sync()
    station.go_back_to(copy)
    stopped(station)

    station.rejoin()
    station.terminal.silent = False
    paid = station.till.resolve("o1")
    station.sync()

    assert isinstance(pending, PaymentPending)
    assert isinstance(paid, PaidOrder)
    assert (chain.order("o1")["state"], list(station.terminal.taken.values())) == ("PAID", [10_000])
    assert violations(chain.hq) == []


def test_what_a_payment_without_an_answer_drew_on_is_used_once_though_the_disk_is_gone(
    chain: Chain, station: Station
) -> None:
    """The till named its rights when it told of the payment; the machine that hears of the money has none of them."""
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    chain.hq.campaign(stock=5, per_member=5)
    name = coupon(chain.hq)
    station.sync()
    station.lent("value:m1", 3_000)
    assert not isinstance(station.till.take_home(name), Refusal)
    station.terminal.next(Habit.PAYS_IN_SILENCE)
    opened = station.till.checkout("o1", basket("B", member="m1", use=(name,)), stored_value_minor=1_000)
    assert isinstance(opened, OpenOrder)
    rest = opened.quote.payable_minor - 1_000
    station.till.pay("o1", [Tender(TenderType.STORED_VALUE, 1_000), Tender(TenderType.CARD, rest)])
    station.sync()
    station.close()
    station.path = station.path.with_name("new-machine.db")

    station.rejoin()
    paid = station.till.resolve("o1")
    station.sync()

    assert isinstance(paid, PaidOrder)
    assert coupon_state(chain.hq, name) == "USED"
    assert not {"double_redemption", "hold_mismatch", "overdraft"} & findings(chain.hq).keys()
    assert violations(chain.hq) == []


def test_what_was_carried_can_be_shown_refunded_and_rebuilt(chain: Chain, station: Station) -> None:
    rolled_back(station, announced=True)
    stopped(station)
    before = station.till.receipt("p2")
    station.rejoin()

    after = station.till.receipt("p2")
    with station.till.database.write() as tx:
        drift = projections.rebuild(tx, station.till.database.ledger)
    back = station.till.refund("r1", "p2")
    station.sync()

    assert (after, drift) == (before, [])
    assert not isinstance(back, Refusal)
    assert chain.order("p2")["state"] == "REFUNDED"
    assert violations(chain.hq) == []


def test_a_till_whose_pass_is_good_and_whose_ledger_is_the_servers_stays_where_it_is(
    chain: Chain, station: Station
) -> None:
    station.sell("o1")
    station.line.requests.clear()

    assert station.rejoin() is None

    assert not {ENROL_PATH, UNKNOWN_PATH} & set(station.line.requests)
    assert station.till.database.ledger.epoch == 1

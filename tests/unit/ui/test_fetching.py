"""A coupon that another till has: it is fetched while the cashier scans on, and who cannot wait is told where it is."""

from __future__ import annotations

import pytest

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.ports import Offline
from tests.fakes.desk import desk_of, key, verdict
from tests.fakes.jobs import Later, Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import FakeTill
from ui.counter.counter_presenter import CounterPresenter
from ui.counter.desk_presenter import DeskPresenter
from ui.counter.fetching import ASK_EVERY_S, ASKS_MAX
from ui.verdict import Tone

ASKED = "take_home c-food"


def elsewhere(**more: object) -> Refusal:
    return refuse(RefusalCode.LEASED_ELSEWHERE, coupon="c-food", till="R2", **more)


@pytest.fixture
def till() -> FakeTill:
    """Return a till that knows that R2, which is connected, has Anna's coupon."""
    shop = pet_shop()
    shop.elsewhere["c-food"] = elsewhere(retry_after_s=20)
    return shop


def desk_online(till: FakeTill, jobs: Now | None = None) -> DeskPresenter:
    return desk_of(till, jobs, online=lambda: till.now_status.online)


def pass_time(desk: DeskPresenter, seconds: int) -> None:
    for _ in range(seconds):
        desk.fetch.tick()


def test_a_coupon_of_another_till_is_asked_for_at_once_and_used_when_it_has_come(till: FakeTill) -> None:
    desk = desk_online(till)
    desk.scan("FOOD")
    desk.scan("K-FOOD")
    asked, told = till.calls.count(ASKED), key(desk)

    del till.elsewhere["c-food"]
    pass_time(desk, ASK_EVERY_S)

    assert (asked, told) == (1, "verdict.fetching")
    assert desk.state.quote is not None and desk.state.quote.used == ("c-food",)
    assert key(desk) == "verdict.coupon_used" and desk.state.basket.member_id == "M1001"


def test_it_is_fetched_too_where_it_is_chosen_from_the_members_coupons(till: FakeTill) -> None:
    desk = desk_online(till)
    desk.scan("FOOD")
    desk.scan("M1001")
    desk.toggle_coupon("c-food")

    del till.elsewhere["c-food"]
    pass_time(desk, ASK_EVERY_S)

    assert desk.state.quote is not None and desk.state.quote.used == ("c-food",)


def test_the_cashier_scans_on_meanwhile(till: FakeTill) -> None:
    desk = desk_online(till)
    desk.scan("K-FOOD")
    desk.scan("FOOD")
    told = key(desk)

    del till.elsewhere["c-food"]
    pass_time(desk, ASK_EVERY_S)

    assert told == "verdict.added"
    assert desk.state.quote is not None and desk.state.quote.used == ("c-food",)


def test_who_waited_long_enough_is_told_where_it_is(till: FakeTill) -> None:
    desk = desk_online(till)
    desk.scan("K-FOOD")

    pass_time(desk, ASK_EVERY_S * ASKS_MAX * 2)

    assert till.calls.count(ASKED) == ASKS_MAX
    assert (key(desk), verdict(desk).tone) == ("leased_elsewhere", Tone.REFUSED)
    assert verdict(desk).message == elsewhere(retry_after_s=20)


def test_a_till_that_does_not_answer_is_named_at_once(till: FakeTill) -> None:
    till.elsewhere["c-food"] = elsewhere()
    desk = desk_online(till)

    desk.scan("K-FOOD")
    pass_time(desk, 60)

    assert (till.calls.count(ASKED), verdict(desk).message) == (1, elsewhere())


def test_offline_nobody_is_asked(till: FakeTill) -> None:
    desk = desk_of(till, online=lambda: False)

    desk.scan("K-FOOD")

    assert (till.calls.count(ASKED), key(desk)) == (0, "leased_elsewhere")


def test_what_comes_for_an_order_that_is_over_goes_onto_no_other(till: FakeTill) -> None:
    jobs = Later()
    desk = desk_online(till, jobs)
    desk.scan("K-FOOD")
    desk.start_over()
    del till.elsewhere["c-food"]
    desk.scan("FOOD")

    jobs.release()
    pass_time(desk, 60)

    assert desk.state.basket.use == () and till.calls.count(ASKED) == 1


def test_what_is_not_here_yet_when_the_order_is_paid_is_waited_for_no_more(till: FakeTill) -> None:
    counter = CounterPresenter(till, Now())
    counter.start()
    counter.scan("FOOD")
    counter.scan("K-FOOD")

    counter.pay()
    del till.elsewhere["c-food"]
    pass_time(counter.desk, 60)

    assert (till.calls.count(ASKED), counter.desk.state.basket.use) == (1, ())


def test_the_next_coupon_takes_the_place_of_the_one_before(till: FakeTill) -> None:
    till.elsewhere["c-cans"] = refuse(RefusalCode.LEASED_ELSEWHERE, coupon="c-cans", till="R3", retry_after_s=20)
    desk = desk_online(till)
    desk.scan("K-FOOD")
    desk.scan("K-CANS")

    pass_time(desk, ASK_EVERY_S)

    assert (till.calls.count(ASKED), till.calls.count("take_home c-cans")) == (1, 2)


def test_an_error_ends_the_waiting_and_is_reported(till: FakeTill, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_coupon_id: str) -> None:
        raise Offline("cut")

    monkeypatch.setattr(till, "take_home", fail)
    jobs = Now()
    desk = desk_online(till, jobs)

    desk.scan("K-FOOD")
    pass_time(desk, 60)

    assert len(jobs.errors) == 1


def test_what_is_fetched_for_a_member_who_was_taken_off_brings_nobody_back(till: FakeTill) -> None:
    desk = desk_online(till)
    desk.scan("FOOD")
    desk.scan("M1001")
    desk.scan("K-FOOD")

    desk.remove_member()
    del till.elsewhere["c-food"]
    pass_time(desk, 60)

    assert (desk.state.basket.member_id, desk.state.basket.use) == (None, ())
    assert till.calls.count(ASKED) == 1


def test_a_coupon_that_is_scanned_again_while_it_is_asked_for_is_asked_for_once(till: FakeTill) -> None:
    """A cashier who scans on a slow line fills all threads of the network, and a payment waits behind them."""
    jobs = Later()
    desk = desk_online(till, jobs)
    desk.scan("FOOD")
    jobs.release()
    for _ in range(9):
        desk.scan("K-FOOD")

    waiting = len(jobs.held)
    del till.elsewhere["c-food"]
    jobs.release()

    assert (waiting, till.calls.count(ASKED)) == (1, 1)
    assert desk.state.basket.use == ("c-food",)

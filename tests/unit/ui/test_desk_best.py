"""Best at the desk: what it chooses, and what becomes of a search while the customer goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.domain.best import Best
from app.services.api import BasketRequest
from tests.fakes.desk import desk_of, key, scanned, verdict
from tests.fakes.jobs import Later
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import FakeTill
from ui.counter.desk_presenter import DeskPresenter
from ui.words import Text


@pytest.fixture
def till() -> FakeTill:
    return pet_shop()


@pytest.fixture
def jobs() -> Later:
    return Later()


@pytest.fixture
def desk(till: FakeTill, jobs: Later) -> DeskPresenter:
    """Give Anna's desk with goods on it; what it looks for aside waits until the jobs are released."""
    desk = desk_of(till, jobs)
    for code in ("FOOD", "M1001"):
        desk.scan(code)
    jobs.hold_aside = True
    return desk


@pytest.fixture
def found(till: FakeTill, desk: DeskPresenter) -> Best:
    """Give what a search for the desk's basket finds."""
    best = till.best(desk.state.basket.request())
    assert isinstance(best, Best)
    return best


def test_best_chooses_what_saves_most_and_says_how_much() -> None:
    desk = scanned("FOOD", "TREAT")
    desk.enter_quantity("0.735")
    desk.scan("M1001")

    desk.best()

    assert set(desk.state.basket.use) == {"c-food", "c-treats"}
    message = verdict(desk).message
    assert isinstance(message, Text) and message.values["saves_minor"] == 5000 + 2183


def test_best_leaves_an_order_alone_that_is_already_the_cheapest() -> None:
    desk = scanned("FOOD", "K-FOOD")

    desk.best()

    assert key(desk) == "verdict.best_already" and desk.state.basket.use == ("c-food",)


def test_best_keeps_a_bearers_coupon_that_saves_more_than_the_members_own() -> None:
    till = pet_shop()
    facts = till.coupons["K-OPEN"]
    till.coupons["K-OPEN"] = replace(
        facts, rule=replace(facts.rule, benefit=replace(facts.rule.benefit, amount_minor=9900))
    )
    desk = scanned("FOOD", "M1001", "K-OPEN", till=till)

    desk.best()

    assert desk.state.basket.use == ("c-open",) and key(desk) == "verdict.best_already"


def test_best_without_a_member_asks_for_one() -> None:
    desk = scanned("FOOD")

    desk.best()

    assert key(desk) == "needs_member"


def test_best_for_a_basket_that_changed_meanwhile_is_not_used(desk: DeskPresenter, jobs: Later) -> None:
    desk.best()
    desk.scan("CAN")
    jobs.release()

    assert desk.state.basket.use == () and key(desk) == "verdict.best_outdated"


def test_an_answer_of_the_last_customer_is_not_shown_to_the_next(desk: DeskPresenter, jobs: Later) -> None:
    desk.best()

    desk.start_over()
    jobs.release()

    assert desk.state.basket.empty and desk.state.verdict is None


def test_a_hard_search_for_the_best_shows_what_it_has_and_takes_it_when_asked_again(
    till: FakeTill, desk: DeskPresenter, jobs: Later, found: Best
) -> None:
    seen: list[str] = []

    def search(_request: BasketRequest, *, keep_going: Callable[[Best], bool] | None = None) -> Best:
        assert keep_going is not None
        assert keep_going(found), "nobody has asked to stop"
        seen.append(key(desk))
        desk.best()
        assert not keep_going(found), "asked again: enough"
        return replace(found, exact=False)

    till.best = search  # type: ignore[method-assign]
    desk.best()
    jobs.release()

    assert seen == ["verdict.best_so_far_waiting"]
    assert key(desk) == "verdict.best_so_far" and desk.state.basket.use == found.coupon_ids


def test_a_search_for_a_basket_that_changed_is_told_to_stop(
    till: FakeTill, desk: DeskPresenter, jobs: Later, found: Best
) -> None:
    went_on: list[bool] = []

    def search(_request: BasketRequest, *, keep_going: Callable[[Best], bool] | None = None) -> Best:
        assert keep_going is not None
        desk.scan("CAN")
        went_on.append(keep_going(found))
        return found

    till.best = search  # type: ignore[method-assign]
    desk.best()
    jobs.release()

    assert went_on == [False] and key(desk) == "verdict.best_outdated"

"""From "head office cannot confirm it" to "accepted": who, why, whose PIN; what is refused keeps the question."""

from __future__ import annotations

import pytest

from app.domain.refusals import Refusal, RefusalCode
from app.services.api import Approver, TillStatus
from tests.fakes.desk import desk_of, key, verdict
from tests.fakes.jobs import Later, Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import NOW, FakeTill
from ui.counter.approval_presenter import ApprovalPresenter, ApprovalState
from ui.counter.desk_presenter import DeskPresenter
from ui.verdict import Tone
from ui.words import Text


@pytest.fixture
def till() -> FakeTill:
    shop = pet_shop()
    shop.now_status = TillStatus(False, NOW, 3, 0, NOW)
    shop.at_risk = {"c-open": 2_000}
    return shop


def at_counter(till: FakeTill, jobs: Now | None = None) -> tuple[DeskPresenter, ApprovalPresenter]:
    desk = desk_of(till, jobs)
    asked = ApprovalPresenter(till, jobs or Now(), desk=desk, changed=lambda: None)  # type: ignore[arg-type]
    for code in ("FOOD", "K-OPEN"):
        desk.scan(code)
    return desk, asked


def begun(asked: ApprovalPresenter) -> ApprovalState:
    asked.begin()
    assert asked.state is not None
    return asked.state


def wrong(asked: ApprovalPresenter) -> str:
    assert asked.state is not None and asked.state.wrong is not None
    return asked.state.wrong.key if isinstance(asked.state.wrong, Text) else asked.state.wrong.code.value


def test_the_coupon_waits_on_the_order_and_a_manager_is_offered(till: FakeTill) -> None:
    desk, asked = at_counter(till)

    assert asked.offered == ("c-open", 2_000)
    assert desk.state.basket.use == ("c-open",) and desk.state.quote is not None
    assert desk.state.quote.used == () and desk.state.payable  # it is paid without the coupon meanwhile
    assert (verdict(desk).tone, key(desk)) == (Tone.WARNING, "needs_approval")


def test_nobody_is_offered_where_a_managers_word_would_not_help(till: FakeTill) -> None:
    till.at_risk.clear()
    _, asked = at_counter(till)

    asked.begin()

    assert asked.offered is None and asked.state is None


def test_who_and_why_and_the_pin_let_the_coupon_through(till: FakeTill) -> None:
    desk, asked = at_counter(till)
    assert begun(asked).chosen == "meg"  # the only one

    asked.enter("270581", " a regular ")

    assert asked.state is None and asked.offered is None
    assert desk.state.quote is not None and desk.state.quote.used == ("c-open",)
    assert (verdict(desk).tone, key(desk)) == (Tone.ACCEPTED, "verdict.coupon_used")
    assert till.approved == {(desk.state.basket.order_id, "c-open"): ("meg", "a regular")}


def test_a_wrong_pin_keeps_the_question_and_says_so(till: FakeTill) -> None:
    desk, asked = at_counter(till)
    begun(asked)

    asked.enter("111111", "a regular")

    assert wrong(asked) == "wrong_pin" and asked.state is not None and asked.state.tries == 1
    assert desk.state.quote is not None and desk.state.quote.used == ()


def test_what_is_missing_is_asked_for_before_any_pin_is_looked_at(till: FakeTill) -> None:
    till.managers = (Approver("meg", "Meg"), Approver("leo", "Leo"))
    _, asked = at_counter(till)
    begun(asked)

    asked.enter("270581", "a regular")
    assert wrong(asked) == "approval.choose_first"
    asked.choose("leo")
    asked.enter("270581", "  ")
    assert wrong(asked) == "approval.reason_first"
    asked.enter("", "a regular")
    assert wrong(asked) == "approval.pin_first"
    assert till.calls == []


def test_without_a_manager_there_is_no_question(till: FakeTill) -> None:
    till.managers = ()
    desk, asked = at_counter(till)

    asked.begin()

    assert asked.state is None and key(desk) == "approval.nobody"


def test_the_question_is_dropped_but_not_while_it_is_answered(till: FakeTill) -> None:
    later = Later()
    desk, asked = at_counter(till)
    asked = ApprovalPresenter(till, later, desk=desk, changed=lambda: None)  # type: ignore[arg-type]
    asked.begin()
    asked.enter("270581", "a regular")
    asked.enter("270581", "a regular")
    asked.drop()
    assert asked.state is not None and asked.state.busy
    later.release()

    assert asked.state is None and len(till.calls) == 1


def test_a_question_that_is_dropped_leaves_the_coupon_waiting(till: FakeTill) -> None:
    desk, asked = at_counter(till)
    begun(asked)

    asked.drop()

    assert asked.state is None and desk.state.basket.use == ("c-open",) and till.calls == []


def test_a_limit_that_was_reached_meanwhile_is_said(till: FakeTill) -> None:
    _, asked = at_counter(till)
    begun(asked)
    till.approve_risk = lambda *_args, **_keys: Refusal(RefusalCode.RISK_SPENT)  # type: ignore[method-assign]

    asked.enter("270581", "a regular")

    assert wrong(asked) == "risk_spent"

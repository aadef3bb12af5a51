"""What this till may do by itself, on the screen; and the closing of the day: asked once, told step by step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import TillStatus
from app.services.rights_view import DayEnd, DayStep
from app.store.errors import DiskFull
from tests.fakes.jobs import Later, Now
from tests.fakes.rights import NOTHING, many_rights
from tests.fakes.till import NOW, FakeTill
from ui.counter.rights_presenter import RightsPresenter, RightsState, question
from ui.verdict import Tone, Verdict
from ui.words import Text


class Page:
    """The presenter on a till in memory, and every state that it went through."""

    def __init__(self, jobs: Now | None = None) -> None:
        self.till, self.jobs = FakeTill(), jobs or Now()
        self.till.view_of_rights = many_rights(NOW)
        self.online, self.basket = True, False
        self.states: list[RightsState] = []
        self.rights = RightsPresenter(
            self.till,  # type: ignore[arg-type]
            self.jobs,
            online=lambda: self.online,
            basket_waits=lambda: self.basket,
            changed=lambda: self.states.append(self.rights.state),
        )

    def verdict(self) -> Verdict:
        assert self.rights.state.verdict is not None
        return self.rights.state.verdict

    def says(self) -> tuple[Tone, str]:
        message = self.verdict().message
        return self.verdict().tone, message.key if isinstance(message, Text) else message.code.value

    def close(self) -> None:
        self.rights.ask()
        self.rights.close_day()


@pytest.fixture
def page() -> Page:
    made = Page()
    made.rights.begin()
    return made


def keys(texts: tuple[Text, ...]) -> list[str]:
    return [text.key.removeprefix("close_day.") for text in texts]


def test_the_rights_are_read_beside_the_counter() -> None:
    jobs = Later()
    jobs.hold_aside = True
    page = Page(jobs)

    page.rights.begin()
    before = page.rights.state.view
    jobs.release()

    assert before is None and page.rights.state.view == many_rights(NOW)


def test_they_are_read_anew_when_something_was_sold_or_synced_and_only_then(page: Page) -> None:
    page.rights.look_again(page.till.now_status)
    page.till.view_of_rights = NOTHING
    page.rights.look_again(page.till.now_status)
    unchanged = page.rights.state.view
    page.rights.look_again(replace(page.till.now_status, pending_count=1))

    assert unchanged == many_rights(NOW) and page.rights.state.view == NOTHING


def test_a_reading_that_fails_is_told_and_the_next_one_goes_on(page: Page) -> None:
    page.till.rights = lambda: (_ for _ in ()).throw(DiskFull(Path("till.db"), "full"))  # type: ignore[method-assign, assignment]
    page.rights.begin()
    del page.till.rights

    assert page.says() == (Tone.REFUSED, "error.unexpected") and len(page.jobs.errors) == 1
    page.rights.begin()
    assert page.rights.state.verdict is None


# ------------------------------------------------------------------ asking


def test_the_question_names_what_goes_back_and_what_stays(page: Page) -> None:
    page.till.view_of_rights = replace(many_rights(NOW), free_leases=5)

    page.rights.ask()

    assert page.rights.state.asked and page.rights.state.view is not None
    said = question(page.rights.state.view)
    assert keys(said) == ["gives_back", "asked_first", "kept", "open", "then"]
    assert said[0].values == {"leases": 5, "coupons": 143}  # as it is now, not as it was read first
    assert page.till.calls == []


def test_the_question_says_no_more_than_there_is() -> None:
    assert keys(question(NOTHING)) == ["gives_back", "then"]


def test_without_a_line_it_says_what_to_do_and_asks_nothing(page: Page) -> None:
    page.online = False

    page.close()

    assert page.says() == (Tone.REFUSED, "rights.offline") and page.till.calls == []


def test_with_a_customer_at_the_desk_the_day_is_not_closed(page: Page) -> None:
    page.basket = True

    page.close()

    assert page.says() == (Tone.REFUSED, "rights.basket_first") and page.till.calls == []


def test_a_no_closes_nothing(page: Page) -> None:
    page.rights.ask()
    page.rights.drop()
    page.rights.close_day()

    assert not page.rights.state.asked and page.till.calls == []


def test_a_question_whose_page_was_left_is_not_put() -> None:
    jobs = Later()
    page = Page(jobs)
    page.rights.begin()
    jobs.hold_aside = True
    page.rights.ask()

    left = page.rights.leave()
    jobs.release()

    assert left and not page.rights.state.asked


def test_a_second_press_puts_no_second_question_once_the_first_is_answered() -> None:
    jobs = Later()
    page = Page(jobs)
    page.rights.begin()
    jobs.hold_aside = True
    page.rights.ask()
    page.rights.ask()

    jobs.held.pop(0)()
    page.rights.close_day()
    jobs.held.pop(0)()

    assert page.rights.state.busy and not page.rights.state.asked


# ------------------------------------------------------------------ closing


def test_the_closing_tells_each_step_and_ends_with_what_was_given_back(page: Page) -> None:
    page.till.view_of_rights = replace(many_rights(NOW), kept=0)

    page.close()

    steps = [state.step for state in page.states if state.step is not None]
    assert list(dict.fromkeys(steps)) == list(DayStep)
    assert page.says() == (Tone.ACCEPTED, "rights.closed")
    assert page.rights.state.view is not None and page.rights.state.view.day_closed


def test_pressed_twice_it_is_done_once() -> None:
    jobs = Later()
    page = Page(jobs)
    page.rights.begin()
    page.close()
    page.close()
    assert page.rights.state.busy and not page.rights.leave()
    page.rights.close_day()
    page.online = False
    page.rights.ask()
    assert page.says() == (Tone.WAITING, "rights.step_telling")

    jobs.release()

    assert page.till.calls == ["end_day"] and not page.rights.state.busy and page.rights.leave()


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (DayEnd(2, 3, 0, waiting_count=0), (Tone.ACCEPTED, "rights.closed")),
        (DayEnd(0, 0, 0, waiting_count=0), (Tone.ACCEPTED, "rights.nothing_left")),
        (DayEnd(2, 3, 1, waiting_count=0), (Tone.WARNING, "rights.kept")),
        (DayEnd(2, 3, 1, waiting_count=5), (Tone.WARNING, "rights.waits")),
        (refuse(RefusalCode.NEEDS_ONLINE), (Tone.REFUSED, "rights.offline")),
        (refuse(RefusalCode.BUSY, retry_after_s=7), (Tone.REFUSED, "busy")),
        (DiskFull(Path("till.db"), "full"), (Tone.REFUSED, "rights.not_done")),
    ],
)
def test_each_end_is_said(page: Page, ends: DayEnd | Refusal | Exception, says: tuple[Tone, str]) -> None:
    page.till.day_ends = ends

    page.close()

    assert page.says() == says and not page.rights.state.busy
    assert len(page.jobs.errors) == isinstance(ends, Exception)


def test_it_is_said_when_head_office_has_heard_of_it(page: Page) -> None:
    page.till.day_ends = DayEnd(2, 3, 0, waiting_count=5)
    page.close()

    page.rights.look_again(TillStatus(True, None, 5, 0, NOW))
    still = page.says()
    page.rights.look_again(TillStatus(True, None, 0, 0, NOW))

    assert (still, page.says()) == ((Tone.WARNING, "rights.waits"), (Tone.ACCEPTED, "rights.closed"))


def test_what_an_earlier_closing_said_is_gone_when_the_page_opens_again(page: Page) -> None:
    page.close()
    page.rights.leave()

    page.rights.begin()

    assert page.rights.state.verdict is None and page.rights.state.end is None

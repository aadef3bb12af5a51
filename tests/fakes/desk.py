"""A desk without a screen, and what its last verdict was."""

from __future__ import annotations

from tests.fakes.jobs import Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import FakeTill
from ui.counter.desk_presenter import DeskPresenter
from ui.verdict import Verdict
from ui.words import Text


def desk_of(till: FakeTill, jobs: Now | None = None, **keys: object) -> DeskPresenter:
    return DeskPresenter(till, jobs or Now(), changed=lambda: None, **keys)  # type: ignore[arg-type]


def scanned(*codes: str, till: FakeTill | None = None) -> DeskPresenter:
    desk = desk_of(till or pet_shop())
    for code in codes:
        desk.scan(code)
    return desk


def verdict(desk: DeskPresenter) -> Verdict:
    assert desk.state.verdict is not None
    return desk.state.verdict


def key(desk: DeskPresenter) -> str:
    message = verdict(desk).message
    return message.key if isinstance(message, Text) else message.code.value

"""Long work: the status bar says how far it is while the cashier sells."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.domain.ports import Step, UnderWay
from app.services.api import TillStatus
from sync.protocol import PULL_PATH
from tests.fakes.station import Chain, Station
from tests.fakes.till import NOW
from tests.gui.conftest import PATIENCE_MS, Driver
from tests.gui.test_layout import SIZES, check, lay_out
from ui.bootstrap import open_window
from ui.counter.counter_presenter import Page
from ui.words import Language

GOODS = 1000
AFTER_90_DAYS = TillStatus(
    False,
    NOW - timedelta(days=90),
    12_340,
    13,
    NOW - timedelta(days=90),
    copy_lag=12_340,
    clock_unsure="jump",
)


class SlowPages(httpx.BaseTransport):
    """Keep the second page that is asked for back until `go_on`."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner, self.pages, self.go_on = inner, 0, threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.pages += request.url.path == PULL_PATH
        if self.pages == 2:
            self.go_on.wait(PATIENCE_MS / 1000)
        return self.inner.handle_request(request)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path)
    goods = [{"sku": f"X{number}", "price": "1.00"} for number in range(GOODS)]
    made.hq.call("POST", "/v1/products", goods, status=200)
    yield made
    made.close()


@pytest.fixture
def station(chain: Chain) -> Station:
    return chain.station()


@pytest.fixture
def counter(qtbot: QtBot, station: Station) -> Iterator[Driver]:
    window = open_window(station.till, clock=station.chain.hq.clock, language=Language.EN)
    qtbot.addWidget(window)
    window.activateWindow()
    yield Driver(qtbot, window, station.till)  # type: ignore[arg-type]
    window._tasks.close()
    window.close()


def line(driver: Driver) -> str:
    return driver.window.status_bar.labels["line"].text()


def test_a_first_pull_is_told_of_and_hinders_no_sale(counter: Driver, station: Station) -> None:
    slow = SlowPages(station.line.inner)
    station.line.inner = slow
    fetching = threading.Thread(target=station.sync)
    fetching.start()
    try:
        counter.until(lambda: line(counter).startswith("Fetching the catalogue: 500 / 1,"))
        hidden = counter.window.status_bar.labels["sync"].isVisible()
        counter.scan("A")
        counter.until(lambda: counter.desk.state.fresh and bool(counter.desk.state.basket.items))
        counter.key(Qt.Key.Key_F12)
        counter.until_page(Page.TENDER)
        counter.key(Qt.Key.Key_F5)
        counter.key(Qt.Key.Key_F12)
        counter.until_page(Page.RECEIPT)
        sold_meanwhile = not slow.go_on.is_set()
    finally:
        slow.go_on.set()
        fetching.join()

    counter.until(lambda: line(counter) == "Online")
    assert sold_meanwhile and not hidden
    assert counter.window.status_bar.labels["sync"].isVisible()


@pytest.mark.parametrize("step", [Step.FETCH, Step.SEND, None])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("language", Language)
def test_how_far_a_catch_up_is_fits_with_all_else_that_the_bar_may_say(
    driver: Driver, size: tuple[int, int], language: Language, step: Step | None
) -> None:
    work = UnderWay(step, 1_048_000, 1_048_576) if step else None
    driver.till.now_status = replace(AFTER_90_DAYS, under_way=work)
    driver.until(lambda: driver.counter.status.status == driver.till.now_status)
    lay_out(driver, size, language)

    check(driver)
    assert ("1,048,000" in line(driver)) == (work is not None) and driver.window.width() == size[0]

"""`pawtill close-day`: what a till has goes back for the night, also where the server hears of it later."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from app.domain.tenders import Tender, TenderType
from app.services.api import BasketLine, BasketRequest, PaidOrder
from app.store import meta
from cli.exits import Exit
from cli.no_terminal import NoTerminal
from cli.office import open_office
from cli.server_process import ServerProcess
from cli.settings import server_settings
from cli.till_folder import find_enrolment, write_joined
from server.opening import open_services
from server.services import catalog
from server.services.system import SystemClock, SystemIds
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import NOWHERE, enrolled, new_code
from ui.running_till import open_running_till


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


_numbers = itertools.count(1)


class Running(NamedTuple):
    """Hold the data folder of a server that runs, and where it answers."""

    folder: Path
    url: str

    def named(self) -> tuple[str, ...]:
        return "--data-dir", str(self.folder), "--url", self.url

    def rights(self, till_id: str) -> list[object]:
        with open_office(server_settings(data_dir=self.folder), self.url) as office:
            return list(office.rights(till_id)["leases"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run one server for all, with a member who has 500.00 and goods."""
    folder = tmp_path_factory.mktemp("close-day") / "server"
    settings = server_settings(data_dir=folder)
    new_code(folder, "R0")
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        services.write(
            lambda conn, ctx: catalog.set_member(conn, ctx, "m1", tier="basic", home_store="riverside", label="")
        )
        services.write(lambda conn, ctx: catalog.set_products(conn, ctx, [catalog.Product("A", "100.00", "A")]))
        services.write(lambda conn, ctx: catalog.top_up(conn, ctx, "m1", request="t", amount="500.00"))
    finally:
        services.database.close()
    with ServerProcess(folder) as running:
        yield Running(folder, running.url)


@pytest.fixture
def till_id() -> str:
    """Name a till of each test's own: its ledger begins with the test."""
    return f"R{next(_numbers)}"


@pytest.fixture
def till(server: Running, tmp_path: Path, till_id: str) -> Path:
    """Return the folder of a till that has leased 30.00."""
    folder = tmp_path / "till"
    code = new_code(server.folder, till_id, url=server.url, tls="on")
    enrolment = enrolled(folder, code, till_id, url=server.url)
    with open_running_till(folder / "till.db", enrolment, payments=NoTerminal()) as running:
        running.engine.run_once()
        running.till.lease("value:m1", 3_000)
    return folder


def test_a_till_that_runs_looks_after_its_rights_by_itself(server: Running, till: Path, till_id: str) -> None:
    pawtill_here("close-day", "--data-dir", till)
    assert server.rights(till_id) == []
    with open_running_till(till / "till.db", find_enrolment(till), payments=NoTerminal()) as running:
        with running.till.database.write() as tx:
            meta.put(tx, rights_closed_on="")
        running.engine.run_once()
        basket = BasketRequest("m1", (BasketLine("A", 1000),))
        running.till.checkout("o1", basket, stored_value_minor=1_000)
        paid = (Tender(TenderType.STORED_VALUE, 1_000), Tender(TenderType.CASH, 9_000))
        assert isinstance(running.till.pay("o1", paid), PaidOrder)

        running.engine.start()

        deadline = time.monotonic() + 30
        while not server.rights(till_id):
            assert time.monotonic() < deadline, "no lease came"
            time.sleep(0.1)


def test_what_a_till_has_goes_back_for_the_night(server: Running, till: Path, till_id: str) -> None:
    assert len(server.rights(till_id)) == 1

    ended = pawtill_here("close-day", "--data-dir", till)

    assert (ended.code, "1 leases" in ended.said) == (Exit.OK, True)
    assert server.rights(till_id) == []


def test_without_a_line_it_is_closed_and_said_so(till: Path) -> None:
    write_joined(till, replace(find_enrolment(till).joined, url=NOWHERE))

    ended = pawtill_here("close-day", "--data-dir", till)

    assert ended.code == Exit.UNAVAILABLE and "1 leases" in ended.said and "next sync" in ended.complained


def test_a_till_that_is_suspended_hears_that_and_not_of_the_line(server: Running, till: Path, till_id: str) -> None:
    assert pawtill_here("suspend", till_id, "--reason", "r", "--confirm", till_id, *server.named()).code == Exit.OK

    ended = pawtill_here("close-day", "--data-dir", till)

    assert ended.code == Exit.UNAVAILABLE and "till_suspended" in ended.complained


def test_a_folder_that_is_no_till_says_so(tmp_path: Path) -> None:
    assert pawtill_here("close-day", "--data-dir", tmp_path).code == Exit.CANNOT_START


def test_a_till_that_is_open_is_left_alone(till: Path) -> None:
    with open_running_till(till / "till.db", find_enrolment(till), payments=NoTerminal()):
        assert pawtill_here("close-day", "--data-dir", till).code == Exit.DATA_IN_USE

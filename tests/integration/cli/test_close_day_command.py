"""`pawtill close-day`: what a till has goes back for the night, also where the server hears of it later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.tenders import Tender, TenderType
from app.services.api import BasketLine, BasketRequest, PaidOrder
from app.store import meta
from cli.add_till_command import write_till_pass
from cli.close_day_command import _NoTerminal
from cli.exits import Exit
from cli.office import open_office
from cli.server_process import ServerProcess
from cli.settings import server_settings
from cli.till_command import find_pass, join_chain
from server.opening import open_services
from server.services import catalog
from server.services.system import SystemClock, SystemIds
from tests.integration.cli.command import pawtill_here
from ui.running_till import open_running_till


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Run a server with a member who has 50.00, and a pass of till R1."""
    settings = server_settings(data_dir=tmp_path / "server")
    write_till_pass(settings, till_id="R1", store="riverside", url="http://127.0.0.1:9", out=tmp_path / "none.pass")
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        services.write(
            lambda conn, ctx: catalog.set_member(conn, ctx, "m1", tier="basic", home_store="riverside", label="")
        )
        services.write(lambda conn, ctx: catalog.set_products(conn, ctx, [catalog.Product("A", "100.00", "A")]))
        services.write(lambda conn, ctx: catalog.top_up(conn, ctx, "m1", request="t", amount="50.00"))
    finally:
        services.database.close()
    with ServerProcess(settings.folder) as running:
        write_till_pass(settings, till_id="R1", store="riverside", url=running.url, out=tmp_path / "R1.pass")
        yield running


@pytest.fixture
def till(server: ServerProcess, tmp_path: Path) -> Path:
    """Return the folder of till R1, which has leased 30.00."""
    folder = tmp_path / "till"
    folder.mkdir()
    join_chain(folder, tmp_path / "R1.pass")
    with open_running_till(folder / "till.db", find_pass(folder), payments=_NoTerminal()) as running:
        running.engine.run_once()
        running.till.lease("value:m1", 3_000)
    return folder


def rights(tmp_path: Path, server: ServerProcess) -> list[object]:
    with open_office(server_settings(data_dir=tmp_path / "server"), server.url) as office:
        return list(office.rights("R1")["leases"])


def test_a_till_that_runs_looks_after_its_rights_by_itself(server: ServerProcess, till: Path, tmp_path: Path) -> None:
    pawtill_here("close-day", "--data-dir", till)
    assert rights(tmp_path, server) == []
    with open_running_till(till / "till.db", find_pass(till), payments=_NoTerminal()) as running:
        with running.till.database.write() as tx:
            meta.put(tx, rights_closed_on="")
        running.engine.run_once()
        basket = BasketRequest("m1", (BasketLine("A", 1000),))
        running.till.checkout("o1", basket, stored_value_minor=1_000)
        paid = (Tender(TenderType.STORED_VALUE, 1_000), Tender(TenderType.CASH, 9_000))
        assert isinstance(running.till.pay("o1", paid), PaidOrder)

        running.engine.start()

        deadline = time.monotonic() + 30
        while not rights(tmp_path, server):
            assert time.monotonic() < deadline, "no lease came"
            time.sleep(0.1)


def test_what_a_till_has_goes_back_for_the_night(server: ServerProcess, till: Path, tmp_path: Path) -> None:
    assert len(rights(tmp_path, server)) == 1

    ended = pawtill_here("close-day", "--data-dir", till)

    assert (ended.code, "1 leases" in ended.said) == (Exit.OK, True)
    assert rights(tmp_path, server) == []


def test_without_a_line_it_is_closed_and_said_so(server: ServerProcess, till: Path) -> None:
    server.stop()

    ended = pawtill_here("close-day", "--data-dir", till)

    assert ended.code == Exit.UNAVAILABLE and "1 leases" in ended.said and "next sync" in ended.complained


def test_a_folder_that_is_no_till_says_so(tmp_path: Path) -> None:
    assert pawtill_here("close-day", "--data-dir", tmp_path).code == Exit.CANNOT_START


def test_a_till_that_is_open_is_left_alone(server: ServerProcess, till: Path) -> None:
    with open_running_till(till / "till.db", find_pass(till), payments=_NoTerminal()):
        assert pawtill_here("close-day", "--data-dir", till).code == Exit.DATA_IN_USE

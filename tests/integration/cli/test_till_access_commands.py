"""`pawtill suspend`, `resume`, `revoke`, `tills`: what a till has is shown, its name confirmed, what follows said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from cli import till_access_commands
from cli.exits import Exit
from cli.office import open_office
from cli.server_process import ServerProcess
from cli.settings import server_settings
from server.db.schema import till
from server.opening import open_services
from server.services import catalog, leases
from server.services.context import Actor
from server.services.system import SystemClock, SystemIds
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import new_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data folder of a server whose till R1 has leased 30.00, and announced more than it sent."""
    settings = server_settings(data_dir=tmp_path / "server")
    for name in ("R1", "R2"):
        new_code(settings.folder, name)
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        services.write(
            lambda conn, ctx: catalog.set_member(conn, ctx, "m1", tier="basic", home_store="riverside", label="")
        )
        services.write(lambda conn, ctx: catalog.top_up(conn, ctx, "m1", request="t", amount="50.00"))
        by_till = Actor("till", "k", "R1", "riverside")
        services.write(lambda conn, ctx: leases.lend(conn, ctx, leases.Asked("l1", "value:m1", 3_000)), by_till)
        heard = {"acked_seq": 7, "tail_seq": 9, "clock_drift_ms": -1500}
        services.write(lambda conn, _: conn.execute(update(till).where(till.c.id == "R1").values(heard)))
    finally:
        services.database.close()
    return settings.folder


def shut(folder: Path, what: str, *more: str) -> tuple[int, str, str]:
    ended = pawtill_here(what, "R1", "--reason", "stolen", "--data-dir", folder, *more)
    return ended.code, ended.said, ended.complained


def told(folder: Path, url: str = "") -> dict[str, Any]:
    with open_office(server_settings(data_dir=folder), url) as office:
        first: dict[str, Any] = office.tills(after="", limit=1)["tills"][0]
    return first


@pytest.mark.parametrize(("what", "access"), [("suspend", "SUSPENDED"), ("revoke", "REVOKED")])
def test_what_it_has_and_what_follows_is_said_before_it_is_shut_out(folder: Path, what: str, access: str) -> None:
    code, said, _ = shut(folder, what, "--confirm", "R1")

    assert code == Exit.OK
    shown = said[: said.index("Done")]
    for words in ("money 30.00", "up to entry 7; 2 more", "pawtill strand R1", "pawtill reclaim R1"):
        assert words in shown
    assert ("pawtill resume R1" if what == "suspend" else "pawtill enrolment-code R1 --store riverside") in shown
    assert (told(folder)["access"], told(folder)["reason"], told(folder)["money"]) == (access, "stolen", "30.00")


@pytest.mark.parametrize("what", ["suspend", "revoke"])
def test_another_name_shuts_nothing_out(folder: Path, what: str) -> None:
    code, said, complained = shut(folder, what, "--confirm", "R2")

    assert code == Exit.CANNOT_START and "money 30.00" in said and "nothing was changed" in complained
    assert told(folder)["access"] == "OPEN"


def test_the_name_is_asked_for(folder: Path) -> None:
    ended = pawtill_here("suspend", "R1", "--reason", "x", "--data-dir", folder, typed="R1\n")

    assert ended.code == Exit.OK and told(folder)["access"] == "SUSPENDED"


def test_resuming_a_suspended_till_and_not_a_revoked_one(folder: Path) -> None:
    shut(folder, "suspend", "--confirm", "R1")
    resumed = pawtill_here("resume", "R1", "--data-dir", folder)
    stands = told(folder)["access"]
    shut(folder, "revoke", "--confirm", "R1")

    refused = pawtill_here("resume", "R1", "--data-dir", folder)

    assert (resumed.code, stands) == (Exit.OK, "OPEN")
    assert refused.code == Exit.CANNOT_START and "enrolment" in refused.complained and "吊销" in refused.complained
    assert told(folder)["access"] == "REVOKED"


def test_a_till_that_is_not_there_is_not_shut_out(folder: Path) -> None:
    for what in ("suspend", "revoke"):
        ended = pawtill_here(what, "R9", "--reason", "x", "--confirm", "R9", "--data-dir", folder)
        assert ended.code == Exit.CANNOT_START and "no till R9" in ended.complained
    assert pawtill_here("resume", "R9", "--data-dir", folder).code == Exit.CANNOT_START


def test_a_running_server_is_asked(folder: Path) -> None:
    settings = server_settings(data_dir=folder)
    with ServerProcess(folder) as server:
        keys = {"till_id": "R1", "reason": "stolen", "confirm": "R1", "ask": lambda: ""}
        suspended = till_access_commands.shut_till(settings, server.url, what="suspend", **keys)  # type: ignore[arg-type]
        shut_out = told(folder, server.url)
        resumed = till_access_commands.resume_till(settings, server.url, till_id="R1")

        assert (suspended, resumed) == (Exit.OK, Exit.OK)
        assert (shut_out["access"], told(folder, server.url)["access"]) == ("SUSPENDED", "OPEN")


def test_tills_are_listed_with_what_keeps_each_from_being_like_another(folder: Path) -> None:
    shut(folder, "suspend", "--confirm", "R1")
    pawtill_here("strand", "R1", "--reason", "x", "--confirm", "R1", "--data-dir", folder)

    said = pawtill_here("tills", "--data-dir", folder).said

    heading, first, second = said.splitlines()
    assert heading.split()[:3] == ["till", "store", "state"]
    assert "suspended, lost" in first and "never" in first and "-1.5 s" in first and "30.00" in first
    assert first.split()[-8:] == ["7", "9", "-1.5", "s", "30.00", "0", "0", "0"] and "no key" in second


def test_tills_come_in_pages(folder: Path) -> None:
    first = pawtill_here("tills", "--limit", "1", "--data-dir", folder).said
    second = pawtill_here("tills", "--limit", "1", "--after", "R1", "--data-dir", folder).said

    assert "R1" in first and "pawtill tills --after R1" in first
    assert "R2" in second and "more" not in second
    assert "no tills behind R2" in pawtill_here("tills", "--after", "R2", "--data-dir", folder).said

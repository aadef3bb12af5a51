"""`pawtill strand`, `reclaim`, `found`: the exposure first, then the till's name, then what was shown and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli import lost_till_commands
from cli.exits import Exit
from cli.office import open_office
from cli.server_process import ServerProcess
from cli.settings import server_settings
from server.opening import open_services
from server.services import catalog, leases
from server.services.context import Actor
from server.services.system import SystemClock, SystemIds
from tests.integration.cli.command import pawtill_here
from tests.integration.cli.enrolling import new_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data folder of a server whose till R1 has leased 30.00 of a member's 50.00."""
    settings = server_settings(data_dir=tmp_path / "server")
    new_code(settings.folder)
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        services.write(
            lambda conn, ctx: catalog.set_member(conn, ctx, "m1", tier="basic", home_store="riverside", label="")
        )
        services.write(lambda conn, ctx: catalog.top_up(conn, ctx, "m1", request="t", amount="50.00"))
        till = Actor("till", "k", "R1", "riverside")
        services.write(lambda conn, ctx: leases.lend(conn, ctx, leases.Asked("l1", "value:m1", 3_000)), till)
    finally:
        services.database.close()
    return settings.folder


def strand(folder: Path, *more: str) -> tuple[int, str, str]:
    ended = pawtill_here("strand", "R1", "--reason", "stolen", "--data-dir", folder, *more)
    return ended.code, ended.said, ended.complained


def rights(folder: Path, url: str = "") -> dict[str, object]:
    with open_office(server_settings(data_dir=folder), url) as office:
        return office.rights("R1")


def test_the_exposure_is_shown_before_it_is_confirmed(folder: Path) -> None:
    code, said, _ = strand(folder, "--confirm", "R1")

    assert code == Exit.OK
    assert said.index("money 30.00") < said.index("Done")
    assert rights(folder)["leases"] == [
        {"lease": "l1", "account": "value:m1", "lent": 3_000, "left": 3_000, "stranded": True}
    ]


def test_another_name_changes_nothing(folder: Path) -> None:
    code, said, complained = strand(folder, "--confirm", "R2")

    assert code == Exit.CANNOT_START and "money 30.00" in said and "nothing was changed" in complained
    assert rights(folder)["lost_at"] is None


def test_what_changes_while_a_person_reads_is_not_confirmed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = server_settings(data_dir=folder)
    with ServerProcess(folder) as server:

        def ask() -> str:
            with open_office(settings, server.url) as office:
                office.decide("reclaim", "R1", reason="burnt", exposure=str(office.rights("R1")["exposure"]))
            return "R1"

        keys = {"what": "strand", "till_id": "R1", "reason": "stolen", "confirm": None}
        code = lost_till_commands.decide_lost_till(settings, server.url, ask=ask, **keys)  # type: ignore[arg-type]

        assert code == Exit.CANNOT_START and "look again" in capsys.readouterr().err
        assert rights(folder, server.url)["lost_at"] is None
        welcomed = lost_till_commands.welcome_till(settings, server.url, till_id="R1", reason="found")
        assert welcomed == Exit.OK


def test_reclaiming_and_finding_it_again(folder: Path) -> None:
    reclaim = pawtill_here("reclaim", "R1", "--reason", "burnt", "--confirm", "R1", "--data-dir", folder)
    found = pawtill_here("found", "R1", "--reason", "van", "--data-dir", folder)
    nobody = pawtill_here("found", "R9", "--reason", "van", "--data-dir", folder)

    assert (reclaim.code, found.code, nobody.code) == (Exit.OK, Exit.OK, Exit.CANNOT_START)
    assert rights(folder)["leases"] == [] and "no till R9" in nobody.complained


def test_headquarters_key_is_sent_to_no_other_machine(folder: Path) -> None:
    ended = pawtill_here("strand", "R1", "--reason", "x", "--data-dir", folder, "--url", "http://hq.example")

    assert ended.code == Exit.CANNOT_START and "another machine" in ended.complained

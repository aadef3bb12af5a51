"""Tills that enrol by the command, and folders of tills that did, where no server is wanted."""

from __future__ import annotations

from pathlib import Path

from app.services.secrets import DeviceKey, Secrets, Vault
from cli.exits import Exit
from cli.till_folder import find_enrolment, write_joined
from tests.integration.cli.command import Ended, pawtill_here
from ui.running_till import Enrolment, Joined

NOWHERE = "http://127.0.0.1:9"
SECRETS = Secrets(bytes(range(32)), DeviceKey("k1", b"\x02" * 32, b"\x03" * 32, "certificate"))


def new_code(server: Path, till: str = "R1", *, url: str = NOWHERE, store: str = "riverside", tls: str = "off") -> str:
    """Return a code for a till, from the data folder of a server, which may be running."""
    where = ("--data-dir", server, "--url", url)
    ended = pawtill_here("enrolment-code", till, "--store", store, *where, PAWTILL_TLS=tls)
    assert ended.code == Exit.OK, ended.complained
    return ended.said.split("--code ")[1].strip()


def enrol(folder: Path, code: str, till: str = "R1", *, url: str) -> Ended:
    """Enrol the till of a folder."""
    return pawtill_here("enrol", till, "--server", url, "--code", code, "--data-dir", folder)


def enrolled(folder: Path, code: str, till: str = "R1", *, url: str) -> Enrolment:
    """Enrol the till of a folder, and return what it has from then on."""
    ended = enrol(folder, code, till, url=url)
    assert ended.code == Exit.OK, ended.complained
    return find_enrolment(folder)


def had_enrolled(folder: Path, till: str = "R1", *, store: str = "riverside") -> Enrolment:
    """Write what an enrolment leaves in a till's folder; its server does not answer."""
    folder.mkdir(exist_ok=True)
    joined = Joined(NOWHERE, till, store)
    Vault(folder).save(till, SECRETS)
    write_joined(folder, joined)
    return Enrolment(joined, SECRETS)

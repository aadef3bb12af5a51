"""A till that enrols at a server of this process, and what speaks for it."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from app.domain.ports import Clock
from app.domain.refusals import Refusal
from app.services.secrets import Attempt
from sync.client import ServerClient
from sync.enrolling import Enrolled, enrol, new_attempt
from sync.enrolment import read_code
from sync.identity import Identity, identity_of
from tests.fakes.headquarters import Headquarters

ADDRESS = "http://server.test"


def new_code(headquarters: Headquarters, till: str = "t1", store: str = "s1") -> str:
    """Return a one-time code, as the till's end reads it."""
    told = headquarters.call("POST", f"/v1/tills/{till}/enrolment-codes", {"store": store}, status=201)
    code = read_code(told["code"])
    assert code is not None
    return code


@dataclass
class NewTill:
    """Hold a till that has no key yet, on a line to the server."""

    headquarters: Headquarters
    line: httpx.BaseTransport
    till: str = "t1"

    def ask(self, code: str, attempt: Attempt | None = None) -> Enrolled | Refusal:
        """Ask to be enrolled."""
        with ServerClient(ADDRESS, None, transport=self.line) as client:
            return enrol(client, self.till, code=code, attempt=attempt or new_attempt())

    def enrol(self, clock: Clock | None = None) -> Identity:
        """Enrol by a new code; return who the till is from now on, by the server's clock or one of its own."""
        enrolled = self.ask(new_code(self.headquarters, self.till))
        assert isinstance(enrolled, Enrolled), enrolled
        assert enrolled.secrets.device is not None
        return identity_of(enrolled.secrets.device, clock or self.headquarters.clock)


def enrol_here(headquarters: Headquarters, till: str = "t1") -> Identity:
    """Enrol a till; return who it is from now on."""
    return NewTill(headquarters, httpx.MockTransport(headquarters.send), till).enrol()

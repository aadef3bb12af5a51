"""Wire a real till without a screen: its database, the line to its server, the sync beside it."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from app.domain.ports import Clock
from app.services.opening import open_till
from app.services.ports import PaymentPort, Probe, no_probe
from app.services.secrets import Secrets
from app.services.system import SystemClock, SystemIds
from app.services.till import Till
from app.services.upkeep import Upkeep
from app.store.database import TillDatabase
from app.store.second_copy import SecondCopy
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.head_office import ServerHeadOffice
from sync.identity import identity_of
from sync.trust import pinned


@dataclass(frozen=True, slots=True)
class Joined:
    """Name the chain's server, and who this till is there.

    `authority` is the certificate (PEM) that the server's must be from; "" = any of a public authority, or no TLS.
    """

    url: str
    till_id: str
    store_id: str
    authority: str = ""


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Hold what an enrolment left: whose till this is, and its secrets."""

    joined: Joined
    secrets: Secrets


@dataclass(frozen=True, slots=True)
class RunningTill:
    """Hold the parts of a till that is open; `close` ends them in order."""

    till: Till
    engine: SyncEngine
    head_office: ServerHeadOffice
    client: ServerClient
    clock: Clock
    upkeep: Upkeep

    def start(self) -> None:
        """Begin to sync, and to look after the file."""
        self.engine.start()
        self.upkeep.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the sync and the upkeep, close the database, then the line."""
        self.engine.stop()
        self.upkeep.stop()
        self.till.close()
        self.client.close()


def open_running_till(
    file: Path,
    enrolment: Enrolment,
    *,
    payments: PaymentPort,
    clock: Clock | None = None,
    probe: Probe = no_probe,
    copy_folder: Path | None = None,
) -> RunningTill:
    """Open the till's file and its line; sync and upkeep wait for `start`. `copy_folder` is for the second copy.

    `clock` None = the machine's.
    Raises what `app.store.errors` names, but for damage: such a till opens, says so in its status, and sells nothing.
    ValueError: the URL, or the authority, is none.
    """
    clock = clock or SystemClock()
    client = _line(enrolment, clock)
    made: list[tuple[SyncEngine, ServerHeadOffice]] = []

    def connect(database: TillDatabase) -> ServerHeadOffice:
        engine = SyncEngine(database, client, clock=clock, probe=probe)
        made.append((engine, ServerHeadOffice(client, engine)))
        return made[0][1]

    try:
        till = open_till(
            file,
            till_id=enrolment.joined.till_id,
            store_id=enrolment.joined.store_id,
            clock=clock,
            ids=SystemIds(),
            code_key=enrolment.secrets.code_key,
            connect=connect,
            payments=payments,
            probe=probe,
        )
    except BaseException:
        client.close()
        raise
    engine, head_office = made[0]
    engine.behind = till.renew_rights
    copy = SecondCopy(copy_folder, till.till_id) if copy_folder is not None else None
    return RunningTill(till, engine, head_office, client, clock, Upkeep(till.database, copy))


def _line(enrolment: Enrolment, clock: Clock) -> ServerClient:
    """Return the line to the server, on which every request and every answer is signed."""
    joined, identity = enrolment.joined, identity_of(enrolment.secrets.device, clock)
    return ServerClient(joined.url, identity, trust=pinned(joined.authority) if joined.authority else None)

"""Act as headquarters from the server's own machine: in its database, or through the server that has it open."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from cli.chain_door import own_address, own_line
from cli.data_trouble import explain
from cli.exits import Exit, complain
from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db.errors import DatabaseTrouble, DataDirInUse
from server.opening import open_services
from server.services import catalog, devices, lost_tills, risk, staff, till_list
from server.services.answers import Answer, ok, refused
from server.services.context import Actor, Context, NotProvisioned
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from sync.client import ServerClient

_HERE = Actor("headquarters", "command line")
_DECIDE = {"strand": lost_tills.strand, "reclaim": lost_tills.reclaim}
_SHUT = {event: access for access, event in devices.SHUTS.items()}


class Office(Protocol):
    """Decide over tills, their rights and what they may lose; every method answers with `outcome`, as the API does."""

    def chain(self) -> Answer:
        """Show the chain's settings."""

    def set_offline_hours(self, hours: int) -> Answer:
        """Say for how many hours without a line tills provide."""

    def tills(self, *, after: str, limit: int) -> Answer:
        """List `limit` tills from behind the id `after` on."""

    def shut(self, what: str, till_id: str, *, reason: str) -> Answer:
        """Suspend or revoke a till."""

    def resume(self, till_id: str) -> Answer:
        """Let a suspended till speak again."""

    def rights(self, till_id: str) -> Answer:
        """Show what a till may spend without asking."""

    def decide(self, what: str, till_id: str, *, reason: str, exposure: str) -> Answer:
        """Strand or reclaim the rights that were shown."""

    def welcome(self, till_id: str, *, reason: str) -> Answer:
        """Declare a lost till found."""

    def risk(self) -> Answer:
        """Show what tills may lose without a right: each, and all of them."""

    def set_risk(self, till_id: str, *, amount: str, by: str, reason: str) -> Answer:
        """Set what may be lost at a till from now on."""

    def appoint(self, staff_id: str, *, name: str, store_id: str | None, pin: str) -> Answer:
        """Let somebody approve at the tills of a store (None = of all), by that PIN."""

    def dismiss(self, staff_id: str, *, reason: str) -> Answer:
        """Let somebody approve no more."""


@contextmanager
def open_office(settings: Settings, url: str) -> Iterator[Office]:
    """Open the database, or the line to the server that has it; two writers on one database are never let in.

    Raises what `open_services` raises, and of the line OSError, Offline and Busy. `url` counts on this machine alone,
    "" is where the server listens by its settings: headquarters' key is sent through no network.
    """
    try:
        services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    except DataDirInUse:
        with own_line(settings, url) as client:
            yield _ByServer(client)
        return
    try:
        yield _ByDatabase(services)
    finally:
        services.database.close()


def at_office(settings: Settings, url: str, act: Callable[[Office], int]) -> int:
    """Act as headquarters and return the exit code; a person is told what keeps it from being done."""

    def enter() -> int:
        with open_office(settings, url) as office:
            return act(office)

    return explained(settings, url, enter)


def explained(settings: Settings, url: str, ask: Callable[[], int]) -> int:
    """Ask the database, or the server that has it, and return the exit code; what keeps it from answering is told."""
    address = own_address(settings, url)
    if url not in ("", address):
        complain(f"{url} is another machine: run this where the server is, or call its API")
        return Exit.CANNOT_START
    try:
        return ask()
    except (Offline, Busy) as error:
        complain(
            f"the server on this data gives no answer on {address} ({error}); name its address with --url",
            f"使用此数据的服务器在 {address} 上没有应答；请用 --url 指明它的地址",
        )
        return Exit.DATA_IN_USE
    except NotProvisioned:
        complain("there is no chain yet; start the server once: pawtill server")
        return Exit.CANNOT_START
    except (DatabaseTrouble, SQLAlchemyError, CodeKeyMissing, CodeKeyDiffers, ValueError, OSError) as error:
        return explain(error)


class _ByDatabase:
    def __init__(self, services: Services) -> None:
        self._services = services

    def chain(self) -> Answer:
        return self._services.read(lambda _, ctx: catalog.chain_settings(ctx), _HERE)

    def set_offline_hours(self, hours: int) -> Answer:
        self._services.write(lambda conn, _: catalog.set_offline_hours(conn, hours), _HERE)
        return self.chain()

    def tills(self, *, after: str, limit: int) -> Answer:
        return self._services.read(lambda conn, ctx: till_list.overview(conn, ctx, after=after, limit=limit), _HERE)

    def shut(self, what: str, till_id: str, *, reason: str) -> Answer:
        return self._change(lambda conn, ctx: devices.shut(conn, ctx, till_id, access=_SHUT[what], reason=reason))

    def resume(self, till_id: str) -> Answer:
        return self._change(lambda conn, ctx: devices.resume(conn, ctx, till_id))

    def rights(self, till_id: str) -> Answer:
        return self._services.read(lambda conn, ctx: lost_tills.rights_of_till(conn, ctx, till_id), _HERE)

    def decide(self, what: str, till_id: str, *, reason: str, exposure: str) -> Answer:
        use_case = _DECIDE[what]
        return self._write(lambda conn, ctx: use_case(conn, ctx, till_id, reason=reason, confirmed=exposure))

    def welcome(self, till_id: str, *, reason: str) -> Answer:
        return self._write(lambda conn, ctx: lost_tills.welcome(conn, ctx, till_id, reason=reason))

    def risk(self) -> Answer:
        return self._services.read(risk.overview, _HERE)

    def set_risk(self, till_id: str, *, amount: str, by: str, reason: str) -> Answer:
        def decide(conn: Connection, ctx: Context) -> Answer:
            limit = risk.read_limit(ctx.chain.currency, amount)
            if isinstance(limit, Refusal):
                return refused(limit)
            return risk.set_budget(conn, ctx, till_id, limit_minor=limit, by=by, reason=reason)

        return self._write(decide)

    def appoint(self, staff_id: str, *, name: str, store_id: str | None, pin: str) -> Answer:
        verifier = staff.make_verifier(self._services.code_key, pin)
        if isinstance(verifier, Refusal):
            return refused(verifier)
        manager = staff.Manager(staff_id, name, store_id, verifier)
        return self._write(lambda conn, ctx: staff.put(conn, ctx, manager))

    def dismiss(self, staff_id: str, *, reason: str) -> Answer:
        return self._write(lambda conn, ctx: staff.leave(conn, ctx, staff_id, reason=reason))

    def _change(self, use_case: Callable[[Connection, Context], Refusal | None]) -> Answer:
        problem = self._services.write(use_case, _HERE)
        return ok() if problem is None else refused(problem)

    def _write(self, use_case: Callable[[Connection, Context], Answer]) -> Answer:
        return self._services.write(use_case, _HERE)


class _ByServer:
    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def chain(self) -> Answer:
        return _answer(self._client.get("/v1/chain"))

    def set_offline_hours(self, hours: int) -> Answer:
        return _answer(self._client.put("/v1/chain/offline-hours", {"hours": hours}))

    def tills(self, *, after: str, limit: int) -> Answer:
        asked = {"limit": limit, **({"after": after} if after else {})}
        return _answer(self._client.get(f"/v1/tills?{urlencode(asked)}"))

    def shut(self, what: str, till_id: str, *, reason: str) -> Answer:
        return _answer(self._client.post(f"{_till(till_id)}/{what}", {"reason": reason}))

    def resume(self, till_id: str) -> Answer:
        return _answer(self._client.post(f"{_till(till_id)}/resume", {}))

    def rights(self, till_id: str) -> Answer:
        return _answer(self._client.get(f"{_till(till_id)}/rights"))

    def decide(self, what: str, till_id: str, *, reason: str, exposure: str) -> Answer:
        return _answer(self._client.post(f"{_till(till_id)}/{what}", {"reason": reason, "exposure": exposure}))

    def welcome(self, till_id: str, *, reason: str) -> Answer:
        return _answer(self._client.post(f"{_till(till_id)}/found", {"reason": reason}))

    def risk(self) -> Answer:
        return _answer(self._client.get("/v1/risk"))

    def set_risk(self, till_id: str, *, amount: str, by: str, reason: str) -> Answer:
        body = {"amount": amount, "by": by, "reason": reason}
        return _answer(self._client.put(f"{_till(till_id)}/risk", body))

    def appoint(self, staff_id: str, *, name: str, store_id: str | None, pin: str) -> Answer:
        body = {"name": name, "store": store_id, "pin": pin}
        return _answer(self._client.put(f"/v1/staff/{quote(staff_id, safe='')}", body))

    def dismiss(self, staff_id: str, *, reason: str) -> Answer:
        return _answer(self._client.post(f"/v1/staff/{quote(staff_id, safe='')}/leave", {"reason": reason}))


def _till(till_id: str) -> str:
    return f"/v1/tills/{quote(till_id, safe='')}"


def _answer(answer: dict[str, Any] | Refusal) -> Answer:
    return refused(answer) if isinstance(answer, Refusal) else answer

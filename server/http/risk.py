"""Let tills take a risk up to a budget, show what it may cost, and name the managers who approve it."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field, SecretStr

from app.domain.pins import LENGTH_MAX
from app.domain.refusals import Refusal
from server.http.answers import reply
from server.http.security import Headquarters, Office, ServicesDep
from server.http.values import Amount, Body, Id, Person, Reason
from server.services import risk, staff

router = APIRouter(prefix="/v1", tags=["risk"])

PathId = Annotated[Id, Path()]


class BudgetIn(Body):
    """`amount` is what may be lost at the till at most from now on, 0 = it takes no risk; `by` says so."""

    amount: Amount
    by: Person
    reason: Reason


class ManagerIn(Body):
    """`store` None = every store; `pin` is 6 to 12 digits, None = it stays as it is."""

    name: Person
    store: Id | None = None
    pin: Annotated[SecretStr, Field(max_length=LENGTH_MAX)] | None = None


class LeaveIn(Body):
    """Somebody approves no more, and why."""

    reason: Reason


@router.get("/risk")
def get_risk(*, services: ServicesDep, actor: Office) -> JSONResponse:
    """Show, for each till and in sum: granted, lost, and `left`, which is the worst case in money."""
    return reply(services.read(risk.overview, actor))


@router.get("/tills/{till_id}/risk")
def get_till_risk(*, till_id: PathId, services: ServicesDep, actor: Office) -> JSONResponse:
    """Show the risk budget of one till."""
    return reply(services.read(lambda conn, ctx: risk.shown(conn, ctx, till_id), actor), path="till")


@router.put("/tills/{till_id}/risk")
def put_till_risk(*, till_id: PathId, body: BudgetIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Set what may be lost at a till from now on; the same again fills up what was lost meanwhile."""
    limit = services.read(lambda _, ctx: risk.read_limit(ctx.chain.currency, body.amount))
    if isinstance(limit, Refusal):
        return reply(limit)
    limit_minor = limit
    answer = services.write(
        lambda conn, ctx: risk.set_budget(conn, ctx, till_id, limit_minor=limit_minor, by=body.by, reason=body.reason),
        actor,
    )
    return reply(answer, path="till")


@router.get("/staff")
def get_staff(*, services: ServicesDep, actor: Office) -> JSONResponse:
    """List the managers, without what proves a PIN."""
    return reply(services.read(lambda conn, _: staff.listed(conn), actor))


@router.put("/staff/{staff_id}")
def put_staff(*, staff_id: PathId, body: ManagerIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Name a manager who may approve at the tills of a store, by PIN; a new PIN needs no old one."""
    verifier = None
    if body.pin is not None:
        made = staff.make_verifier(services.code_key, body.pin.get_secret_value())
        if isinstance(made, Refusal):
            return reply(made)
        verifier = made
    manager = staff.Manager(staff_id, body.name, body.store, verifier)
    return reply(services.write(lambda conn, ctx: staff.put(conn, ctx, manager), actor))


@router.post("/staff/{staff_id}/leave")
def post_leave(*, staff_id: PathId, body: LeaveIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Let somebody approve no more: the tills hear of it with their next sync."""
    answer = services.write(lambda conn, ctx: staff.leave(conn, ctx, staff_id, reason=body.reason), actor)
    return reply(answer, path="staff")

"""Lend rights to tills, and show and reclaim what a till has."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.money import MAX_MINOR
from server.http.answers import reply
from server.http.security import ATill, Headquarters, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import homes, leases, reclaiming

router = APIRouter(prefix="/v1", tags=["leases"])

PathId = Annotated[Id, Path()]


class LeaseIn(Body):
    """`lease` is the id that the till made for it; `amount` in coupons, uses, or minor units.

    `of` names whose it is: the campaign, the member or the card.
    """

    lease: Id
    kind: Literal["stock", "budget", "value", "uses"]
    of: Id
    amount: Annotated[int, Field(ge=1, le=MAX_MINOR)]


class HomeIn(Body):
    """`request` is the idempotency key."""

    request: Id
    coupon: Id


class ReclaimIn(Body):
    """A till is declared lost for a reason."""

    reason: Reason


@router.post("/leases", status_code=201)
def post_lease(*, body: LeaseIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Lend to the asking till the smaller of what it asks for and what is there; the same id is the same lease."""
    asked = leases.Asked(body.lease, f"{body.kind}:{body.of}", body.amount)
    return reply(services.write(lambda conn, ctx: leases.lend(conn, ctx, asked), actor), status=201)


@router.post("/homes", status_code=201)
def post_home(*, body: HomeIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Make the asking till the one place that may use the coupon."""
    answer = services.write(lambda conn, ctx: homes.take(conn, ctx, body.request, coupon_id=body.coupon), actor)
    return reply(answer, status=201)


@router.get("/tills/{till_id}/rights")
def get_rights(*, till_id: PathId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Show what a till may spend without asking: what reclaiming it would risk."""
    return reply(services.read(lambda conn, ctx: reclaiming.rights_of_till(conn, ctx, till_id), actor), path="till")


@router.post("/tills/{till_id}/reclaim")
def post_reclaim(*, till_id: PathId, body: ReclaimIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Take every right of a lost till back, to be used elsewhere at once; the answer tells what is at risk."""
    answer = services.write(lambda conn, ctx: reclaiming.reclaim(conn, ctx, till_id, reason=body.reason), actor)
    return reply(answer, path="till")

"""Lend rights to tills, show what a till has, and decide over those of a lost one."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.money import MAX_MINOR
from server.http.answers import reply
from server.http.security import ATill, Headquarters, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import homes, homing, leases, lost_tills, till_list

router = APIRouter(prefix="/v1", tags=["leases"])

PathId = Annotated[Id, Path()]


class LeaseIn(Body):
    """`lease` is the id that the till made for it; `amount` in coupons, uses, or minor units.

    `of` names whose it is: the campaign, the member, the card or the till. `size` "share": at most half of what is
    there, divided among the tills that may want it; "asked": as far as it is there.
    """

    lease: Id
    kind: Literal["stock", "budget", "value", "uses", "risk"]
    of: Id
    amount: Annotated[int, Field(ge=1, le=MAX_MINOR)]
    size: Literal["asked", "share"] = "asked"


class HomeIn(Body):
    """`request` is the idempotency key."""

    request: Id
    coupon: Id


class HomesIn(Body):
    """`request` is the idempotency key."""

    request: Id


class LostIn(Body):
    """A till is declared lost for a reason, by somebody who has seen what that puts at stake.

    `exposure` is what `GET .../rights` showed: where it has changed since, nothing is done (`illegal_transition`).
    """

    reason: Reason
    exposure: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class FoundIn(Body):
    """A lost till was found, and why that is believed."""

    reason: Reason


@router.post("/leases", status_code=201)
def post_lease(*, body: LeaseIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Lend to the asking till the smaller of what it asks for and what is there; the same id is the same lease."""
    asked = leases.Asked(body.lease, f"{body.kind}:{body.of}", body.amount, body.size)
    return reply(services.write(lambda conn, ctx: leases.lend(conn, ctx, asked), actor), status=201)


@router.post("/homes", status_code=201)
def post_home(*, body: HomeIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Make the asking till the one place that may use the coupon."""
    answer = services.write(lambda conn, ctx: homes.take(conn, ctx, body.request, coupon_id=body.coupon), actor)
    return reply(answer, status=201)


@router.post("/homes/of-members", status_code=201)
def post_homes(*, body: HomesIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Make the asking till the home of coupons of its store's members, within limits."""
    return reply(services.write(lambda conn, ctx: homing.bring_home(conn, ctx, body.request), actor), status=201)


@router.get("/tills")
def get_tills(
    *,
    services: ServicesDep,
    actor: Headquarters,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=till_list.PAGE_MAX)] = till_list.PAGE,
) -> JSONResponse:
    """List tills by id, from behind `after` on: what each may do, its ledger and clock, what it may spend.

    `next` is the `after` of the next page, null where there is none. `acked` of `announced` entries are here.
    """
    return reply(services.read(lambda conn, ctx: till_list.overview(conn, ctx, after=after or "", limit=limit), actor))


@router.get("/tills/{till_id}/rights")
def get_rights(*, till_id: PathId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Show what a till may spend without asking: what reclaiming it would risk.

    `money` is the most that can be lost, `parts` is that by kind: a coupon at what its rule can take off one order, a
    card use at the price of its service. `without_limit` counts the `pieces` that no rule bounds; they are in no sum.
    """
    return reply(services.read(lambda conn, ctx: lost_tills.rights_of_till(conn, ctx, till_id), actor), path="till")


@router.post("/tills/{till_id}/strand")
def post_strand(*, till_id: PathId, body: LostIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Declare a till lost: its rights are set aside for what it may still tell, and never sold again."""
    answer = services.write(
        lambda conn, ctx: lost_tills.strand(conn, ctx, till_id, reason=body.reason, confirmed=body.exposure), actor
    )
    return reply(answer, path="till")


@router.post("/tills/{till_id}/reclaim")
def post_reclaim(*, till_id: PathId, body: LostIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Take every right of a lost till back, to be used elsewhere at once; the answer tells what is at risk."""
    answer = services.write(
        lambda conn, ctx: lost_tills.reclaim(conn, ctx, till_id, reason=body.reason, confirmed=body.exposure), actor
    )
    return reply(answer, path="till")


@router.post("/tills/{till_id}/found")
def post_found(*, till_id: PathId, body: FoundIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Lend to a till again that had been declared lost."""
    answer = services.write(lambda conn, ctx: lost_tills.welcome(conn, ctx, till_id, reason=body.reason), actor)
    return reply(answer, path="till")

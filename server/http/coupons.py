"""List a member's coupons, show, follow and revoke one."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain import codes
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.http.answers import reply
from server.http.security import APP, Anyone, AppOrTill, Office, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import coupons, history
from server.services.answers import ok

router = APIRouter(prefix="/v1", tags=["coupons"])

PathId = Annotated[Id, Path()]


class RevokeIn(Body):
    """A coupon is revoked for a reason."""

    reason: Reason


class LookupIn(Body):
    """A code as it was typed or scanned; in a body, since paths are written into logs."""

    code: Annotated[str, Field(max_length=codes.MAX_SCAN_CHARS)]


@router.get("/members/{member_id}/coupons")
def get_member_coupons(*, member_id: PathId, services: ServicesDep, actor: AppOrTill) -> JSONResponse:
    """List every coupon of a member, newest first; the codes only for the chain's app."""
    found = services.read(
        lambda conn, ctx: coupons.of_member(conn, ctx, member_id, codes_shown=actor.scope == APP), actor
    )
    return reply(ok(coupons=found) if found is not None else unknown("member", member_id), path="member")


@router.post("/coupons/lookup")
def post_lookup(*, body: LookupIn, services: ServicesDep, actor: Office) -> JSONResponse:
    """Find a coupon by its code; what is wrong with a wrong one is not told (REQUIREMENTS E4)."""
    parsed = codes.parse(body.code)
    if isinstance(parsed, Refusal):
        return reply(parsed)
    if parsed.kind is not codes.CodeKind.COUPON:
        return reply(refuse(RefusalCode.UNKNOWN_CODE))
    found = services.read(lambda conn, ctx: coupons.by_code(conn, ctx, parsed.text), actor)
    return reply(ok(**found) if found else refuse(RefusalCode.UNKNOWN_CODE))


@router.get("/coupons/{coupon_id}")
def get_coupon(*, coupon_id: PathId, services: ServicesDep, actor: Anyone) -> JSONResponse:
    """Show a coupon."""
    found = services.read(lambda conn, ctx: coupons.by_id(conn, ctx, coupon_id), actor)
    return reply(ok(**found) if found else unknown("coupon", coupon_id), path="coupon")


@router.get("/coupons/{coupon_id}/history")
def get_history(*, coupon_id: PathId, services: ServicesDep, actor: Anyone) -> JSONResponse:
    """Tell what happened to a coupon, oldest first."""
    events = services.read(lambda conn, ctx: history.of(conn, history.COUPON, coupon_id), actor)
    return reply(ok(events=events) if events else unknown("coupon", coupon_id), path="coupon")


@router.post("/coupons/{coupon_id}/revoke")
def post_revoke(*, coupon_id: PathId, body: RevokeIn, services: ServicesDep, actor: Office) -> JSONResponse:
    """Take a coupon back that nobody uses."""
    answer = services.write(lambda conn, ctx: coupons.revoke(conn, ctx, coupon_id, reason=body.reason), actor)
    return reply(answer, path="coupon")

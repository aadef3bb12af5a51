"""Give a member a coupon for a reason."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from server.http.answers import reply
from server.http.security import Office, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import gifts

router = APIRouter(prefix="/v1", tags=["coupons"])


class GiftIn(Body):
    """`request` is the idempotency key; the reason stands in the coupon's history, with who gave it."""

    request: Id
    campaign: Id
    member: Id
    reason: Reason


@router.post("/gifts", status_code=201)
def post_gift(*, body: GiftIn, services: ServicesDep, actor: Office) -> JSONResponse:
    """Give a coupon; stock, limits and answers are those of a claim."""
    answer = services.write(
        lambda conn, ctx: gifts.give(
            conn, ctx, body.member, campaign_id=body.campaign, request=body.request, reason=body.reason
        ),
        actor,
    )
    return reply(answer, status=201)

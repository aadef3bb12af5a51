"""Decide refunds."""

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.basket import MAX_LINES
from app.domain.refunds import RefundLine
from server.http.answers import reply
from server.http.quotes import Number
from server.http.security import ATill, ServicesDep
from server.http.values import Body, Id
from server.services.refunds import RefundRequest, refund
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1", tags=["orders"])


class RefundLineIn(Body):
    """A quantity of a line that comes back, in thousandths; 0 and less are refused with their own word."""

    number: Number
    qty_milli: Annotated[int, Field(ge=-(10**12), le=10**12), NUMBER]


class RefundIn(Body):
    """`request` is the idempotency key; `lines` null returns all that is left."""

    request: Id
    order: Id
    lines: Annotated[list[RefundLineIn], Field(max_length=MAX_LINES)] | None = None


@router.post("/refunds")
def post_refund(*, body: RefundIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Decide a return and give back its coupons, uses, stored value and budgets at once."""
    lines = None if body.lines is None else tuple(RefundLine(line.number, line.qty_milli) for line in body.lines)
    asked = RefundRequest(body.request, body.order, lines)
    return reply(services.write(lambda conn, context: refund(conn, context, asked), actor))

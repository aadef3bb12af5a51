"""Hold an order's rights, give them back, show an order and what happened to it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import Connection

from app.domain.basket import MAX_LINES
from app.domain.money import MAX_MINOR
from app.domain.refusals import RefusalCode, refuse, unknown
from server.http.answers import reply
from server.http.quotes import Cards, Number, Use, covers
from server.http.security import ATill, ServicesDep, TillOrOffice
from server.http.values import Body, Flag, Id
from server.services import history, orders
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.facts import AskedLine, Basket
from server.services.rights import Attempt
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1/orders", tags=["orders"])

PathId = Annotated[Id, Path()]
AttemptNumber = Annotated[int, Field(ge=1, le=1_000_000), NUMBER]
Minor = Annotated[int, Field(ge=0, le=MAX_MINOR), NUMBER]


class HoldLineIn(Body):
    """One line; the price comes from the server's own products."""

    number: Number
    sku: Id
    qty_milli: Annotated[int, Field(ge=-(10**12), le=10**12), NUMBER]


class HoldIn(Body):
    """Everything that the order needs at once; `payable_minor` is the amount that the cashier was shown."""

    attempt: AttemptNumber
    store: Id
    member: Id | None = None
    lines: Annotated[list[HoldLineIn], Field(min_length=1, max_length=MAX_LINES)]
    use: Use = ()
    cards: Cards = ()
    stored_value_minor: Minor = 0
    promotions: Flag = True
    payable_minor: Minor


class CancelIn(Body):
    """The attempt that is over, and why."""

    attempt: AttemptNumber
    reason: Literal["cancelled", "pay_failed", "no_answer", "interrupted"] = "cancelled"


@router.post("/{order_id}/hold")
def post_hold(*, order_id: PathId, body: HoldIn, services: ServicesDep, actor: ATill) -> JSONResponse:
    """Hold all rights of an order for its till, or none; the same attempt again gets the same answer."""
    if body.store != actor.store_id:
        return reply(refuse(RefusalCode.NOT_ALLOWED, store=body.store, till=actor.till_id))
    basket = Basket(
        order_id=order_id,
        store_id=body.store,
        member_id=body.member,
        lines=tuple(AskedLine(line.number, line.sku, line.qty_milli) for line in body.lines),
        use=body.use,
        covers=covers(body.cards),
        promotions=body.promotions,
    )
    asked = orders.HoldRequest(basket, body.attempt, body.stored_value_minor, body.payable_minor)
    answer = services.write(lambda conn, context: orders.hold(conn, context, asked), actor, point="after_reserve")
    return reply(answer)


@router.post("/{order_id}/cancel")
def post_cancel(*, order_id: PathId, body: CancelIn, services: ServicesDep, actor: TillOrOffice) -> JSONResponse:
    """Give back what an attempt holds, at once. A till may for its own orders, the office for any that is known."""

    def cancel(conn: Connection, context: Context) -> Answer:
        if actor.till_id is None and orders.find(conn, order_id) is None:
            return refused(unknown("order", order_id))
        by = actor.till_id or f"{actor.scope}:{actor.key_id}"
        attempt = Attempt(order_id, body.attempt, context.now, till_id=actor.till_id, operator=by)
        return orders.cancel(conn, attempt, reason=body.reason)

    return reply(services.write(cancel, actor), path="order")


@router.get("/{order_id}")
def get_order(*, order_id: PathId, services: ServicesDep, actor: TillOrOffice) -> JSONResponse:
    """Show an order: state, lines, quote, tenders, refunds."""
    return reply(services.read(lambda conn, _: orders.show(conn, order_id), actor), path="order")


@router.get("/{order_id}/history")
def get_history(*, order_id: PathId, services: ServicesDep, actor: TillOrOffice) -> JSONResponse:
    """Tell what happened to an order, oldest first, refused steps too."""
    events = services.read(lambda conn, _: history.of(conn, history.ORDER, order_id), actor)
    return reply(ok(events=events) if events else unknown("order", order_id), path="order")

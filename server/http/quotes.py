"""Price a basket without effect."""

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.basket import MAX_LINES, Cover, parse_qty
from app.domain.refusals import Refusal
from server.http.answers import reply
from server.http.security import AppOrTill, ServicesDep
from server.http.values import Body, Flag, Id
from server.services.facts import AskedLine, Basket
from server.services.quotes import Question, quote
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1", tags=["orders"])

Number = Annotated[int, Field(ge=1, le=MAX_LINES), NUMBER]


class QuoteLineIn(Body):
    """A product and how much of it, as text: "2", or "0.735" of what is sold by weight."""

    sku: Id
    qty: Annotated[str, Field(min_length=1, max_length=32)]


class CardIn(Body):
    """One use of a punch card for one unit of a line."""

    card: Id
    line: Number


Use = Annotated[tuple[Id, ...], Field(max_length=1000)]
Cards = Annotated[tuple[CardIn, ...], Field(max_length=1000)]


class QuoteIn(Body):
    """A basket; `best` looks for the member's best coupons, `coupons` asks for the reason of each that would not do."""

    store: Id
    member: Id | None = None
    lines: Annotated[list[QuoteLineIn], Field(min_length=1, max_length=MAX_LINES)]
    use: Use = ()
    cards: Cards = ()
    best: Flag = False
    coupons: Flag = False


@router.post("/quotes")
def post_quote(*, body: QuoteIn, services: ServicesDep, actor: AppOrTill) -> JSONResponse:
    """Tell what a basket costs and why; nothing is held, nothing is written."""
    lines = []
    for number, line in enumerate(body.lines, start=1):
        qty_milli = parse_qty(line.qty, by_weight=True)
        if isinstance(qty_milli, Refusal):
            return reply(Refusal(qty_milli.code, {"line": number, **qty_milli.facts}))
        lines.append(AskedLine(number, line.sku, qty_milli))
    basket = Basket(
        order_id="",
        store_id=body.store,
        member_id=body.member,
        lines=tuple(lines),
        use=body.use,
        covers=covers(body.cards),
    )
    question = Question(basket, best=body.best, judged=body.coupons)
    return reply(services.read(lambda conn, context: quote(conn, context, question), actor))


def covers(cards: tuple[CardIn, ...]) -> tuple[Cover, ...]:
    """Return the covers that a body asks for."""
    return tuple(Cover(each.card, each.line) for each in cards)

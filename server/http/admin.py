"""Set up the chain: settings, stores, tills, goods, members, cards, stored value, keys. Headquarters alone."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.http.answers import reply
from server.http.security import Headquarters, ServicesDep
from server.http.values import Amount, Body, Flag, Id, Moment, Name
from server.services import catalog, gifts, keys
from server.services.answers import ok
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1", tags=["headquarters"])

PathId = Annotated[Id, Path()]
PRODUCTS_MAX = 1000
GIFTS_MAX = 20
ZoneName = Annotated[str, Field(min_length=1, max_length=64, description="A time zone of the IANA database")]


class ChainIn(Body):
    """`cash_rounding` None = cash is paid to the minor unit; `lock_timeout_s` bounds a hold, 10 s to a day."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    zone: ZoneName
    cash_rounding: Amount | None = None
    lock_timeout_s: Annotated[int, Field(ge=10, le=86_400), NUMBER] = 900


class OfflineIn(Body):
    """A till leases 1.5 times what it draws in `hours`: what lies there nobody else can have meanwhile."""

    hours: Annotated[int, Field(ge=1, le=catalog.OFFLINE_HOURS_MAX), NUMBER]


class StoreIn(Body):
    """The zone in which the store's hours and weekdays count, None = the chain's."""

    zone: ZoneName | None = None


class TillIn(Body):
    """The store in which the till stands."""

    store: Id


class ProductIn(Body):
    """`price` is for one unit, or one kilogram where `by_weight`; `barcode` as it is printed."""

    sku: Id
    price: Amount
    name: Name = ""
    name_en: Name = ""
    category: Name = ""
    brand: Name = ""
    barcode: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    kind: Literal["goods", "service"] = "goods"
    by_weight: Flag = False


class MemberIn(Body):
    """`label` is what a till may show: a masked phone, no name.

    `gifts` names campaigns of which somebody new gets a coupon.
    """

    id: Id
    tier: Annotated[str, Field(min_length=1, max_length=64)] = "basic"
    home_store: Id
    label: Name = ""
    gifts: Annotated[tuple[Id, ...], Field(max_length=GIFTS_MAX)] = ()


class PunchCardIn(Body):
    """`uses` units of the sku `service`; `until` None = without end."""

    id: Id
    member: Id
    service: Id
    uses: Annotated[int, Field(ge=1, le=100_000), NUMBER]
    until: Moment | None = None


class TopUpIn(Body):
    """`request` makes a repeat of this top-up known."""

    request: Id
    amount: Amount


class KeyIn(Body):
    """A till's key is made with the till."""

    scope: Literal["app", "manager", "headquarters"]
    name: Annotated[str, Field(min_length=1, max_length=200)]


@router.put("/chain")
def put_chain(*, body: ChainIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Set the chain's settings."""
    step_minor = _zone_problem(body.zone) or _step(body)
    if isinstance(step_minor, Refusal):
        return reply(step_minor)
    problem = services.write(
        lambda conn, ctx: catalog.set_chain(
            conn,
            ctx.now,
            currency=body.currency,
            zone=body.zone,
            cash_step_minor=step_minor,
            lock_timeout_s=body.lock_timeout_s,
        ),
        actor,
    )
    return reply(problem or ok())


@router.get("/chain")
def get_chain(*, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Show the chain's settings."""
    return reply(services.read(lambda _, ctx: catalog.chain_settings(ctx), actor))


@router.put("/chain/offline-hours")
def put_offline_hours(*, body: OfflineIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Say for how many hours without a line tills provide; `PUT /v1/chain` leaves that as it is."""
    services.write(lambda conn, _: catalog.set_offline_hours(conn, body.hours), actor)
    return reply(ok(offline_hours=body.hours))


def _zone_problem(name: str) -> Refusal | None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return unknown("zone", name)
    return None


def _step(body: ChainIn) -> int | Refusal:
    if body.cash_rounding is None:
        return 0
    step_minor = Currency.of(body.currency).parse(body.cash_rounding)
    if isinstance(step_minor, int) and not 0 <= step_minor <= 10**4:
        return refuse(RefusalCode.INVALID_AMOUNT, text=body.cash_rounding)
    return step_minor


@router.put("/stores/{store_id}")
def put_store(*, store_id: PathId, body: StoreIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Set a store."""
    problem = _zone_problem(body.zone) if body.zone is not None else None
    if problem is not None:
        return reply(problem)
    services.write(
        lambda conn, ctx: catalog.set_store(conn, store_id, zone=body.zone or ctx.chain.zone.key),
        actor,
    )
    return reply(ok(store=store_id))


@router.put("/tills/{till_id}")
def put_till(*, till_id: PathId, body: TillIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Set in which store a till stands; one that moves has to enrol anew, for its key is worthless from then on."""
    problem = services.write(lambda conn, ctx: catalog.set_till(conn, ctx, till_id, store_id=body.store), actor)
    return reply(problem or ok(till=till_id, store=body.store))


@router.post("/products")
def post_products(
    *, body: Annotated[list[ProductIn], Field(max_length=PRODUCTS_MAX)], services: ServicesDep, actor: Headquarters
) -> JSONResponse:
    """Set products by sku, all of the list or none."""
    products = [catalog.Product(**each.model_dump()) for each in body]
    done = services.write(lambda conn, ctx: catalog.set_products(conn, ctx, products), actor)
    return reply(done) if isinstance(done, Refusal) else reply(ok(products=done))


@router.post("/members")
def post_member(*, body: MemberIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Set a member; who is new gets the gifts of registration, each answered as a claim is."""
    answer = services.write(
        lambda conn, ctx: gifts.register(
            conn,
            ctx,
            body.id,
            tier=body.tier,
            home_store=body.home_store,
            label=body.label,
            campaign_ids=body.gifts,
        ),
        actor,
    )
    return reply(answer)


@router.post("/punch-cards")
def post_punch_card(*, body: PunchCardIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Sell a punch card; the same card again changes nothing."""
    problem = services.write(
        lambda conn, ctx: catalog.add_punch_card(
            conn, ctx, body.id, member_id=body.member, service=body.service, uses=body.uses, until_at=body.until
        ),
        actor,
    )
    return reply(problem or ok(punch_card=body.id, uses=body.uses))


@router.post("/members/{member_id}/top-ups")
def post_top_up(*, member_id: PathId, body: TopUpIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Put stored value on a member's account, once for each request."""
    answer = services.write(
        lambda conn, ctx: catalog.top_up(conn, ctx, member_id, request=body.request, amount=body.amount), actor
    )
    return reply(answer, path="member")


@router.post("/keys", status_code=201)
def post_key(*, body: KeyIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Make a key; its token is shown this once."""
    made = services.write(lambda conn, ctx: keys.create(conn, ctx, scope=body.scope, name=body.name), actor)
    return reply(ok(id=made.id, key=made.token, scope=body.scope), status=201)


@router.get("/keys")
def get_keys(*, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """List the keys, without their secrets."""
    return reply(ok(keys=services.read(lambda conn, ctx: keys.listed(conn), actor)))


@router.post("/keys/{key_id}/revoke")
def revoke_key(*, key_id: PathId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Make a key worthless from now on."""
    problem = services.write(lambda conn, ctx: keys.revoke(conn, ctx, key_id), actor)
    services.known_keys.clear()
    return reply(problem or ok(id=key_id), path="key")

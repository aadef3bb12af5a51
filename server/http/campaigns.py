"""Create, edit, steer and show campaigns."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field

from app.domain.refusals import unknown
from app.domain.rule_json import MAX_COUNT
from app.domain.states import CampaignEvent
from server.http.answers import reply
from server.http.campaign_body import CampaignChanges, NewCampaign
from server.http.security import Headquarters, Office, ServicesDep
from server.http.values import Body, Id
from server.services import campaigns, history
from server.services.answers import ok
from server.services.services import Services
from sync.protocol import NUMBER

router = APIRouter(prefix="/v1", tags=["campaigns"])

CampaignId = Annotated[Id, Path()]


class StockIn(Body):
    """Raise the stock, or cut it where `by` is below 0; `request` makes a repeat known."""

    by: Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT), NUMBER]
    request: Id | None = None


@router.post("/campaigns", status_code=201)
def post_campaign(*, body: NewCampaign, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Create a campaign from `id`, `stock`, `arbiter`, `claims_per_second`, `offline`, `state` and its rule's keys.

    `arbiter_in_force` tells who admits its claims: where there is no Redis that is the database, whatever was asked.
    """
    answer = services.write(lambda conn, ctx: campaigns.create(conn, ctx, body), actor)
    if answer["outcome"] == "ok":
        answer = {**answer, "arbiter_in_force": _in_force(services, str(body.get("arbiter") or "database"))}
    return reply(answer, status=201)


def _in_force(services: Services, wished: str) -> str:
    return services.admission.arbiter_in_force(wished) if services.admission is not None else "database"


def _live(services: Services, answer: dict[str, Any]) -> dict[str, Any]:
    """Show with a campaign who admits its claims, and what Redis has taken of its stock and not landed."""
    if "arbiter" not in answer:
        return answer
    answer = {**answer, "arbiter_in_force": _in_force(services, answer["arbiter"])}
    if services.admission is not None and answer["arbiter_in_force"] == "redis" and answer["stock"] is not None:
        answer["stock"] = services.admission.shown(answer["id"], answer["stock"])
    return answer


@router.patch("/campaigns/{campaign_id}")
def patch_campaign(
    *, campaign_id: CampaignId, body: CampaignChanges, services: ServicesDep, actor: Headquarters
) -> JSONResponse:
    """Replace keys of the rule (null takes one away), `stock` (the new total), `offline` or `claims_per_second`.

    `arbiter` switches a campaign to Redis or back while it runs; nothing is lost or doubled by it.
    """
    answer = services.write(lambda conn, ctx: campaigns.edit(conn, ctx, campaign_id, changes=body), actor)
    return reply(_live(services, answer), path="campaign")


@router.post("/campaigns/{campaign_id}/stock")
def post_stock(*, campaign_id: CampaignId, body: StockIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Raise or cut the stock, never below what is out."""
    answer = services.write(
        lambda conn, ctx: campaigns.change_stock(conn, ctx, campaign_id, by=body.by, request=body.request), actor
    )
    return reply(answer, path="campaign")


def _steer(event: CampaignEvent) -> Callable[..., JSONResponse]:
    def post_event(*, campaign_id: CampaignId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
        """Let the campaign take one step of its life cycle; `pause` is the emergency brake."""
        answer = services.write(lambda conn, ctx: campaigns.fire(conn, ctx, campaign_id, event=event), actor)
        return reply(answer, path="campaign")

    return post_event


# A route for each: a path with the event in it would reach for what other routes are called.
for _event in CampaignEvent:
    router.add_api_route(f"/campaigns/{{campaign_id}}/{_event}", _steer(_event), methods=["POST"])


@router.get("/campaigns/{campaign_id}")
def get_campaign(*, campaign_id: CampaignId, services: ServicesDep, actor: Office) -> JSONResponse:
    """Show a campaign with its rule, its stock and its budget."""
    found = services.read(
        lambda conn, ctx: campaigns.view(conn, ctx, campaign_id) if campaigns.find(conn, campaign_id) else None, actor
    )
    return reply(ok(**_live(services, found)) if found else unknown("campaign", campaign_id), path="campaign")


@router.get("/campaigns/{campaign_id}/history")
def get_history(*, campaign_id: CampaignId, services: ServicesDep, actor: Office) -> JSONResponse:
    """Tell what happened to a campaign, oldest first."""
    events = services.read(lambda conn, ctx: history.of(conn, history.CAMPAIGN, campaign_id), actor)
    return reply(ok(events=events) if events else unknown("campaign", campaign_id), path="campaign")

"""Start campaigns whose time has come, and end those whose time is over."""

from sqlalchemy import Connection, or_, select

from app.domain.states import CampaignEvent, CampaignState
from server.db.schema import campaign
from server.jobs.report import JobReport
from server.services import campaigns
from server.services.context import Context
from server.services.services import Services

NAME = "campaign_windows"


def walk_campaigns(services: Services) -> JobReport:
    """Start before ending: a campaign whose whole window went by unseen has been ACTIVE, and ends."""
    started = services.write(_start)
    return JobReport(NAME, done=started + services.write(_end))


def _start(conn: Connection, ctx: Context) -> int:
    due = select(campaign.c.id).where(
        campaign.c.state == CampaignState.SCHEDULED,
        or_(campaign.c.from_at.is_(None), campaign.c.from_at <= ctx.now),
    )
    return _fire(conn, ctx, list(conn.execute(due).scalars()), event=CampaignEvent.START)


def _end(conn: Connection, ctx: Context) -> int:
    due = select(campaign.c.id).where(
        campaign.c.state.in_((CampaignState.ACTIVE, CampaignState.PAUSED)), campaign.c.until_at <= ctx.now
    )
    return _fire(conn, ctx, list(conn.execute(due).scalars()), event=CampaignEvent.END)


def _fire(conn: Connection, ctx: Context, ids: list[str], *, event: CampaignEvent) -> int:
    answers = [campaigns.fire(conn, ctx, campaign_id, event=event) for campaign_id in ids]
    return sum(answer["outcome"] == "ok" for answer in answers)

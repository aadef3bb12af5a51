"""Read what admission needs to know of a campaign, in one snapshot of the database."""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from app.domain.rules import Kind, Rule
from app.domain.states import CampaignState
from server.db import schema
from server.services import accounts, campaigns, feed
from server.services.context import Context
from server.services.grants import REDIS
from server.stock.scripts import Configuration

ADMITTED = frozenset({CampaignState.SCHEDULED.value, CampaignState.ACTIVE.value, CampaignState.PAUSED.value})
"""States in which claims may still come; what has ended is answered from the database alone."""
MEMBERS_AT_ONCE = 2000
"""Members read, and staged in one write: a millisecond of Redis, so that claims of other campaigns go in between."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold a campaign as admission sees it: a copy that may be a second old, and that refuses nobody by itself.

    `wished` = its arbiter is Redis; `generation` 0 = it was never there. `position` is the place in the feed and
    `stock_version` that of the stock's account at which all this was read. `total` and `available` None = unlimited.
    """

    campaign_id: str
    wished: bool
    rule: Rule
    state: str
    generation: int
    admission: str
    run_id: str
    since_at: datetime | None
    rate: int
    total: int | None
    available: int | None
    stock_version: int
    position: int

    @property
    def admitted(self) -> bool:
        """Tell whether its claims go through Redis, where there is one."""
        return self.wished and self.state in ADMITTED and self.rule.kind is Kind.COUPON

    def configuration(self) -> Configuration:
        """Return what Redis is to know of it."""
        return Configuration(
            config=self.position,
            is_open=self.state != CampaignState.PAUSED,
            limit=self.rule.per_member,
            from_ms=to_ms(self.rule.from_at) if self.rule.from_at else 0,
            until_ms=to_ms(self.rule.until_at) if self.rule.until_at else 0,
            rate=self.rate,
            burst=max(1, self.rate),
            stock=self.stock_version,
            total=self.total,
        )


def to_ms(instant: datetime) -> int:
    """Return an instant in milliseconds since 1970."""
    return round(instant.timestamp() * 1000)


def entry_of(conn: Connection, ctx: Context, campaign_id: str) -> Entry | None:
    """Return the campaign as it stands, None where there is none."""
    row = campaigns.find(conn, campaign_id)
    if row is None:
        return None
    known = conn.execute(select(schema.admission).where(schema.admission.c.campaign_id == campaign_id)).one_or_none()
    stock = conn.execute(
        select(schema.account.c.total, schema.account.c.available, schema.account.c.version).where(
            schema.account.c.id == accounts.stock_id(campaign_id)
        )
    ).one_or_none()
    return Entry(
        campaign_id=campaign_id,
        wished=row.arbiter == REDIS,
        rule=campaigns.rule_of(conn, ctx, row.snapshot_id),
        state=row.state,
        generation=known.generation if known is not None else 0,
        admission=known.state if known is not None else "CLOSED",
        run_id=known.run_id if known is not None else "",
        since_at=known.since_at if known is not None else None,
        rate=row.claims_per_second or 0,
        total=stock.total if stock is not None else None,
        available=stock.available if stock is not None else None,
        stock_version=stock.version if stock is not None else 0,
        position=feed.head(conn),
    )


def campaigns_known(conn: Connection, _ctx: Context) -> list[str]:
    """List the campaigns that are on Redis, or were and are not cleared away."""
    wished = select(schema.campaign.c.id).where(
        schema.campaign.c.arbiter == REDIS, schema.campaign.c.state.in_(sorted(ADMITTED))
    )
    there = select(schema.admission.c.campaign_id).where(schema.admission.c.state != "CLOSED")
    return sorted(set(conn.execute(wished).scalars()) | set(conn.execute(there).scalars()))


def holders(conn: Connection, campaign_id: str) -> Generator[dict[str, int], None, None]:
    """Stream who holds how many coupons of the campaign, ever granted, so many members at a time; to be closed."""
    coupon = schema.coupon
    statement = (
        select(coupon.c.member_id, func.count())
        .where(coupon.c.campaign_id == campaign_id)
        .group_by(coupon.c.member_id)
        .execution_options(yield_per=MEMBERS_AT_ONCE)
    )
    with conn.execute(statement) as found:
        for rows in found.partitions():
            yield {row[0]: row[1] for row in rows}


def held_by(conn: Connection, campaign_id: str, members: list[str]) -> dict[str, int]:
    """Count what some members hold of the campaign; who holds nothing is left out."""
    coupon = schema.coupon
    rows = conn.execute(
        select(coupon.c.member_id, func.count())
        .where(coupon.c.campaign_id == campaign_id, coupon.c.member_id.in_(members))
        .group_by(coupon.c.member_id)
    )
    return {row[0]: row[1] for row in rows}

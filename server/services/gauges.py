"""Read what the database knows and Prometheus is shown: stock, findings, the outbox, orders that wait for an answer.

These belong to the chain and not to a process, so they are read when somebody looks, in one snapshot, and never counted
on the side: a number that is kept twice is wrong once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Float, case, func, literal, select

from app.domain.states import CampaignState, OrderState
from server.db.schema import account, campaign, orders
from server.services import accounts, findings, outbox
from server.services.outbox import Lag

CAMPAIGNS_MAX = 50
"""Campaigns shown by name; of more, those that run hot come first, then those with the least share of stock left."""


@dataclass(frozen=True, slots=True)
class Stock:
    """Hold where a campaign's stock stands, in coupons; a limit on claims of others hangs on none of it."""

    campaign_id: str
    total: int
    available: int
    granted: int


@dataclass(frozen=True, slots=True)
class Gauges:
    """Hold one look at the chain; `waiting_orders` counts by state those that are neither paid nor given up."""

    stocks: tuple[Stock, ...]
    findings: Mapping[str, int]
    lags: tuple[Lag, ...]
    waiting_orders: Mapping[str, int]


def read(conn: Connection, now: datetime, *, hot: Collection[str]) -> Gauges:
    """Look once; `hot` are the campaigns to be named first, hottest first."""
    waiting = (OrderState.HELD.value, OrderState.UNKNOWN.value)
    # One question for each state, so that the partial index of each answers it.
    counts = {
        state: conn.execute(
            select(func.count()).select_from(orders).where(orders.c.state == literal(state))
        ).scalar_one()
        for state in waiting
    }
    return Gauges(_stocks(conn, hot), findings.open_counts(conn), tuple(outbox.lags(conn, now)), counts)


def _stocks(conn: Connection, hot: Collection[str]) -> tuple[Stock, ...]:
    named = list(hot)[:CAMPAIGNS_MAX]
    share_left = account.c.available.cast(Float) / case((account.c.total > 0, account.c.total), else_=1)
    rows = conn.execute(
        select(campaign.c.id, account.c.total, account.c.available, account.c.spent)
        .join(account, account.c.id == literal(f"{accounts.STOCK}:") + campaign.c.id)
        .where(campaign.c.state == CampaignState.ACTIVE)
        .order_by(campaign.c.id.in_(named).desc(), share_left, campaign.c.id)
        .limit(CAMPAIGNS_MAX)
    )
    return tuple(Stock(row.id, row.total, row.available, row.spent) for row in rows)

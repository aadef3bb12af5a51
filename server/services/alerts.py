"""Write what somebody should be told now into the outbox, once: a campaign runs hot, stock is nearly out, a finding.

An alert names campaigns, kinds and numbers, never a member, an order or a code: it leaves the chain's server. Each has
a key that makes it the same alert for a while, so nobody is told twice a minute. The words are in `resources/alerts`,
the webhook in `server/webhook.py`; where none is set, alerts go nowhere and wait for nobody.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Text, case, exists, literal, select

from app.domain.states import CampaignState
from server.db.schema import account, campaign, outbox
from server.services import accounts
from server.services.outbox import ALERT, Message, put

CAMPAIGN_HOT, STOCK_LOW, STOCK_OUT, FINDING = "campaign_hot", "stock_low", "stock_out", "finding"


def campaign_hot(conn: Connection, rates: Mapping[str, float], *, limit_per_s: float, now: datetime) -> int:
    """Tell of the campaigns that are asked for this often (claims a second), once an hour each; returns how many."""
    messages = [
        _message(
            f"{CAMPAIGN_HOT}:{name}:{now:%Y-%m-%dT%H}",
            {"campaign": name, "rate_per_s": round(rate), "limit_per_s": round(limit_per_s)},
            now,
        )
        for name, rate in sorted(rates.items())
        if rate >= limit_per_s
    ]
    put(conn, messages, now)
    return len(messages)


def finding_opened(conn: Connection, kind: str, *, now: datetime) -> None:
    """Tell of a new finding, once an hour for each kind."""
    put(conn, [_message(f"{FINDING}:{kind}:{now:%Y-%m-%dT%H}", {"finding": kind}, now)], now)


def low_stocks(conn: Connection, *, percent: int, limit: int = 100) -> list[dict[str, Any]]:
    """Return active campaigns with `percent` of their stock left or less that nobody was told of: `level` and facts."""
    level = case((account.c.available == 0, STOCK_OUT), else_=STOCK_LOW)
    # A stock that is raised is another one, and may run low again.
    key = level + literal(":") + campaign.c.id + literal(":") + account.c.total.cast(Text)
    told = exists().where(outbox.c.topic == ALERT, outbox.c.key == key)
    rows = conn.execute(
        select(campaign.c.id, account.c.available, account.c.total, level.label("level"))
        .join(account, account.c.id == literal(f"{accounts.STOCK}:") + campaign.c.id)
        .where(
            campaign.c.state == CampaignState.ACTIVE,
            account.c.total > 0,
            account.c.available * 100 <= account.c.total * percent,
            ~told,
        )
        .order_by(campaign.c.id)
        .limit(limit)
    )
    return [
        {"level": row.level, "campaign": row.id, "available": row.available, "total": row.total, "percent": percent}
        for row in rows
    ]


def stock_low(conn: Connection, found: list[dict[str, Any]], *, now: datetime) -> None:
    """Tell of what `low_stocks` found, once a day (`outbox.KEPT`) for each total that a campaign has had."""
    put(conn, [_message(f"{each['level']}:{each['campaign']}:{each['total']}", each, now) for each in found], now)


def _message(key: str, facts: Mapping[str, Any], now: datetime) -> Message:
    """Make an alert; its key begins with its kind."""
    return Message(ALERT, key, {"kind": key.partition(":")[0], "at": now.isoformat(), "facts": dict(facts)})

"""Hold what every use case is told: the time, who asks, and the chain's settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from app.domain.money import Currency
from app.domain.ports import Ids
from app.domain.refusals import Refusal, RefusalCode, refuse
from server.db import schema
from server.services.pace import Pace

RESTORING_RETRY_S = 30
_CHAIN = select(schema.chain)


class NotProvisioned(Exception):
    """Say that the database holds no chain yet (`server/provision.py` makes one)."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Hold the chain's settings: `cash_step_minor` 0 = no cash rounding; `zone` dates claims and `valid_days`.

    Tills lease what they are likely to need in `offline_hours` without a line.

    `restoring`: the database came back from a backup, and not every till has told again what that lacks.
    """

    currency: Currency
    zone: ZoneInfo
    cash_step_minor: int
    lock_timeout: timedelta
    incarnation: int
    offline_hours: int
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Actor:
    """Say who asks. `till_id` and `store_id` are set for a till only; a job acts as SYSTEM.

    `access` of a till's key: OPEN, or why it is let in nowhere (SUSPENDED, REVOKED, REPLACED).
    """

    scope: str
    key_id: str
    till_id: str | None = None
    store_id: str | None = None
    access: str = "OPEN"


SYSTEM = Actor("system", "")


@dataclass(frozen=True, slots=True)
class Taken:
    """Tell what one change took of a campaign that may be admitted by Redis: a grant, or a lease that moved.

    `version` is the place in the feed right behind it. `units` are coupons that came back to the stock, below 0: that
    left it. `grants` are pairs of request and member, a coupon each; those that a till gives out left the stock when
    they were lent. Told to Redis after the commit; its own reservations excepted.
    """

    campaign_id: str
    version: int
    units: int
    grants: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Context:
    """Hold what a use case may look at besides the database; one instant for the whole use case.

    `taken` and `changed` (campaigns that were edited) collect what Redis is to be told once it is durable. `pace` knows
    how often tills are to ask. `all_told`: every till that is waited for after a restore has told.
    """

    now: datetime
    ids: Ids
    chain: Chain
    actor: Actor
    code_key: bytes
    taken: list[Taken] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    all_told: bool = False

    @property
    def waits(self) -> bool:
        """Tell whether a till may still tell what this database lacks: no time is over, and no conflict final."""
        return self.chain.restoring and not self.all_told

    def not_now(self) -> Refusal | None:
        """Refuse to give anything out while a till may have used it and not told again (`services/restoring.py`)."""
        if not self.chain.restoring:
            return None
        return refuse(RefusalCode.BUSY, reason="restoring", retry_after_s=RESTORING_RETRY_S)


def load_chain(conn: Connection) -> Chain:
    """Return the chain's settings; raises NotProvisioned where there is none. One row, so it is read each time."""
    row = conn.execute(_CHAIN).one_or_none()
    if row is None:
        raise NotProvisioned
    return Chain(
        currency=Currency.of(row.currency),
        zone=ZoneInfo(row.zone),
        cash_step_minor=row.cash_step_minor,
        lock_timeout=timedelta(seconds=row.lock_timeout_s),
        incarnation=row.incarnation,
        offline_hours=row.offline_hours,
        restoring=row.restored_at is not None,
    )

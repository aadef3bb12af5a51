"""Declare the world of a scenario file: its tables, their keys and defaults (FORMAT, "World").

A campaign's own keys are those of RULES; they stay plain data here and are read by the one reader of rules
(`app/domain/rule_json.py`), so a condition that the rules learn is known to scenarios at once.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from app.domain.money import Currency
from server.scenario.values import Count, Duration, Id, Instant, Name, Price, Strict, Zone, to_json

START = datetime(2026, 6, 1, 2, tzinfo=UTC)
"""2026-06-01T10:00:00+08:00, where a file names no `start`."""


class ChainTable(Strict):
    """Describe the chain; `cash_rounding` 0 = none. The last two durations belong to parts that come later."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "CNY"
    timezone: Zone = "Asia/Shanghai"
    cash_rounding: Price = 0
    lock_timeout: Duration = timedelta(minutes=15)
    reservation_timeout: Duration = timedelta(minutes=30)
    release_delay: Duration = timedelta(minutes=15)


class StoreTable(Strict):
    """Describe a store; `timezone` None = the chain's."""

    id: Id
    timezone: Zone | None = None


class TillTable(Strict):
    """Describe a till; `store` None = s1, or the first store where there is no s1. `risk` is its budget, 0 = none."""

    id: Id
    store: Id | None = None
    risk: Price = 0


class ManagerTable(Strict):
    """Describe somebody who may approve at the tills of a store, None = of all."""

    id: Id
    pin: str
    name: str = ""
    store: Id | None = None


class ProductTable(Strict):
    """Describe what is sold; `name` "" = the sku."""

    sku: Id
    price: Price
    name: str = ""
    category: str = ""
    brand: str = ""
    barcode: str | None = None
    kind: Literal["goods", "service"] = "goods"
    by_weight: bool = False


class MemberTable(Strict):
    """Describe a member; `home_store` None as for a till."""

    id: Id
    tier: Name = "basic"
    stored_value: Price = 0
    home_store: Id | None = None


class CardTable(Strict):
    """Describe a punch card."""

    id: Id
    member: Id
    service: Id
    uses: Count
    until: Instant | None = None


class CampaignTable(Strict):
    """Describe a campaign; every key that is not named here is the rule's."""

    model_config = ConfigDict(extra="allow")

    id: Id
    stock: Count | None = None
    arbiter: Literal["database", "redis"] = "database"
    claims_per_second: Count | None = None
    state: Literal["DRAFT", "SCHEDULED", "ACTIVE", "PAUSED", "ENDED"] = "ACTIVE"
    offline: Literal["lease", "online_only", "risk"] = "lease"
    risk_max: Price | None = None
    sync_age_max_h: Count | None = None

    @property
    def rule(self) -> dict[str, Any]:
        """Return the rule's keys as JSON data; raises ValueError."""
        data: dict[str, Any] = to_json(self.model_extra or {})
        return data


class WorldTable(Strict):
    """Hold a whole file but for its steps; missing stores and tills are filled in: one store s1, one till t1."""

    title: str
    why: str = ""
    version: Literal[1] = 1
    start: Instant = START
    chain: ChainTable = ChainTable()
    store: list[StoreTable] = Field(default_factory=lambda: [StoreTable(id="s1")])
    till: list[TillTable] = Field(default_factory=lambda: [TillTable(id="t1")])
    manager: list[ManagerTable] = Field(default_factory=list)
    product: list[ProductTable] = Field(default_factory=list)
    member: list[MemberTable] = Field(default_factory=list)
    punch_card: list[CardTable] = Field(default_factory=list)
    campaign: list[CampaignTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names(self) -> "WorldTable":
        stores = _once("store", [row.id for row in self.store])
        _once("till", [row.id for row in self.till])
        _once("manager", [row.id for row in self.manager])
        _once("product", [row.sku for row in self.product])
        members = _once("member", [row.id for row in self.member])
        _once("punch_card", [row.id for row in self.punch_card])
        _once("campaign", [row.id for row in self.campaign])
        for place in [row.store for row in self.till] + [row.home_store for row in self.member]:
            if place is not None and place not in stores:
                raise ValueError(f"there is no store {place}")
        for card in self.punch_card:
            if card.member not in members:
                raise ValueError(f"punch_card {card.id}: there is no member {card.member}")
        return self

    @property
    def currency(self) -> Currency:
        """Return the chain's currency."""
        return Currency.of(self.chain.currency)

    @property
    def default_store(self) -> str:
        """Return the store where a till or a member is, where the file does not say."""
        return "s1" if any(row.id == "s1" for row in self.store) else self.store[0].id


def _once(table: str, names: list[str]) -> set[str]:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"{table} {name} is there twice")
    return set(names)

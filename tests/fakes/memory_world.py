"""The world of the server in memory: what headquarters knows, as records, and the feed that publishes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from app.domain.codes import code_digest
from app.domain.money import Currency
from tests.fakes.clock import SetClock

CNY = Currency.of("CNY")
CODE_KEY = b"k" * 32
NOON = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)

Json = dict[str, Any]


class FakeIds:
    """Ids that count."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix, self._count = prefix, 0

    def new(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:x}".rjust(32, "0")

    def digits(self, count: int) -> str:
        self._count += 1
        return str(self._count).rjust(count, "0")[-count:]


@dataclass(frozen=True)
class Change:
    kind: str
    key: str
    record: Json | None


@dataclass
class Coupon:
    id: str
    code: str
    campaign: str
    rule: Json
    member: str | None
    state: str = "ISSUED"
    order: str | None = None
    until: datetime | None = None
    home: str | None = None
    version: int = 1


@dataclass
class Order:
    id: str
    attempt: int
    state: str
    held_until: datetime | None = None
    used: tuple[str, ...] = ()
    uses: dict[str, int] = field(default_factory=dict)
    value_minor: int = 0
    budgets: dict[str, int] = field(default_factory=dict)
    lines: list[Json] = field(default_factory=list)
    quote: Json = field(default_factory=dict)
    tenders: list[Json] = field(default_factory=list)
    member: str | None = None
    refunds: list[Json] = field(default_factory=list)


class World:
    """What headquarters knows. Add to it by its methods; everything added is published."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.changes: list[Change] = []
        self.products: dict[str, Json] = {}
        self.members: dict[str, Json] = {}
        self.cards: dict[str, Json] = {}
        self.campaigns: dict[str, Json] = {}
        self.coupons: dict[str, Coupon] = {}
        self.lendable: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.cash_step_minor = 0
        self.publish_chain()
        self._publish("store", "s1", {"id": "s1", "zone": "Asia/Shanghai"})

    def publish_chain(self, *, cash_step_minor: int = 0, **keys: Any) -> None:
        self.cash_step_minor = cash_step_minor
        record = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_step_minor": cash_step_minor, "lock_timeout_s": 900}
        self._publish("chain", "chain", {**record, **keys})

    def product(self, sku: str, price_minor: int, **keys: Any) -> None:
        record = {
            "sku": sku,
            "name": f"货{sku}",
            "name_en": f"Good {sku}",
            "price_minor": price_minor,
            "category": "",
            "brand": "",
            "barcode": None,
            "kind": "goods",
            "by_weight": False,
            **keys,
        }
        self.products[sku] = record
        self._publish("product", sku, record)

    def member(self, member_id: str, *, tier: str = "basic", balance_minor: int = 0, home_store: str = "s1") -> None:
        record = {
            "id": member_id,
            "tier": tier,
            "home_store": home_store,
            "label": f"{member_id}***",
            "has_ordered": False,
            "balance_minor": balance_minor,
        }
        self.members[member_id] = record
        self._publish("member", member_id, record)

    def card(self, card_id: str, member_id: str, service: str, *, uses: int) -> None:
        record = {"id": card_id, "member": member_id, "service": service, "uses_left": uses, "until_at": None}
        self.cards[card_id] = record
        self._publish("punch_card", card_id, record)

    def campaign(
        self,
        campaign_id: str,
        *,
        budget_left_minor: int | None = None,
        version: int = 1,
        offline: str = "lease",
        risk_max_minor: int | None = None,
        **rule: Any,
    ) -> None:
        kind, snapshot = rule.get("kind", "coupon"), f"{campaign_id}-{version}"
        self.campaigns[campaign_id] = {
            "id": campaign_id,
            "kind": kind,
            "state": "ACTIVE",
            "snapshot": snapshot,
            "budget_left_minor": budget_left_minor,
            "offline": offline,
            "risk_max_minor": risk_max_minor,
            "sync_age_max_h": 24 if offline == "risk" else None,
        }
        record = {"id": snapshot, "campaign": campaign_id, "rule": rule}
        self.campaigns[campaign_id]["rule"] = rule
        self._publish("snapshot", snapshot, record)
        self._publish_campaign(campaign_id)

    def coupon(self, coupon_id: str, code: str, campaign: str, *, member: str | None = None, **keys: Any) -> None:
        self.coupons[coupon_id] = Coupon(coupon_id, code, campaign, self.campaigns[campaign]["rule"], member, **keys)
        self._publish_coupon(coupon_id)

    def manager(self, staff_id: str, name: str, *, verifier: str, pin_version: int = 1) -> None:
        """Let somebody approve at tills."""
        record = {"id": staff_id, "name": name, "store": None, "verifier": verifier, "pin_version": pin_version}
        self._publish("staff", staff_id, record)

    def risk_budget(self, till_id: str, minor: int) -> None:
        """Let a till give that away without a right; it may lease all of it."""
        self.lendable[f"risk:{till_id}"] = minor
        self._publish("risk", till_id, {"till": till_id, "limit_minor": minor, "available_minor": minor})

    # ------------------------------------------------------------ publishing

    def _publish(self, kind: str, key: str, record: Json) -> None:
        self.changes.append(Change(kind, key, dict(record)))

    def _publish_campaign(self, campaign_id: str) -> None:
        record = {key: value for key, value in self.campaigns[campaign_id].items() if key != "rule"}
        self._publish("campaign", campaign_id, record)

    def _publish_coupon(self, coupon_id: str) -> None:
        coupon = self.coupons[coupon_id]
        record = {
            "id": coupon.id,
            "digest": code_digest(CODE_KEY, coupon.code).hex(),
            "campaign": coupon.campaign,
            "snapshot": self.campaigns[coupon.campaign]["snapshot"],
            "member": coupon.member,
            "state": coupon.state,
            "order": coupon.order,
            "store": "s1" if coupon.order else None,
            "at": None,
            "valid_until_at": None if coupon.until is None else round(coupon.until.timestamp() * 1000),
            "home": coupon.home,
            "version": coupon.version,
            "recalled": coupon.id in self.recalled,
        }
        self._publish("coupon", coupon_id, record)

    def publish_lease(
        self,
        lease_id: str,
        *,
        till: str,
        account: str,
        qty: int,
        state: str = "OPEN",
        coupons: tuple[tuple[str, str], ...] = (),
    ) -> None:
        minted = [{"coupon": coupon_id, "code": code} for coupon_id, code in coupons]
        record = {"id": lease_id, "till": till, "account": account, "qty": qty, "state": state, "coupons": minted}
        self._publish("lease", lease_id, record)

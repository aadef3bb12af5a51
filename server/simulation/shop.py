"""Draw the chain of one seed: two stores in two zones, a few tills, goods, members, cards, campaigns of every kind."""

import random
from typing import Any

from app.domain.money import Currency
from server.scenario.tables import WorldTable

BENEFITS: tuple[dict[str, Any], ...] = (
    {"type": "amount_off", "amount": "5.00"},
    {"type": "amount_off", "amount": "7.77"},
    {"type": "percent_off", "percent": 15},
    {"type": "percent_off", "percent": "33.33"},
    {"type": "percent_off", "percent": 50, "max_discount": "6.00"},
    {"type": "tiered", "tiers": [{"min": "10.00", "off": "2.00"}, {"min": "30.00", "off": "7.00"}]},
    {"type": "every", "min": "10.00", "off": "1.00", "max_times": 3},
    {"type": "fixed_price", "price": "1.00", "qty": 2},
    {"type": "fixed_price", "price": "0.00"},
    {"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": 50},
    {"type": "buy_x_get_y", "buy": 2, "get": 1, "max_times": 2},
)
MEMBERS = ("m1", "m2", "m3", "m4")
CARDS = (("k1", "m1", "S", 6), ("k2", "m2", "S", 20), ("k3", "m1", "A", 8), ("k4", "m4", "S", 3))
"""Punch cards: id, member, what they cover, uses."""
PRICES = ("9.00", "10.00", "12.50")

_SOMETIMES: tuple[tuple[float, str, tuple[Any, ...]], ...] = (
    (0.25, "min_spend", ("5.00", "20.00")),
    (0.2, "scope", ({"include": {"skus": ["A", "W"]}}, {"exclude": {"categories": ["food"]}})),
    (0.15, "threshold_base", ("gross",)),
    (0.3, "priority", (0, 1, 2)),
    (0.35, "budget", ("5.00", "20.00", "100.00", "1000.00")),
    (0.1, "first_order", (True,)),
    (0.1, "tiers", (["gold"],)),
    (0.1, "hours", ({"from": "22:00", "until": "06:00"},)),
    (0.1, "stores", (["s1"],)),
)
_COUPONS_SOMETIMES: tuple[tuple[float, str, tuple[Any, ...]], ...] = (
    (0.25, "refund_policy", ("recompute",)),
    (0.1, "exclusive", (True,)),
    (0.1, "no_promotions", (True,)),
    (0.3, "group", ("x", "y", "z")),
    (0.2, "max_per_order", (1, 2, 3)),
    (0.7, "stock", (1, 3, 10, 100)),
    (0.2, "bearer", (True,)),
    (0.3, "valid_days", (1, 2)),
    (0.1, "offline", ("online_only",)),
)


def _campaign(rng: random.Random, campaign_id: str, *, automatic: bool) -> dict[str, Any]:
    keys: dict[str, Any] = {"id": campaign_id, "benefit": rng.choice(BENEFITS)}
    keys |= {"kind": "automatic"} if automatic else {"per_member": rng.choice([1, 3, 20])}
    for chance, key, values in _SOMETIMES if automatic else (*_SOMETIMES, *_COUPONS_SOMETIMES):
        if rng.random() < chance:
            keys[key] = rng.choice(values)
    return keys


def on_redis(table: WorldTable, rng: random.Random) -> WorldTable:
    """Let claims of most campaigns be admitted by Redis."""
    hot = [
        each.model_copy(update={"arbiter": "redis"})
        if each.rule.get("kind") != "automatic" and rng.random() < 0.7
        else each
        for each in table.campaign
    ]
    return table.model_copy(update={"campaign": hot})


def draw(rng: random.Random, title: str, *, tills: int | None = None) -> WorldTable:
    """Return the chain of a seed; `tills` None = two to four of them."""
    coupons = [_campaign(rng, f"c{n}", automatic=False) for n in range(rng.randint(4, 7))]
    promotions = [_campaign(rng, f"p{n}", automatic=True) for n in range(rng.randint(0, 3))]
    world = {
        "title": title,
        "chain": {"cash_rounding": rng.choice(["0.00", "0.05", "0.10"]), "lock_timeout": rng.choice(["30s", "15m"])},
        "store": [{"id": "s1"}, {"id": "s2", "timezone": "America/New_York"}],
        "till": [
            {"id": f"t{n}", "store": "s2" if n == 2 else "s1"}
            for n in range(1, tills + 1 if tills else rng.randint(3, 5))
        ],
        "product": [
            {"sku": "A", "price": "10.00"},
            {"sku": "B", "price": "3.33", "category": "food"},
            {"sku": "C", "price": "0.07"},
            {"sku": "W", "price": "12.80", "by_weight": True},
            {"sku": "S", "price": "50.00", "kind": "service"},
        ],
        "member": [
            {"id": name, "tier": "gold" if name == "m1" else "basic", "stored_value": rng.choice(["0.00", "500.00"])}
            for name in MEMBERS
        ],
        "punch_card": [{"id": card, "member": who, "service": sku, "uses": n} for card, who, sku, n in CARDS],
        "campaign": [*coupons, *promotions],
    }
    return WorldTable.model_validate(world, context={"currency": Currency.of("CNY")})

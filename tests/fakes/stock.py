"""What a small till sells, to whom, and what those hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    name_en: str
    price_minor: int
    category: str = "food"
    by_weight: bool = False
    barcode: str = ""


@dataclass(frozen=True)
class Member:
    id: str
    label: str
    tier: str = "basic"
    balance_minor: int = 0


@dataclass(frozen=True)
class Card:
    id: str
    member_id: str
    service: str
    uses_left: int

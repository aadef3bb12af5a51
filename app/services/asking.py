"""Write down what was asked for, in the one form whose digest tells a repeat from other content under the same id."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.basket import Cover
from app.domain.refunds import RefundLine
from app.services.api import BasketLine, BasketRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold one checkout as it was asked for. A coupon that was scanned twice counts once."""

    basket: BasketRequest
    stored_value_minor: int

    @classmethod
    def of(cls, basket: BasketRequest, stored_value_minor: int = 0) -> "Asked":
        """Take a request in."""
        once = tuple(dict.fromkeys(basket.use))
        return cls(
            BasketRequest(basket.member_id, basket.lines, once, covers=basket.covers, promotions=basket.promotions),
            stored_value_minor,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "member": self.basket.member_id,
            "lines": [{"sku": line.sku, "qty_milli": line.qty_milli} for line in self.basket.lines],
            "use": list(self.basket.use),
            "covers": [{"card": cover.card_id, "line": cover.line} for cover in self.basket.covers],
            "promotions": self.basket.promotions,
            "stored_value_minor": self.stored_value_minor,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Asked":
        """Read what `to_json` wrote."""
        return cls(
            BasketRequest(
                data["member"],
                tuple(BasketLine(line["sku"], line["qty_milli"]) for line in data["lines"]),
                tuple(data["use"]),
                covers=tuple(Cover(cover["card"], cover["line"]) for cover in data["covers"]),
                promotions=data["promotions"],
            ),
            data["stored_value_minor"],
        )

    @property
    def content(self) -> bytes:
        """Return the SHA-256 of the canonical form."""
        return digest(self.to_json())


def refund_to_json(lines: tuple[RefundLine, ...] | None) -> dict[str, Any]:
    """Return what a refund asks for as JSON data."""
    return {
        "lines": None if lines is None else [{"number": line.number, "qty_milli": line.qty_milli} for line in lines]
    }


def refund_from_json(data: Mapping[str, Any]) -> tuple[RefundLine, ...] | None:
    """Read what `refund_to_json` wrote."""
    lines = data["lines"]
    return None if lines is None else tuple(RefundLine(line["number"], line["qty_milli"]) for line in lines)


def digest(data: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 of JSON data in canonical form."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()

"""Describe what a customer brings to the counter: lines of goods, whole units or weights.

Quantities are integers of thousandths (`qty_milli`): 2 units are 2000, 0.735 kg is 735, so they stay exact in every
table and message. Source: RULES, "Money and quantity".
"""

import re
from dataclasses import dataclass

from app.domain.money import divide_half_up
from app.domain.refusals import Refusal, RefusalCode, refuse

MILLI = 1000
MAX_QTY_MILLI = 99_999 * MILLI
"""Largest quantity of a line: beyond it a barcode was scanned into the quantity field."""
MAX_LINES = 1000

_QUANTITY = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one line of the basket.

    `number` counts from 1 in the order of scanning. `price_minor` is for one unit or one kilogram. `category` and
    `brand` are "" where the product has none.
    """

    number: int
    sku: str
    price_minor: int
    qty_milli: int
    category: str = ""
    brand: str = ""
    by_weight: bool = False


@dataclass(frozen=True, slots=True)
class Cover:
    """Let one use of a punch card cover one unit of a line (`line` counts from 1)."""

    card_id: str
    line: int


def line_gross(price_minor: int, qty_milli: int) -> int:
    """Return price x quantity in minor units, rounded half up."""
    return divide_half_up(price_minor * qty_milli, MILLI)


def parse_qty(value: int | str, *, by_weight: bool) -> int | Refusal:
    """Read a quantity as thousandths: whole units, or for goods sold by weight at most 3 decimals; above 0.

    A whole number may be written with zeros behind the point ("2.0"): scales and spreadsheets do.
    """
    found = _QUANTITY.fullmatch(str(value).strip())
    if found is None:
        return refuse(RefusalCode.INVALID_QUANTITY, text=str(value)[:40])
    fraction = (found.group(2) or "").rstrip("0")
    if len(fraction) > 3:
        return refuse(RefusalCode.INVALID_QUANTITY, text=str(value)[:40], decimals=3)
    qty_milli = int(found.group(1)) * MILLI + int(fraction.ljust(3, "0") or "0")
    return check_qty(qty_milli, by_weight=by_weight)


def check_qty(qty_milli: int, *, by_weight: bool) -> int | Refusal:
    """Return the quantity when it is above 0, not huge, and whole where the goods are sold by the piece."""
    if not 0 < qty_milli <= MAX_QTY_MILLI:
        return refuse(RefusalCode.INVALID_QUANTITY, qty_milli=qty_milli, max_milli=MAX_QTY_MILLI)
    if not by_weight and qty_milli % MILLI:
        return refuse(RefusalCode.INVALID_QUANTITY, qty_milli=qty_milli, whole=True)
    return qty_milli


def format_qty(qty_milli: int) -> str:
    """Write thousandths as "2" or "0.735", without needless zeros."""
    whole, milli = divmod(qty_milli, MILLI)
    return f"{whole}.{milli:03d}".rstrip("0") if milli else str(whole)

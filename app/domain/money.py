"""Count money exactly: integers of minor units (fen, cents), rounded half up, shared out by largest remainder.

No float touches money. Source: RULES, "Money and quantity" and "Benefits" (prorating).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from app.domain.refusals import Refusal, RefusalCode, refuse

MAX_MINOR = 10**12
"""Largest amount that a person may enter, in minor units: far above any basket, far below 64 bits."""

# ISO 4217:2015 table A.1, the minor units that are not 2.
_DECIMALS = {
    "BHD": 3,
    "CLP": 0,
    "IQD": 3,
    "ISK": 0,
    "JOD": 3,
    "JPY": 0,
    "KRW": 0,
    "KWD": 3,
    "OMR": 3,
    "TND": 3,
    "VND": 0,
}
_AMOUNT = re.compile(r"(-?)([0-9]{1,13})(?:\.([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Currency:
    """Name a currency by its ISO 4217 letters; `decimals` is the number of digits of its minor unit (0 to 3)."""

    code: str
    decimals: int

    @classmethod
    def of(cls, code: str) -> "Currency":
        """Return the currency with the minor unit of ISO 4217, 2 where the standard has no exception."""
        return cls(code, _DECIMALS.get(code, 2))

    def parse(self, text: str) -> int | Refusal:
        """Read `"199.00"` as minor units; refuse what is not exact, also more decimals than the currency has."""
        found = _AMOUNT.fullmatch(text.strip())
        if found is None:
            return refuse(RefusalCode.INVALID_AMOUNT, text=text[:40])
        sign, whole, fraction = found.group(1), found.group(2), found.group(3) or ""
        if len(fraction) > self.decimals:
            return refuse(RefusalCode.INVALID_AMOUNT, text=text[:40], decimals=self.decimals)
        minor = int(whole + fraction.ljust(self.decimals, "0"))
        if minor > MAX_MINOR:
            return refuse(RefusalCode.INVALID_AMOUNT, text=text[:40], max_minor=MAX_MINOR)
        return -minor if sign else minor

    def format(self, minor: int) -> str:
        """Write minor units as `"199.00"`: a dot, no grouping, no symbol; the shape of the API and of files."""
        sign, digits = ("-" if minor < 0 else ""), str(abs(minor)).rjust(self.decimals + 1, "0")
        if self.decimals == 0:
            return sign + digits
        return f"{sign}{digits[: -self.decimals]}.{digits[-self.decimals :]}"


def round_half_up(value: Fraction) -> int:
    """Round to the nearest integer, a half towards plus infinity (0.5 -> 1, -0.5 -> 0)."""
    return divide_half_up(value.numerator, value.denominator)


def divide_half_up(numerator: int, denominator: int) -> int:
    """Return the rounded quotient (denominator > 0) without making a fraction of it first."""
    return (2 * numerator + denominator) // (2 * denominator)


def round_to_step(minor: int, step_minor: int) -> int:
    """Round to the nearest multiple of `step_minor` (> 0), half up: what can be paid in coins that exist."""
    return divide_half_up(minor, step_minor) * step_minor


def largest_remainder(numerators: Sequence[int], denominator: int) -> list[int]:
    """Round exact shares (numerator / denominator, each >= 0) to integers that add up to their rounded sum.

    Each gets its floor; what is left goes one each to the largest fractions (tie: the earlier). A whole share stays as
    it is, so no part exceeds the ceiling of its share. Method: Hamilton's, as RULES "prorated" says.
    """
    parts = [numerator // denominator for numerator in numerators]
    left = divide_half_up(sum(numerators), denominator) - sum(parts)
    if left:
        lacking = [part * denominator - numerator for part, numerator in zip(parts, numerators, strict=True)]
        for i in sorted(range(len(parts)), key=lacking.__getitem__)[:left]:
            parts[i] += 1
    return parts


def prorate(total_minor: int, weights: Sequence[int]) -> list[int]:
    """Share `total_minor` (0 up to the weights' sum) out by weights (>= 0); the parts add up to it exactly.

    No part exceeds its weight, since the total does not exceed their sum. All-zero weights share nothing out.
    """
    whole = sum(weights)
    assert 0 <= total_minor <= whole, "a discount is never more than what it is laid on"
    if whole == 0:
        return [0] * len(weights)
    return largest_remainder([total_minor * weight for weight in weights], whole)

"""Hold the answer to "what does this basket cost, and why": every stage of the price, stored.

A quote is kept in the order and in the ledger entry, so "why this price?" is answered by reading, years later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.domain.basket import Cover
from app.domain.refusals import Refusal
from app.domain.rules import Rule


@dataclass(frozen=True, slots=True)
class Laid:
    """Tell one discount: which campaign (and coupon; None for an automatic promotion) took off what from which line.

    `shares_minor` has one number for each line of the basket, in its order; 0 where nothing was taken off.
    """

    campaign_id: str
    coupon_id: str | None
    rule: Rule
    shares_minor: tuple[int, ...]

    @property
    def discount_minor(self) -> int:
        """Return what this stage took off in all."""
        return sum(self.shares_minor)


@dataclass(frozen=True, slots=True)
class QuoteLine:
    """Price one line. `gross_minor` leaves out covered units; `net = gross - discount`, never below 0."""

    number: int
    sku: str
    price_minor: int
    qty_milli: int
    covered_units: int
    gross_minor: int
    discount_minor: int

    @property
    def net_minor(self) -> int:
        """Return what the line costs after every discount."""
        return self.gross_minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class Quote:
    """Price an order.

    `laid` lists the stages in the order in which they were laid. `refused` names coupons and cards with the reason;
    `skipped` the automatic promotions that did not apply. `member_id` is the member on the order, perhaps brought by a
    coupon or card. `covers` are the punch-card uses that hold.
    """

    lines: tuple[QuoteLine, ...]
    laid: tuple[Laid, ...] = ()
    covers: tuple[Cover, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    skipped: Mapping[str, Refusal] = field(default_factory=dict)
    member_id: str | None = None

    @property
    def gross_minor(self) -> int:
        """Return the sum of the lines before discounts, without covered units."""
        return sum(line.gross_minor for line in self.lines)

    @property
    def discount_minor(self) -> int:
        """Return everything that was taken off."""
        return sum(line.discount_minor for line in self.lines)

    @property
    def payable_minor(self) -> int:
        """Return what is left to pay, before cash rounding."""
        return self.gross_minor - self.discount_minor

    @property
    def used(self) -> tuple[str, ...]:
        """Return the coupons that took something off, in the order in which they were laid."""
        return tuple(stage.coupon_id for stage in self.laid if stage.coupon_id is not None)

    def first_refusal(self, use: Iterable[str], covers: Iterable[Cover]) -> Refusal | None:
        """Return the reason of the first coupon, in the order of scanning, then of the first card that is refused."""
        named = (*use, *(cover.card_id for cover in covers))
        return next((self.refused[name] for name in named if name in self.refused), None)

"""Hold what the desk shows: one frozen value that the presenter makes and the view draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain.quote import Quote
from app.services.api import MemberView, UsableCoupon
from ui.counter.basket import Basket
from ui.verdict import Verdict
from ui.words import Name


@dataclass(frozen=True, slots=True)
class Asked:
    """Ask the cashier for a quantity: of goods just scanned (`number` None), or of a line."""

    sku: str
    name: Name
    by_weight: bool
    number: int | None = None
    price_minor: int = 0
    qty_milli: int | None = None


@dataclass(frozen=True, slots=True)
class DeskState:
    """Show the desk.

    `quote` None = nothing is priced (an empty basket, or the first price is on its way); `fresh` tells whether it is
    the price of `basket` as it stands. `selected` is a line's number, 0 where there is none. `names` maps skus,
    coupons, campaigns and cards to what people call them.
    """

    basket: Basket
    quote: Quote | None = None
    fresh: bool = True
    member: MemberView | None = None
    coupons: tuple[UsableCoupon, ...] = ()
    names: Mapping[str, Name | str] = field(default_factory=dict)
    verdict: Verdict | None = None
    selected: int = 0
    asked: Asked | None = None

    @property
    def payable(self) -> bool:
        """Tell whether the customer can pay now."""
        return self.fresh and self.quote is not None and bool(self.basket.items)

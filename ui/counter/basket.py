"""Keep the basket on the desk: what was scanned, before it has a price. Pure values; every change is a new one."""

from dataclasses import dataclass, replace

from app.domain.basket import MAX_QTY_MILLI, MILLI, Cover
from app.services.api import BasketLine, BasketRequest


@dataclass(frozen=True, slots=True)
class Item:
    """Hold one line as it was scanned; `by_weight` goods are weighed each time, so each is a line of its own."""

    sku: str
    qty_milli: int
    by_weight: bool = False


@dataclass(frozen=True, slots=True)
class Basket:
    """Hold the lines, the coupons in the order of scanning, the punch-card uses and the member of one order.

    Line numbers count from 1, as in `BasketRequest`; `covers` follow their line when another is removed.
    """

    order_id: str
    items: tuple[Item, ...] = ()
    use: tuple[str, ...] = ()
    covers: tuple[Cover, ...] = ()
    member_id: str | None = None

    @property
    def empty(self) -> bool:
        """Tell whether nothing at all is on the order, no member and no coupon either."""
        return not (self.items or self.use or self.member_id)

    def request(self) -> BasketRequest:
        """Return what the till is asked."""
        lines = tuple(BasketLine(item.sku, item.qty_milli) for item in self.items)
        return BasketRequest(member_id=self.member_id, lines=lines, use=self.use, covers=self.covers)

    def with_item(self, item: Item) -> tuple["Basket", int]:
        """Add goods; a piece of something already there raises that line. Returns the line's number too."""
        for i, there in enumerate(self.items):
            room = there.qty_milli + item.qty_milli <= MAX_QTY_MILLI
            if there.sku == item.sku and not item.by_weight and room:
                return self.with_qty(i + 1, there.qty_milli + item.qty_milli), i + 1
        return replace(self, items=(*self.items, item)), len(self.items) + 1

    def with_qty(self, number: int, qty_milli: int) -> "Basket":
        """Set the quantity of a line; punch-card uses beyond it are taken off, the last first."""
        i = number - 1
        items = (*self.items[:i], replace(self.items[i], qty_milli=qty_milli), *self.items[i + 1 :])
        kept: list[Cover] = []
        units = qty_milli // MILLI
        for cover in self.covers:
            if cover.line != number:
                kept.append(cover)
            elif units:
                kept.append(cover)
                units -= 1
        return replace(self, items=items, covers=tuple(kept))

    def without_line(self, number: int) -> "Basket":
        """Take a line off, with its punch-card uses; the lines behind it move up."""
        covers = tuple(
            Cover(cover.card_id, cover.line - (cover.line > number)) for cover in self.covers if cover.line != number
        )
        return replace(self, items=(*self.items[: number - 1], *self.items[number:]), covers=covers)

    def with_coupon(self, coupon_id: str) -> "Basket":
        """Put a coupon on the order, behind those already there; a second time changes nothing."""
        return self if coupon_id in self.use else replace(self, use=(*self.use, coupon_id))

    def without_coupon(self, coupon_id: str) -> "Basket":
        """Take a coupon off the order."""
        return replace(self, use=tuple(used for used in self.use if used != coupon_id))

    def uncovered_line(self, service: str) -> int | None:
        """Return the first line of this service that has a unit no card covers yet; None where there is none."""
        for number, item in enumerate(self.items, start=1):
            covered = sum(cover.line == number for cover in self.covers)
            if item.sku == service and not item.by_weight and covered < item.qty_milli // MILLI:
                return number
        return None

    def with_cover(self, card_id: str, line: int) -> "Basket":
        """Let one use of a card cover one unit of a line."""
        return replace(self, covers=(*self.covers, Cover(card_id, line)))

    def without_card(self, card_id: str) -> "Basket":
        """Take every use of a card off the order."""
        return replace(self, covers=tuple(cover for cover in self.covers if cover.card_id != card_id))

    def without_member(self) -> "Basket":
        """Take the member off, and with it every coupon and card, which may be that member's."""
        return replace(self, member_id=None, use=(), covers=())

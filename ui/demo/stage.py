"""Hold what a scene of the story works with, and tell what happens: each claim is checked before it is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.domain.money import Currency
from ui.counter.counter_presenter import Page
from ui.demo.driver import Driver
from ui.demo.head_office import Claimed, HeadOfficeEyes
from ui.demo.things import Cable
from ui.words import Language, Words


class NotTrue(Exception):
    """Say which claim of the story did not hold."""


class TillInHand(Protocol):
    """Be the running till of the story: its window, and the two ends that a process may come to."""

    @property
    def driver(self) -> Driver:
        """Return hands and eyes for the window that is open now."""
        ...

    def wake(self) -> None:
        """Let the background sync look at the line now."""
        ...

    def lose_next_answer(self) -> None:
        """Let the server's answer to the next push get lost: the server has it, the till does not know."""
        ...

    @property
    def has_lost_answer(self) -> bool:
        """Tell whether that has happened."""
        ...

    def die_after_next_commit(self) -> None:
        """Let the till die at the next sale, when it is in the ledger and nothing has been shown."""
        ...

    @property
    def has_died(self) -> bool:
        """Tell whether it has."""
        ...

    def start_again(self) -> None:
        """Start the till anew on the same file, as after a power cut."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Bundle the till, the server seen from outside, the cable between them, and the coupons in members' hands."""

    till: TillInHand
    office: HeadOfficeEyes
    cable: Cable
    coupons: Sequence[Claimed]
    tell: Callable[[str], None]

    @property
    def driver(self) -> Driver:
        """Return the hands and eyes of the cashier."""
        return self.till.driver

    def scene(self, title: str) -> None:
        """Announce a scene."""
        self.tell(f"\n{title}")

    def saw(self, text: str) -> None:
        """Tell what the window says."""
        self.tell(f"    {text}")

    def check(self, claim: str, holds: bool) -> None:
        """Tell a claim that holds; raises NotTrue for one that does not."""
        if not holds:
            raise NotTrue(f"{claim}. The window says: {self.driver.says()}")
        self.tell(f"  ✓ {claim}")

    def coupon(self, member_id: str, campaign_id: str) -> Claimed:
        """Return a coupon that a member holds since the demo began."""
        return next(each for each in self.coupons if (each.member_id, each.campaign_id) == (member_id, campaign_id))

    # ------------------------------------------------------------------ what several scenes do

    def scan(self, *texts: str) -> None:
        """Scan things onto the desk, one after the other, each until it is priced."""
        for text in texts:
            self.driver.scan(text)
            self.driver.wait_for_price()

    def says(self) -> str:
        """Return what the window says, in English, whatever language is on the screen."""
        window = self.driver.window.words
        return self.driver.says(Words(Language.EN, zone=window.zone, currency=window.currency))

    @property
    def payable_minor(self) -> int:
        """Return the price on the desk."""
        quote = self.driver.window.counter.desk.state.quote
        return quote.payable_minor if quote is not None else 0

    @property
    def order_id(self) -> str:
        """Return the number of the order on the desk."""
        return self.driver.window.counter.desk.state.basket.order_id

    def money(self, minor: int) -> str:
        """Write an amount."""
        return self.currency.format(minor)

    @property
    def currency(self) -> Currency:
        """Return the chain's currency."""
        return self.driver.window.counter.chain.currency

    def wait_for_receipt(self) -> int:
        """Wait until the sale is done and return the change in minor units."""
        self.driver.wait_for_page(Page.RECEIPT)
        shown = self.driver.window.counter.shown
        assert shown is not None and shown.change_minor is not None
        return shown.change_minor

"""Name what the till's use cases need from outside: the server, the payment terminal, a place to die in tests.

Protocols and the values that go through them. `sync/head_office.py` implements `HeadOffice`, the window brings a
`PaymentPort`. Everything is called without any lock or transaction of the till's database being held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from app.domain.basket import Cover
from app.domain.ports import Clock, Ids, Probe, UnderWay
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.domain.tenders import TenderType

__all__ = [
    "Busy",
    "Clock",
    "HeadOffice",
    "HoldGranted",
    "HoldLine",
    "HoldRequest",
    "HomeGranted",
    "Ids",
    "LeaseGranted",
    "LeaseRequest",
    "NoAnswer",
    "NotPaid",
    "Offline",
    "Paid",
    "PaymentAnswer",
    "PaymentPort",
    "Probe",
    "RefundGranted",
    "RefundRequest",
    "SoldOrderView",
    "no_probe",
]

Json = Mapping[str, Any]


def no_probe(point: str) -> None:
    """Let the till live.

    The points of a till, for fault injection: `hold_answered` (not yet recorded), `after_hold` (recorded, before
    payment), `lease_asked` (on disk, not yet sent), `lease_answered` (not yet recorded), `before_commit` (an entry is
    written, not yet committed), `after_commit` (durable, nothing shown yet), `before_ack` (sync: push answered, cursor
    not yet stored).
    """


class Offline(Exception):
    """Say that no answer came: the server cannot be reached, or it may or may not have done what was asked."""


class Busy(Exception):
    """Say that the server decided nothing now and may be asked again after `retry_after_s` seconds.

    `code` is the refusal to show: `busy`, or `rate_limited` where the load was shed.
    """

    def __init__(self, retry_after_s: float, code: RefusalCode = RefusalCode.BUSY) -> None:
        super().__init__(f"busy for {retry_after_s} s")
        self.retry_after_s = retry_after_s
        self.code = code


# ------------------------------------------------------------------ head office


@dataclass(frozen=True, slots=True)
class HoldLine:
    """Name one line of the order for the server, which takes price and category from its own catalogue."""

    number: int
    sku: str
    qty_milli: int


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Ask for every right that an order needs, all or none.

    `attempt` counts from 1 for each order id and fences: a later one ends every earlier one. `payable_minor` is the
    total that the cashier saw; the server refuses (`payment_mismatch`) where its own differs. `member_id` is the member
    whom the cashier named, None where none was (a coupon may bring one).
    """

    order_id: str
    attempt: int
    store_id: str
    member_id: str | None
    lines: tuple[HoldLine, ...]
    use: tuple[str, ...]
    covers: tuple[Cover, ...]
    stored_value_minor: int
    promotions: bool
    payable_minor: int


@dataclass(frozen=True, slots=True)
class HoldGranted:
    """Tell that the rights are held until `held_until_at` (server's clock); `quote` as `write_quote` writes it."""

    attempt: int
    held_until_at: datetime
    quote: Json


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """Ask for a return; `lines` None = all that is left. The same `request_id` gets the same answer."""

    request_id: str
    order_id: str
    lines: tuple[RefundLine, ...] | None


@dataclass(frozen=True, slots=True)
class RefundGranted:
    """Tell what comes back.

    `refund` is as `write_refund` writes it, `state` the order's state after it; `uses_after` maps each punch card that
    got uses back to what it has now.
    """

    refund: Json
    state: str
    uses_after: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SoldOrderView:
    """Show an order as the server knows it.

    `lines` as `write_line` writes them, `quote` as `write_quote`, `tenders` as `write_tenders`, `refunds` as
    `write_refund`, oldest first. `quote` is empty for an order that has none (a tombstone).
    """

    order_id: str
    state: str
    attempt: int
    lines: tuple[Json, ...] = ()
    quote: Json = field(default_factory=dict)
    tenders: tuple[Json, ...] = ()
    refunds: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Ask for `amount` (coupons, uses, minor units) of an account (`app.domain.rights`).

    `lease_id` was stored before; asked again, it is the same lease. `size` "share": no more than the server finds fair
    among the tills that may want it; "asked": as far as it is there.
    """

    lease_id: str
    account_id: str
    amount: int
    size: str = "asked"


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """Tell how much is lent; `coupons` are those of a stock that may be given out, each with its code."""

    amount: int
    coupons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HomeGranted:
    """Tell in which version of it a coupon is at home at the till that asked."""

    version: int


class LineTrouble(StrEnum):
    """Name what no waiting mends: a person has to see to the till, the server or the line between them."""

    KEY_REFUSED = "key_refused"
    PROTOCOL_REFUSED = "protocol_refused"
    CAPTIVE_PORTAL = "captive_portal"
    TOO_LARGE = "too_large"
    EPOCH = "epoch"
    ROWS_LOST = "rows_lost"
    FORK = "fork"
    REVOKED = "revoked"
    BROKEN_CHAIN = "broken_chain"
    TILL_SUSPENDED = "till_suspended"
    TILL_REVOKED = "till_revoked"
    TILL_REPLACED = "till_replaced"
    WRONG_CERTIFICATE = "wrong_certificate"
    INSECURE_ADDRESS = "insecure_address"
    UNSIGNED_ANSWER = "unsigned_answer"


class HeadOffice(Protocol):
    """Speak with the server. Every method may raise `Offline` or `Busy`."""

    @property
    def online(self) -> bool:
        """Tell whether the last contact succeeded. Never waits."""

    @property
    def offline_since(self) -> datetime | None:
        """Tell since when no contact succeeds; None while online, or where there never was one in this run."""

    @property
    def trouble(self) -> LineTrouble | None:
        """Tell what keeps this till from syncing until a person sees to it; None also where the line is just down."""

    @property
    def under_way(self) -> UnderWay | None:
        """Tell how far a sync is that needs more than one request for a step, None where none is under way."""

    def hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        """Ask for the rights of an order. `Offline` leaves open whether they are held."""

    def refund(self, request: RefundRequest) -> RefundGranted | Refusal:
        """Ask for the decision over a return; everything of it is given back at once."""

    def order(self, order_id: str) -> SoldOrderView | Refusal:
        """Look an order up; `unknown_code` where the server has never heard of it."""

    def lease(self, request: LeaseRequest) -> LeaseGranted | Refusal:
        """Ask for a lease; the same id gets the same answer, so ask until there is one."""

    def take_home(self, request_id: str, coupon_id: str) -> HomeGranted | Refusal:
        """Ask to be a coupon's home; what is granted comes with the feed too."""

    def bring_home(self, request_id: str) -> tuple[tuple[str, int], ...] | Refusal:
        """Ask for coupons of this store's members: ids with versions, perhaps none; they come with the feed too."""

    def flush(self) -> None:
        """Push everything that is pending, now; return when the server has acknowledged it."""

    def refresh(self) -> None:
        """Pull everything that changed, now; return when the till's copy has it."""


# ------------------------------------------------------------------ payment


@dataclass(frozen=True, slots=True)
class Paid:
    """The terminal took the money."""


@dataclass(frozen=True, slots=True)
class NotPaid:
    """The terminal took no money and will take none for this payment; `reason` is its own word for it."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nobody knows yet whether the terminal took the money: ask again, never charge again."""


PaymentAnswer = Paid | NotPaid | NoAnswer


class PaymentPort(Protocol):
    """Take money by card or wallet. Neither method raises: what cannot be known is `NoAnswer`."""

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        """Charge once. The id was made durable before; a second charge with the same id must take nothing again."""

    def query(self, payment_id: str) -> PaymentAnswer:
        """Tell what became of a charge; one that the terminal has never seen is `NotPaid`."""

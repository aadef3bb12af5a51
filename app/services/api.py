"""Hold the values that go into the till and come out of it: what the window, the command line and scenarios speak.

Frozen, and free of Qt and of the database. Amounts are minor units, quantities thousandths, instants UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.basket import Cover
from app.domain.facts import CouponFacts
from app.domain.money import Currency
from app.domain.ports import UnderWay
from app.domain.quote import Quote
from app.domain.refunds import Refund, SoldOrder
from app.domain.refusals import Refusal
from app.domain.tenders import Tender, TenderType
from app.services.ports import LineTrouble

# ------------------------------------------------------------------ rights of its own


@dataclass(frozen=True, slots=True)
class Lent:
    """Tell of a lease: `amount` (coupons, uses, minor units) of an account, to be spent without asking."""

    lease_id: str
    account_id: str
    amount: int


@dataclass(frozen=True, slots=True)
class AtHome:
    """Tell that this till alone may use a coupon, in this version of it."""

    coupon_id: str
    version: int


@dataclass(frozen=True, slots=True)
class GivenCoupon:
    """Hand a coupon over that was given out here; `code` is for the customer's eyes."""

    coupon_id: str
    code: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """Count what a till did about its rights behind a session.

    Leases `closed` and `granted`; coupons `returned` to the server, and `brought` home to the till.
    """

    closed: int = 0
    granted: int = 0
    returned: int = 0
    brought: int = 0


@dataclass(frozen=True, slots=True)
class DayClosed:
    """Count what was given back for the night: leases, coupons; `kept` are held by orders under way."""

    closed: int
    returned: int
    kept: int


# ------------------------------------------------------------------ scanning


class ScanKind(StrEnum):
    """Say what a scanned text turned out to be."""

    COUPON = "coupon"
    PRODUCT = "product"
    MEMBER = "member"
    PUNCH_CARD = "punch_card"


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """Tell what a scanned text is, from the till's own copy alone.

    `refusal` is set, and all else None or empty, where nothing was found: `unreadable_code`, `unknown_code`, or
    `needs_online` for a coupon that this till has not heard of while it cannot ask. What was found may still be of no
    use now: then `verdict` gives the reason (`already_used`, `expired`, `needs_online`, ...), None = good as far as can
    be told without a basket.

    `id` is the coupon's, member's or card's id, for a product its sku. `state` is a coupon's state as a person reads it
    (an ISSUED one past its window is EXPIRED). `title` is a name to show: product, campaign, masked label of a member;
    `title_en` the campaign's English one, where it has one.
    `member_id` is whom a coupon or card belongs to (None = bearer). `price_minor` and `by_weight` are a product's;
    `uses_left` a card's; `service` the sku that a card covers.
    """

    kind: ScanKind | None = None
    id: str | None = None
    title: str = ""
    title_en: str = ""
    refusal: Refusal | None = None
    verdict: Refusal | None = None
    state: str | None = None
    sku: str | None = None
    member_id: str | None = None
    campaign_id: str | None = None
    valid_until_at: datetime | None = None
    price_minor: int | None = None
    by_weight: bool = False
    service: str | None = None
    uses_left: int | None = None


@dataclass(frozen=True, slots=True)
class CardView:
    """Show a punch card: `service` is the sku that it covers, `service_title` that product's name."""

    id: str
    service: str
    service_title: str
    uses_left: int
    until_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemberView:
    """Show a member: `label` is masked, `balance_minor` the stored value spendable as of the last pull."""

    id: str
    tier: str
    label: str
    balance_minor: int
    cards: tuple[CardView, ...] = ()


@dataclass(frozen=True, slots=True)
class UsableCoupon:
    """Show one of a member's coupons; `refusal` says why it is of no use for this basket, None = it is.

    `title` is the campaign's name, its id where it has none; `discount_minor` what it would take off alone.
    """

    coupon: CouponFacts
    title: str
    refusal: Refusal | None
    discount_minor: int = 0


# ------------------------------------------------------------------ approvals


@dataclass(frozen=True, slots=True)
class Approver:
    """Name somebody who may approve at this till."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Approved:
    """Tell that an order may use a coupon without a right, by whose word, and what it may take off at most."""

    coupon_id: str
    by: str
    max_minor: int


# ------------------------------------------------------------------ basket and order


@dataclass(frozen=True, slots=True)
class BasketLine:
    """Put `qty_milli` thousandths of a product into the basket."""

    sku: str
    qty_milli: int


@dataclass(frozen=True, slots=True)
class BasketRequest:
    """Ask for a price. Lines are numbered from 1 as they stand; `use` names coupons by id, in the order of scanning.

    `member_id` None = nobody was named (a coupon or card may bring its owner). `promotions` False leaves the automatic
    ones out.
    """

    member_id: str | None = None
    lines: tuple[BasketLine, ...] = ()
    use: tuple[str, ...] = ()
    covers: tuple[Cover, ...] = ()
    promotions: bool = True


@dataclass(frozen=True, slots=True)
class ChainView:
    """Tell the chain's currency, its smallest coin (0 = no rounding of cash), and where this till stands."""

    currency: Currency
    cash_step_minor: int
    till_id: str
    store_id: str
    store_zone: str


@dataclass(frozen=True, slots=True)
class OpenOrder:
    """Hold a priced basket that waits for payment (or, on a repeat, what has become of it: see `state`).

    `held`: the server holds rights for it, until `held_until_at` (server's clock; None where nothing is held).
    `stored_value_minor` was reserved for it and must be among the tenders.
    """

    order_id: str
    attempt: int
    state: str
    quote: Quote
    held: bool
    held_until_at: datetime | None
    stored_value_minor: int


@dataclass(frozen=True, slots=True)
class ReceiptDiscount:
    """Name one reason for a discount: a campaign by its names, and by which coupon (None = an automatic promotion)."""

    title: str
    campaign_id: str
    coupon_id: str | None
    amount_minor: int
    title_en: str = ""


@dataclass(frozen=True, slots=True)
class ReceiptLine:
    """Show one line; `gross_minor` leaves out covered units. `discounts` add up to gross less net.

    `price_minor` is for a kilogram where the goods are sold `by_weight`.
    """

    number: int
    sku: str
    title: str
    price_minor: int
    qty_milli: int
    covered_units: int
    gross_minor: int
    net_minor: int
    by_weight: bool = False
    discounts: tuple[ReceiptDiscount, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """Hold what a receipt says, of a sale or (`refund_of` set) of a refund.

    `mark` names the ledger entry, `T17-1-42 9f2c01ab`: till, epoch, number and the first four bytes of its hash, so
    paper proves what existed (PROTOCOL 3.7). `tenders` add up to `payable_minor`, rounding included.
    A refund's lines show what came back; `uses` counts the punch-card uses that did, `returned` the coupons.
    """

    number: str
    mark: str
    order_id: str
    store_id: str
    till_id: str
    operator: str
    at: datetime
    currency: Currency
    lines: tuple[ReceiptLine, ...]
    discounts: tuple[ReceiptDiscount, ...]
    gross_minor: int
    discount_minor: int
    payable_minor: int
    tenders: tuple[Tender, ...]
    change_minor: int = 0
    refund_of: str | None = None
    uses: Mapping[str, int] = field(default_factory=dict)
    returned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PaidOrder:
    """Tell that the order is paid, in the ledger, and durable. `state` changes when goods come back later."""

    order_id: str
    attempt: int
    state: str
    quote: Quote
    tenders: tuple[Tender, ...]
    change_minor: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class PaymentPending:
    """Tell that nobody knows whether the terminal took the money: the order is UNKNOWN and keeps its rights.

    `Till.resolve` asks the terminal again; nothing is ever charged a second time.
    """

    order_id: str
    attempt: int
    payment_id: str
    kind: TenderType
    amount_minor: int
    state: str = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Tell that the order is off and its rights are on their way back.

    `reason` as in the ledger: `cancelled`, `pay_failed`, `no_answer` or `interrupted`. `detail` is the terminal's own
    word for a payment that failed.
    """

    order_id: str
    attempt: int
    reason: str
    detail: str = ""
    state: str = "CANCELLED"


@dataclass(frozen=True, slots=True)
class OrderView:
    """Show an order by its number: this till's own, or (`local` False) as the server knows it.

    `refunds` are oldest first. `quote` is None for an order that was cancelled before it was priced here. `sold` is
    what `decide_refund` wants, so that a screen can say what a return would give back before anyone confirms it; None
    where nothing was sold.
    """

    order_id: str
    state: str
    local: bool
    quote: Quote | None
    tenders: tuple[Tender, ...]
    refunds: tuple[Refund, ...]
    titles: Mapping[str, str]
    sold: SoldOrder | None = None


@dataclass(frozen=True, slots=True)
class RefundDone:
    """Tell what came back.

    `state` is the order's state after it, `uses_after` what each card that got uses back has now. `decided_by` is
    `server`, or `till` for an own sale that the server has not seen yet.
    """

    request_id: str
    order_id: str
    refund: Refund
    state: str
    uses_after: Mapping[str, int]
    decided_by: str
    receipt: Receipt


# ------------------------------------------------------------------ after a restart, and the status bar


class InterruptedKind(StrEnum):
    """Say what was going on when the till stopped."""

    RECEIPT_NOT_SHOWN = "receipt_not_shown"
    """The order is paid and in the ledger; nobody knows whether the customer saw a receipt. Never sell it again."""
    OPEN_HOLD = "open_hold"
    """The server holds its rights and no payment began: pay it or cancel it."""
    PAYMENT_UNKNOWN = "payment_unknown"
    """A charge began and its answer is not known: `Till.resolve` asks the terminal."""
    REFUND_UNANSWERED = "refund_unanswered"
    """The server was asked and its answer is not known: `Till.refund` with the same ids asks again."""
    REFUND_NOT_SHOWN = "refund_not_shown"
    """The refund is in the ledger; nobody knows whether its receipt was shown."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Name one thing that a restart found half done. `request_id` is a refund's, `mark` the ledger entry's."""

    kind: InterruptedKind
    order_id: str
    state: str
    payable_minor: int
    request_id: str | None = None
    mark: str = ""
    since_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TillStatus:
    """Feed the status bar.

    `offline_since` None while online (or where the till never met the server); `pending_count` entries are not yet
    acknowledged, `parked_count` were taken by the server with a conflict or put into quarantine, for a person to see.
    `last_sync_at` None = never. `damaged` says why this till sells nothing ("" = it is sound); the counts are None
    where a damaged file could not be read. `trouble` is what keeps the till from syncing until a person sees to it.
    `copy_lag` counts the entries that are on this disk alone, None where there is no second one.
    `clock_unsure` says why our clock is in doubt (`Meta.clock_doubt`); `clock_offset_ms` is the server's less ours.
    `under_way` is a sync that takes long, None = there is none.
    """

    online: bool
    offline_since: datetime | None
    pending_count: int | None
    parked_count: int | None
    last_sync_at: datetime | None
    damaged: str = ""
    trouble: LineTrouble | None = None
    copy_lag: int | None = None
    clock_unsure: str = ""
    clock_offset_ms: int = 0
    under_way: UnderWay | None = None

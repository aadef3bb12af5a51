"""Read the bodies of ledger entries, schema 1: what a till tells happened (`sync.protocol.ENTRY_KINDS`).

A body is a fact, so the reader is strict about what it means and lenient about what it adds: unknown keys are kept, a
number that is no number is unreadable. One pass of pydantic's parser turns the stored bytes into plain dicts, since
the parts of a sale go into JSON columns as they came.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from app.domain.basket import MILLI, line_gross
from app.domain.instants import in_utc
from app.domain.ledger import CARRY
from sync import protocol

SCHEMAS = (1, 1)
"""The oldest and the newest schema of bodies that this version can judge."""

Amount = Annotated[int, Field(ge=-(10**15), le=10**15)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
_BODY = ConfigDict(strict=True, extra="allow")


class Unreadable(ValueError):
    """Say why an entry cannot be judged: kept, acknowledged and parked, never refused (PROTOCOL 3.3)."""


@with_config(_BODY)
class LineBody(TypedDict):
    """One line of the basket, as `quote_json.write_line` writes it."""

    number: Count
    sku: Name
    price_minor: Amount
    qty_milli: Annotated[int, Field(gt=0, le=10**12)]
    category: str
    brand: str
    by_weight: bool


@with_config(_BODY)
class QuoteLineBody(TypedDict):
    """One priced line."""

    number: Count
    sku: Name
    price_minor: Amount
    qty_milli: Annotated[int, Field(gt=0, le=10**12)]
    covered_units: Count
    gross_minor: Amount
    discount_minor: Amount
    net_minor: Amount


@with_config(_BODY)
class LaidBody(TypedDict):
    """One stage of the price; `coupon` None for an automatic promotion."""

    campaign: Name
    coupon: Name | None
    rule: dict[str, Any]
    shares_minor: list[Amount]


@with_config(_BODY)
class CoverBody(TypedDict):
    """One use of a punch card on one unit of a line."""

    card: Name
    line: Count


@with_config(_BODY)
class QuoteBody(TypedDict):
    """The price with all its stages."""

    gross_minor: Amount
    discount_minor: Amount
    payable_minor: Amount
    member: Name | None
    lines: list[QuoteLineBody]
    laid: list[LaidBody]
    covers: list[CoverBody]


@with_config(_BODY)
class TenderBody(TypedDict):
    """What the shop keeps in one way of paying; negative only for `rounding`."""

    type: Literal["stored_value", "card", "wallet", "cash", "rounding"]
    amount_minor: Amount


Version = Annotated[int, Field(ge=1, le=10**9)]


class _Told(TypedDict):
    at: Annotated[AwareDatetime, AfterValidator(in_utc)]
    store: Name
    till: Name
    operator: Annotated[str, Field(max_length=200)]


class _Common(_Told):
    order: Name
    attempt: Annotated[int, Field(ge=0, le=10**6)]


@with_config(_BODY)
class LeaseDrawBody(TypedDict):
    """What was used of one lease."""

    lease: Name
    amount: Annotated[int, Field(gt=0, le=10**15)]


@with_config(_BODY)
class CouponDrawBody(TypedDict):
    """A coupon that was used at its home, in the version of that home."""

    coupon: Name
    version: Version


@with_config(_BODY)
class RiskBody(TypedDict):
    """A coupon that was accepted without a right: `by` approved it, for a `reason`, under `approval`."""

    coupon: Name
    amount_minor: Annotated[int, Field(gt=0, le=10**15)]
    approval: Name
    by: Name
    reason: Annotated[str, Field(max_length=500)]


@with_config(_BODY)
class DrawsBody(TypedDict):
    """What a sale used of the rights that its till had, and what it took at a risk, which its leases pay for."""

    leases: list[LeaseDrawBody]
    coupons: list[CouponDrawBody]
    risks: NotRequired[list[RiskBody]]


@with_config(_BODY)
class SaleBody(_Common):
    """An order that was paid; `held` tells whether the server had been asked for its rights.

    `rights` are those that the till had itself.
    """

    held: bool
    rights: NotRequired[DrawsBody]
    member: Name | None
    lines: Annotated[list[LineBody], Field(min_length=1)]
    quote: QuoteBody
    tenders: list[TenderBody]


@with_config(_BODY)
class CancelBody(_Common):
    """An attempt that the till gave up, or that was not paid."""

    reason: Literal["cancelled", "pay_failed", "no_answer", "interrupted"]


@with_config(_BODY)
class PaymentBody(TypedDict):
    """A payment at a terminal that has not answered."""

    id: Name
    type: Name
    amount_minor: Amount


@with_config(_BODY)
class PaymentUnknownBody(_Common):
    """An attempt whose payment got no answer."""

    payment: PaymentBody


@with_config(_BODY)
class LatePaymentBody(_Common):
    """Money that came for an attempt that was over."""

    tenders: list[TenderBody]


@with_config(_BODY)
class RefundLineBody(TypedDict):
    """A quantity that came back."""

    number: Count
    qty_milli: Annotated[int, Field(gt=0, le=10**12)]


@with_config(_BODY)
class RefundParts(TypedDict):
    """What came back, as `quote_json.write_refund` writes it."""

    lines: list[RefundLineBody]
    amount_minor: Annotated[int, Field(ge=0, le=10**15)]
    tenders: list[TenderBody]
    uses: dict[str, Count]
    returned: list[Name]
    budget_minor: dict[str, Amount]
    whole: bool


@with_config(_BODY)
class RefundBody(_Common):
    """A refund that was paid out; `refund` is the id of its request."""

    refund: Name
    body: RefundParts
    decided_by: Literal["server", "till"]


@with_config(_BODY)
class ClaimBody(_Told):
    """A coupon of a leased stock that the till gave to a member; its home is that till.

    `request` and `source` are the claim's own, `snapshot` is the rule that it was given by.
    """

    lease: Name
    coupon: Name
    request: Name
    source: Name
    campaign: Name
    snapshot: Name
    member: Name
    valid_until_ms: Annotated[int, Field(ge=0, le=2**53)] | None


@with_config(_BODY)
class LeaseCloseBody(_Told):
    """A lease that the till will not draw on any more, and what it used of it."""

    lease: Name
    used: Annotated[int, Field(ge=0, le=10**15)]


@with_config(_BODY)
class CouponReturnBody(_Told):
    """A coupon that the till gives home to the server, unused."""

    coupon: Name
    version: Version


@with_config(_BODY)
class ApprovalBody(_Told):
    """A manager's word, under the PIN, that this order may use a coupon without a right, `max_minor` at most."""

    approval: Name
    order: Name
    coupon: Name
    campaign: Name
    by: Name
    pin_version: Version
    reason: Annotated[str, Field(max_length=500)]
    max_minor: Annotated[int, Field(gt=0, le=10**15)]


@with_config(_BODY)
class PinFailedBody(_Told):
    """A PIN of a manager that was wrong; `failures` counts those in a row."""

    by: Name
    pin_version: Version
    failures: Annotated[int, Field(ge=1, le=10**9)]


@with_config(_BODY)
class CarryBody(TypedDict):
    """An entry of an earlier epoch, whole (`app.domain.ledger.carry`)."""

    epoch: Annotated[int, Field(ge=1, le=10**9)]
    seq: Annotated[int, Field(ge=1, le=2**53)]
    entry: Annotated[str, Field(min_length=1, max_length=64)]
    kind: Annotated[str, Field(min_length=1, max_length=32)]
    schema: Annotated[int, Field(ge=1, le=2**31)]
    body: str
    prev_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


Body: TypeAlias = (
    SaleBody
    | CancelBody
    | PaymentUnknownBody
    | LatePaymentBody
    | RefundBody
    | ClaimBody
    | LeaseCloseBody
    | CouponReturnBody
    | ApprovalBody
    | PinFailedBody
    | CarryBody
)

_READERS: dict[str, TypeAdapter[Any]] = {
    protocol.SALE: TypeAdapter(SaleBody),
    protocol.CANCEL: TypeAdapter(CancelBody),
    protocol.PAYMENT_UNKNOWN: TypeAdapter(PaymentUnknownBody),
    protocol.LATE_PAYMENT: TypeAdapter(LatePaymentBody),
    protocol.REFUND: TypeAdapter(RefundBody),
    protocol.CLAIM: TypeAdapter(ClaimBody),
    protocol.LEASE_CLOSE: TypeAdapter(LeaseCloseBody),
    protocol.COUPON_RETURN: TypeAdapter(CouponReturnBody),
    protocol.APPROVAL: TypeAdapter(ApprovalBody),
    protocol.PIN_FAILED: TypeAdapter(PinFailedBody),
    CARRY: TypeAdapter(CarryBody),
}


def _refuse(constant: str) -> None:
    """Refuse what is no JSON (RFC 8259), though parsers take it: what keys we do not know hold is kept, and shown."""
    raise Unreadable(f"{constant} is no number")


def read_body(kind: str, schema_version: int, body: bytes | str) -> Any:
    """Return the body as a dict of its kind (`SaleBody`, ...); raises Unreadable with the first thing that is wrong.

    It is text only where somebody wrote text over the bytes in SQLite, which the audit names by the chain.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise Unreadable(f"kind {kind!r} is not known")
    if not SCHEMAS[0] <= schema_version <= SCHEMAS[1]:
        raise Unreadable(f"schema {schema_version} is newer than {SCHEMAS[1]}")
    try:
        raw = body.encode() if isinstance(body, str) else body
        if b"NaN" in raw or b"Infinity" in raw:  # perhaps in a text
            json.loads(body, parse_constant=_refuse)
        return reader.validate_json(body)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "body"
        raise Unreadable(f"{place}: {first['msg']}") from None


def discounts(quote: QuoteBody) -> Iterator[tuple[str, str | None, int]]:
    """Yield campaign, coupon (None for an automatic promotion) and discount of each stage."""
    return ((stage["campaign"], stage["coupon"], sum(stage["shares_minor"])) for stage in quote["laid"])


def paid_minor(tenders: list[TenderBody]) -> int:
    """Add up what the shop keeps."""
    return sum(tender["amount_minor"] for tender in tenders)


def sums_problem(sale: SaleBody) -> str | None:
    """Return what does not add up in a sale, None when everything does.

    Checked: each line's gross, discount and net; the shares of every stage; the covers; the totals; the tenders.
    """
    quote, lines = sale["quote"], sale["lines"]
    if [(line["number"], line["sku"], line["qty_milli"]) for line in lines] != [
        (line["number"], line["sku"], line["qty_milli"]) for line in quote["lines"]
    ]:
        return "the quote prices other lines"
    if len({line["number"] for line in lines}) < len(lines):
        return "a line number comes twice"
    return _line_problem(quote) or _total_problem(quote, paid_minor(sale["tenders"]))


def _line_problem(quote: QuoteBody) -> str | None:
    covered: dict[int, int] = {}
    for cover in quote["covers"]:
        covered[cover["line"]] = covered.get(cover["line"], 0) + 1
    off = [0] * len(quote["lines"])
    for stage in quote["laid"]:
        if len(stage["shares_minor"]) != len(off):
            return f"the shares of {stage['campaign']} are not one for each line"
        if sum(stage["shares_minor"]) <= 0:
            return f"{stage['campaign']} takes nothing off"
        off = [sum(pair) for pair in zip(off, stage["shares_minor"], strict=True)]
    for line, discount_minor in zip(quote["lines"], off, strict=True):
        number = line["number"]
        paid_milli = line["qty_milli"] - line["covered_units"] * MILLI
        if line["covered_units"] != covered.get(number, 0) or paid_milli < 0:
            return f"line {number}: the covered units"
        if line["price_minor"] < 0 or line["gross_minor"] != line_gross(line["price_minor"], paid_milli):
            return f"line {number}: the gross"
        if line["discount_minor"] != discount_minor or not 0 <= discount_minor <= line["gross_minor"]:
            return f"line {number}: the discount"
        if line["net_minor"] != line["gross_minor"] - discount_minor:
            return f"line {number}: the net"
    return None


def _total_problem(quote: QuoteBody, tendered_minor: int) -> str | None:
    gross_minor = sum(line["gross_minor"] for line in quote["lines"])
    discount_minor = sum(line["discount_minor"] for line in quote["lines"])
    if (quote["gross_minor"], quote["discount_minor"]) != (gross_minor, discount_minor):
        return "the totals"
    if quote["payable_minor"] != gross_minor - discount_minor:
        return "the amount to pay"
    return None if tendered_minor == quote["payable_minor"] else "the tenders"

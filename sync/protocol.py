"""Define the messages between till and server; imported by both ends.

Version 1 (2026-11): hello, push, pull over JSON and HTTPS, all POST. Fields that later versions need (directives) have
their place already and are empty. What an enrolled till says, and what it is answered, is signed whole as HTTP messages
(`sync/signatures.py`). Leases and homes came within it: entries of new kinds, which an older server quarantines, and
records of new kinds, which an older till passes over. So did epochs (2026-12): enrol and unknown, entries that carry
others, answers that name what they answer, and pushes that name whom they are for. So did risks (2026-12): entries
`approval` and `pin_failed`, `risks` among the rights of a sale, records `risk` and `staff`; `head`, the feed's end,
in a page of it; and `untrusted` in a greeting, of which whatever is not known is passed over since. An unknown version
is refused with 426 and `{"error": "UNKNOWN_PROTOCOL", "accept": [1, 1]}`; facts of any schema are always accepted
(PROTOCOL 3.8).

A session is `hello -> push* -> pull* -> sanity`. No status code may delete or skip an entry: only `acked`, which names
a prefix by number and hash, moves a till's cursor, and the server's cursor is the authority in every session.
"""

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.domain.ledger import CARRY, Entry

PROTOCOL = 1
HELLO_PATH, PUSH_PATH, PULL_PATH, SANITY_PATH = "/v1/sync/hello", "/v1/sync/push", "/v1/sync/pull", "/v1/sync/sanity"
ENROL_PATH, UNKNOWN_PATH, ADOPT_PATH = "/v1/sync/enrol", "/v1/sync/unknown", "/v1/sync/adopt"
SLOW = "slow"
"""`reason` of a 503 that is no decision: what was asked for may be done all the same, and the same request tells."""
PUSH_MAX_ENTRIES = 200
PUSH_MAX_BYTES = 512 * 1024
"""Of entries as they travel: 200 ordinary sales are some 400 KiB, so they are one request and one durable commit."""
PULL_MAX_RECORDS = 1000
UNKNOWN_MAX_IDS = 1000
ADOPT_MAX = 200
"""Leases, and homes, in one message; a leased stock brings 200 coupons at most."""

SALE, CANCEL, PAYMENT_UNKNOWN, LATE_PAYMENT, REFUND = "sale", "cancel", "payment_unknown", "late_payment", "refund"
CLAIM, LEASE_CLOSE, COUPON_RETURN = "claim", "lease_close", "coupon_return"
APPROVAL, PIN_FAILED = "approval", "pin_failed"
ENTRY_KINDS = (
    SALE,
    CANCEL,
    PAYMENT_UNKNOWN,
    LATE_PAYMENT,
    REFUND,
    CLAIM,
    LEASE_CLOSE,
    COUPON_RETURN,
    APPROVAL,
    PIN_FAILED,
    CARRY,
)

REST_MAX_S = 300.0
"""As long as the longest back-off: whatever a server asks for, no till is longer without its news."""

OK, DUPLICATE, CONFLICT, QUARANTINED = "OK", "DUP", "CONFLICT", "QUARANTINED"


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


def writable(value: Any) -> Any:
    """Return what can be written and kept as JSON; ValueError for NaN and halves of a character, which parsers take."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise ValueError("must be text and numbers that can be written") from None
    return value


NUMBER = BeforeValidator(_number)
"""Say of a field that it is a number as JSON writes it (3 or 3.0): neither text nor a boolean is one."""
WHOLE_MAX = 2**53
"""Up to here a whole number is the same one for every reader of JSON."""
Whole = Annotated[int, Field(ge=-WHOLE_MAX, le=WHOLE_MAX), NUMBER]
Proto = Annotated[Whole, Field(json_schema_extra={"const": PROTOCOL})]
Seq = Annotated[int, Field(ge=0, le=WHOLE_MAX), NUMBER]
Mark = tuple[Seq, str]
"""A place in a ledger: number and hash (hex; "" for number 0)."""
ToldMark = tuple[Seq, Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]]
"""One that a till tells. What a server answers is compared and not judged: another hash is a fork, whatever it is."""


def longest_rest_s(rest_s: float) -> float:
    """Return how long a till rests at most that is asked to rest so long on average; a third of it is the least."""
    return min(REST_MAX_S, rest_s * 1.5)


class Message(BaseModel):
    """Refuse fields that this version does not know in requests of ours: a typo is not a new feature."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(BaseModel):
    """Ignore fields that a newer server adds to an answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(Message):
    """Open a session: who I am, where my ledger ends, what I announced last (compare-and-announce).

    It is how both find out what the other speaks, so what a newer till says besides is passed over.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    proto: Proto
    till: str
    epoch: Whole
    last: ToldMark
    seen: ToldMark
    incarnation: Whole  # of the server, as the till knows it; 0 = never met
    schema_range: tuple[Whole, Whole]
    app: str
    boot: str
    wall_ms: Whole
    unsynced: Whole
    oldest_unsynced_s: Whole
    db: Literal["ok", "damaged"]
    stopped: Annotated[str, Field(max_length=32)] = ""  # what the till found in the last answer (`Stop`); "" = nothing
    heard: Seq = 0  # number of the last answer that this process heard (`HelloAnswer.contact`), 0 = none
    untrusted: Seq = 0  # answers that the server has not signed, since the last greeting that it answered

    @property
    def name(self) -> str:
        """Return what an answer to this greeting says back."""
        return f"{self.boot}/{self.heard}"


class HelloAnswer(Answer):
    """Tell the till what the server holds of its ledger."""

    incarnation: int
    epoch: int
    acked: Mark
    tail: Mark
    state: Literal["OK", "FORK", "REVOKED"]
    now_ms: int
    schema_accept: tuple[int, int]
    head: int
    to: str = ""  # which greeting it answers (`Hello.name`), "" where an older server does not say
    contact: int = 0  # counts the greetings of this till; told back, it proves who was alive behind it
    rest_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0  # on average, between sessions without news
    directives: list[dict[str, Any]] = []


class PushedEntry(Message):
    """Carry one ledger entry: the stored bytes, untouched."""

    seq: Annotated[int, Field(ge=1, le=2**53), NUMBER]
    id: Annotated[str, Field(min_length=1, max_length=64)]
    kind: Annotated[str, Field(min_length=1, max_length=32)]
    schema_version: Annotated[int, Field(ge=1, le=2**31), NUMBER]
    body: str  # base64
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, entry: Entry) -> "PushedEntry":
        """Wrap a ledger entry for the wire."""
        return cls(
            seq=entry.seq,
            id=entry.entry_id,
            kind=entry.kind,
            schema_version=entry.schema,
            body=base64.b64encode(entry.body).decode(),
            hash=entry.hash.hex(),
        )

    def entry(self, epoch: int, prev_hash: bytes) -> Entry:
        """Return the entry; a body that is no base64 raises ValueError (binascii.Error)."""
        body = base64.b64decode(self.body, validate=True)
        return Entry(
            epoch, self.seq, self.id, self.kind, self.schema_version, body, prev_hash, bytes.fromhex(self.hash)
        )


class Push(Message):
    """Send entries from the server's `acked + 1` on, in order, without gaps."""

    proto: Proto
    till: str
    epoch: Whole
    entries: Annotated[list[PushedEntry], Field(max_length=PUSH_MAX_ENTRIES)]
    last: ToldMark
    incarnation: Whole = 0  # of the server that the till means to speak to; 0 = it does not say


class EntryResult(Answer):
    """Tell how one entry was judged: OK, DUP, CONFLICT or QUARANTINED, with a code and the finding's key."""

    seq: int
    result: str
    code: str = ""
    finding: str = ""


class PushAnswer(Answer):
    """Acknowledge a prefix.

    `error` is GAP, FORK, EPOCH, ANNOUNCE (say hello first: this ledger has not shown that it goes on from the tail that
    was announced, or the server came back from a backup since) or "" (then `results` has one row for each entry).
    """

    acked: Mark
    results: list[EntryResult] = []
    error: str = ""
    epoch: int = 0  # which it speaks of; 0 where an older server does not say


class Pull(Message):
    """Ask for what changed after `cursor`, at most `limit` records."""

    proto: Proto
    till: str
    cursor: Seq
    limit: Annotated[int, Field(ge=1, le=PULL_MAX_RECORDS), NUMBER] = 500


class FeedRecord(Answer):
    """Carry one record as it stands now; `record` None means that it is gone."""

    seq: int
    kind: str
    key: str
    record: dict[str, Any] | None


class PullAnswer(Answer):
    """Give records in feed order; `next` is the cursor to store together with them in one transaction.

    `head` is where the feed ends now, for those who wait; 0 = a server of before.
    """

    records: list[FeedRecord]
    next: int
    more: bool
    since: int | None = None  # the cursor behind which it was asked for, None where an older server does not say
    head: int = 0


class Sanity(Message):
    """Compare both sides after a session that ends with everything acknowledged (PROTOCOL 3.2, sanity).

    `days` maps a business day of the store (ISO date) to counts and sums of what this till sold and paid back:
    `{"sales": n, "refunds": n, "tenders": {type: minor}, "discount_minor": n}`. `zone` is the IANA zone in which the
    days begin; "" = the store's.
    """

    proto: Proto
    till: str
    epoch: Whole
    last: ToldMark
    days: Annotated[Mapping[str, dict[str, Any]], AfterValidator(writable)]
    zone: Annotated[str, Field(max_length=64)] = ""


class SanityAnswer(Answer):
    """List the differences, each `{"day", "field", "till", "server"}`; empty when both sides agree."""

    differences: list[dict[str, Any]] = []


class Enrol(Message):
    """Ask for a new epoch. `enrolment` is made and kept by the till before: asked again, it is the same epoch.

    `last` is where the ledger of `epoch` ends as far as this till knows, also what it cannot read any more.
    """

    proto: Proto
    till: str
    enrolment: Annotated[str, Field(min_length=1, max_length=64)]
    epoch: Whole
    last: ToldMark


class PendingOrder(Answer):
    """Name an order that the server holds for this till; `told` is the body that spoke of a payment without answer."""

    order: str
    attempt: int
    state: str
    told: dict[str, Any] | None = None


class EnrolAnswer(Answer):
    """Open a new epoch. `tail` is where the server knows the old ledger to end; `forked`: it met two of them.

    `booked_until_ms` is the last moment, by the till's clock, of what the books hold of it; 0 = they hold nothing.
    """

    epoch: int
    tail: Mark
    forked: bool
    booked_until_ms: int = 0
    pending: list[PendingOrder] = []


class Unknown(Message):
    """Ask which of these entries the server does not have, under any number."""

    proto: Proto
    till: str
    entries: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=UNKNOWN_MAX_IDS)]


class UnknownAnswer(Answer):
    """List those that it does not have."""

    unknown: list[str]


class AdoptedLease(Message):
    """Tell of a lease that this till has: `asked` for, `amount` lent, of an account; a stock's coupons with codes."""

    lease: Annotated[str, Field(min_length=1, max_length=64)]
    account: Annotated[str, Field(min_length=1, max_length=200)]
    asked: Annotated[int, Field(ge=1, le=10**15), NUMBER]
    amount: Annotated[int, Field(ge=1, le=10**15), NUMBER]
    coupons: Annotated[list[tuple[str, str]], Field(max_length=ADOPT_MAX)] = []


class AdoptedHome(Message):
    """Tell of a coupon that is or was at home here, in the newest version that this till has seen."""

    coupon: Annotated[str, Field(min_length=1, max_length=64)]
    version: Annotated[int, Field(ge=1, le=10**9), NUMBER]


class Adopt(Message):
    """Tell a server that came back from a backup what rights this till had, before its entries use them."""

    proto: Proto
    till: str
    epoch: Whole
    leases: Annotated[list[AdoptedLease], Field(max_length=ADOPT_MAX)] = []
    homes: Annotated[list[AdoptedHome], Field(max_length=ADOPT_MAX)] = []


class AdoptAnswer(Answer):
    """Count what was not known there and is now."""

    leases: int
    homes: int

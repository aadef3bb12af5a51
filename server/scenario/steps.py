"""Declare the verbs: the arguments of each and what its `expect` may name (FORMAT, "Steps").

One model for the arguments and one for the expectation of each verb; `VERBS` pairs them. A verb, argument or
expectation that is not here is unknown, and the file that uses it fails by name.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from server.scenario.values import Amount, Count, Duration, Id, Moment, Name, Outcome, Qty, Shift, Strict


class Args(Strict):
    """Hold what every verb takes; `till` None = the first till, but for a claim: straight to the server."""

    till: Id | None = None


class Expect(Strict):
    """Hold what every verb may be expected to answer."""

    outcome: Outcome = "ok"


# ------------------------------------------------------------------ coupons


class Claim(Args):
    """Ask for a coupon; `name` is its name in the file, `request` the idempotency key (None = a fresh one)."""

    campaign: Id
    member: Id
    name: Name | None = Field(default=None, alias="as")
    request: Id | None = None


class ClaimExpect(Expect):
    """`remaining` is the stock that is left."""

    remaining: int = 0


class Storm(Strict):
    """Let `members` fresh members ask `each` times, `parallel` of the requests under way at once."""

    campaign: Id
    members: int = Field(ge=1, le=100_000)
    each: int = Field(default=1, ge=1, le=1000)
    parallel: int = Field(default=50, ge=1, le=1000)


class StormExpect(Expect):
    """Count the answers; `refused` by code."""

    granted: int = 0
    refused: dict[Outcome, int] | None = None


class Issue(Strict):
    """Issue a campaign to many members as a task."""

    campaign: Id
    members: list[Name]
    task: Id
    name: Name | None = Field(default=None, alias="as")
    stop_after: Count | None = None
    chunk: int = Field(default=100, ge=1)


class Resume(Strict):
    """Go on with a task."""

    task: Id


class TaskExpect(Expect):
    """Hold a task's totals."""

    granted: int = 0
    failed: int = 0
    state: str = ""


class Campaign(Strict):
    """Let headquarters act on a campaign; `changes` are the keys of an edit."""

    id: Id
    action: Literal["pause", "resume", "end", "edit"]
    changes: dict[str, Any] = Field(default_factory=dict, alias="set")

    @model_validator(mode="after")
    def _only_an_edit_sets(self) -> "Campaign":
        if bool(self.changes) != (self.action == "edit"):
            raise ValueError("set belongs to an edit, and an edit needs it")
        return self


class Revoke(Strict):
    """Let headquarters take a coupon back."""

    coupon: Name
    reason: str = "a scenario wants it back"


class Scan(Args):
    """Scan or type a code: a coupon's name in the file, or any raw text."""

    code: str
    typed: Literal["lower", "spaced", "dashed", "fullwidth", "lookalike", "one_wrong", "swapped"] | None = None


class ScanExpect(Expect):
    """Tell what the code names."""

    kind: Literal["coupon", "product", "member", "punch_card"] = "coupon"
    state: str = ""
    sku: str = ""


# ------------------------------------------------------------------ orders


class LineArg(Strict):
    """Put `qty` of a product into the basket."""

    sku: Id
    qty: Qty


class CardArg(Strict):
    """Let a punch card cover one unit of a line, counted from 1."""

    card: Id
    line: int


class TenderArg(Strict):
    """Pay an amount; a wrong amount is the till's to refuse, so it stays a text."""

    type: Literal["cash", "card", "wallet", "stored_value"]
    amount: str


class Quote(Args):
    """Price a basket; `best` chooses the coupons by itself."""

    member: Id | None = None
    lines: list[LineArg]
    use: list[Name] = Field(default_factory=list)
    cards: list[CardArg] = Field(default_factory=list)
    best: bool = False


class LineExpect(Strict):
    """Price one line."""

    gross: Amount | None = None
    discount: Amount | None = None
    net: Amount | None = None


class QuoteExpect(Expect):
    """Price the basket; `refused` maps coupons and cards to codes."""

    gross: Amount | None = None
    discount: Amount | None = None
    payable: Amount | None = None
    used: list[Name] | None = None
    refused: dict[Name, Outcome] | None = None
    lines: list[LineExpect] | None = None


class Checkout(Quote):
    """Sell a basket; `tenders` None = cash to the amount."""

    order: Id
    tenders: list[TenderArg] | None = None
    pay: Literal["success", "fail", "hold"] = "success"


class CheckoutExpect(QuoteExpect):
    """Tell how the order ended."""

    change: Amount | None = None
    state: str = ""


class Pay(Args):
    """Pay an order that is held; `tenders` None = those of its checkout, else cash to the amount."""

    order: Id
    tenders: list[TenderArg] | None = None


class Cancel(Args):
    """Cancel an order."""

    order: Id


class StateExpect(Expect):
    """Tell the order's state."""

    state: str = ""


class BackArg(Strict):
    """Give `qty` of a line back, counted from 1."""

    line: int
    qty: Qty


class Refund(Args):
    """Give lines or all of an order back; `request` None = a fresh one."""

    order: Id
    lines: list[BackArg] | None = None
    all: bool = False
    request: Id | None = None

    @model_validator(mode="after")
    def _lines_or_all(self) -> "Refund":
        if (self.lines is not None) == self.all:
            raise ValueError("name lines or all = true, one of them")
        return self


class RefundExpect(Expect):
    """Tell what came back: `tenders` by type, `returned` coupons, `uses` that a card has afterwards."""

    amount: Amount | None = None
    tenders: dict[str, Amount] | None = None
    returned: list[Name] | None = None
    uses: dict[Name, int] | None = None


# ------------------------------------------------------------------ machines and time


class Link(Args):
    """Pull the cable or put it back; `to` None leaves it as it is. The faults count answers and requests to come."""

    to: Literal["offline", "online"] | None = None
    lose_responses: Count = 0
    duplicate: Count = 0


class Sync(Args):
    """Let the till push and pull."""


class SyncExpect(Expect):
    """Count what moved; `conflicts` are entries that the server accepted and flagged."""

    pushed: int = 0
    pulled: int = 0
    conflicts: int = 0
    pending: int = 0


class Lease(Args):
    """Lend rights to a till."""

    campaign: Id | None = None
    units: Count | None = None
    coupon: Name | None = None
    member: Id | None = None
    amount: str | None = None
    card: Id | None = None
    uses: Count | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> "Lease":
        things = {"campaign": self.units, "coupon": self.coupon, "member": self.amount, "card": self.uses}
        named = [name for name in things if getattr(self, name) is not None]
        if len(named) != 1 or things[named[0]] is None:
            raise ValueError("name campaign and units, coupon, member and amount, or card and uses")
        return self


class LeaseExpect(Expect):
    """Tell what was granted."""

    units: int = 0


class Unlease(Args):
    """Give rights back."""

    campaign: Id | None = None
    coupon: Name | None = None
    member: Id | None = None
    card: Id | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> "Unlease":
        if sum(each is not None for each in (self.campaign, self.coupon, self.member, self.card)) != 1:
            raise ValueError("name campaign, coupon, member or card, one of them")
        return self


class Lost(Args):
    """Decide over all rights of a lost till: take them back, or set them aside for what it may still tell."""


class RevokeTill(Args):
    """Let headquarters take a till out of service."""


class Judge(Args):
    """Let headquarters have judged what a till told after it was revoked."""


class Renew(Args):
    """Let a till renew its leases, as it does by itself behind a sync while nobody plays a scenario."""


class RenewExpect(Expect):
    """Count what it did."""

    closed: int = 0
    granted: int = 0
    returned: int = 0
    brought: int = 0


class Approve(Args):
    """Have a manager let an order use a coupon without a right: `by` that PIN, for that reason."""

    order: Name
    coupon: Name
    by: Id
    pin: str
    reason: str = "known to us"


class CloseDay(Args):
    """Let a till give everything back for the night."""


class CloseDayExpect(Expect):
    """Count what went back, and what an order under way keeps."""

    closed: int = 0
    returned: int = 0
    kept: int = 0


class Crash(Strict):
    """Let a part die: now, or at a point of the next step."""

    what: Name
    when: Literal["now", "after_reserve", "after_commit", "before_ack"] = "now"
    lose: Literal["memory", "all"] = "memory"


class Skew(Args):
    """Move a till's clock."""

    by: Shift


class Wait(Strict):
    """Let time pass."""

    duration: Duration = Field(alias="for")


class Jobs(Strict):
    """Run the server's jobs that are due."""


class JobsExpect(Expect):
    """Count what the jobs found and put right."""

    findings: dict[str, int] | None = None
    repaired: int = 0


class Check(Args):
    """Ask the server, or the named till's own ledger."""


class StockExpect(Strict):
    """Count a campaign's stock (FORMAT, "Numbers")."""

    total: int = 0
    available: int = 0
    reserved: int = 0
    leased: int = 0
    granted: int = 0
    stranded: int = 0


class CheckExpect(Expect):
    """Tell how things stand."""

    coupons: dict[Name, str] | None = None
    stock: dict[Name, StockExpect] | None = None
    balance: dict[Name, Amount] | None = None
    uses: dict[Name, int] | None = None
    orders: dict[Name, str] | None = None
    risk: dict[Name, Amount] | None = None  # what may still be lost at a till
    findings: int | dict[str, int] | None = None  # how many are open: in all, or of each kind
    audit: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """Pair a verb's arguments with what may be expected of it."""

    args: type[Strict]
    expect: type[Expect]


VERBS: dict[str, Verb] = {
    "claim": Verb(Claim, ClaimExpect),
    "storm": Verb(Storm, StormExpect),
    "issue": Verb(Issue, TaskExpect),
    "resume": Verb(Resume, TaskExpect),
    "campaign": Verb(Campaign, Expect),
    "revoke": Verb(Revoke, StateExpect),
    "scan": Verb(Scan, ScanExpect),
    "quote": Verb(Quote, QuoteExpect),
    "checkout": Verb(Checkout, CheckoutExpect),
    "pay": Verb(Pay, StateExpect),
    "cancel": Verb(Cancel, StateExpect),
    "refund": Verb(Refund, RefundExpect),
    "link": Verb(Link, Expect),
    "sync": Verb(Sync, SyncExpect),
    "lease": Verb(Lease, LeaseExpect),
    "unlease": Verb(Unlease, Expect),
    "reclaim": Verb(Lost, Expect),
    "strand": Verb(Lost, Expect),
    "revoke_till": Verb(RevokeTill, Expect),
    "judge": Verb(Judge, Expect),
    "renew": Verb(Renew, RenewExpect),
    "approve": Verb(Approve, Expect),
    "close_day": Verb(CloseDay, CloseDayExpect),
    "crash": Verb(Crash, Expect),
    "skew": Verb(Skew, Expect),
    "wait": Verb(Wait, Expect),
    "jobs": Verb(Jobs, JobsExpect),
    "check": Verb(Check, CheckExpect),
}


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one step: its number from 1, when it happens (None = now), and what is expected (None = anything)."""

    number: int
    verb: str
    args: Strict
    at: datetime | timedelta | None = None
    expect: Expect | None = None


class When(Strict):
    """Read the `at` of a step."""

    at: Moment

"""Decide which leases a till asks for, and which it gives back, while it can reach the server (PROTOCOL 1.3, "renew").

A lease insures the hours without a line, and what is insured here nobody else can have. So a till has what it is likely
to need, and no more: 1.5 times its hourly demand for the hours planned, or the largest single use where that is more
(people draw seldom, and then at once). Half of what is there, divided among the tills that may want it, bounds that at
the server, which alone knows both. Nothing here is safety: whatever is decided, a right has one place.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.rights import USES, VALUE

PERSONAL = (VALUE, USES)
"""Kinds of account that belong to one person, who may turn up elsewhere: bounded in size, number and sum."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Hold the limits; amounts are minor units.

    `planned_hours` without a line are provided for. A lease that lies `idle` so long and holds more than twice the need
    goes back. After a refusal an account is left alone for `rest`. One session asks for `asks_max` leases at most.
    """

    value_each_minor: int
    value_total_minor: int
    uses_each: int = 5
    persons_max: int = 100
    planned_hours: int = 8
    idle: timedelta = timedelta(minutes=30)
    rest: timedelta = timedelta(minutes=30)
    asks_max: int = 20


@dataclass(frozen=True, slots=True)
class HeldLease:
    """Hold an open lease: `left` of `qty` may still be drawn; `touched_at` is its last use, or when it was asked for.

    `busy`: an order under way draws on it, so it cannot be closed now. `recalled`: the server wants it back.
    """

    id: str
    qty: int
    left: int
    touched_at: datetime
    busy: bool = False
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """Tell what was drawn of an account here: `amount` in all of the observed `hours`, and the `largest` at once."""

    amount: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Gather what is known of one account (`app.domain.rights`).

    `allowed`: its rule, and its owner's store, let it be lent to this till now. `waiting`: a request has no answer yet.
    `refused_at` is the last refusal, None = none.
    """

    account_id: str
    allowed: bool
    demand: Demand = Demand()
    leases: tuple[HeldLease, ...] = ()
    waiting: bool = False
    refused_at: datetime | None = None

    @property
    def kind(self) -> str:
        """Return the account's kind."""
        return self.account_id.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Say which leases to close (by id), and what to ask for: pairs of account and amount."""

    close: tuple[str, ...] = ()
    ask: tuple[tuple[str, int], ...] = ()


def decide_renewal(accounts: Iterable[Wanted], policy: Policy, *, hours: int, asking: bool, now: datetime) -> Renewal:
    """Return what to do; what was drawn most comes first where there is not enough for all.

    `hours` (> 0) are those in which the till sold, of the time over which demand was counted. Without `asking` (the day
    is over) nothing new is asked for, and nothing is needed.
    """
    assert hours > 0, "demand is counted over some time"
    ranked = sorted(accounts, key=lambda each: (-each.demand.amount, each.account_id))
    needs = _needs(ranked, policy, hours) if asking else {}
    close: list[str] = []
    ask: list[tuple[str, int]] = []
    for account in ranked:
        need = needs.get(account.account_id, 0)
        closing = _closing(account, need, policy, now=now)
        close += [lease.id for lease in closing]
        kept = [lease for lease in account.leases if lease not in closing]
        amount = _missing(account, kept, need, policy=policy, now=now)
        if amount:
            ask.append((account.account_id, amount))
    return Renewal(tuple(close), tuple(ask[: policy.asks_max]))


def _needs(ranked: Iterable[Wanted], policy: Policy, hours: int) -> dict[str, int]:
    """Return how much of each account should be here; persons' accounts share a sum and a number."""
    needs: dict[str, int] = {}
    persons, value_left_minor = policy.persons_max, policy.value_total_minor
    for account in ranked:
        if not account.allowed or not account.demand.amount:
            continue
        hourly = -(-3 * account.demand.amount * policy.planned_hours // (2 * hours))
        need = max(hourly, account.demand.largest)
        if account.kind in PERSONAL:
            if not persons:
                continue
            persons -= 1
        if account.kind == USES:
            need = min(need, policy.uses_each)
        elif account.kind == VALUE:
            need = min(need, policy.value_each_minor, value_left_minor)
            value_left_minor -= need
        needs[account.account_id] = need
    return needs


def _closing(account: Wanted, need: int, policy: Policy, *, now: datetime) -> list[HeldLease]:
    """Return the leases that go back: what is used up or recalled at once, what lies idle beyond the need."""
    free = [lease for lease in account.leases if not lease.busy]
    gone = [lease for lease in free if not lease.left or lease.recalled or not account.allowed]
    left = sum(lease.left for lease in account.leases if lease not in gone)
    if left > 2 * need:
        gone += [lease for lease in free if lease not in gone and now - lease.touched_at >= policy.idle]
    return gone


def _missing(account: Wanted, kept: list[HeldLease], need: int, *, policy: Policy, now: datetime) -> int:
    """Return how much to ask for: what is missing to the need, once more than 0.7 of what is here is used."""
    rests = account.refused_at is not None and timedelta(0) <= now - account.refused_at < policy.rest
    if account.waiting or rests:
        return 0
    qty, left = sum(lease.qty for lease in kept), sum(lease.left for lease in kept)
    if kept and 10 * (qty - left) <= 7 * qty:
        return 0
    return max(0, need - left)

"""Bring this till's rights in line with what it is likely to need, behind each session, and give them back at night.

The server is asked without the lock under which orders change, so no cashier waits for it. Leases are closed under that
lock alone, and only where no order is under way: an order that was shown to a customer keeps what it was priced with.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.domain.conditions import campaign_reason
from app.domain.refusals import Refusal, RefusalCode
from app.domain.renewal import Demand, HeldLease, Policy, Renewal, Wanted, decide_renewal
from app.domain.rights import BUDGET, STOCK, USES, VALUE, risk_id
from app.domain.rules import Kind, Rule
from app.services import leasing
from app.services.api import DayClosed, Renewed
from app.services.demand import DemandBook
from app.services.gathering import Site, gather_site
from app.services.parts import Parts
from app.services.recording import append_coupon_return, append_lease_close
from app.store import approvals, catalog, coupons, meta, orders, rights
from app.store.meta import instant, instant_ms
from app.store.rights import LeaseRow

VALUE_EACH, VALUE_TOTAL = 200, 5_000
"""In the currency's major unit: of one member (PROTOCOL 1.2), and of all members together."""
YOUNG_HOURS = 8
"""What was drawn in fewer hours is taken for the demand of so many: a first sale is no hourly rate."""
PRICED_FOR = timedelta(minutes=30)
"""How long an order that was checked out, and for which nothing is kept, is expected to be paid with what it saw."""
RISK_RESTS = timedelta(minutes=30)
"""How long the risk budget is not asked for again once it was refused."""
HOMES_REST = timedelta(minutes=30)
"""How long the server is not asked for coupons once it had none for us: it keeps some that the copy shows."""
REMEMBERED = timedelta(days=1)
"""How far back refusals are looked for."""
_STOPS = frozenset({RefusalCode.NEEDS_ONLINE, RefusalCode.BUSY})
"""Answers that tell that the line is down or the server has no time: the next session goes on."""


@dataclass(slots=True)
class Keeper:
    """Hold what renewing remembers in the life of the process; not safe to share between threads.

    `looked_at`: the feed's cursor at the last look for coupons to bring home, -1 = never; until it has moved there is
    nothing new. `resting_since`: when the server last had none for us.
    """

    book: DemandBook = field(default_factory=DemandBook)
    looked_at: int = -1
    resting_since: datetime | None = None


def renew(parts: Parts, keeper: Keeper) -> Renewed:
    """Ask for what is missing, close what is idle, send what was closed; see `Till.renew_rights`."""
    if not _connected(parts):
        return Renewed()
    granted = sum(not isinstance(each, Refusal) for each in leasing.resume(parts))
    if not _connected(parts):
        return Renewed(granted=granted)
    with parts.database.read() as conn:
        renewal, risk = _decide(conn, parts, keeper.book), _decide_risk(conn, parts)
    closed, returned = _give_back(parts, (*renewal.close, *risk.close))
    for account_id, amount in (*risk.ask, *renewal.ask):
        answer = leasing.lease(parts, account_id, amount, size=rights.SHARE)
        granted += not isinstance(answer, Refusal)
        if isinstance(answer, Refusal) and answer.code in _STOPS:
            break
    return Renewed(closed=closed, granted=granted, returned=returned, brought=_bring_home(parts, keeper))


def _connected(parts: Parts) -> bool:
    return parts.head_office.online and not parts.database.damaged


def close_day(parts: Parts) -> DayClosed:
    """Give every right back and send it; see `Till.close_day`."""
    given = give_all_back(parts)
    parts.push_soon()
    return given


def give_all_back(parts: Parts) -> DayClosed:
    """Give every right back that no order holds, and ask for none before tomorrow; sent by the next push."""
    now = parts.now()
    with parts.recording() as tx:
        site = gather_site(tx, parts)
        if not isinstance(site, Refusal):
            meta.put(tx, rights_closed_on=site.today)
        open_ones = [row for row in rights.live_leases(tx) if row.state == rights.OPEN]
        closed = sum(append_lease_close(tx, parts, row, now=now) for row in open_ones)
        homes = rights.homes(tx)
        returned = sum(append_coupon_return(tx, parts, name, version=version, now=now) for name, version in homes)
        kept = len(open_ones) - closed + rights.held_homes(tx)
    return DayClosed(closed=closed, returned=returned, kept=kept)


def _bring_home(parts: Parts, keeper: Keeper) -> int:
    """Ask for coupons of this store's members where the copy shows any; returns how many came."""
    now = parts.now()
    rests = keeper.resting_since is not None and timedelta(0) <= now - keeper.resting_since < HOMES_REST
    with parts.database.read() as conn:
        site = gather_site(conn, parts)
        if isinstance(site, Refusal) or rests or site.meta.cursor == keeper.looked_at or site.is_closed:
            return 0
        keeper.looked_at = site.meta.cursor
        if not coupons.any_to_bring_home(conn, parts.store_id, instant_ms(site.now)):
            return 0
    brought = leasing.bring_home(parts)
    if isinstance(brought, Refusal) and brought.code in _STOPS:
        keeper.looked_at = -1
        return 0
    count = 0 if isinstance(brought, Refusal) else brought
    if not count:
        keeper.resting_since = now
    return count


def _decide(conn: Connection, parts: Parts, book: DemandBook) -> Renewal:
    site = gather_site(conn, parts)
    if isinstance(site, Refusal):
        return Renewal()
    now = parts.now()
    book.read_on(conn, parts.database.ledger, now)
    wanted = _wanted(conn, parts, site, book=book)
    unit = 10**site.chain.currency.decimals
    policy = Policy(
        value_each_minor=VALUE_EACH * unit,
        value_total_minor=VALUE_TOTAL * unit,
        planned_hours=site.chain.offline_hours,
    )
    hours = max(YOUNG_HOURS, book.hours)
    return decide_renewal(wanted, policy, hours=hours, asking=not site.is_closed, now=now)


def _decide_risk(conn: Connection, parts: Parts) -> Renewal:
    """Ask for the whole risk budget, and let go of what is used up or wanted back.

    It is this till's alone, so nobody misses what lies here; without a budget nothing is asked for.
    """
    site = gather_site(conn, parts)
    budget = approvals.budget(conn, parts.till_id)
    if isinstance(site, Refusal) or budget is None:
        return Renewal()
    account_id, (limit_minor, available_minor) = risk_id(parts.till_id), budget
    live = [row for row in rights.live_leases(conn) if row.account_id == account_id]
    planned = _planned(conn, parts)
    close = tuple(
        row.id
        for row in live
        if row.state == rights.OPEN and not row.held and row.id not in planned
        if row.recalled or not row.left or not limit_minor
    )
    waits = any(row.state == rights.REQUESTED for row in live)
    # The copy may be behind what the server has left.
    waits |= account_id in rights.refusals(conn, instant_ms(parts.now() - RISK_RESTS))
    if waits or site.is_closed or available_minor < 1 or limit_minor < 1:
        return Renewal(close)
    return Renewal(close, ((account_id, available_minor),))


def _wanted(conn: Connection, parts: Parts, site: Site, *, book: DemandBook) -> list[Wanted]:
    """Gather every account that was drawn on here, or of which something is here."""
    demands = book.demands()
    live = [row for row in rights.live_leases(conn) if row.account_id != risk_id(parts.till_id)]
    by_account: dict[str, list[LeaseRow]] = {}
    for row in live:
        by_account.setdefault(row.account_id, []).append(row)
    refused = rights.refusals(conn, instant_ms(parts.now() - REMEMBERED))
    planned = _planned(conn, parts)
    at_home = _at_this_store(conn, parts, {*demands, *by_account})
    return [
        Wanted(
            account_id,
            allowed=_allowed(conn, parts, site, account_id=account_id, at_home=at_home),
            demand=demands.get(account_id, Demand()),
            leases=tuple(
                _held(row, book, planned) for row in by_account.get(account_id, ()) if row.state == rights.OPEN
            ),
            waiting=any(row.state == rights.REQUESTED for row in by_account.get(account_id, ())),
            refused_at=instant(refused[account_id]) if account_id in refused else None,
        )
        for account_id in sorted({*demands, *by_account})
    ]


def _held(row: LeaseRow, book: DemandBook, planned: frozenset[str]) -> HeldLease:
    touched_at = instant(max(row.asked_ms, book.touched_ms(row.id)))
    busy = row.held > 0 or row.id in planned
    return HeldLease(row.id, row.qty, row.left, touched_at=touched_at, busy=busy, recalled=bool(row.recalled))


def _planned(conn: Connection, parts: Parts) -> frozenset[str]:
    """Return the leases that orders draw on which were checked out a while ago at most and are not paid yet."""
    since_at = parts.now() - PRICED_FOR
    draws = [
        row.rights for row in orders.open_ones(conn) if row.rights and row.updated_at and row.updated_at >= since_at
    ]
    return frozenset(each["lease"] for draw in draws for each in draw["leases"])


def _at_this_store(conn: Connection, parts: Parts, account_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the accounts that belong to members whose home store this is."""
    owners = {USES: set[str](), VALUE: set[str]()}
    for account_id in account_ids:
        kind, _, owner = account_id.partition(":")
        if kind in owners:
            owners[kind].add(owner)
    members = catalog.members_at(conn, parts.store_id, owners[VALUE])
    cards = catalog.cards_at(conn, parts.store_id, owners[USES])
    return frozenset({*(f"{VALUE}:{each}" for each in members), *(f"{USES}:{each}" for each in cards)})


def _allowed(conn: Connection, parts: Parts, site: Site, *, account_id: str, at_home: frozenset[str]) -> bool:
    kind, _, owner = account_id.partition(":")
    if kind not in (STOCK, BUDGET):
        return account_id in at_home
    campaign = catalog.campaign(conn, owner)
    if campaign is None or not campaign.lends:
        return False
    rule = parts.rules.read(campaign.snapshot_id, campaign.rule, site.chain.currency)
    if not isinstance(rule, Rule) or (rule.stores and parts.store_id not in rule.stores):
        return False
    if kind == BUDGET:
        return rule.budget_minor is not None and campaign.state != "PAUSED"
    return rule.kind is Kind.COUPON and campaign_reason(owner, rule, state=campaign.state, now=site.now) is None


def _give_back(parts: Parts, lease_ids: Collection[str]) -> tuple[int, int]:
    """Close leases and send coupons home, unless an order is being changed now; returns how many of each."""
    with parts.database.read() as conn:
        homes = rights.homes_to_leave(conn, instant_ms(meta.load(conn).corrected(parts.now())))
    if not (lease_ids or homes) or not parts.ordering.acquire(blocking=False):
        return 0, 0
    now = parts.now()
    try:
        with parts.recording() as tx:
            planned, found = _planned(tx, parts), [rights.lease(tx, name) for name in lease_ids]
            free = [row for row in found if row is not None and row.id not in planned]
            closed = sum(append_lease_close(tx, parts, row, now=now) for row in free)
            returned = sum(append_coupon_return(tx, parts, name, version=version, now=now) for name, version in homes)
    finally:
        parts.ordering.release()
    parts.push_soon()
    return closed, returned

"""Show what this till may use and give out by itself, and what closing the day would give back. Reads alone."""

from sqlalchemy import Connection

from app.domain.refusals import Refusal
from app.domain.rights import BUDGET, STOCK, USES, VALUE, risk_id
from app.domain.rules import Rule
from app.services.gathering import Site, gather_site
from app.services.parts import Parts
from app.services.rights_view import HomesHere, OwnRight, RightsOfKind, RightsView, RiskHere
from app.store import approvals, catalog, meta, rights, standing
from app.store.meta import instant, instant_ms
from app.store.standing import AccountSum

SHOWN = 8
"""Accounts of one kind that are named; the rest is counted."""
_KINDS = (STOCK, BUDGET, VALUE, USES)
_Names = tuple[str, str, str]
"""Whose it is (a member's masked label, "" for a campaign's), then what it is called in Chinese and in English."""


def own_rights(parts: Parts) -> RightsView:
    """Sum everything up in one snapshot; see `Till.rights`."""
    with parts.database.read() as conn:
        site, known = gather_site(conn, parts), meta.load(conn)
        here = None if isinstance(site, Refusal) else site
        found = standing.counts(conn)
        return RightsView(
            kinds=tuple(shown for kind in _KINDS if (shown := _of_kind(conn, parts, kind, site=here)).count),
            homes=_homes(conn, parts, here, held=found.held_homes),
            risk=_risk(conn, parts),
            last_sync_at=known.last_sync_at,
            asked_count=found.asked_leases,
            day_closed=here is not None and here.is_closed,
            free_leases=found.free_leases,
            free_coupons=found.free_homes,
            kept=found.held_leases + found.held_homes,
            waiting_orders=found.waiting_orders,
            unknown_payments=found.unknown_payments,
        )


def _of_kind(conn: Connection, parts: Parts, kind: str, *, site: Site | None) -> RightsOfKind:
    summed = standing.of_kind(conn, kind, limit=SHOWN)
    names = _names(conn, parts, kind, owners=[_owner(each) for each in summed.accounts], site=site)
    shown = tuple(
        OwnRight(each.account_id, *names[_owner(each)], left=each.left, qty=each.qty) for each in summed.accounts
    )
    return RightsOfKind(kind, shown, summed.count, left=summed.left, qty=summed.qty)


def _owner(account: AccountSum) -> str:
    return account.account_id.partition(":")[2]


def _names(conn: Connection, parts: Parts, kind: str, *, owners: list[str], site: Site | None) -> dict[str, _Names]:
    """Name the owners of accounts of one kind; what the copy does not know is called by its id."""
    if kind == VALUE:
        return {owner: (_member(conn, owner), "", "") for owner in owners}
    if kind != USES:
        return {owner: ("", *_campaign(conn, parts, owner, site=site)) for owner in owners}
    cards = catalog.cards(conn, owners)
    services = catalog.products(conn, [card.service for card in cards.values()])
    names: dict[str, _Names] = {owner: ("", owner, "") for owner in owners}
    for card in cards.values():
        service = services.get(card.service)
        named = (service.name, service.name_en) if service is not None else (card.service, "")
        names[card.id] = (_member(conn, card.member_id), *named)
    return names


def _member(conn: Connection, member_id: str) -> str:
    row = catalog.member(conn, member_id)
    return member_id if row is None else row.label or member_id


def _campaign(conn: Connection, parts: Parts, campaign_id: str, *, site: Site | None) -> tuple[str, str]:
    campaign = catalog.campaign(conn, campaign_id)
    if campaign is None or site is None:
        return campaign_id, ""
    rule = parts.rules.read(campaign.snapshot_id, campaign.rule, site.chain.currency)
    return (rule.name or campaign_id, rule.name_en) if isinstance(rule, Rule) else (campaign_id, "")


def _homes(conn: Connection, parts: Parts, site: Site | None, *, held: int) -> HomesHere:
    count = standing.homes_at(conn)
    found = standing.next_home(conn, instant_ms(site.now)) if site is not None and count else None
    if found is None:
        return HomesHere(count, held)
    title, title_en = _campaign(conn, parts, found.campaign_id, site=site)
    return HomesHere(count, held, instant(found.valid_until_ms), title=title, title_en=title_en)


def _risk(conn: Connection, parts: Parts) -> RiskHere | None:
    """Tell of the risk budget, None = this till has none.

    What it has spent is what neither it nor the server has any more. The copy may be behind an answer, so what its open
    leases show counts where it is more.
    """
    budget, leases = approvals.budget(conn, parts.till_id), rights.open_leases(conn, risk_id(parts.till_id))
    limit_minor, available_minor = budget or (0, 0)
    if not (limit_minor or leases):
        return None
    left_minor = sum(row.left for row in leases)
    gone_minor = sum(row.used + row.held for row in leases)
    return RiskHere(limit_minor, left_minor, max(gone_minor, limit_minor - available_minor - left_minor))

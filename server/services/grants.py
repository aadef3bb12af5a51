"""Turn stock into coupons: the one arbiter behind every way in (REQUIREMENTS A1, A2, A8, A9).

Claims, gifts, registrations and batch issue all come through `grant`, any number at once: gather, decide, record, in a
number of statements that grows with the campaigns asked for and never with the requests. A claim is a batch of one.

Two guards decide, not the numbers that were gathered: the conditional update of the stock, n at once, and the unique
index over (campaign, member, nth). Where they say no, somebody was faster: the whole batch is decided anew with fresh
numbers, then each request by itself, so that one rival cannot keep two hundred waiting.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Text, bindparam, cast, func, literal, select
from sqlalchemy.exc import IntegrityError

from app.domain import codes
from app.domain.claims import ClaimFacts, Grant, decide_claim
from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rule_json import read_rule
from app.domain.rules import Rule
from app.domain.states import CouponState
from server.db import schema
from server.db.bulk import BulkInsert, Lookup
from server.services import accounts, feed, feed_records, history, timely
from server.services.answers import Answer, ok, refused
from server.services.context import Context, Taken
from server.services.idempotency import Given, Request, once_each

TOGETHER_MAX = 2
"""Tries of a batch as a whole before its requests are decided one by one."""
ATTEMPTS_MAX = 20
"""Rivals, or codes drawn twice, that one request gives way to before it asks the caller to come again."""
REDIS = "redis"
"""The arbiter of a campaign whose claims Redis admits before they are decided here."""
CODES_AT_ONCE = 200
"""Codes drawn in one call: 3,600 digits, and Python reads no number of more than 4,300."""
RULES_KEPT = 1024

Decision = Grant | Refusal
_ISSUED = CouponState.ISSUED.value


@dataclass(frozen=True, slots=True)
class Wanted:
    """Ask for one coupon.

    `request` names the stored answer: `<way in>:<id of the caller>`, as in `claim:r1`. `source` is told with the coupon
    for ever; `reason` stands in its history, "" = the source.
    `reservation` names the reservation in Redis that it comes from.
    """

    request: str
    campaign_id: str
    member_id: str
    source: str
    reason: str = ""
    reservation: str | None = None

    def content(self) -> dict[str, str]:
        """Return what makes a repeat the same request."""
        told = {"campaign": self.campaign_id, "member": self.member_id, "source": self.source}
        return {**told, "reason": self.reason} if self.reason else told


@dataclass(frozen=True, slots=True)
class Offer:
    """Hold a campaign as it stands; `available` None = it has no stock to run out of.

    `generation` is that of the counters in Redis which are in use, 0 = none are.
    """

    rule: Rule
    state: str
    snapshot_id: str
    available: int | None
    arbiter: str
    generation: int

    def outlived(self, reservation: str | None) -> bool:
        """Tell whether the counters were built anew since the reservation was made.

        What Redis still had of the old ones was landed by then. This one it had lost: its claimant may have been
        refused meanwhile, and must not get a coupon behind that.
        """
        return reservation is not None and int(reservation.partition("/")[0]) < self.generation


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold everything that a batch depends on.

    `offers` by campaign, `tiers` by member (who is not here is left out), `held` by (campaign, member): coupons that
    the member ever got of it, and those of today's date in the chain's zone (who is not here is left out).
    """

    offers: Mapping[str, Offer]
    tiers: Mapping[str, str]
    held: Mapping[tuple[str, str], tuple[int, int]]


def grant(conn: Connection, ctx: Context, wanted: Sequence[Wanted]) -> list[Answer]:
    """Grant or refuse each, in order, once for each request: the same answers as one by one; see `grant_under`."""
    return [each.answer for each in grant_under(conn, ctx, wanted)]


def grant_under(conn: Connection, ctx: Context, wanted: Sequence[Wanted]) -> list[Given]:
    """Grant or refuse each, and tell under which reservation the request was first answered.

    An answer has `coupon`, `code`, `state`, `valid_until_at`, `source` and `remaining` (None = no stock to run out of),
    or it is a refusal. `busy` decided nothing and is not kept.
    """
    asked = [Request(each.request, each.content(), each.reservation) for each in wanted]
    return once_each(
        conn, asked, decide=lambda places: _grant(conn, ctx, [wanted[place] for place in places]), now=ctx.now
    )


def _grant(conn: Connection, ctx: Context, wanted: Sequence[Wanted]) -> list[Answer]:
    if (later := ctx.not_now()) is not None:
        return [refused(later)] * len(wanted)
    alone = len(wanted) == 1
    for _ in range(ATTEMPTS_MAX if alone else TOGETHER_MAX):
        facts = gather(conn, ctx, wanted)
        decisions = decide(ctx, wanted, facts)
        answers = record(conn, ctx, wanted, facts=facts, decisions=decisions)
        if answers is not None:
            return answers
    if alone:
        return [refused(refuse(RefusalCode.BUSY, campaign=wanted[0].campaign_id, retry_after_s=1))]
    return [answer for each in wanted for answer in _grant(conn, ctx, [each])]


# ------------------------------------------------------------------ gather

_OFFERS = (
    select(
        schema.campaign.c.id,
        schema.campaign.c.state,
        schema.campaign.c.snapshot_id,
        schema.campaign.c.arbiter,
        cast(schema.snapshot.c.rule, Text).label("rule"),
        schema.account.c.available,
        schema.admission.c.generation,
        schema.admission.c.state.label("admission"),
    )
    .join(schema.snapshot, schema.snapshot.c.id == schema.campaign.c.snapshot_id)
    .outerjoin(schema.admission, schema.admission.c.campaign_id == schema.campaign.c.id)
    .outerjoin(schema.account, schema.account.c.id == literal(accounts.stock_id("")) + schema.campaign.c.id)
)
_OFFERS_OF = Lookup(_OFFERS, schema.campaign.c.id)
# Counted by the unique index over (campaign, member, nth), for each member by itself, so no plan can come to read what
# a campaign has granted to others, be it five million coupons.
_COUNT = (
    select(func.count())
    .select_from(schema.coupon)
    .where(schema.coupon.c.campaign_id == bindparam("campaign"), schema.coupon.c.member_id == schema.member.c.id)
)
_MEMBERS = Lookup(
    select(
        schema.member.c.id,
        schema.member.c.tier,
        _COUNT.scalar_subquery().label("ever"),
        _COUNT.where(schema.coupon.c.granted_on == bindparam("today")).scalar_subquery().label("today"),
    ),
    schema.member.c.id,
)


def gather(conn: Connection, ctx: Context, wanted: Sequence[Wanted]) -> Facts:
    """Read what the batch depends on: one statement for the campaigns, one a campaign for its members."""
    members_of: defaultdict[str, set[str]] = defaultdict(set)
    for each in wanted:
        members_of[each.campaign_id].add(each.member_id)
    found = offers(conn, ctx, members_of)
    tiers: dict[str, str] = {}
    held: dict[tuple[str, str], tuple[int, int]] = {}
    for campaign_id in found:
        for row in _MEMBERS.rows(conn, members_of[campaign_id], campaign=campaign_id, today=_day(ctx)):
            tiers[row.id] = row.tier
            held[(campaign_id, row.id)] = (row.ever, row.today)
    return Facts(found, tiers, held)


def offers(conn: Connection, ctx: Context, campaign_ids: Collection[str]) -> dict[str, Offer]:
    """Return the campaigns as they stand, by id; one that is not here is left out."""
    return {
        row.id: Offer(
            _rule(row.rule, ctx.chain.currency),
            row.state,
            row.snapshot_id,
            row.available,
            row.arbiter,
            generation=row.generation if row.admission == "OPEN" else 0,
        )
        for row in _OFFERS_OF.rows(conn, campaign_ids)
    }


@lru_cache(RULES_KEPT)
def _rule(text: str, currency: Currency) -> Rule:
    """Read a snapshot's rule; it was checked when it was written, and is never written again."""
    rule = read_rule(json.loads(text), currency)
    assert isinstance(rule, Rule), "a snapshot cannot be read"
    return rule


def _day(ctx: Context) -> str:
    """Date the claim in the chain's zone, for the daily limit."""
    return ctx.now.astimezone(ctx.chain.zone).date().isoformat()


# ------------------------------------------------------------------ decide


def decide(ctx: Context, wanted: Sequence[Wanted], facts: Facts) -> list[Decision]:
    """Decide each in order, on the numbers that those before it left; writes nothing."""
    available = {campaign_id: offer.available for campaign_id, offer in facts.offers.items()}
    more: Counter[tuple[str, str]] = Counter()
    decisions = []
    for each in wanted:
        pair = (each.campaign_id, each.member_id)
        decision = _decide(ctx, each, facts, available=available.get(each.campaign_id), more=more[pair])
        if isinstance(decision, Grant):
            more[pair] += 1
            left = available[each.campaign_id]
            available[each.campaign_id] = left - 1 if left is not None else None
        decisions.append(decision)
    return decisions


def _decide(ctx: Context, asked: Wanted, facts: Facts, *, available: int | None, more: int) -> Decision:
    """Decide one; `more` counts what the member was granted of this campaign by those before it in the batch."""
    offer = facts.offers.get(asked.campaign_id)
    if offer is None:
        return unknown("campaign", asked.campaign_id)
    if offer.outlived(asked.reservation):
        return refuse(RefusalCode.BUSY, campaign=asked.campaign_id, reason="rebuilding", retry_after_s=1)
    tier = facts.tiers.get(asked.member_id)
    if tier is None:
        return unknown("member", asked.member_id)
    ever, today = facts.held.get((asked.campaign_id, asked.member_id), (0, 0))
    return decide_claim(
        ClaimFacts(
            campaign_id=asked.campaign_id,
            rule=offer.rule,
            campaign_state=offer.state,
            member_id=asked.member_id,
            member_tier=tier,
            held_count=ever + more,
            held_today_count=today + more,
            available=available,
        ),
        now=ctx.now,
        chain_zone=ctx.chain.zone,
    )


# ------------------------------------------------------------------ record

_COUPONS = BulkInsert(
    schema.coupon,
    "id",
    "campaign_id",
    "snapshot_id",
    "member_id",
    "member_nth",
    "code",
    "code_digest",
    "state",
    "source",
    "granted_at",
    "granted_on",
    "valid_until_at",
)


@dataclass(frozen=True, slots=True)
class Minted:
    """Hold one coupon before it is written; `remaining` is the stock behind it, None = there is none to run out of."""

    id: str
    code: str
    grant: Grant
    wanted: Wanted
    remaining: int | None


def record(
    conn: Connection, ctx: Context, wanted: Sequence[Wanted], *, facts: Facts, decisions: Sequence[Decision]
) -> list[Answer] | None:
    """Write every grant of the batch; None = a guard said no, and nothing is written."""
    minted = _mint(ctx, wanted, facts, decisions=decisions)
    coupons = [each for each in minted if each is not None]
    if coupons:
        savepoint = conn.begin_nested()
        try:
            taken = _take(conn, ctx, coupons)
            if taken:
                _COUPONS.run(conn, _rows(ctx, coupons, facts))
        except IntegrityError:
            taken = False
        if not taken:
            savepoint.rollback()
            return None
        savepoint.commit()
        operator = f"{ctx.actor.scope}:{ctx.actor.key_id}"
        history.record(conn, [_event(each, operator) for each in coupons], ctx.now)
        head = feed.append(conn, feed_records.COUPON, [each.id for each in coupons])
        ctx.taken.extend(_taken(coupons, facts, head=head))
        timely.announce(conn, timely.COUPON_EXPIRY, {each.grant.valid_until_at for each in coupons}, now=ctx.now)
    return [
        refused(decision) if isinstance(decision, Refusal) else _answer(coupon)
        for decision, coupon in zip(decisions, minted, strict=True)
    ]


def _taken(coupons: Sequence[Minted], facts: Facts, *, head: int) -> list[Taken]:
    """List what is to be told to Redis, of the campaigns that it admits to; `head` is the feed's place behind it."""
    told: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for each in coupons:
        if facts.offers[each.wanted.campaign_id].arbiter == REDIS:
            told[each.wanted.campaign_id].append((each.wanted.request, each.wanted.member_id))
    return [Taken(campaign_id, head, -len(grants), grants) for campaign_id, grants in told.items()]


def _mint(
    ctx: Context, wanted: Sequence[Wanted], facts: Facts, *, decisions: Sequence[Decision]
) -> list[Minted | None]:
    """Make the coupons of what is granted, each in its place; None = that one is refused."""
    drawn = _draw(ctx, wanted, facts, decisions=decisions)
    available = {campaign_id: offer.available for campaign_id, offer in facts.offers.items()}
    minted: list[Minted | None] = []
    for each, decision in zip(wanted, decisions, strict=True):
        if isinstance(decision, Refusal):
            minted.append(None)
            continue
        left = available[each.campaign_id]
        remaining = available[each.campaign_id] = left - 1 if left is not None else None
        code = drawn[_layout(facts, each)].pop()
        minted.append(Minted(ctx.ids.new(), code, decision, each, remaining=remaining))
    return minted


def _draw(
    ctx: Context, wanted: Sequence[Wanted], facts: Facts, *, decisions: Sequence[Decision]
) -> dict[codes.Layout, list[str]]:
    """Draw the codes that the batch needs, no two the same; one that is in use already is the unique index's to say."""
    needed = Counter(
        _layout(facts, each) for each, decision in zip(wanted, decisions, strict=True) if isinstance(decision, Grant)
    )
    drawn: dict[codes.Layout, list[str]] = {}
    for layout, count in needed.items():
        found: dict[str, None] = {}
        while len(found) < count:
            missing = min(count - len(found), CODES_AT_ONCE)
            found |= dict.fromkeys(codes.make_codes(layout, ctx.ids.digits, missing))
        drawn[layout] = list(reversed(found))
    return drawn


def _layout(facts: Facts, asked: Wanted) -> codes.Layout:
    return codes.BEARER_COUPON if facts.offers[asked.campaign_id].rule.bearer else codes.MEMBER_COUPON


def _take(conn: Connection, ctx: Context, coupons: Sequence[Minted]) -> bool:
    """Take the batch's coupons out of the stock of each campaign, n at once; False = a stock has fewer."""
    first: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for each in coupons:
        if each.remaining is not None:
            first.setdefault(each.wanted.campaign_id, each.id)
            numbers[each.wanted.campaign_id] += 1
    # Sorted: where several processes write at once, all lock accounts in the same order.
    return all(
        accounts.post_new(
            conn,
            accounts.Move(
                f"grant:{first[campaign_id]}",
                accounts.stock_id(campaign_id),
                accounts.AVAILABLE,
                accounts.SPENT,
                number,
                "grant",
            ),
            ctx.now,
        )
        for campaign_id, number in sorted(numbers.items())
    )


def _rows(ctx: Context, coupons: Sequence[Minted], facts: Facts) -> list[tuple[Any, ...]]:
    day = _day(ctx)
    return [
        (
            each.id,
            each.wanted.campaign_id,
            facts.offers[each.wanted.campaign_id].snapshot_id,
            each.wanted.member_id,
            each.grant.nth,
            each.code,
            codes.code_digest(ctx.code_key, each.code),
            _ISSUED,
            each.wanted.source,
            ctx.now,
            day,
            each.grant.valid_until_at,
        )
        for each in coupons
    ]


def _event(coupon: Minted, operator: str) -> history.Event:
    return history.Event(
        history.COUPON,
        coupon.id,
        "grant",
        None,
        _ISSUED,
        reason=coupon.wanted.reason or coupon.wanted.source,
        # A reason was given by a person, who is told with it.
        operator=operator if coupon.wanted.reason else None,
    )


def _answer(coupon: Minted | None) -> Answer:
    assert coupon is not None, "what is granted was minted"
    return ok(
        coupon=coupon.id,
        code=coupon.code,
        remaining=coupon.remaining,
        state=_ISSUED,
        valid_until_at=_iso(coupon.grant.valid_until_at),
        source=coupon.wanted.source,
    )


def _iso(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant is not None else None

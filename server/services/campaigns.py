"""Create, edit and steer campaigns; show where their stock and their budget stand.

A rule is written once as a snapshot `<campaign>/<version>`; an edit writes the next one and touches no older (RULES,
"Campaign life cycle"). Stock and budget are accounts: raised from outside, cut only from what is still available.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rule_json import read_rule, write_rule
from app.domain.rules import Rule
from app.domain.states import CampaignEvent, CampaignState
from resources import lifecycles
from server.db import schema
from server.services import accounts, campaign_offline, feed, feed_records, history, timely
from server.services import campaign_limits as limits
from server.services.answers import Answer, ok, refused
from server.services.campaign_offline import Terms
from server.services.context import Context
from server.services.idempotency import once
from server.services.names import is_id

# How a campaign that is created in a state came there.
_PATHS: Mapping[str, tuple[CampaignEvent, ...]] = {
    CampaignState.DRAFT: (),
    CampaignState.SCHEDULED: (CampaignEvent.SCHEDULE,),
    CampaignState.ACTIVE: (CampaignEvent.SCHEDULE, CampaignEvent.START),
    CampaignState.PAUSED: (CampaignEvent.SCHEDULE, CampaignEvent.START, CampaignEvent.PAUSE),
    CampaignState.ENDED: (CampaignEvent.SCHEDULE, CampaignEvent.START, CampaignEvent.END),
}
_ARBITERS = ("database", "redis")
RATE_MAX = 1_000_000
"""Claims a second: more than any Redis takes is no limit."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold a campaign as asked for and understood; `stock` None = unlimited, `rate` None = as many claims as come."""

    id: str
    rule: Rule
    state: str
    offline: Terms
    stock: int | None
    arbiter: str
    rate: int | None


def create(conn: Connection, ctx: Context, data: Mapping[str, Any]) -> Answer:
    """Create a campaign from `id`, `stock`, `arbiter`, `claims_per_second`, `offline`, `state` and its rule's keys.

    With `offline` "risk", `risk_max` and perhaps `sync_age_max_h` (`campaign_offline`).
    The same content under the same id again is the first answer, other content is `duplicate_mismatch`.
    """
    draft = read_draft(data, ctx.chain.currency)
    if isinstance(draft, Refusal):
        return refused(draft)
    return once(conn, f"campaign:{draft.id}", data, decide=lambda: _create(conn, ctx, draft), now=ctx.now)


def read_draft(data: Mapping[str, Any], currency: Currency) -> Draft | Refusal:
    """Read what `create` takes; `invalid_campaign` names the first field that makes no sense."""
    left = dict(data)
    campaign_id, stock = left.pop("id", None), left.pop("stock", None)
    arbiter, rate = left.pop("arbiter", None) or "database", left.pop("claims_per_second", None)
    state = left.pop("state", None) or CampaignState.ACTIVE.value
    if not isinstance(campaign_id, str) or not is_id(campaign_id):
        return limits.invalid("id", "must be a text of 1 to 64 characters without blanks and slashes")
    if problem := _problem(arbiter=arbiter, rate=rate):
        return problem
    offline = campaign_offline.take_terms(left, Terms(campaign_offline.LEASE), currency)
    if isinstance(offline, Refusal):
        return offline
    if not isinstance(state, str) or state not in _PATHS:
        return limits.invalid("state", f"must be one of {', '.join(_PATHS)}")
    rule = read_rule(left, currency)
    if isinstance(rule, Refusal):
        return rule
    problem = campaign_offline.problem(offline, rule)
    if problem is None and stock is not None:
        problem = limits.stock_problem(rule, stock)
    if problem is not None:
        return problem
    return Draft(id=campaign_id, rule=rule, state=str(state), offline=offline, stock=stock, arbiter=arbiter, rate=rate)


def _problem(*, arbiter: Any, rate: Any) -> Refusal | None:
    """Refuse what is no arbiter, no rate; None = both are."""
    if arbiter not in _ARBITERS:
        return limits.invalid("arbiter", f"must be one of {', '.join(_ARBITERS)}")
    if rate is not None and (not isinstance(rate, int) or isinstance(rate, bool) or not 1 <= rate <= RATE_MAX):
        return limits.invalid("claims_per_second", f"must be a whole number from 1 to {RATE_MAX}")
    return None


def _create(conn: Connection, ctx: Context, draft: Draft) -> Answer:
    snapshot_id = f"{draft.id}/1"
    _write_snapshot(conn, ctx, draft.id, snapshot_id=snapshot_id, rule=draft.rule)
    conn.execute(
        insert(schema.campaign).values(
            id=draft.id,
            kind=draft.rule.kind.value,
            state=draft.state,
            version=1,
            snapshot_id=snapshot_id,
            **draft.offline.values(),
            arbiter=draft.arbiter,
            claims_per_second=draft.rate,
            from_at=draft.rule.from_at,
            until_at=draft.rule.until_at,
        )
    )
    if draft.stock is not None:
        _open(conn, ctx, accounts.stock_id(draft.id), kind=accounts.STOCK, total=draft.stock)
    if draft.rule.budget_minor is not None:
        _open(conn, ctx, accounts.budget_id(draft.id), kind=accounts.BUDGET, total=draft.rule.budget_minor)
    _announce(conn, ctx, draft.rule)
    history.record(conn, _birth(draft), ctx.now)
    ctx.changed.append(draft.id)
    feed.touch(conn, [(feed_records.CAMPAIGN, draft.id)])
    return ok(campaign=draft.id, state=draft.state, snapshot=snapshot_id)


def _announce(conn: Connection, ctx: Context, rule: Rule) -> None:
    """Have the patrol woken when the window begins and when it ends, whatever state the campaign is in then."""
    timely.announce(conn, timely.CAMPAIGN_WINDOWS, [rule.from_at, rule.until_at], now=ctx.now)


def _birth(draft: Draft) -> list[history.Event]:
    """Tell how the campaign came into its state, by legal steps alone."""
    lifecycle = lifecycles.load("campaign")
    state = lifecycle.initial
    events = [history.Event(history.CAMPAIGN, draft.id, "create", None, state)]
    for event in _PATHS[draft.state]:
        step = lifecycle.step(state, event)
        # A chain's own table may have other ways into a state; then the state itself is what there is to tell.
        if isinstance(step, Refusal):
            return [history.Event(history.CAMPAIGN, draft.id, "create", None, draft.state)]
        events.append(history.Event(history.CAMPAIGN, draft.id, event, state, step.to))
        state = step.to
    return events


def _open(conn: Connection, ctx: Context, account_id: str, *, kind: str, total: int) -> None:
    accounts.open_account(conn, account_id, kind=kind, total=total, now=ctx.now)


def _write_snapshot(conn: Connection, ctx: Context, campaign_id: str, *, snapshot_id: str, rule: Rule) -> None:
    written = write_rule(rule, ctx.chain.currency)
    conn.execute(insert(schema.snapshot).values(id=snapshot_id, campaign_id=campaign_id, rule=written))
    feed.touch(conn, [(feed_records.SNAPSHOT, snapshot_id)])


def edit(conn: Connection, ctx: Context, campaign_id: str, *, changes: Mapping[str, Any]) -> Answer:
    """Replace keys of the rule (null takes one away), `stock` (its new total) and what `create` takes besides.

    Another arbiter moves nothing: the database decides before and after, Redis only admits. Coupons already out keep
    the snapshot that they were granted under. All or nothing; an edit that changes nothing makes no version.
    """
    row = find(conn, campaign_id)
    if row is None:
        return refused(unknown("campaign", campaign_id))
    if row.state == CampaignState.ENDED:
        return refused(refuse(RefusalCode.ILLEGAL_TRANSITION, state=row.state, event="edit"))
    new = _read_edit(conn, ctx, row, changes=changes)
    if isinstance(new, Refusal):
        return refused(new)
    _record_edit(conn, ctx, row, new=new)
    return ok(**view(conn, ctx, campaign_id))


@dataclass(frozen=True, slots=True)
class _Edit:
    """Hold an edit that was understood and may be made."""

    rule: Rule
    changed: bool
    offline: Terms
    arbiter: str
    rate: int | None
    limits: tuple[limits.Limit, ...]


def _read_edit(conn: Connection, ctx: Context, row: Row[Any], *, changes: Mapping[str, Any]) -> _Edit | Refusal:
    left, currency = dict(changes), ctx.chain.currency
    stock = left.pop("stock", None)
    before = Terms(row.offline, row.risk_max_minor, row.sync_age_max_h)
    offline = campaign_offline.take_terms(left, before, currency)
    if isinstance(offline, Refusal):
        return offline
    arbiter, rate = left.pop("arbiter", None) or row.arbiter, left.pop("claims_per_second", row.claims_per_second)
    old = rule_of(conn, ctx, row.snapshot_id)
    new = read_rule({**write_rule(old, currency), **left}, currency)
    if isinstance(new, Refusal):
        return new
    if new.kind is not old.kind:
        return limits.invalid("kind", "cannot be changed; end this campaign and create another")
    if old.budget_minor is not None and new.budget_minor is None:
        return limits.invalid("budget", "cannot be taken away from coupons that are out; raise it")
    if problem := _problem(arbiter=arbiter, rate=rate) or campaign_offline.problem(offline, new):
        return problem
    if stock is not None and (problem := limits.stock_problem(new, stock)):
        return problem
    wanted = [limits.stock_limit(conn, row.id, stock)] if stock is not None else []
    if new.budget_minor is not None:
        wanted.append(limits.budget_limit(conn, row.id, new.budget_minor))
    for limit in wanted:
        if problem := limits.reason_against(conn, limit):
            return problem
    return _Edit(new, new != old, offline, arbiter=arbiter, rate=rate, limits=tuple(wanted))


def _record_edit(conn: Connection, ctx: Context, row: Row[Any], *, new: _Edit) -> None:
    version, snapshot_id = row.version, row.snapshot_id
    if new.changed:
        version, snapshot_id = version + 1, f"{row.id}/{version + 1}"
        _write_snapshot(conn, ctx, row.id, snapshot_id=snapshot_id, rule=new.rule)
    for limit in new.limits:
        limits.bring(conn, ctx, limit, tag=f"edit:{row.id}:{ctx.ids.new()}")
    campaign = schema.campaign
    changed = conn.execute(
        update(campaign)
        .where(campaign.c.id == row.id, campaign.c.version == row.version)
        .values(
            version=version,
            snapshot_id=snapshot_id,
            **new.offline.values(),
            arbiter=new.arbiter,
            claims_per_second=new.rate,
            from_at=new.rule.from_at,
            until_at=new.rule.until_at,
        )
    )
    assert changed.rowcount == 1, "the row was read in this transaction"
    _announce(conn, ctx, new.rule)
    ctx.changed.append(row.id)
    event = history.Event(history.CAMPAIGN, row.id, "edit", row.state, row.state, reason=snapshot_id)
    history.record(conn, [event], ctx.now)
    feed.touch(conn, [(feed_records.CAMPAIGN, row.id)])


def change_stock(conn: Connection, ctx: Context, campaign_id: str, *, by: int, request: str | None) -> Answer:
    """Raise the stock by `by`, or cut it where `by` is below 0, once for each `request` (None = each time)."""
    if request is None:
        return _change_stock(conn, ctx, campaign_id, by=by, tag=f"stock:{ctx.ids.new()}")
    content = {"campaign": campaign_id, "by": by}
    tag = f"stock:{request}"
    return once(conn, tag, content, decide=lambda: _change_stock(conn, ctx, campaign_id, by=by, tag=tag), now=ctx.now)


def _change_stock(conn: Connection, ctx: Context, campaign_id: str, *, by: int, tag: str) -> Answer:
    row = find(conn, campaign_id)
    if row is None:
        return refused(unknown("campaign", campaign_id))
    account_id = accounts.stock_id(campaign_id)
    account = accounts.read(conn, [account_id]).get(account_id)
    if account is None:
        return refused(limits.invalid("stock", "is unlimited; set a total by an edit"))
    total = account.total + by
    problem = limits.stock_problem(rule_of(conn, ctx, row.snapshot_id), total)
    limit = limits.Limit(account_id, accounts.STOCK, total)
    problem = problem or limits.reason_against(conn, limit)
    if problem is not None:
        return refused(problem)
    limits.bring(conn, ctx, limit, tag=tag)
    ctx.changed.append(campaign_id)
    return ok(campaign=campaign_id, stock=limits.view(accounts.read(conn, [account_id])[account_id]))


def fire(conn: Connection, ctx: Context, campaign_id: str, *, event: CampaignEvent) -> Answer:
    """Let the campaign take one step of its life cycle; one that it does not have is refused and remembered."""
    row = find(conn, campaign_id)
    if row is None:
        return refused(unknown("campaign", campaign_id))
    lifecycle = lifecycles.load("campaign")
    step = lifecycle.step(row.state, event)
    if isinstance(step, Refusal):
        refusal = Refusal(step.code, {"campaign": campaign_id, **step.facts})
        history.record(conn, [history.Event(history.CAMPAIGN, campaign_id, event, row.state, None)], ctx.now)
        return refused(refusal)
    moved = conn.execute(
        update(schema.campaign)
        .where(schema.campaign.c.id == campaign_id, schema.campaign.c.state == row.state)
        .values(state=step.to)
    )
    assert moved.rowcount == 1, "the row was read in this transaction"
    ctx.changed.append(campaign_id)
    history.record(
        conn, [history.Event(history.CAMPAIGN, campaign_id, event, step.frm, step.to, reason=ctx.actor.scope)], ctx.now
    )
    feed.touch(conn, [(feed_records.CAMPAIGN, campaign_id)])
    return ok(campaign=campaign_id, state=step.to)


def find(conn: Connection, campaign_id: str) -> Row[Any] | None:
    """Return the campaign's row, None where there is none."""
    return conn.execute(select(schema.campaign).where(schema.campaign.c.id == campaign_id)).one_or_none()


def rule_of(conn: Connection, ctx: Context, snapshot_id: str) -> Rule:
    """Return the rule of a snapshot; it was checked when it was written."""
    data = conn.execute(select(schema.snapshot.c.rule).where(schema.snapshot.c.id == snapshot_id)).scalar_one()
    rule = read_rule(data, ctx.chain.currency)
    assert isinstance(rule, Rule), f"snapshot {snapshot_id} cannot be read"
    return rule


def view(conn: Connection, ctx: Context, campaign_id: str) -> dict[str, Any]:
    """Show a campaign that is there: rule, state, stock and budget (None = unlimited), as JSON data."""
    row = find(conn, campaign_id)
    assert row is not None, "ask `find` first"
    stock_id, budget_id = accounts.stock_id(campaign_id), accounts.budget_id(campaign_id)
    found = accounts.read(conn, [stock_id, budget_id])
    money = ctx.chain.currency.format
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "version": row.version,
        "snapshot": row.snapshot_id,
        "arbiter": row.arbiter,
        "claims_per_second": row.claims_per_second,
        **campaign_offline.view(row, ctx.chain.currency),
        "rule": write_rule(rule_of(conn, ctx, row.snapshot_id), ctx.chain.currency),
        "stock": limits.view(found[stock_id]) if stock_id in found else None,
        "budget": {key: money(value) for key, value in limits.view(found[budget_id]).items()}
        if budget_id in found
        else None,
    }

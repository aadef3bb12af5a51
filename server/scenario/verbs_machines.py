"""Do what a scenario's steps say about machines, time and truth: link, sync, crash, skew, wait, jobs, check."""

from collections import Counter
from typing import Any

from sqlalchemy import Connection, select

from app.domain.conditions import read_state
from app.services.ports import Busy, Offline
from server.db import schema
from server.jobs import run_due
from server.scenario.comparing import Came
from server.scenario.steps import Check, Crash, Jobs, Link, Skew, Sync, Wait
from server.scenario.till_part import TillPart
from server.scenario.values import Minor
from server.scenario.verbs_coupons import trouble_came
from server.scenario.world import World
from server.services import accounts, campaign_limits, findings
from server.services.admission.admission import Admission
from server.services.audit import audit
from server.services.context import Context

DONE: Came = {"outcome": "ok"}


def link(world: World, args: Link) -> Came:
    """Pull a till's cable, put it back, or make it bad."""
    faults = world.till(args.till).link.faults
    if args.to is not None:
        faults.offline = args.to == "offline"
    faults.lose, faults.double = args.lose_responses, args.duplicate
    return DONE


def sync(world: World, args: Sync) -> Came:
    """Run one session of a till; offline it tells what waits."""
    part = world.till(args.till)
    with world.server.fuse.lit(), part.fuse.lit():
        try:
            report = part.engine.run_once()
        except (Offline, Busy) as trouble:
            waiting = part.engine.status.pending
            return trouble_came(trouble) | {"pushed": 0, "pulled": 0, "conflicts": 0, "pending": waiting}
    return {
        "outcome": "ok",
        "pushed": report.pushed,
        "pulled": report.pulled,
        "conflicts": report.conflicts,
        "pending": report.pending,
        **({"facts": {"differences": [str(each) for each in report.differences]}} if report.differences else {}),
    }


def crash(world: World, args: Crash) -> Came:
    """Let a part die, now or at a point of the next step; it starts again before the step after that."""
    if args.what == "redis":
        world.redis.arm(args.when, lose_all=args.lose == "all")
        return DONE
    fuse = world.server.fuse if args.what == "server" else world.till(args.what).fuse
    if args.when == "now":
        fuse.died = True
    else:
        fuse.arm(args.when)
    return DONE


def skew(world: World, args: Skew) -> Came:
    """Set a till's clock wrong."""
    world.till(args.till).clock.skew(args.by)
    return DONE


def wait(world: World, args: Wait) -> Came:
    """Let time pass."""
    world.clock.advance(args.duration)
    return DONE


def jobs(world: World, _args: Jobs) -> Came:
    """Walk every patrol of the server once."""
    with world.server.fuse.lit():
        reports = run_due(world.server.services)
    found: Counter[str] = Counter()
    for report in reports:
        found.update(report.findings)
    return {"outcome": "ok", "findings": dict(found), "repaired": sum(report.repaired for report in reports)}


def check(world: World, args: Check) -> Came:
    """Tell how things stand at the server, or in a till's own books."""
    if args.till is not None:
        return _check_till(world, world.till(args.till))
    found: Came = world.server.services.read(lambda conn, ctx: _check_server(conn, ctx, world))
    return found


# ------------------------------------------------------------------ the server's truth


def _check_server(conn: Connection, ctx: Context, world: World) -> Came:
    return {
        "outcome": "ok",
        "coupons": _coupons(conn, ctx, world),
        "orders": {row.id: row.state for row in conn.execute(select(schema.orders.c.id, schema.orders.c.state))},
        **_accounts(conn, world.server.admission),
        "findings": findings.open_counts(conn),
        **({"audit": _audit(conn, ctx)} if "audit" in world.wanted else {}),
    }


def _coupons(conn: Connection, ctx: Context, world: World) -> dict[str, str]:
    coupon = schema.coupon
    rows = conn.execute(select(coupon.c.id, coupon.c.state, coupon.c.valid_until_at))
    states = {row.id: read_state(row.state, row.valid_until_at, ctx.now) for row in rows}
    return {name: states[coupon_id] for name, coupon_id in world.names.all().items() if coupon_id in states}


def _accounts(conn: Connection, admission: Admission) -> dict[str, Any]:
    """Return stock as the API shows it, balances, uses and what may be lost, by the names of the file."""
    ids = list(conn.execute(select(schema.account.c.id)).scalars())
    tables: dict[str, dict[str, Any]] = {"stock": {}, "balance": {}, "uses": {}, "risk": {}}
    for account in accounts.read(conn, ids).values():
        name = account.id.partition(":")[2]
        match account.kind:
            case accounts.STOCK:
                tables["stock"][name] = admission.shown(name, campaign_limits.view(account))
            case accounts.VALUE:
                tables["balance"][name] = Minor(account.standing)
            case accounts.RISK:
                tables["risk"][name] = Minor(account.standing)
            case accounts.USES:
                tables["uses"][name] = account.standing
    return tables


def _audit(conn: Connection, ctx: Context) -> str:
    report = audit(conn, ctx)
    return "clean" if report.clean else "; ".join(map(str, report.violations))


# ------------------------------------------------------------------ a till's own books


def _check_till(world: World, part: TillPart) -> Came:
    """Ask the till alone: nothing that it would have to ask the server for."""
    part.catch_up()
    coupons = {name: part.till.scan(world.names.code(name)).state for name in world.names.all()}
    states = {order_id: part.order_state(order_id) for order_id in world.orders}
    balance: dict[str, Minor] = {}
    uses: dict[str, int] = {}
    for row in world.table.member:
        member = part.till.member(row.id)
        if member is not None:
            balance[row.id] = Minor(member.balance_minor)
            uses.update({card.id: card.uses_left for card in member.cards})
    with part.database.read() as conn:
        wrong = part.database.ledger.verify(conn)
    return {
        "outcome": "ok",
        "coupons": coupons,
        "orders": {order_id: state for order_id, state in states.items() if state is not None},
        "balance": balance,
        "uses": uses,
        "audit": "; ".join(wrong) or "clean",
    }

"""Sum up what this till has of its own, for whoever looks at it: bounded lists, and counts of the rest."""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.store.driver import run


@dataclass(frozen=True, slots=True)
class AccountSum:
    """Hold what the open leases of one account come to: lent (`qty`), and what may still be drawn."""

    account_id: str
    left: int
    qty: int


@dataclass(frozen=True, slots=True)
class KindSum:
    """Hold the accounts of one kind with most left, and the sums of all `count` of them."""

    accounts: tuple[AccountSum, ...] = ()
    count: int = 0
    left: int = 0
    qty: int = 0


@dataclass(frozen=True, slots=True)
class NextHome:
    """Name the coupon at home here whose time is over first; `valid_until_ms` UTC."""

    campaign_id: str
    snapshot_id: str
    valid_until_ms: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Count what a closing of the day would find.

    Leases that are `free` or `held` by orders, and those `asked` for that have no answer yet; coupons at home likewise;
    orders that wait for their payment, and those of which the terminal did not say.
    """

    free_leases: int
    held_leases: int
    asked_leases: int
    free_homes: int
    held_homes: int
    waiting_orders: int
    unknown_payments: int


def of_kind(conn: Connection, kind: str, *, limit: int) -> KindSum:
    """Sum up the open leases of one kind of account (`app.domain.rights`), what has most left first."""
    rows = run(
        conn,
        "SELECT account_id, remaining, lent, count(*) OVER (), sum(remaining) OVER (), sum(lent) OVER () FROM ("
        "SELECT account_id, sum(qty - used - held) AS remaining, sum(qty) AS lent FROM lease "
        "WHERE state = 'OPEN' AND account_id >= ? AND account_id < ? GROUP BY account_id) "
        "ORDER BY remaining DESC, account_id LIMIT ?",
        (f"{kind}:", f"{kind};", limit),
    ).fetchall()
    if not rows:
        return KindSum()
    accounts = tuple(AccountSum(row[0], row[1], row[2]) for row in rows)
    return KindSum(accounts, rows[0][3], rows[0][4], qty=rows[0][5])


def homes_at(conn: Connection) -> int:
    """Count the coupons that are at home here and free to be used (`rights.at_home`)."""
    row = run(
        conn,
        "SELECT count(*) FROM home h LEFT JOIN coupon c ON c.id = h.coupon_id "
        "WHERE h.state = 'HOME' AND h.version >= coalesce(c.version, 0)",
    ).fetchone()
    return int(row[0])


def next_home(conn: Connection, now_ms: int) -> NextHome | None:
    """Return the free coupon at home here whose time is over first, None where none of them ends."""
    row = run(
        conn,
        # CROSS: the homes are the few.
        "SELECT c.campaign_id, c.snapshot_id, c.valid_until_at FROM home h CROSS JOIN coupon c ON c.id = h.coupon_id "
        "WHERE h.state = 'HOME' AND h.version >= c.version AND c.valid_until_at > ? "
        "ORDER BY c.valid_until_at, c.id LIMIT 1",
        (now_ms,),
    ).fetchone()
    return NextHome(row[0], row[1], row[2]) if row else None


def counts(conn: Connection) -> Counts:
    """Count what a closing of the day would find."""
    leases = run(
        conn,
        "SELECT coalesce(sum(state = 'OPEN' AND held = 0), 0), coalesce(sum(state = 'OPEN' AND held > 0), 0), "
        "coalesce(sum(state = 'REQUESTED'), 0) FROM lease WHERE state IN ('OPEN', 'REQUESTED')",
    ).fetchone()
    homes = run(
        conn,
        "SELECT coalesce(sum(state = 'HOME'), 0), coalesce(sum(state = 'HELD'), 0) FROM home "
        "WHERE state IN ('HOME', 'HELD')",
    ).fetchone()
    waiting = run(
        conn,
        "SELECT coalesce(sum(payment IS NULL AND (held OR state = 'HELD')), 0), coalesce(sum(payment IS NOT NULL), 0) "
        "FROM orders WHERE state IN ('OPEN', 'HELD', 'UNKNOWN')",
    ).fetchone()
    return Counts(*leases, *homes, *waiting)

"""Keep the rights that this till has itself: leases of countable value, and coupons whose home it is.

Each change is one conditional UPDATE in the transaction of the entry that tells it, so what is not there cannot be
drawn, and what was drawn is in the ledger. What an order draws on travels as its sale says it: `{"leases": [{"lease",
"amount"}], "coupons": [{"coupon", "version"}]}` (PROTOCOL 1.3, 1.4).
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.rights import Rights
from app.store.driver import run, run_each
from app.store.orders import OrderRow

REQUESTED, OPEN, REFUSED, CLOSED, REVOKED = "REQUESTED", "OPEN", "REFUSED", "CLOSED", "REVOKED"
ASKED, SHARE = "asked", "share"
HOME, HELD, USED, RETURNED = "HOME", "HELD", "USED", "RETURNED"

Draws = dict[str, Any]
"""What an order draws on."""
Risk = dict[str, Any]
"""A coupon that an order uses without a right: `{"coupon", "amount_minor", "approval", "by", "reason"}`.

An order's draws list them under `risks`; its leases of the till's risk budget pay for them.
"""
NOTHING: Draws = {"leases": [], "coupons": []}
Home = tuple[str, int]
"""A coupon in one version of it."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """Hold a lease: `asked` for, lent (`qty`), `used` by entries, and `held` by orders whose payment is under way.

    `size`: ASKED, or SHARE where the server is to lend no more than it finds fair. `recalled`: it wants it back.
    `asked_ms` by this machine's clock.
    """

    id: str
    account_id: str
    asked: int
    qty: int
    used: int
    held: int
    state: str
    size: str = ASKED
    asked_ms: int = 0
    recalled: bool = False

    @property
    def left(self) -> int:
        """Return what may still be drawn."""
        return self.qty - self.used - self.held if self.state == OPEN else 0


_LEASE = "SELECT id, account_id, asked, qty, used, held, state, size, asked_at, recalled FROM lease "


# ------------------------------------------------------------------ leases


def request(tx: Connection, row: LeaseRow) -> LeaseRow:
    """Note what will be asked for, before it is."""
    run(
        tx,
        "INSERT INTO lease (id, account_id, asked, size, asked_at, state) VALUES (?, ?, ?, ?, ?, 'REQUESTED')",
        (row.id, row.account_id, row.asked, row.size, row.asked_ms),
    )
    return row


def unanswered(conn: Connection) -> list[LeaseRow]:
    """Return what was asked for and has no answer yet, the oldest id first."""
    return [LeaseRow(*row) for row in run(conn, _LEASE + "WHERE state = 'REQUESTED' ORDER BY id")]


def lease(conn: Connection, lease_id: str) -> LeaseRow | None:
    """Return one lease."""
    row = run(conn, _LEASE + "WHERE id = ?", (lease_id,)).fetchone()
    return LeaseRow(*row) if row else None


def open_leases(conn: Connection, account_id: str) -> list[LeaseRow]:
    """Return the open leases of an account, also those that have nothing left, in the order in which they are drawn."""
    return [
        LeaseRow(*row)
        for row in run(conn, _LEASE + "WHERE account_id = ? AND state = 'OPEN' ORDER BY id", (account_id,))
    ]


def live_leases(conn: Connection) -> list[LeaseRow]:
    """Return every lease that is open or has no answer yet, by id."""
    return [LeaseRow(*row) for row in run(conn, _LEASE + "WHERE state IN ('REQUESTED', 'OPEN') ORDER BY id")]


def refusals(conn: Connection, since_ms: int) -> dict[str, int]:
    """Return when the newest refused request of each account was asked for, of those since an instant."""
    rows = run(
        conn,
        "SELECT account_id, max(asked_at) FROM lease WHERE state = 'REFUSED' AND asked_at >= ? GROUP BY account_id",
        (since_ms,),
    )
    return {row[0]: row[1] for row in rows}


def left(conn: Connection, account_id: str) -> int | None:
    """Return what this till may spend of an account without asking; None = it has no lease of it."""
    found = open_leases(conn, account_id)
    return sum(row.left for row in found) if found else None


def answer(tx: Connection, lease_id: str, *, qty: int, coupons: Iterable[tuple[str, str]] = ()) -> None:
    """Open a lease that was asked for, 0 = it was refused; one that has its answer already stays as it is.

    `coupons` are those of a stock, each with its code.
    """
    state = OPEN if qty else REFUSED
    done = run(tx, "UPDATE lease SET state = ?, qty = ? WHERE id = ? AND state = 'REQUESTED'", (state, qty, lease_id))
    if done.rowcount:
        rows = [(coupon_id, lease_id, code) for coupon_id, code in coupons]
        run_each(tx, "INSERT INTO lease_coupon (coupon_id, lease_id, code) VALUES (?, ?, ?)", rows)


def recall(tx: Connection, lease_id: str) -> None:
    """Note that the server wants a lease back; it may be drawn on until it is closed."""
    run(tx, "UPDATE lease SET recalled = 1 WHERE id = ?", (lease_id,))


def revoke(tx: Connection, lease_id: str) -> None:
    """Draw no more on a lease that headquarters has taken back; what is under way goes on."""
    run(tx, "UPDATE lease SET state = 'REVOKED' WHERE id = ? AND state IN ('REQUESTED', 'OPEN')", (lease_id,))


def drop(tx: Connection) -> None:
    """Give up every right that is not held by an order under way: this ledger cannot show what was used of it."""
    run(tx, "UPDATE lease SET state = 'REVOKED' WHERE state IN ('REQUESTED', 'OPEN')")
    # USED too: one whose sale is lost would be at home again. `rebuild` leaves those used that the ledger shows.
    run(tx, "UPDATE home SET state = 'RETURNED', order_id = NULL WHERE state IN ('HOME', 'USED')")


def all_open(conn: Connection) -> list[LeaseRow]:
    """Return every open lease."""
    return [LeaseRow(*row) for row in run(conn, _LEASE + "WHERE state = 'OPEN' ORDER BY id")]


def homes(conn: Connection) -> list[Home]:
    """Return every coupon that is at home here and held by no order, with its version."""
    rows = run(conn, "SELECT coupon_id, version FROM home WHERE state = 'HOME' ORDER BY coupon_id")
    return [(row[0], row[1]) for row in rows]


def granted(conn: Connection) -> list[tuple[LeaseRow, list[tuple[str, str]]]]:
    """Return every lease that was ever granted here, with its coupons and their codes, the oldest first."""
    found = [LeaseRow(*row) for row in run(conn, _LEASE + "WHERE qty > 0 ORDER BY id")]
    coupons: dict[str, list[tuple[str, str]]] = {}
    for lease_id, coupon_id, code in run(conn, "SELECT lease_id, coupon_id, code FROM lease_coupon ORDER BY coupon_id"):
        coupons.setdefault(lease_id, []).append((coupon_id, code))
    return [(row, coupons.get(row.id, [])) for row in found]


def live_homes(conn: Connection) -> list[Home]:
    """Return every coupon at home here that was neither used nor returned, as far as this till knows."""
    rows = run(conn, "SELECT coupon_id, version FROM home WHERE state IN ('HOME', 'HELD') ORDER BY coupon_id")
    return [(row[0], row[1]) for row in rows]


def close(tx: Connection, lease_id: str) -> bool:
    """Draw no more on a lease; False = it is not open, or an order under way holds some of it."""
    closed = run(tx, "UPDATE lease SET state = 'CLOSED' WHERE id = ? AND state = 'OPEN' AND held = 0", (lease_id,))
    return closed.rowcount == 1


# ------------------------------------------------------------------ coupons of a leased stock


@dataclass(frozen=True, slots=True)
class LeaseCoupon:
    """Hold a coupon of a leased stock; `member_id` None = nobody's yet."""

    coupon_id: str
    lease_id: str
    code: str
    member_id: str | None


_LEASE_COUPON = "SELECT coupon_id, lease_id, code, member_id FROM lease_coupon "


def given(conn: Connection, request_id: str) -> LeaseCoupon | None:
    """Return the coupon that was given out under a claim's request."""
    row = run(conn, _LEASE_COUPON + "WHERE request = ?", (request_id,)).fetchone()
    return LeaseCoupon(*row) if row else None


def give(tx: Connection, lease_id: str, *, request_id: str, member_id: str) -> LeaseCoupon:
    """Give the next coupon of a lease that has some left to a member; it is at home here, in its first version."""
    used = run(
        tx, "UPDATE lease SET used = used + 1 WHERE id = ? AND state = 'OPEN' AND used + held < qty", (lease_id,)
    )
    assert used.rowcount == 1, "what a lease has left was read in this transaction"
    row = run(tx, _LEASE_COUPON + "WHERE lease_id = ? AND request IS NULL ORDER BY coupon_id LIMIT 1", (lease_id,))
    found = LeaseCoupon(*row.fetchone())
    run(
        tx,
        "UPDATE lease_coupon SET request = ?, member_id = ? WHERE coupon_id = ?",
        (request_id, member_id, found.coupon_id),
    )
    take_home(tx, [(found.coupon_id, 1)])
    return LeaseCoupon(found.coupon_id, lease_id, found.code, member_id)


# ------------------------------------------------------------------ homes


def take_home(tx: Connection, coupons: Iterable[tuple[str, int]]) -> None:
    """Make this till the home of coupons, each in a version; a version that was seen already changes nothing.

    What an order holds it holds on in its version, until it lets go (`release`): headquarters took the home back
    meanwhile, and the coupon came again.
    """
    rows = list(coupons)
    if rows:
        run_each(
            tx,
            "INSERT INTO home (coupon_id, version, state) VALUES (?, ?, 'HOME') ON CONFLICT (coupon_id) DO UPDATE SET "
            "version = excluded.version, state = 'HOME', order_id = NULL "
            "WHERE excluded.version > home.version AND home.state <> 'HELD'",
            rows,
        )


def at_home(conn: Connection, coupon_id: str) -> int | None:
    """Return the version in which a coupon is at home here and free to be used; None = it is not.

    The server's word may be newer: then headquarters has taken the home back.
    """
    row = run(
        conn,
        "SELECT h.version FROM home h LEFT JOIN coupon c ON c.id = h.coupon_id "
        "WHERE h.coupon_id = ? AND h.state = 'HOME' AND h.version >= coalesce(c.version, 0)",
        (coupon_id,),
    ).fetchone()
    return row[0] if row else None


def homes_to_leave(conn: Connection, now_ms: int) -> list[Home]:
    """Return the free coupons at home here that the server wants back, or whose time is over: it alone expires them."""
    # CROSS: the homes are the few.
    rows = run(
        conn,
        "SELECT h.coupon_id, h.version FROM home h CROSS JOIN coupon c ON c.id = h.coupon_id "
        "WHERE h.state = 'HOME' AND h.version >= c.version AND (c.recalled OR c.valid_until_at <= ?) ORDER BY 1",
        (now_ms,),
    )
    return [(row[0], row[1]) for row in rows]


def held_homes(conn: Connection) -> int:
    """Count the coupons at home here that orders under way hold."""
    return int(run(conn, "SELECT count(*) FROM home WHERE state = 'HELD'").fetchone()[0])


def return_home(tx: Connection, coupon_id: str, version: int) -> bool:
    """Let a coupon go home to the server; False = it is not free to go."""
    gone = run(
        tx,
        "UPDATE home SET state = 'RETURNED' WHERE coupon_id = ? AND version = ? AND state = 'HOME'",
        (coupon_id, version),
    )
    return gone.rowcount == 1


def returned_by_refund(tx: Connection, order_id: str, coupon_ids: Iterable[str]) -> None:
    """Leave coupons that a refund gave back to the server: using them ended their home here."""
    rows = [(coupon_id, order_id) for coupon_id in coupon_ids]
    if rows:
        run_each(
            tx,
            "UPDATE home SET state = 'RETURNED', order_id = NULL "
            "WHERE coupon_id = ? AND order_id = ? AND state = 'USED'",
            rows,
        )


# ------------------------------------------------------------------ what orders draw


def plan(conn: Connection, used: Rights) -> Draws | None:
    """Return how an order draws on this till's own rights all that it uses; None = they do not cover it."""
    versions = {coupon_id: at_home(conn, coupon_id) for coupon_id in sorted(used.coupons)}
    if None in versions.values():
        return None
    draws = []
    for account_id, amount in used.amounts.items():
        missing = amount
        for row in open_leases(conn, account_id):
            part = min(missing, row.left)
            if part:
                draws.append({"lease": row.id, "amount": part})
                missing -= part
        if missing:
            return None
    coupons = [{"coupon": coupon_id, "version": version} for coupon_id, version in versions.items()]
    return {"leases": draws, "coupons": coupons}


def hold(tx: Connection, draws: Draws, order_id: str) -> bool:
    """Keep what an order draws from others; False = not all of it is there, and the caller undoes what was."""
    done = [
        run(
            tx,
            "UPDATE lease SET held = held + ? WHERE id = ? AND state = 'OPEN' AND used + held + ? <= qty",
            (each["amount"], each["lease"], each["amount"]),
        )
        for each in draws["leases"]
    ]
    done += [
        run(
            tx,
            "UPDATE home SET state = 'HELD', order_id = ? WHERE coupon_id = ? AND version = ? AND state = 'HOME'",
            (order_id, each["coupon"], each["version"]),
        )
        for each in draws["coupons"]
    ]
    # The copy alone knows of it: a second order here would find it free.
    done += [
        run(
            tx,
            "UPDATE coupon SET state = 'FROZEN', order_id = ? WHERE id = ? AND state = 'ISSUED'",
            (order_id, each["coupon"]),
        )
        for each in draws.get("risks", ())
    ]
    return all(each.rowcount == 1 for each in done)


def use(tx: Connection, draws: Draws, order_id: str) -> None:
    """Turn what an order holds into used: its sale is appended in this transaction."""
    _leave(tx, draws, order_id, lease="held = held - ?1, used = used + ?1", home="state = 'USED'")


def release(tx: Connection, draws: Draws, order_id: str) -> None:
    """Let go of what an order holds: it is off. A newer home that came meanwhile is taken now."""
    _leave(tx, draws, order_id, lease="held = held - ?1", home="state = 'HOME', order_id = NULL")
    take_home(tx, _newer_homes(tx, [each["coupon"] for each in draws["coupons"]]))


def _newer_homes(conn: Connection, coupon_ids: Sequence[str]) -> list[Home]:
    """Return those of these coupons that the copy says are at home here, with its version."""
    rows = run(
        conn,
        "SELECT c.id, c.version FROM json_each(?) j JOIN coupon c ON c.id = j.value "
        "WHERE c.home = (SELECT json_extract(value, '$') FROM meta WHERE key = 'till_id')",
        (json.dumps(coupon_ids),),
    )
    return [(row[0], row[1]) for row in rows]


def _leave(tx: Connection, draws: Draws, order_id: str, *, lease: str, home: str) -> None:
    done = [
        run(tx, f"UPDATE lease SET {lease} WHERE id = ?2 AND held >= ?1", (each["amount"], each["lease"]))
        for each in draws["leases"]
    ]
    done += [
        run(
            tx,
            f"UPDATE home SET {home} WHERE coupon_id = ? AND version = ? AND state = 'HELD' AND order_id = ?",
            (each["coupon"], each["version"], order_id),
        )
        for each in draws["coupons"]
    ]
    assert all(each.rowcount == 1 for each in done), "what an order holds is kept for it"


# ------------------------------------------------------------------ anew from the ledger


def rebuild(tx: Connection, entries: Iterable[Entry], open_orders: Sequence[OrderRow]) -> list[str]:
    """Write anew what was used of leases, and what is held; return what was different, [] = nothing.

    What was lent is the server's word, and no entry says it.
    """
    used: Counter[str] = Counter()
    closed: set[str] = set()
    used_by: dict[Home, str] = {}
    gone: set[Home] = set()
    for entry in entries:
        body = entry.read()
        match entry.kind:
            case "sale":
                draws = body.get("rights") or NOTHING
                used.update({each["lease"]: each["amount"] for each in draws["leases"]})
                used_by.update({(each["coupon"], each["version"]): body["order"] for each in draws["coupons"]})
            case "claim":
                used[body["lease"]] += 1
            case "lease_close":
                closed.add(body["lease"])
            case "coupon_return":
                gone.add((body["coupon"], body["version"]))
            case "refund":
                back = set(body["body"]["returned"])
                gone |= {name for name, order_id in used_by.items() if name[0] in back and order_id == body["order"]}
    held: Counter[str] = Counter()
    for order in open_orders:
        if order.state != "OPEN" and order.rights:
            held.update({each["lease"]: each["amount"] for each in order.rights["leases"]})
    drift = []
    for row in [LeaseRow(*each) for each in run(tx, _LEASE)]:
        state = CLOSED if row.id in closed else row.state
        if (row.used, row.held, row.state) != (used[row.id], held[row.id], state):
            drift.append(f"lease {row.id}")
            run(
                tx,
                "UPDATE lease SET used = ?, held = ?, state = ? WHERE id = ?",
                (used[row.id], held[row.id], state, row.id),
            )
    return drift + _rebuild_homes(tx, used_by=used_by, gone=gone, open_orders=open_orders)


def _rebuild_homes(
    tx: Connection, *, used_by: dict[Home, str], gone: set[Home], open_orders: Sequence[OrderRow]
) -> list[str]:
    held_by = {
        (each["coupon"], each["version"]): order.id
        for order in open_orders
        if order.state != "OPEN" and order.rights
        for each in order.rights["coupons"]
    }
    drift = []
    for coupon_id, version, state, order_id in run(
        tx, "SELECT coupon_id, version, state, order_id FROM home"
    ).fetchall():
        name = (coupon_id, version)
        wanted: tuple[str, str | None] = (HOME, None)
        # A home that was given up without an entry (a new epoch does that) is over all the same.
        if name in gone or (state == RETURNED and name not in used_by):
            wanted = (RETURNED, None)
        elif name in used_by:
            wanted = (USED, used_by[name])
        elif name in held_by:
            wanted = (HELD, held_by[name])
        if (state, order_id) != wanted:
            drift.append(f"home {coupon_id}")
            run(tx, "UPDATE home SET state = ?, order_id = ? WHERE coupon_id = ?", (*wanted, coupon_id))
    return drift

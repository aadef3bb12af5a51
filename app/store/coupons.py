"""Look coupons up in the till's copy, by the digest of their code, by id, by member; each by an index.

The copy is what the server said last, plus what this till itself has done with a coupon since (`mark`), so that the
cashier does not see a coupon as usable that was just used here. The server alone decides.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.store.driver import run, run_each
from app.store.meta import instant, instant_ms


@dataclass(frozen=True, slots=True)
class CouponRow:
    """Hold one coupon with its snapshot's rule (JSON) and its campaign's state.

    `rule` None = the snapshot has not been pulled (yet). `member_id` is who claimed it, also where its rule lets
    anyone use it. `order_id`, `store_id` and `state_at` say which order holds or used it, where and when. `at_home`:
    this till alone decides over it, and the state is its own word; `home` is another till that does.
    `budget_lent_minor` is what this till has left of leases of the campaign's budget, None = it has none. `offline` is
    what its campaign allows there; with "risk" one coupon may cost `risk_max_minor` without a right.
    """

    id: str
    campaign_id: str
    snapshot_id: str
    member_id: str | None
    state: str
    order_id: str | None
    store_id: str | None
    state_at: datetime | None
    valid_until_at: datetime | None
    rule: str | None
    campaign_state: str
    budget_left_minor: int | None
    at_home: bool = False
    home: str | None = None
    budget_lent_minor: int | None = None
    offline: str = "lease"
    risk_max_minor: int | None = None
    sync_age_max_h: int | None = None


# A home here counts only in the newest version of the coupon: the server's word about it may be newer.
_SELECT = (
    "SELECT c.id, c.campaign_id, c.snapshot_id, c.member_id, c.state, c.order_id, c.state_store, c.state_at, "
    "c.valid_until_at, s.rule, coalesce(k.state, 'ACTIVE'), k.budget_left_minor, c.home, h.state, h.order_id, "
    "(SELECT sum(l.qty - l.used - l.held) FROM lease l WHERE l.account_id = 'budget:' || c.campaign_id "
    "AND l.state = 'OPEN'), coalesce(k.offline, 'lease'), k.risk_max_minor, k.sync_age_max_h "
    "FROM {source} LEFT JOIN home h ON h.coupon_id = c.id AND h.version >= c.version "
    "LEFT JOIN snapshot s ON s.id = c.snapshot_id LEFT JOIN campaign k ON k.id = c.campaign_id {rest}"
)
_BY_DIGEST = _SELECT.format(source="coupon c", rest="WHERE c.code_digest = ?")
_BY_ID = _SELECT.format(source="json_each(?) j JOIN coupon c ON c.id = j.value", rest="")
_OF_MEMBER = _SELECT.format(
    source="coupon c", rest="WHERE c.member_id = ? ORDER BY c.state = 'ISSUED' DESC, c.id DESC LIMIT ?"
)


_AT_HOME = {"HOME": "ISSUED", "HELD": "FROZEN", "USED": "USED"}


def _row(row: Sequence[Any]) -> CouponRow:
    at, until = row[7], row[8]
    state, order_id, right = row[4], row[5], row[13]
    if right in _AT_HOME:
        state, order_id = _AT_HOME[right], row[14]
    known = order_id is not None and order_id == row[5]
    return CouponRow(
        row[0],
        row[1],
        row[2],
        member_id=row[3],
        state=state,
        order_id=order_id,
        store_id=row[6] if known else None,
        state_at=instant(at) if known and at is not None else None,
        valid_until_at=None if until is None else instant(until),
        rule=row[9],
        campaign_state=row[10],
        budget_left_minor=row[11],
        at_home=right in _AT_HOME,
        home=row[12] if right is None else None,
        budget_lent_minor=row[15],
        offline=row[16],
        risk_max_minor=row[17],
        sync_age_max_h=row[18],
    )


def by_digest(conn: Connection, digest: bytes) -> CouponRow | None:
    """Return the coupon whose code has this digest (`app.domain.codes.code_digest`)."""
    row = run(conn, _BY_DIGEST, (digest,)).fetchone()
    return _row(row) if row else None


def by_ids(conn: Connection, coupon_ids: Iterable[str]) -> dict[str, CouponRow]:
    """Return the coupons of these ids that are there, by id."""
    ids = list(dict.fromkeys(coupon_ids))
    if not ids:
        return {}
    return {row[0]: _row(row) for row in run(conn, _BY_ID, (json.dumps(ids),))}


def of_member(conn: Connection, member_id: str, *, limit: int = 200) -> list[CouponRow]:
    """Return a member's coupons, those that are ISSUED first, then the newest; at most `limit`."""
    return [_row(row) for row in run(conn, _OF_MEMBER, (member_id, limit))]


@dataclass(frozen=True, slots=True)
class NewCoupon:
    """Hold a coupon that this till gave out, before the server tells of it; `valid_until_at` None = no end."""

    id: str
    code_digest: bytes
    campaign_id: str
    snapshot_id: str
    member_id: str
    valid_until_at: datetime | None


def add(tx: Connection, coupon: NewCoupon) -> None:
    """Note a coupon that this till gave out in the copy."""
    end = coupon.valid_until_at
    run(
        tx,
        "INSERT INTO coupon (id, code_digest, campaign_id, snapshot_id, member_id, state, valid_until_at, version) "
        "VALUES (?, ?, ?, ?, ?, 'ISSUED', ?, 1)",
        (
            coupon.id,
            coupon.code_digest,
            coupon.campaign_id,
            coupon.snapshot_id,
            coupon.member_id,
            None if end is None else instant_ms(end),
        ),
    )


def count_of(conn: Connection, campaign_id: str, member_id: str) -> int:
    """Count the coupons of a campaign that a member ever got, as far as this till knows."""
    row = run(
        conn, "SELECT count(*) FROM coupon WHERE member_id = ? AND campaign_id = ?", (member_id, campaign_id)
    ).fetchone()
    return int(row[0])


def any_to_bring_home(conn: Connection, store_id: str, now_ms: int) -> bool:
    """Tell whether the copy has a coupon at home at the server, of a member of this store, that a till may have."""
    row = run(
        conn,
        "SELECT 1 FROM coupon c JOIN member m ON m.id = c.member_id AND m.home_store = ? "
        "JOIN campaign k ON k.id = c.campaign_id AND k.offline != 'online_only' AND k.state IN ('ACTIVE', 'ENDED') "
        "WHERE c.state = 'ISSUED' AND c.home IS NULL AND coalesce(c.valid_until_at, ?) >= ? LIMIT 1",
        (store_id, now_ms, now_ms),
    ).fetchone()
    return row is not None


def forget(tx: Connection) -> None:
    """Forget the server's word of every coupon that is not at home here: it came back from a backup, and tells anew."""
    run(tx, "DELETE FROM coupon WHERE id NOT IN (SELECT coupon_id FROM home WHERE state IN ('HOME', 'HELD'))")


def mark(tx: Connection, coupon_ids: Iterable[str], *, state: str, order_id: str, store_id: str, at: datetime) -> None:
    """Note in the copy what this till's order did with its coupons; the next pull says it again, or better."""
    rows = [(state, order_id, store_id, instant_ms(at), coupon_id) for coupon_id in coupon_ids]
    if rows:
        run_each(tx, "UPDATE coupon SET state = ?, order_id = ?, state_store = ?, state_at = ? WHERE id = ?", rows)


def release(tx: Connection, order_id: str, coupon_ids: Iterable[str]) -> None:
    """Note in the copy that this order let go of its coupons; one that another order has by now stays its."""
    rows = [(coupon_id, order_id) for coupon_id in coupon_ids]
    if rows:
        run_each(
            tx,
            "UPDATE coupon SET state = 'ISSUED', order_id = NULL, state_store = NULL, state_at = NULL "
            "WHERE id = ? AND order_id = ?",
            rows,
        )

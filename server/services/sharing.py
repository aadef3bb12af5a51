"""Find a till's fair part of an account, so that what one till insures itself with is not missed by all the others.

Half of what is there stays at the server, where everybody online has it; the other half is divided among the tills that
may want it (PROTOCOL 1.3: `ceil(avail / 2 / ntills)`). What the till has already counts as its own, else it would get
its part again and again.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, func, select, true

from server.db.schema import lease, member, punch_card, till
from server.services import accounts, devices
from server.services.accounts import Account
from server.services.context import Context


def share(conn: Connection, ctx: Context, found: Account, *, stores: Collection[str] | None) -> int:
    """Return how much more the asking till may have of an account, 0 = it has its part.

    `stores` are those of the campaign whose account it is, empty = all; None = it is a member's or a card's.
    """
    tills = max(1, _tills(conn, _may_want(found) if stores is None else _stands_in(stores)))
    left = func.coalesce(func.sum(lease.c.qty - lease.c.used), 0)
    mine: int = conn.execute(
        select(left).where(
            lease.c.till_id == ctx.actor.till_id,
            lease.c.account_id == found.id,
            lease.c.state == "OPEN",
            lease.c.stranded_at.is_(None),
        )
    ).scalar_one()
    return max(0, -(-(found.available + mine) // (2 * tills)) - mine)


def _tills(conn: Connection, wanting: ColumnElement[bool]) -> int:
    """Count the tills that are in use: neither lost, nor stopped, nor without a key, nor shut."""
    in_use = (till.c.state == "OK", till.c.lost_at.is_(None), devices.has_key(), ~devices.is_shut())
    return conn.execute(select(func.count()).select_from(till).where(wanting, *in_use)).scalar_one()


def _stands_in(stores: Collection[str]) -> ColumnElement[bool]:
    return till.c.store_id.in_(stores) if stores else true()


def _may_want(found: Account) -> ColumnElement[bool]:
    """Return the tills of the home store of whoever's account it is."""
    owner = found.id.partition(":")[2]
    whose = select(member.c.home_store)
    if found.kind == accounts.USES:
        whose = whose.join(punch_card, punch_card.c.member_id == member.c.id).where(punch_card.c.id == owner)
    else:
        whose = whose.where(member.c.id == owner)
    return till.c.store_id == whose.scalar_subquery()

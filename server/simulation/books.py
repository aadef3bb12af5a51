"""Read what the server has in its books, for whoever holds them against what happened (`checking.py`)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Row, select

from server.db import schema
from server.services.accounts import AVAILABLE, OVER, SPENT
from server.services.audit import audit
from server.services.context import Context
from server.services.refused_requests import REPLAYED

SOLD = ("PAID", "PARTLY_REFUNDED", "REFUNDED")
FORGOTTEN = frozenset({"home_mismatch", "unknown_claim"})
UNTRUSTED = "untrusted_answers"
OF_THE_LINE = frozenset({REPLAYED, UNTRUSTED})
"""What lines do to tills: no entry of theirs is in it."""
LOST_TILL = frozenset({"ledger_fork", "ledger_rows_lost", "till_damaged", "tail_lost"})


class Books:
    """Read what the server has in its books in the end."""

    def __init__(self, conn: Connection, ctx: Context) -> None:
        def rows(table: Any) -> dict[str, Row[Any]]:
            return {row.id: row for row in conn.execute(select(table))}

        self.now = ctx.now
        self.orders, self.coupons, self.refunds = rows(schema.orders), rows(schema.coupon), rows(schema.refund)
        self.accounts, self.tills = rows(schema.account), rows(schema.till)
        self.prices = {row.sku: row.price_minor for row in conn.execute(select(schema.product))}
        self.campaigns = {row.id: (row.state, row.snapshot_id) for row in conn.execute(select(schema.campaign))}
        self.findings = list(rows(schema.finding).values())
        self.audit = [str(violation) for violation in audit(conn, ctx, everything=True).violations]
        self.entries = {
            (row.till_id, row.epoch, row.seq, row.hash.hex())
            for table in (schema.ledger_entry, schema.carried_entry)
            for row in conn.execute(select(table.c.till_id, table.c.epoch, table.c.seq, table.c.hash))
        }
        """Every entry that came, by its place: also one that was carried into a later epoch."""
        moved = schema.transfer.c
        self.late_draws = conn.execute(
            select(schema.transfer).where(
                moved.lease_id.is_not(None), moved.target == SPENT, moved.source.in_([AVAILABLE, OVER])
            )
        ).all()
        self.late: Mapping[str, list[Row[Any]]] = defaultdict(list)
        self.lost_tills = {found.detail["till"] for found in self.findings if found.kind in LOST_TILL}
        for found in self.findings:
            if found.kind == "late_payment":
                self.late[found.detail["order"]].append(found)

    def late_tenders(self, order_id: str) -> Iterator[Mapping[str, Any]]:
        """Yield the money that came for an order that was off, without what a sale brought."""
        for found in self.late[order_id]:
            if found.detail["entry_kind"] == "late_payment":
                yield from found.detail["tenders"]


def told_as_done(conn: Connection, _ctx: Context) -> tuple[frozenset[str], frozenset[str]]:
    """Return the orders that are sold in the books, and the refunds that tills have told of."""
    orders, refund = schema.orders.c, schema.refund.c
    sold = conn.execute(select(orders.id).where(orders.state.in_(SOLD))).scalars()
    refunded = conn.execute(select(refund.id).where(refund.entry_id.is_not(None))).scalars()
    return frozenset(sold), frozenset(refunded)


def granted(conn: Connection, _ctx: Context) -> frozenset[str]:
    """Return every coupon in the books."""
    return frozenset(conn.execute(select(schema.coupon.c.id)).scalars())


def frozen(conn: Connection, _ctx: Context) -> frozenset[str]:
    """Return the coupons that orders hold in the books."""
    return frozenset(conn.execute(select(schema.coupon.c.id).where(schema.coupon.c.state == "FROZEN")).scalars())


def epochs_known(conn: Connection, _ctx: Context) -> dict[str, int]:
    """Return the epoch of each till's ledger in the books."""
    return {row.id: row.epoch for row in conn.execute(select(schema.till.c.id, schema.till.c.epoch))}

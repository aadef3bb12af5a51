"""Declare orders, what they used, and refunds."""

from sqlalchemy import JSON, BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text

from server.db.schema.conventions import Instant, metadata, partial

orders = Table(
    "orders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("attempt", Integer, nullable=False),  # counts holds; a CANCELLED order may be tried again
    Column("state", Text, nullable=False),
    Column("store_id", Text, nullable=False),
    Column("till_id", Text, nullable=False),
    Column("member_id", Text),
    Column("operator", Text, nullable=False, server_default=""),
    Column("lines", JSON, nullable=False),  # app.domain.quote_json.write_line
    Column("quote", JSON, nullable=False),  # app.domain.quote_json.write_quote
    Column("tenders", JSON, nullable=False, server_default="[]"),
    Column("payable_minor", BigInteger, nullable=False),
    Column("refunded_minor", BigInteger, nullable=False, server_default="0"),
    Column("held_until_at", Instant),  # set while HELD
    Column("sold_at", Instant),  # the till's clock
    Column("received_at", Instant, nullable=False),  # the server's clock
    CheckConstraint("refunded_minor BETWEEN 0 AND payable_minor", name="refunded"),
    Index("ix_orders_member", "member_id", "state"),
    Index("ix_orders_till", "till_id", "sold_at"),  # a till's business days, compared after each session
    Index("ix_orders_held", "held_until_at", **partial("state = 'HELD'")),
    Index("ix_orders_unknown", "received_at", **partial("state = 'UNKNOWN'")),
)

order_line = Table(
    "order_line",
    metadata,
    Column("order_id", Text, ForeignKey("orders.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("sku", Text, nullable=False),
    Column("qty_milli", BigInteger, nullable=False),
    Column("gross_minor", BigInteger, nullable=False),
    Column("discount_minor", BigInteger, nullable=False),
    Column("net_minor", BigInteger, nullable=False),
    Column("refunded_milli", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("net_minor = gross_minor - discount_minor AND net_minor >= 0", name="net"),
    CheckConstraint("refunded_milli BETWEEN 0 AND qty_milli", name="refunded"),
)

order_tender = Table(
    "order_tender",
    metadata,
    Column("order_id", Text, ForeignKey("orders.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("type", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
)

redemption = Table(
    "redemption",
    metadata,
    Column("order_id", Text, ForeignKey("orders.id"), primary_key=True),
    Column("position", Integer, primary_key=True),  # stage of the quote
    Column("campaign_id", Text, nullable=False, index=True),
    Column("coupon_id", Text),  # NULL for an automatic promotion
    Column("discount_minor", BigInteger, nullable=False),
    Column("conflict", Boolean, nullable=False, server_default="0"),  # a fact without a right; see its finding
    Column("reversed", Boolean, nullable=False, server_default="0"),  # the coupon went back
    Index(
        "one_live_use",
        "coupon_id",
        unique=True,
        sqlite_where=text("reversed = 0 AND conflict = 0 AND coupon_id IS NOT NULL"),
        postgresql_where=text("NOT reversed AND NOT conflict AND coupon_id IS NOT NULL"),
    ),
)

punch_use = Table(
    "punch_use",
    metadata,
    Column("card_id", Text, primary_key=True),
    Column("order_id", Text, ForeignKey("orders.id"), primary_key=True),
    Column("line", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),  # counts from 1 within card, order and line
    Column("reversed", Boolean, nullable=False, server_default="0"),
)

refund = Table(
    "refund",
    metadata,
    Column("id", Text, primary_key=True),  # the request's id
    Column("order_id", Text, ForeignKey("orders.id"), nullable=False, index=True),
    Column("till_id", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("body", JSON, nullable=False),  # app.domain.quote_json.write_refund
    Column("decided_by", Text, nullable=False),  # server, till
    Column("decided_at", Instant, nullable=False),
    Column("entry_id", Text),  # the ledger entry that tells that it was paid out; NULL until it arrives
    Column("paid_at", Instant),  # the till's clock then
    Index("ix_refund_paid", "paid_at"),  # a till's business days, compared after each session
)

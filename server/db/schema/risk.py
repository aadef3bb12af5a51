"""Declare what may be given away without a right: a till's budget, who approves it, what it was used for."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Integer, Table, Text

from server.db.schema.conventions import Instant, metadata

risk_budget = Table(
    "risk_budget",
    metadata,
    # What a till may give away at most without a right, from the moment on which headquarters said so; not here = no
    # risk is taken there. Available and leased of `risk:<till>` are never more than that.
    Column("till_id", Text, ForeignKey("till.id"), primary_key=True),
    Column("limit_minor", BigInteger, nullable=False),
    Column("changed_at", Instant, nullable=False),
    CheckConstraint("limit_minor >= 0", name="limit"),
)

staff = Table(
    "staff",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("store_id", Text, ForeignKey("store.id")),  # NULL = every store
    Column("verifier", Text, nullable=False),  # Argon2id of the peppered PIN (app/domain/pins.py), as a PHC string
    Column("pin_version", Integer, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

risk_use = Table(
    "risk_use",
    metadata,
    # A coupon that a till took without a right, on its risk budget; `lost` where another had used it.
    Column("order_id", Text, ForeignKey("orders.id"), primary_key=True),
    Column("coupon_id", Text, primary_key=True),
    Column("till_id", Text, ForeignKey("till.id"), nullable=False, index=True),
    Column("amount_minor", BigInteger, nullable=False),
    Column("approval_id", Text, nullable=False),
    Column("approved_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("lost", Boolean, nullable=False),
    Column("told_at", Instant, nullable=False),
    CheckConstraint("amount_minor > 0", name="amount"),
)

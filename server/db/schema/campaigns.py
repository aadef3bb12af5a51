"""Declare campaigns, the rules in force, and coupons."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from server.db.schema.conventions import Instant, metadata, partial

campaign = Table(
    "campaign",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # coupon, automatic
    Column("state", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("snapshot_id", Text, nullable=False),  # the rule in force
    Column("arbiter", Text, nullable=False, server_default="database"),
    Column("claims_per_second", Integer),  # NULL = as many as come; kept by Redis alone
    Column("offline", Text, nullable=False, server_default="lease"),
    Column("from_at", Instant),  # copies of the rule's window, for the patrol job
    Column("until_at", Instant),
    # `offline` "risk": what one coupon of it may cost a till that has no right to it, and how old its last sync may be
    Column("risk_max_minor", BigInteger),
    Column("sync_age_max_h", Integer),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("id", Text, primary_key=True),  # <campaign>/<version>; never changed
    Column("campaign_id", Text, nullable=False, index=True),
    Column("rule", JSON, nullable=False),
)

coupon = Table(
    "coupon",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign_id", Text, ForeignKey("campaign.id"), nullable=False),
    Column("snapshot_id", Text, ForeignKey("snapshot.id"), nullable=False),
    Column("member_id", Text, ForeignKey("member.id"), nullable=False, index=True),  # who claimed it, also for bearer
    Column("member_nth", Integer, nullable=False),
    Column("code", Text, nullable=False, unique=True),
    Column("code_digest", LargeBinary, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),  # counts every change
    Column("order_id", Text),  # holds (FROZEN) or used (USED) it
    Column("attempt", Integer),  # fencing token: the attempt of that order
    Column("source", Text, nullable=False),
    Column("granted_at", Instant, nullable=False),
    Column("granted_on", Text, nullable=False),  # date in the chain's zone, for the daily limit
    Column("valid_until_at", Instant),
    Column("home", Text),  # the till that alone may use it; NULL = the server
    Column("frozen_version", Integer),  # at home, in this version, in an epoch, or by a key, that its till has left
    UniqueConstraint("campaign_id", "member_id", "member_nth"),
    CheckConstraint("state IN ('ISSUED', 'FROZEN', 'USED', 'EXPIRED', 'REVOKED')", name="state"),
    CheckConstraint("(state IN ('FROZEN', 'USED')) = (order_id IS NOT NULL)", name="order_when_held"),
    Index("ix_coupon_expiry", "valid_until_at", **partial("state = 'ISSUED'")),
    Index("ix_coupon_order", "order_id"),
    Index("ix_coupon_home", "home", **partial("home IS NOT NULL")),
)

coupon_recall = Table(
    "coupon_recall",
    metadata,
    # A coupon that is wanted elsewhere: the till that is its home in this version is to return it.
    Column("coupon_id", Text, ForeignKey("coupon.id"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("asked_by", Text, nullable=False),  # a till, or who else asked
    Column("asked_at", Instant, nullable=False),
)

admission = Table(
    "admission",
    metadata,
    # A campaign whose claims are, or were, admitted by Redis: what it holds there is worth something only under this
    # generation, in this process of Redis.
    Column("campaign_id", Text, ForeignKey("campaign.id"), primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("run_id", Text, nullable=False, server_default=""),  # of the Redis process that it was installed in
    Column("since_at", Instant, nullable=False),
    Column("strikes", Integer, nullable=False, server_default="0"),  # comparisons in a row that did not add up
    Column("drifts", Integer, nullable=False, server_default="0"),  # rebuilds for that reason so far
    CheckConstraint("state IN ('BUILDING', 'OPEN', 'CLOSED')", name="state"),
)

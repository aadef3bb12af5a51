"""Declare the chain, its stores and tills, and the epochs of their ledgers."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from server.db.schema.conventions import Instant, metadata

chain = Table(
    "chain",
    metadata,
    Column("id", Integer, primary_key=True),  # always 1
    Column("currency", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("cash_step_minor", BigInteger, nullable=False),  # 0 = no cash rounding
    Column("lock_timeout_s", Integer, nullable=False),
    Column("incarnation", Integer, nullable=False),  # another after each restore from a backup (PROTOCOL 3.9)
    Column("offline_hours", Integer, nullable=False, server_default="8"),  # tills lease for so long without a line
    Column("restored_at", Instant),  # set until every till has told again what the backup lacks
    CheckConstraint("id = 1", name="one_chain"),
)

store = Table("store", metadata, Column("id", Text, primary_key=True), Column("zone", Text, nullable=False))

till = Table(
    "till",
    metadata,
    Column("id", Text, primary_key=True),
    Column("store_id", Text, ForeignKey("store.id"), nullable=False),
    Column("state", Text, nullable=False, server_default="OK"),  # OK, FORK
    Column("epoch", Integer, nullable=False, server_default="1"),
    Column("acked_seq", BigInteger, nullable=False, server_default="0"),
    Column("acked_hash", LargeBinary),
    Column("tail_seq", BigInteger, nullable=False, server_default="0"),  # announced, perhaps not pushed yet
    Column("tail_hash", LargeBinary),
    Column("last_seen_at", Instant),
    Column("clock_drift_ms", BigInteger),
    Column("lost_at", Instant),  # headquarters declared it lost; it is lent nothing, what it tells is still taken in
    Column("incarnation", Integer, nullable=False, server_default="0"),  # of the server that last had all of its ledger
    Column("contacts", BigInteger, nullable=False, server_default="0"),  # greetings so far, each with its number
)

till_boot = Table(
    "till_boot",
    metadata,
    # A run of a till's program, in the present epoch: two that are alive at once are two tills (services/boots.py).
    Column("till_id", Text, ForeignKey("till.id"), primary_key=True),
    Column("boot", Text, primary_key=True),
    Column("since", BigInteger, nullable=False),  # the number of its first greeting
    Column("heard", BigInteger, nullable=False),  # the newest answer that it has heard, by its number
)

enrolment = Table(
    "enrolment",
    metadata,
    # A till that begins a new epoch: what was known of the ledger that it leaves, and how much of it came since.
    Column("id", Text, primary_key=True),  # made by the till: asked twice, it is the same epoch
    Column("till_id", Text, ForeignKey("till.id"), nullable=False, index=True),
    Column("epoch", Integer, nullable=False),
    Column("key_id", Text, nullable=False, unique=True),  # of a device: one epoch for each
    Column("from_epoch", Integer, nullable=False),
    Column("from_state", Text, nullable=False),
    Column("known_seq", BigInteger, nullable=False),  # the old ledger is here up to this number, without a gap
    Column("known_hash", LargeBinary),
    Column("tail_seq", BigInteger, nullable=False),  # announced
    Column("tail_hash", LargeBinary),
    Column("last_seq", BigInteger, nullable=False),  # the highest that anybody told of
    Column("enrolled_at", Instant, nullable=False),
    UniqueConstraint("till_id", "epoch"),
)

"""Declare the books: the tills' ledgers, the feed to them, what happened, and what is wrong."""

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

from server.db.schema.conventions import Instant, metadata

ledger_entry = Table(
    "ledger_entry",
    metadata,
    Column("till_id", Text, ForeignKey("till.id"), primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("entry_id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("result", Text, nullable=False),  # OK, CONFLICT, QUARANTINED
    Column("detail", Text, nullable=False, server_default=""),
    Column("received_at", Instant, nullable=False),
)

carried_entry = Table(
    "carried_entry",
    metadata,
    # An entry of an earlier epoch that came within one of a later epoch; nothing of it is booked twice.
    Column("entry_id", Text, primary_key=True),
    Column("till_id", Text, ForeignKey("till.id"), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("in_epoch", Integer, nullable=False),
    Column("in_seq", BigInteger, nullable=False),
    Index("ix_carried_entry_place", "till_id", "epoch", "seq"),
)

feed = Table(
    "feed",
    metadata,
    # One row for each record, moved to the end when the record changes: a new till pulls the state, not the past.
    # The only writer gives numbers in commit order, so a reader that saw n has seen everything below n.
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    UniqueConstraint("kind", "key"),
    sqlite_autoincrement=True,
)

history = Table(
    "history",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("subject", Text, nullable=False),  # coupon, order, campaign
    Column("subject_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("from_state", Text),
    Column("to_state", Text),  # NULL = the step was refused
    Column("server_at", Instant, nullable=False),
    Column("till_at", Instant),
    Column("till_id", Text),
    Column("operator", Text),
    Column("reason", Text, nullable=False, server_default=""),
    Index("ix_history_subject", "subject", "subject_id"),
)

finding = Table(
    "finding",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False, server_default="0"),
    Column("detail", JSON, nullable=False),
    Column("state", Text, nullable=False, server_default="OPEN"),
    Column("opened_at", Instant, nullable=False),
    Column("decision", Text, nullable=False, server_default=""),  # remedy, accept, other; "" = none yet
    Column("decided_by", Text, nullable=False, server_default=""),
    Column("decided_at", Instant),
    Column("closed_at", Instant),
    UniqueConstraint("kind", "key"),
    CheckConstraint("state IN ('OPEN', 'DECIDED', 'CLOSED')", name="state"),
    CheckConstraint("state != 'DECIDED' OR (decision != '' AND decided_by != '')", name="decided"),
)

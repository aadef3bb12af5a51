"""Declare who may speak to the server: its keys, those of apps, offices and tills, and what is used up by asking."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from server.db.schema.conventions import Instant, metadata, partial

code_key = Table(
    "code_key",
    metadata,
    Column("id", Integer, primary_key=True),  # always 1
    Column("fingerprint", LargeBinary, nullable=False),  # of the key under which codes are digested (code_key.py)
    CheckConstraint("id = 1", name="one_code_key"),
)

chain_key = Table(
    "chain_key",
    metadata,
    Column("id", Integer, primary_key=True),  # always 1
    Column("public", LargeBinary, nullable=False),  # of the keys that sign certificates and answers (chain_key.py)
    CheckConstraint("id = 1", name="one_chain_key"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of a 256-bit random secret
    Column("scope", Text, nullable=False),  # app, manager, headquarters; till = of before tills enrolled: opens nothing
    Column("till_id", Text, ForeignKey("till.id")),  # of before tills enrolled
    Column("name", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("revoked_at", Instant),
)

device = Table(
    "device",
    metadata,
    Column("id", Text, primary_key=True),  # of the enrolment, as the till chose it; the id of its key
    Column("till_id", Text, ForeignKey("till.id"), nullable=False, index=True),
    Column("public_key", LargeBinary, nullable=False),  # Ed25519
    Column("certificate", Text, nullable=False),
    Column("enrolled_at", Instant, nullable=False),
    Column("replaced_at", Instant),
    Index("uq_device_of_till", "till_id", unique=True, **partial("replaced_at IS NULL")),
)

enrolment_code = Table(
    "enrolment_code",
    metadata,
    Column("id", Text, primary_key=True),  # the code itself is drawn from it and `chain.key`, and is nowhere here
    Column("till_id", Text, ForeignKey("till.id"), nullable=False, index=True),
    Column("store_id", Text, ForeignKey("store.id"), nullable=False),
    Column("until_at", Instant, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("device_id", Text, ForeignKey("device.id")),  # who used it
    CheckConstraint("tries BETWEEN 0 AND 5", name="tries"),
)

shut_till = Table(
    "shut_till",
    metadata,
    Column("till_id", Text, ForeignKey("till.id"), primary_key=True),  # not here = it may speak
    Column("access", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("since_at", Instant, nullable=False),
    CheckConstraint("access IN ('SUSPENDED', 'REVOKED')", name="access"),
)

request_nonce = Table(
    "request_nonce",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("nonce", Text, primary_key=True),
    Column("until_at", Instant, nullable=False, index=True),
)

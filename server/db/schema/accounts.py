"""Declare countable value: accounts, the transfers between their compartments, and what tills lease of them."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text

from server.db.schema.conventions import Instant, metadata, partial

COMPARTMENTS = ("available", "held", "reserved", "leased", "spent", "stranded")

account = Table(
    "account",
    metadata,
    Column("id", Text, primary_key=True),  # `app.domain.rights` names them
    Column("kind", Text, nullable=False),  # stock, budget, value, uses, risk
    Column("total", BigInteger, nullable=False),  # put in from outside so far
    Column("over", BigInteger, nullable=False, server_default="0"),  # an overdraft, surfaced
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in COMPARTMENTS),
    Column("version", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("total + over = available + held + reserved + leased + spent + stranded", name="equation"),
    *(CheckConstraint(f"{name} >= 0", name=name) for name in (*COMPARTMENTS, "total", "over")),
)

transfer = Table(
    "transfer",
    metadata,
    Column("id", Text, primary_key=True),  # made from what it is for, so a repeat is the same transfer
    Column("account_id", Text, ForeignKey("account.id"), nullable=False, index=True),
    Column("source", Text, nullable=False),  # a compartment, or "outside"
    Column("target", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # PENDING (sits in held), POSTED, VOIDED
    Column("order_id", Text, index=True),
    Column("attempt", Integer),
    Column("lease_id", Text),  # the lease that it grants, draws on or closes
    Column("reason", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("resolved_at", Instant),
    CheckConstraint("amount > 0", name="amount"),
    CheckConstraint("state IN ('PENDING', 'POSTED', 'VOIDED')", name="state"),
    Index("ix_transfer_lease", "lease_id", **partial("lease_id IS NOT NULL")),
)

lease = Table(
    "lease",
    metadata,
    # An amount of an account that a till may spend without asking. What is not used of it sits in `leased` while OPEN,
    # and in `stranded` from the moment on which the till was declared lost: nobody else gets it there either.
    Column("id", Text, primary_key=True),  # of the till's request: asked twice, it is the same lease
    Column("till_id", Text, ForeignKey("till.id"), nullable=False),
    Column("epoch", Integer, nullable=False),  # of the till's ledger that may draw on it
    Column("account_id", Text, ForeignKey("account.id"), nullable=False),
    Column("qty", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False, server_default="0"),  # as far as the till's ledger is here
    Column("state", Text, nullable=False),  # OPEN, CLOSED by the till, REVOKED by headquarters
    Column("granted_at", Instant, nullable=False),
    Column("closed_at", Instant),
    Column("stranded_at", Instant),
    CheckConstraint("qty > 0 AND used BETWEEN 0 AND qty", name="used"),
    CheckConstraint("state IN ('OPEN', 'CLOSED', 'REVOKED')", name="state"),
    Index("ix_lease_till", "till_id", **partial("state = 'OPEN'")),
    Index("ix_lease_account", "account_id", **partial("state = 'OPEN'")),
)

lease_coupon = Table(
    "lease_coupon",
    metadata,
    # The coupons that the till of a leased stock may give out: they are nobody's until it tells whose they are.
    Column("coupon_id", Text, primary_key=True),
    Column("lease_id", Text, ForeignKey("lease.id"), nullable=False, index=True),
    Column("code", Text, nullable=False, unique=True),
)

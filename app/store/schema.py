"""Declare the till's tables (SQLAlchemy Core). Migrations live in `app/store/migrations`.

Three groups: the ledger (append-only, the source of truth), projections of it (can be rebuilt), and the copy of what
the server published (the feed). Conventions as in the server's schema: `_minor`, `_milli`, `_at` in milliseconds UTC.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    # the names are the fields of `app.store.meta.Meta`
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),  # JSON; the type JSON would give it numeric affinity
)

# ------------------------------------------------------------------ the ledger

entry = Table(
    "entry",
    metadata,
    Column("epoch", Integer, primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("entry_id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("wall_ms", BigInteger, nullable=False),  # the till's own clock, not corrected
    Column("mono_ms", BigInteger, nullable=False),  # since `boot`; never goes back
    Column("boot", Text, nullable=False),
    Column("operator", Text, nullable=False),
    CheckConstraint("seq >= 1", name="seq"),
)
# Triggers `entry_no_update` and `entry_no_delete` refuse every change (created by the migration; RECURSIVE_TRIGGERS is
# on in every connection, else INSERT OR REPLACE would pass the DELETE trigger by).

outbox = Table(
    "outbox",
    metadata,
    Column("epoch", Integer, primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("state", Text, nullable=False),  # PENDING, ACKNOWLEDGED, PARKED: each a state that a person can see
    # why it is parked: CONFLICT or QUARANTINED with its code
    Column("code", Text, nullable=False, server_default=text("''")),
    Index("ix_outbox_open", "epoch", "seq", sqlite_where=text("state != 'ACKNOWLEDGED'")),
    sqlite_with_rowid=False,  # one page less to write for each entry
)
# Trigger `outbox_no_delete`: an entry that waits is acknowledged or parked, never dropped.

# ------------------------------------------------------------------ projections

orders = Table(
    "orders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("state", Text, nullable=False),  # the order life cycle
    Column("held", Boolean, nullable=False),  # the server holds (or may hold) rights for it
    Column("held_until_at", BigInteger),
    # SHA-256 of what was asked for (the same id with other content is refused), and the same written out while it may
    # be priced anew: NULL once an entry tells what came of it
    Column("content", LargeBinary, nullable=False),
    Column("request", JSON),
    Column("member_id", Text),
    Column("lines", JSON, nullable=False),
    Column("quote", JSON, nullable=False),
    Column("tenders", JSON, nullable=False, server_default="[]"),
    Column("change_minor", BigInteger, nullable=False, server_default="0"),
    # card or wallet payment under way: {"id", "type", "amount_minor"}; asked about, never charged twice
    Column("payment", JSON),
    # what it draws on of the till's own leases and homes, as its sale will say; kept from others while HELD or UNKNOWN
    Column("rights", JSON),
    Column("entry_seq", BigInteger),  # its sale entry
    Column("entry_epoch", Integer),
    Column("receipt_shown", Boolean, nullable=False, server_default="0"),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_orders_open", "state", sqlite_where=text("state IN ('OPEN', 'HELD', 'UNKNOWN')")),
    Index("ix_orders_member_id", "member_id", sqlite_where=text("member_id IS NOT NULL")),
)

refund = Table(
    "refund",
    metadata,
    Column("id", Text, primary_key=True),
    Column("order_id", Text, nullable=False, index=True),
    Column("content", LargeBinary, nullable=False),
    Column("request", JSON),  # the lines asked for, or null for all that is left, while the server is asked
    Column("body", JSON),  # the decision; NULL while the server is asked (survives a crash: asked again by the same id)
    Column("entry_seq", BigInteger),  # set once the refund is in the ledger
    Column("entry_epoch", Integer),
    Column("receipt_shown", Boolean, nullable=False, server_default="0"),
    Column("updated_at", BigInteger, nullable=False),
)

# ------------------------------------------------------------------ rights that this till has

lease = Table(
    "lease",
    metadata,
    # Granted by the server, used by entries: REQUESTED before it is asked for, then OPEN or REFUSED; CLOSED by an entry
    # of ours, REVOKED by headquarters.
    Column("id", Text, primary_key=True),
    Column("account_id", Text, nullable=False, index=True),
    Column("asked", BigInteger, nullable=False),
    Column("qty", BigInteger, nullable=False, server_default="0"),
    Column("used", BigInteger, nullable=False, server_default="0"),
    Column("held", BigInteger, nullable=False, server_default="0"),  # by orders whose payment is under way
    Column("state", Text, nullable=False),
    Column("size", Text, nullable=False, server_default="asked"),  # or share: what the server finds fair, at most
    Column("asked_at", BigInteger, nullable=False, server_default="0"),
    Column("recalled", Boolean, nullable=False, server_default="0"),  # the server wants it back
    CheckConstraint("used >= 0 AND held >= 0 AND used + held <= qty", name="used"),
    CheckConstraint("state IN ('REQUESTED', 'OPEN', 'REFUSED', 'CLOSED', 'REVOKED')", name="state"),
)

lease_coupon = Table(
    "lease_coupon",
    metadata,
    # Coupons of a leased stock, to be given out; nobody's while `request`, the claim that got it, is NULL.
    Column("coupon_id", Text, primary_key=True),
    Column("lease_id", Text, nullable=False, index=True),
    Column("code", Text, nullable=False),
    Column("request", Text, unique=True),
    Column("member_id", Text),
)

home = Table(
    "home",
    metadata,
    # Coupons that are or were at home here, in the newest version that this till has seen: what is over stays, so that
    # an older word revives nothing (PROTOCOL 1.4).
    Column("coupon_id", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("state", Text, nullable=False),  # HOME, HELD by an order, USED, RETURNED
    Column("order_id", Text),
    CheckConstraint("state IN ('HOME', 'HELD', 'USED', 'RETURNED')", name="state"),
    CheckConstraint("(state IN ('HELD', 'USED')) = (order_id IS NOT NULL)", name="order_when_held"),
)

# ------------------------------------------------------------------ what was approved here

approval = Table(
    "approval",
    metadata,
    # A manager's word that an order may use a coupon without a right; an entry tells of each.
    Column("order_id", Text, primary_key=True),
    Column("coupon_id", Text, primary_key=True),
    Column("id", Text, nullable=False),
    Column("member_id", Text),  # whose coupon it is
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("max_minor", BigInteger, nullable=False),
)

pin_failure = Table(
    "pin_failure",
    metadata,
    # Wrong PINs in a row since the last right one; an entry tells of each.
    Column("staff_id", Text, primary_key=True),
    Column("pin_version", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("last_at", BigInteger, nullable=False),
)

# ------------------------------------------------------------------ what the server published

risk_budget = Table(
    "risk_budget",
    metadata,
    Column("till_id", Text, primary_key=True),  # ours
    Column("limit_minor", BigInteger, nullable=False),
    Column("available_minor", BigInteger, nullable=False),  # of that, what may still be leased
)

staff = Table(
    "staff",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("verifier", Text, nullable=False),  # of the PIN: Argon2id under the chain's key (app/domain/pins.py)
    Column("pin_version", Integer, nullable=False),
)

chain = Table("chain", metadata, Column("key", Text, primary_key=True), Column("record", JSON, nullable=False))

store = Table("store", metadata, Column("id", Text, primary_key=True), Column("zone", Text, nullable=False))

product = Table(
    "product",
    metadata,
    Column("sku", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_en", Text, nullable=False),
    Column("price_minor", BigInteger, nullable=False),
    Column("category", Text, nullable=False),
    Column("brand", Text, nullable=False),
    Column("barcode", Text, index=True),
    Column("kind", Text, nullable=False),
    Column("by_weight", Boolean, nullable=False),
)

member = Table(
    "member",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tier", Text, nullable=False),
    Column("home_store", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("has_ordered", Boolean, nullable=False),
    Column("balance_minor", BigInteger, nullable=False),  # spendable at the server as of the last pull
)

punch_card = Table(
    "punch_card",
    metadata,
    Column("id", Text, primary_key=True),
    Column("member_id", Text, nullable=False, index=True),
    Column("service", Text, nullable=False),
    Column("uses_left", Integer, nullable=False),
    Column("until_at", BigInteger),
)

campaign = Table(
    "campaign",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("snapshot_id", Text, nullable=False),
    Column("budget_left_minor", BigInteger),
    # or online_only: nothing of it is lent; or risk: lent, and accepted without a right up to so much for one coupon
    Column("offline", Text, nullable=False, server_default="lease"),
    Column("risk_max_minor", BigInteger),
    Column("sync_age_max_h", Integer),
    Index("ix_campaign_automatic", "kind", sqlite_where=text("kind = 'automatic'")),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign_id", Text, nullable=False),
    Column("rule", JSON, nullable=False),
)

coupon = Table(
    "coupon",
    metadata,
    Column("id", Text, primary_key=True),
    Column("code_digest", LargeBinary, nullable=False, unique=True),
    Column("campaign_id", Text, nullable=False),
    Column("snapshot_id", Text, nullable=False),
    Column("member_id", Text, index=True),  # who claimed it, also a bearer coupon
    Column("state", Text, nullable=False),
    Column("order_id", Text),
    Column("state_store", Text),  # where it was used or is held
    Column("state_at", BigInteger),
    Column("valid_until_at", BigInteger),
    Column("home", Text),  # the till that alone may use it; NULL = the server
    Column("version", Integer, nullable=False, server_default="0"),
    Column("recalled", Boolean, nullable=False, server_default="0"),  # the server wants it home
)

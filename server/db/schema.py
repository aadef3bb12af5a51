"""Declare the server's tables (SQLAlchemy Core). Migrations live in `server/db/migrations`.

Conventions: `_minor` are minor units, `_milli` thousandths, `_at` UTC instants stored as milliseconds since 1970.
JSON columns hold text that is written once and read whole. A table that guards money or stock carries its guard as a
constraint, so that no code path can pass it by.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)


class Instant(TypeDecorator[datetime]):
    """Store a UTC instant as whole milliseconds since 1970; a naive datetime is our bug."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Turn an aware datetime into milliseconds."""
        if value is None:
            return None
        assert value.tzinfo is not None, "an instant knows its offset"
        return round(value.timestamp() * 1000)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn milliseconds into a datetime in UTC."""
        return None if value is None else datetime.fromtimestamp(value / 1000, UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

# ------------------------------------------------------------------ the chain

chain = Table(
    "chain",
    metadata,
    Column("id", Integer, primary_key=True),  # always 1
    Column("currency", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("cash_step_minor", BigInteger, nullable=False),  # 0 = no cash rounding
    Column("lock_timeout_s", Integer, nullable=False),
    Column("incarnation", Integer, nullable=False),  # another after each restore from a backup (PROTOCOL 3.9)
    Column("restored_at", Instant),  # set until every till has told again what the backup lacks
    CheckConstraint("id = 1", name="one_chain"),
)

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

shut_till = Table(
    "shut_till",
    metadata,
    Column("till_id", Text, ForeignKey("till.id"), primary_key=True),  # not here = it may speak
    Column("access", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("since_at", Instant, nullable=False),
    CheckConstraint("access IN ('SUSPENDED', 'REVOKED')", name="access"),
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
)
Index(
    "uq_device_of_till",
    device.c.till_id,
    unique=True,
    sqlite_where=device.c.replaced_at.is_(None),
    postgresql_where=device.c.replaced_at.is_(None),
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

request_nonce = Table(
    "request_nonce",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("nonce", Text, primary_key=True),
    Column("until_at", Instant, nullable=False, index=True),
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
    Column("key_id", Text, nullable=False, unique=True),  # of a pass or a device: one epoch for each
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

api_key = Table(
    "api_key",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of a 256-bit random secret
    Column("scope", Text, nullable=False),  # app, till, manager, headquarters
    Column("till_id", Text, ForeignKey("till.id")),
    Column("name", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("revoked_at", Instant),
)

product = Table(
    "product",
    metadata,
    Column("sku", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_en", Text, nullable=False, server_default=""),
    Column("price_minor", BigInteger, nullable=False),
    Column("category", Text, nullable=False, server_default=""),
    Column("brand", Text, nullable=False, server_default=""),
    Column("barcode", Text, unique=True),  # GTIN-14, digits
    Column("kind", Text, nullable=False, server_default="goods"),  # goods, service
    Column("by_weight", Boolean, nullable=False, server_default="0"),
    CheckConstraint("price_minor >= 0", name="price"),
)

member = Table(
    "member",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tier", Text, nullable=False, server_default="basic"),
    Column("home_store", Text, ForeignKey("store.id"), nullable=False),
    Column("label", Text, nullable=False, server_default=""),  # what a till may show: a masked phone, no name
)

punch_card = Table(
    "punch_card",
    metadata,
    Column("id", Text, primary_key=True),
    Column("member_id", Text, ForeignKey("member.id"), nullable=False, index=True),
    Column("service", Text, nullable=False),  # a sku
    Column("until_at", Instant),
)

# ------------------------------------------------------------------ countable value

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
    Index(
        "ix_transfer_lease",
        "lease_id",
        sqlite_where=text("lease_id IS NOT NULL"),
        postgresql_where=text("lease_id IS NOT NULL"),
    ),
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
    Index("ix_lease_till", "till_id", sqlite_where=text("state = 'OPEN'"), postgresql_where=text("state = 'OPEN'")),
    Index(
        "ix_lease_account", "account_id", sqlite_where=text("state = 'OPEN'"), postgresql_where=text("state = 'OPEN'")
    ),
)

lease_coupon = Table(
    "lease_coupon",
    metadata,
    # The coupons that the till of a leased stock may give out: they are nobody's until it tells whose they are.
    Column("coupon_id", Text, primary_key=True),
    Column("lease_id", Text, ForeignKey("lease.id"), nullable=False, index=True),
    Column("code", Text, nullable=False, unique=True),
)

# ------------------------------------------------------------------ risk without a right

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

# ------------------------------------------------------------------ campaigns and coupons

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
    Index(
        "ix_coupon_expiry",
        "valid_until_at",
        sqlite_where=text("state = 'ISSUED'"),
        postgresql_where=text("state = 'ISSUED'"),
    ),
    Index("ix_coupon_order", "order_id"),
    Index("ix_coupon_home", "home", sqlite_where=text("home IS NOT NULL"), postgresql_where=text("home IS NOT NULL")),
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

request = Table(
    "request",
    metadata,
    Column("id", Text, primary_key=True),  # <what>:<id of the caller>
    Column("digest", LargeBinary, nullable=False),  # of the content: the same id with other content is refused
    Column("answer", JSON, nullable=False),  # first answer, refusals included
    Column("created_at", Instant, nullable=False),
    Column("reservation", Text),  # token of the reservation in Redis that it landed; NULL = came another way
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

# ------------------------------------------------------------------ batch issue

issue_task = Table(
    "issue_task",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign_id", Text, ForeignKey("campaign.id"), nullable=False),
    Column("state", Text, nullable=False),  # LOADING, RUNNING, PAUSED, DONE, CANCELLED
    Column("chunk_size", Integer, nullable=False),
    Column("filter", JSON(none_as_null=True)),  # {tiers, home_stores}; NULL = the members are listed
    Column("load", BigInteger, nullable=False, server_default="0"),  # fencing token of what loads the list
    Column("load_cursor", Text, nullable=False, server_default=""),  # the filter's last member so far
    Column("total", BigInteger, nullable=False, server_default="0"),  # rows, those that cannot be read included
    Column("granted", BigInteger, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    CheckConstraint("granted >= 0 AND failed >= 0 AND granted + failed <= total", name="counts"),
    CheckConstraint("chunk_size > 0", name="chunk_size"),
    Index("ix_issue_task_state", "state"),
)

issue_chunk = Table(
    "issue_chunk",
    metadata,
    Column("task_id", Text, ForeignKey("issue_task.id"), primary_key=True),
    Column("number", Integer, primary_key=True),  # from 1
    Column("state", Text, nullable=False, server_default="OPEN"),  # OPEN, DONE
    Column(
        "fence", BigInteger, nullable=False, server_default="0"
    ),  # counts the leases: who has not the newest is late
    Column("leased_until_at", Instant),  # frees the chunk of a worker that died; nothing is safe by it
    Column("first_line", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),  # rows, those that cannot be read included
    Column("granted", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("done_at", Instant),
    Column("failures", JSON, nullable=False, server_default="[]"),  # [[line, member, reason], ...]
    Column("members", JSON, nullable=False),  # one id a line from first_line on; null = nobody on this line
    CheckConstraint("granted >= 0 AND failed >= 0 AND granted + failed <= size", name="counts"),
    CheckConstraint("state = 'OPEN' OR granted + failed = size", name="done_is_all"),
    CheckConstraint("state IN ('OPEN', 'DONE')", name="state"),
    Index(
        "ix_issue_chunk_open",
        "task_id",
        "number",
        sqlite_where=text("state = 'OPEN'"),
        postgresql_where=text("state = 'OPEN'"),
    ),
    Index("ix_issue_chunk_done", "task_id", "done_at"),
)

# ------------------------------------------------------------------ orders

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
    Index(
        "ix_orders_held", "held_until_at", sqlite_where=text("state = 'HELD'"), postgresql_where=text("state = 'HELD'")
    ),
    Index(
        "ix_orders_unknown",
        "received_at",
        sqlite_where=text("state = 'UNKNOWN'"),
        postgresql_where=text("state = 'UNKNOWN'"),
    ),
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

# ------------------------------------------------------------------ what happened, and what is wrong

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

# ------------------------------------------------------------------ running it

job_lease = Table(
    "job_lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),  # an id of the process; empty = given back
    Column("fence", BigInteger, nullable=False),  # counts the owners: who has not the newest writes nothing
    Column("beats", BigInteger, nullable=False),  # counts the signs of life; who sees none for long may take over
    Column("until_at", Instant, nullable=False),  # for people: nothing is decided by it
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),  # made from what it is about, so a repeat is the same message
    Column("body", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("due_at", Instant, nullable=False),  # not to be sent before
    Column("next_at", Instant, nullable=False),  # the next try; due_at, until one has failed
    Column("attempts", Integer, nullable=False, server_default="0"),  # tries that failed
    Column("error", Text, nullable=False, server_default=""),  # why the last one failed
    Column("sent_at", Instant),
    Column("parked_at", Instant),  # given up; a person sees it as a finding
    UniqueConstraint("topic", "key"),
    Index(
        "ix_outbox_waiting",
        "topic",
        "next_at",
        sqlite_where=text("sent_at IS NULL AND parked_at IS NULL"),
        postgresql_where=text("sent_at IS NULL AND parked_at IS NULL"),
    ),
)

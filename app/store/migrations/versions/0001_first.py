"""Make the first tables of a till: ledger, projections, and the copy of what the server published."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# A trigger fires for REPLACE too, since every connection has recursive_triggers on (SQLite, "INSERT", conflict clause).
_TRIGGERS = (
    "CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER outbox_no_delete BEFORE DELETE ON outbox "
    "BEGIN SELECT RAISE(ABORT, 'an entry is acknowledged or parked, never dropped'); END",
)


def upgrade() -> None:
    """Make tables, indexes and triggers."""
    _ledger()
    _projections()
    _feed()
    _campaigns()
    for trigger in _TRIGGERS:
        op.execute(trigger)


def _ledger() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "entry",
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("prev_hash", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("wall_ms", sa.BigInteger(), nullable=False),
        sa.Column("mono_ms", sa.BigInteger(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_entry_seq")),
        sa.PrimaryKeyConstraint("epoch", "seq", name=op.f("pk_entry")),
        sa.UniqueConstraint("entry_id", name=op.f("uq_entry_entry_id")),
    )
    op.create_table(
        "outbox",
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("epoch", "seq", name=op.f("pk_outbox")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_outbox_open", "outbox", ["epoch", "seq"], unique=False, sqlite_where=sa.text("state != 'ACKNOWLEDGED'")
    )


def _projections() -> None:
    op.create_table(
        "orders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("held_until_at", sa.BigInteger(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=True),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.Column("lines", sa.JSON(), nullable=False),
        sa.Column("quote", sa.JSON(), nullable=False),
        sa.Column("tenders", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("change_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("payment", sa.JSON(), nullable=True),
        sa.Column("entry_seq", sa.BigInteger(), nullable=True),
        sa.Column("entry_epoch", sa.Integer(), nullable=True),
        sa.Column("receipt_shown", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
    )
    op.create_index(
        "ix_orders_member_id", "orders", ["member_id"], unique=False, sqlite_where=sa.text("member_id IS NOT NULL")
    )
    op.create_index(
        "ix_orders_open",
        "orders",
        ["state"],
        unique=False,
        sqlite_where=sa.text("state IN ('OPEN', 'HELD', 'UNKNOWN')"),
    )
    op.create_table(
        "refund",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=True),
        sa.Column("body", sa.JSON(), nullable=True),
        sa.Column("entry_seq", sa.BigInteger(), nullable=True),
        sa.Column("entry_epoch", sa.Integer(), nullable=True),
        sa.Column("receipt_shown", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refund")),
    )
    op.create_index(op.f("ix_refund_order_id"), "refund", ["order_id"], unique=False)


def _feed() -> None:
    op.create_table(
        "chain",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_chain")),
    )
    op.create_table(
        "store",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store")),
    )
    op.create_table(
        "product",
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_en", sa.Text(), nullable=False),
        sa.Column("price_minor", sa.BigInteger(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("brand", sa.Text(), nullable=False),
        sa.Column("barcode", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("by_weight", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("sku", name=op.f("pk_product")),
    )
    op.create_index(op.f("ix_product_barcode"), "product", ["barcode"], unique=False)
    op.create_table(
        "member",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("home_store", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("has_ordered", sa.Boolean(), nullable=False),
        sa.Column("balance_minor", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_member")),
    )
    op.create_table(
        "punch_card",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_punch_card")),
    )
    op.create_index(op.f("ix_punch_card_member_id"), "punch_card", ["member_id"], unique=False)


def _campaigns() -> None:
    op.create_table(
        "campaign",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("budget_left_minor", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
    )
    op.create_index(
        "ix_campaign_automatic", "campaign", ["kind"], unique=False, sqlite_where=sa.text("kind = 'automatic'")
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
    )
    op.create_table(
        "coupon",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("code_digest", sa.LargeBinary(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=True),
        sa.Column("state_store", sa.Text(), nullable=True),
        sa.Column("state_at", sa.BigInteger(), nullable=True),
        sa.Column("valid_until_at", sa.BigInteger(), nullable=True),
        sa.Column("home", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_coupon")),
        sa.UniqueConstraint("code_digest", name=op.f("uq_coupon_code_digest")),
    )
    op.create_index(op.f("ix_coupon_member_id"), "coupon", ["member_id"], unique=False)

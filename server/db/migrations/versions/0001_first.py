"""Create the server's tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "account",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("over", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("available", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("leased", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("spent", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("stranded", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("available >= 0", name=op.f("ck_account_available")),
        sa.CheckConstraint("held >= 0", name=op.f("ck_account_held")),
        sa.CheckConstraint("leased >= 0", name=op.f("ck_account_leased")),
        sa.CheckConstraint("over >= 0", name=op.f("ck_account_over")),
        sa.CheckConstraint("reserved >= 0", name=op.f("ck_account_reserved")),
        sa.CheckConstraint("spent >= 0", name=op.f("ck_account_spent")),
        sa.CheckConstraint("stranded >= 0", name=op.f("ck_account_stranded")),
        sa.CheckConstraint(
            "total + over = available + held + reserved + leased + spent + stranded", name=op.f("ck_account_equation")
        ),
        sa.CheckConstraint("total >= 0", name=op.f("ck_account_total")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
    )
    op.create_table(
        "campaign",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("arbiter", sa.Text(), server_default="database", nullable=False),
        sa.Column("offline", sa.Text(), server_default="lease", nullable=False),
        sa.Column("from_at", sa.BigInteger(), nullable=True),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
    )
    op.create_table(
        "chain",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("cash_step_minor", sa.BigInteger(), nullable=False),
        sa.Column("lock_timeout_s", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_chain_one_chain")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain")),
    )
    op.create_table(
        "feed",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_feed")),
        sa.UniqueConstraint("kind", "key", name=op.f("uq_feed_kind_key")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "finding",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), server_default="OPEN", nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_finding")),
        sa.UniqueConstraint("kind", "key", name=op.f("uq_finding_kind_key")),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=True),
        sa.Column("server_at", sa.BigInteger(), nullable=False),
        sa.Column("till_at", sa.BigInteger(), nullable=True),
        sa.Column("till_id", sa.Text(), nullable=True),
        sa.Column("operator", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
    )
    op.create_index("ix_history_subject", "history", ["subject", "subject_id"], unique=False)
    op.create_table(
        "orders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.Column("operator", sa.Text(), server_default="", nullable=False),
        sa.Column("lines", sa.JSON(), nullable=False),
        sa.Column("quote", sa.JSON(), nullable=False),
        sa.Column("tenders", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("payable_minor", sa.BigInteger(), nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_until_at", sa.BigInteger(), nullable=True),
        sa.Column("sold_at", sa.BigInteger(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("refunded_minor BETWEEN 0 AND payable_minor", name=op.f("ck_orders_refunded")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
    )
    op.create_index(
        "ix_orders_held",
        "orders",
        ["held_until_at"],
        unique=False,
        sqlite_where=sa.text("state = 'HELD'"),
        postgresql_where=sa.text("state = 'HELD'"),
    )
    op.create_index("ix_orders_member", "orders", ["member_id", "state"], unique=False)
    op.create_index("ix_orders_till", "orders", ["till_id", "sold_at"], unique=False)
    op.create_table(
        "product",
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_en", sa.Text(), server_default="", nullable=False),
        sa.Column("price_minor", sa.BigInteger(), nullable=False),
        sa.Column("category", sa.Text(), server_default="", nullable=False),
        sa.Column("brand", sa.Text(), server_default="", nullable=False),
        sa.Column("barcode", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), server_default="goods", nullable=False),
        sa.Column("by_weight", sa.Boolean(), server_default="0", nullable=False),
        sa.CheckConstraint("price_minor >= 0", name=op.f("ck_product_price")),
        sa.PrimaryKeyConstraint("sku", name=op.f("pk_product")),
        sa.UniqueConstraint("barcode", name=op.f("uq_product_barcode")),
    )
    op.create_table(
        "request",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_request")),
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
    )
    op.create_index(op.f("ix_snapshot_campaign_id"), "snapshot", ["campaign_id"], unique=False)
    op.create_table(
        "store",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store")),
    )
    op.create_table(
        "member",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), server_default="basic", nullable=False),
        sa.Column("home_store", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["home_store"], ["store.id"], name=op.f("fk_member_home_store")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_member")),
    )
    op.create_table(
        "order_line",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("qty_milli", sa.BigInteger(), nullable=False),
        sa.Column("gross_minor", sa.BigInteger(), nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), nullable=False),
        sa.Column("net_minor", sa.BigInteger(), nullable=False),
        sa.Column("refunded_milli", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "net_minor = gross_minor - discount_minor AND net_minor >= 0", name=op.f("ck_order_line_net")
        ),
        sa.CheckConstraint("refunded_milli BETWEEN 0 AND qty_milli", name=op.f("ck_order_line_refunded")),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_order_line_order_id")),
        sa.PrimaryKeyConstraint("order_id", "number", name=op.f("pk_order_line")),
    )
    op.create_table(
        "order_tender",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_order_tender_order_id")),
        sa.PrimaryKeyConstraint("order_id", "position", name=op.f("pk_order_tender")),
    )
    op.create_table(
        "punch_use",
        sa.Column("card_id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("reversed", sa.Boolean(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_punch_use_order_id")),
        sa.PrimaryKeyConstraint("card_id", "order_id", "line", "number", name=op.f("pk_punch_use")),
    )
    op.create_table(
        "redemption",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("coupon_id", sa.Text(), nullable=True),
        sa.Column("discount_minor", sa.BigInteger(), nullable=False),
        sa.Column("conflict", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("reversed", sa.Boolean(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_redemption_order_id")),
        sa.PrimaryKeyConstraint("order_id", "position", name=op.f("pk_redemption")),
    )
    op.create_index(op.f("ix_redemption_campaign_id"), "redemption", ["campaign_id"], unique=False)
    op.create_index(
        "one_live_use",
        "redemption",
        ["coupon_id"],
        unique=True,
        sqlite_where=sa.text("reversed = 0 AND conflict = 0 AND coupon_id IS NOT NULL"),
        postgresql_where=sa.text("NOT reversed AND NOT conflict AND coupon_id IS NOT NULL"),
    )
    op.create_table(
        "refund",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=True),
        sa.Column("paid_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_refund_order_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refund")),
    )
    op.create_index(op.f("ix_refund_order_id"), "refund", ["order_id"], unique=False)
    op.create_index("ix_refund_paid", "refund", ["paid_at"], unique=False)
    op.create_table(
        "till",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="OK", nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="1", nullable=False),
        sa.Column("acked_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("acked_hash", sa.LargeBinary(), nullable=True),
        sa.Column("tail_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tail_hash", sa.LargeBinary(), nullable=True),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=True),
        sa.Column("clock_drift_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["store_id"], ["store.id"], name=op.f("fk_till_store_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_till")),
    )
    op.create_table(
        "transfer",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("state IN ('PENDING', 'POSTED', 'VOIDED')", name=op.f("ck_transfer_state")),
        sa.CheckConstraint("amount > 0", name=op.f("ck_transfer_amount")),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_transfer_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transfer")),
    )
    op.create_index(op.f("ix_transfer_account_id"), "transfer", ["account_id"], unique=False)
    op.create_index(op.f("ix_transfer_order_id"), "transfer", ["order_id"], unique=False)
    op.create_table(
        "api_key",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_api_key_till_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
    )
    op.create_table(
        "coupon",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=False),
        sa.Column("member_nth", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("code_digest", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("order_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        sa.Column("granted_on", sa.Text(), nullable=False),
        sa.Column("valid_until_at", sa.BigInteger(), nullable=True),
        sa.Column("home", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state IN ('FROZEN', 'USED')) = (order_id IS NOT NULL)", name=op.f("ck_coupon_order_when_held")
        ),
        sa.CheckConstraint("state IN ('ISSUED', 'FROZEN', 'USED', 'EXPIRED', 'REVOKED')", name=op.f("ck_coupon_state")),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_coupon_campaign_id")),
        sa.ForeignKeyConstraint(["member_id"], ["member.id"], name=op.f("fk_coupon_member_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshot.id"], name=op.f("fk_coupon_snapshot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_coupon")),
        sa.UniqueConstraint(
            "campaign_id", "member_id", "member_nth", name=op.f("uq_coupon_campaign_id_member_id_member_nth")
        ),
        sa.UniqueConstraint("code", name=op.f("uq_coupon_code")),
        sa.UniqueConstraint("code_digest", name=op.f("uq_coupon_code_digest")),
    )
    op.create_index(
        "ix_coupon_expiry",
        "coupon",
        ["valid_until_at"],
        unique=False,
        sqlite_where=sa.text("state = 'ISSUED'"),
        postgresql_where=sa.text("state = 'ISSUED'"),
    )
    op.create_index(op.f("ix_coupon_member_id"), "coupon", ["member_id"], unique=False)
    op.create_index("ix_coupon_order", "coupon", ["order_id"], unique=False)
    op.create_table(
        "ledger_entry",
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_ledger_entry_till_id")),
        sa.PrimaryKeyConstraint("till_id", "epoch", "seq", name=op.f("pk_ledger_entry")),
        sa.UniqueConstraint("entry_id", name=op.f("uq_ledger_entry_entry_id")),
    )
    op.create_table(
        "punch_card",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["member_id"], ["member.id"], name=op.f("fk_punch_card_member_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_punch_card")),
    )
    op.create_index(op.f("ix_punch_card_member_id"), "punch_card", ["member_id"], unique=False)

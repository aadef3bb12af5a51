"""Let a till take coupons without a right, at a risk that is counted; and name the managers who approve it."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Bring the database forward."""
    op.add_column("campaign", sa.Column("risk_max_minor", sa.BigInteger(), nullable=True))
    op.add_column("campaign", sa.Column("sync_age_max_h", sa.Integer(), nullable=True))
    op.create_table(
        "risk_budget",
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("limit_minor", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("limit_minor >= 0", name=op.f("ck_risk_budget_limit")),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_risk_budget_till_id")),
        sa.PrimaryKeyConstraint("till_id", name=op.f("pk_risk_budget")),
    )
    op.create_table(
        "staff",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Text(), nullable=True),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("pin_version", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["store_id"], ["store.id"], name=op.f("fk_staff_store_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staff")),
    )
    op.create_table(
        "risk_use",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("approved_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("lost", sa.Boolean(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_risk_use_amount")),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_risk_use_order_id")),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_risk_use_till_id")),
        sa.PrimaryKeyConstraint("order_id", "coupon_id", name=op.f("pk_risk_use")),
    )
    op.create_index(op.f("ix_risk_use_till_id"), "risk_use", ["till_id"], unique=False)

"""Let the till take coupons without a right on a manager's word: who may give it, what was given, wrong PINs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Bring the file forward."""
    op.add_column("campaign", sa.Column("risk_max_minor", sa.BigInteger(), nullable=True))
    op.add_column("campaign", sa.Column("sync_age_max_h", sa.Integer(), nullable=True))
    op.create_table(
        "risk_budget",
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("limit_minor", sa.BigInteger(), nullable=False),
        sa.Column("available_minor", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("till_id", name=op.f("pk_risk_budget")),
    )
    op.create_table(
        "staff",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("pin_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staff")),
    )
    op.create_table(
        "approval",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("max_minor", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("order_id", "coupon_id", name=op.f("pk_approval")),
    )
    op.create_table(
        "pin_failure",
        sa.Column("staff_id", sa.Text(), nullable=False),
        sa.Column("pin_version", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("staff_id", name=op.f("pk_pin_failure")),
    )

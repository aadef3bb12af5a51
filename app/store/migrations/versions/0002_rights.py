"""Add the rights that a till has itself: leases, the coupons of leased stock, homes; and what orders draw on them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Bring the file forward."""
    op.create_table(
        "lease",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("qty", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.CheckConstraint("used >= 0 AND held >= 0 AND used + held <= qty", name=op.f("ck_lease_used")),
        sa.CheckConstraint(
            "state IN ('REQUESTED', 'OPEN', 'REFUSED', 'CLOSED', 'REVOKED')", name=op.f("ck_lease_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    op.create_index(op.f("ix_lease_account_id"), "lease", ["account_id"], unique=False)
    op.create_table(
        "lease_coupon",
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("coupon_id", name=op.f("pk_lease_coupon")),
        sa.UniqueConstraint("request", name=op.f("uq_lease_coupon_request")),
    )
    op.create_index(op.f("ix_lease_coupon_lease_id"), "lease_coupon", ["lease_id"], unique=False)
    op.create_table(
        "home",
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('HOME', 'HELD', 'USED', 'RETURNED')", name=op.f("ck_home_state")),
        sa.CheckConstraint(
            "(state IN ('HELD', 'USED')) = (order_id IS NOT NULL)", name=op.f("ck_home_order_when_held")
        ),
        sa.PrimaryKeyConstraint("coupon_id", name=op.f("pk_home")),
    )
    op.add_column("orders", sa.Column("rights", sa.JSON(), nullable=True))
    op.add_column("coupon", sa.Column("version", sa.Integer(), server_default="0", nullable=False))

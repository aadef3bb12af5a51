"""Add the leases of tills, the coupons that a leased stock brings, and which transfers belong to a lease."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "lease",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("qty", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("qty > 0 AND used BETWEEN 0 AND qty", name=op.f("ck_lease_used")),
        sa.CheckConstraint("state IN ('OPEN', 'CLOSED', 'REVOKED')", name=op.f("ck_lease_state")),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_lease_till_id")),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_lease_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    is_open = sa.text("state = 'OPEN'")
    op.create_index("ix_lease_till", "lease", ["till_id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("ix_lease_account", "lease", ["account_id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_table(
        "lease_coupon",
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["lease_id"], ["lease.id"], name=op.f("fk_lease_coupon_lease_id")),
        sa.PrimaryKeyConstraint("coupon_id", name=op.f("pk_lease_coupon")),
        sa.UniqueConstraint("code", name=op.f("uq_lease_coupon_code")),
    )
    op.create_index(op.f("ix_lease_coupon_lease_id"), "lease_coupon", ["lease_id"])
    op.add_column("transfer", sa.Column("lease_id", sa.Text(), nullable=True))
    of_lease = sa.text("lease_id IS NOT NULL")
    op.create_index("ix_transfer_lease", "transfer", ["lease_id"], sqlite_where=of_lease, postgresql_where=of_lease)
    at_home = sa.text("home IS NOT NULL")
    op.create_index("ix_coupon_home", "coupon", ["home"], sqlite_where=at_home, postgresql_where=at_home)

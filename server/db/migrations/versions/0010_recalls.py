"""Let a coupon be asked back from the till that is its home."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "coupon_recall",
        sa.Column("coupon_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["coupon_id"], ["coupon.id"], name=op.f("fk_coupon_recall_coupon_id")),
        sa.PrimaryKeyConstraint("coupon_id", name=op.f("pk_coupon_recall")),
    )

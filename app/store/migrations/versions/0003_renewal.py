"""Let the till renew its rights by itself: when and how it asked, what is recalled, which campaigns stay online."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Bring the file forward."""
    op.add_column("lease", sa.Column("size", sa.Text(), server_default="asked", nullable=False))
    op.add_column("lease", sa.Column("asked_at", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("lease", sa.Column("recalled", sa.Boolean(), server_default="0", nullable=False))
    op.add_column("campaign", sa.Column("offline", sa.Text(), server_default="lease", nullable=False))
    op.add_column("coupon", sa.Column("recalled", sa.Boolean(), server_default="0", nullable=False))

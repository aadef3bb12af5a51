"""Let headquarters declare a till lost: its leases are stranded, and it is lent nothing more."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Bring the database forward."""
    op.add_column("till", sa.Column("lost_at", sa.BigInteger(), nullable=True))
    op.add_column("lease", sa.Column("stranded_at", sa.BigInteger(), nullable=True))

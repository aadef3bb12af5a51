"""Let headquarters say for how many hours without a line tills provide."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Bring the database forward; tills provided for eight hours before."""
    op.add_column("chain", sa.Column("offline_hours", sa.Integer(), server_default="8", nullable=False))

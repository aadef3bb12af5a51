"""Add the lease of the scheduler and the outbox; find orders with an unknown payment by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "job_lease",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_job_lease")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("parked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("topic", "key", name=op.f("uq_outbox_topic_key")),
    )
    waiting = sa.text("sent_at IS NULL AND parked_at IS NULL")
    op.create_index("ix_outbox_waiting", "outbox", ["topic", "next_at"], sqlite_where=waiting, postgresql_where=waiting)
    unknown = sa.text("state = 'UNKNOWN'")
    op.create_index("ix_orders_unknown", "orders", ["received_at"], sqlite_where=unknown, postgresql_where=unknown)

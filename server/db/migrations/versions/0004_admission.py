"""Add the generations of campaigns that Redis admits to, and which reservation an answer has landed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "admission",
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), server_default="", nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("strikes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("drifts", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint("state IN ('BUILDING', 'OPEN', 'CLOSED')", name=op.f("ck_admission_state")),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_admission_campaign_id")),
        sa.PrimaryKeyConstraint("campaign_id", name=op.f("pk_admission")),
    )
    op.add_column("campaign", sa.Column("claims_per_second", sa.Integer(), nullable=True))
    op.add_column("request", sa.Column("reservation", sa.Text(), nullable=True))

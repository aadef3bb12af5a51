"""Add the tasks of batch issue and their chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "issue_task",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("chunk_size", sa.Integer(), nullable=False),
        sa.Column("filter", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("load", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("load_cursor", sa.Text(), server_default="", nullable=False),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("granted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "granted >= 0 AND failed >= 0 AND granted + failed <= total", name=op.f("ck_issue_task_counts")
        ),
        sa.CheckConstraint("chunk_size > 0", name=op.f("ck_issue_task_chunk_size")),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_issue_task_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_issue_task")),
    )
    op.create_index("ix_issue_task_state", "issue_task", ["state"])
    op.create_table(
        "issue_chunk",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="OPEN", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("leased_until_at", sa.BigInteger(), nullable=True),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("granted", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.Column("failures", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("members", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "granted >= 0 AND failed >= 0 AND granted + failed <= size", name=op.f("ck_issue_chunk_counts")
        ),
        sa.CheckConstraint("state = 'OPEN' OR granted + failed = size", name=op.f("ck_issue_chunk_done_is_all")),
        sa.CheckConstraint("state IN ('OPEN', 'DONE')", name=op.f("ck_issue_chunk_state")),
        sa.ForeignKeyConstraint(["task_id"], ["issue_task.id"], name=op.f("fk_issue_chunk_task_id")),
        sa.PrimaryKeyConstraint("task_id", "number", name=op.f("pk_issue_chunk")),
    )
    still_open = sa.text("state = 'OPEN'")
    op.create_index(
        "ix_issue_chunk_open",
        "issue_chunk",
        ["task_id", "number"],
        sqlite_where=still_open,
        postgresql_where=still_open,
    )
    op.create_index("ix_issue_chunk_done", "issue_chunk", ["task_id", "done_at"])

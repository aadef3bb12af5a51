"""Declare batch issues: a task and the chunks of its list."""

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text

from server.db.schema.conventions import Instant, metadata, partial

issue_task = Table(
    "issue_task",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign_id", Text, ForeignKey("campaign.id"), nullable=False),
    Column("state", Text, nullable=False),  # LOADING, RUNNING, PAUSED, DONE, CANCELLED
    Column("chunk_size", Integer, nullable=False),
    Column("filter", JSON(none_as_null=True)),  # {tiers, home_stores}; NULL = the members are listed
    Column("load", BigInteger, nullable=False, server_default="0"),  # fencing token of what loads the list
    Column("load_cursor", Text, nullable=False, server_default=""),  # the filter's last member so far
    Column("total", BigInteger, nullable=False, server_default="0"),  # rows, those that cannot be read included
    Column("granted", BigInteger, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    CheckConstraint("granted >= 0 AND failed >= 0 AND granted + failed <= total", name="counts"),
    CheckConstraint("chunk_size > 0", name="chunk_size"),
    Index("ix_issue_task_state", "state"),
)

issue_chunk = Table(
    "issue_chunk",
    metadata,
    Column("task_id", Text, ForeignKey("issue_task.id"), primary_key=True),
    Column("number", Integer, primary_key=True),  # from 1
    Column("state", Text, nullable=False, server_default="OPEN"),  # OPEN, DONE
    Column(
        "fence", BigInteger, nullable=False, server_default="0"
    ),  # counts the leases: who has not the newest is late
    Column("leased_until_at", Instant),  # frees the chunk of a worker that died; nothing is safe by it
    Column("first_line", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),  # rows, those that cannot be read included
    Column("granted", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("done_at", Instant),
    Column("failures", JSON, nullable=False, server_default="[]"),  # [[line, member, reason], ...]
    Column("members", JSON, nullable=False),  # one id a line from first_line on; null = nobody on this line
    CheckConstraint("granted >= 0 AND failed >= 0 AND granted + failed <= size", name="counts"),
    CheckConstraint("state = 'OPEN' OR granted + failed = size", name="done_is_all"),
    CheckConstraint("state IN ('OPEN', 'DONE')", name="state"),
    Index("ix_issue_chunk_open", "task_id", "number", **partial("state = 'OPEN'")),
    Index("ix_issue_chunk_done", "task_id", "done_at"),
)

"""Let a till begin a new epoch, and a server come back from a backup: what each has to know of the other."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Bring the database forward."""
    op.add_column("chain", sa.Column("restored_at", sa.BigInteger(), nullable=True))
    op.add_column("till", sa.Column("incarnation", sa.Integer(), server_default="0", nullable=False))
    op.add_column("till", sa.Column("contacts", sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "till_boot",
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("heard", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_till_boot_till_id")),
        sa.PrimaryKeyConstraint("till_id", "boot", name=op.f("pk_till_boot")),
    )
    _enrolment()
    op.create_table(
        "carried_entry",
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("in_epoch", sa.Integer(), nullable=False),
        sa.Column("in_seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_carried_entry_till_id")),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_carried_entry")),
    )
    op.create_index("ix_carried_entry_place", "carried_entry", ["till_id", "epoch", "seq"])
    _finding()
    op.add_column("coupon", sa.Column("frozen_version", sa.Integer(), nullable=True))


def _finding() -> None:
    with op.batch_alter_table("finding") as finding:
        finding.add_column(sa.Column("decision", sa.Text(), server_default="", nullable=False))
        finding.add_column(sa.Column("decided_by", sa.Text(), server_default="", nullable=False))
        finding.add_column(sa.Column("decided_at", sa.BigInteger(), nullable=True))
        finding.add_column(sa.Column("closed_at", sa.BigInteger(), nullable=True))
        finding.create_check_constraint("state", "state IN ('OPEN', 'DECIDED', 'CLOSED')")
        finding.create_check_constraint("decided", "state != 'DECIDED' OR (decision != '' AND decided_by != '')")


def _enrolment() -> None:
    op.create_table(
        "enrolment",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("from_epoch", sa.Integer(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=False),
        sa.Column("known_seq", sa.BigInteger(), nullable=False),
        sa.Column("known_hash", sa.LargeBinary(), nullable=True),
        sa.Column("tail_seq", sa.BigInteger(), nullable=False),
        sa.Column("tail_hash", sa.LargeBinary(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("enrolled_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_enrolment_till_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_enrolment")),
        sa.UniqueConstraint("key_id", name=op.f("uq_enrolment_key_id")),
        sa.UniqueConstraint("till_id", "epoch", name=op.f("uq_enrolment_till_id_epoch")),
    )
    op.create_index(op.f("ix_enrolment_till_id"), "enrolment", ["till_id"])

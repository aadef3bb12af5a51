"""Add the keys of tills, one-time codes, nonces of signed requests, and whether a till may speak."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Bring the database forward."""
    op.create_table(
        "chain_key",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_chain_key_one_chain_key")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_key")),
    )
    op.create_table(
        "shut_till",
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("access", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("access IN ('SUSPENDED', 'REVOKED')", name=op.f("ck_shut_till_access")),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_shut_till_till_id")),
        sa.PrimaryKeyConstraint("till_id", name=op.f("pk_shut_till")),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("enrolled_at", sa.BigInteger(), nullable=False),
        sa.Column("replaced_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_device_till_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device")),
    )
    op.create_index(op.f("ix_device_till_id"), "device", ["till_id"])
    current = sa.text("replaced_at IS NULL")
    op.create_index(
        "uq_device_of_till", "device", ["till_id"], unique=True, sqlite_where=current, postgresql_where=current
    )
    op.create_table(
        "enrolment_code",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("till_id", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Text(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.CheckConstraint("tries BETWEEN 0 AND 5", name=op.f("ck_enrolment_code_tries")),
        sa.ForeignKeyConstraint(["till_id"], ["till.id"], name=op.f("fk_enrolment_code_till_id")),
        sa.ForeignKeyConstraint(["store_id"], ["store.id"], name=op.f("fk_enrolment_code_store_id")),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_enrolment_code_device_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_enrolment_code")),
    )
    op.create_index(op.f("ix_enrolment_code_till_id"), "enrolment_code", ["till_id"])
    op.create_table(
        "request_nonce",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "nonce", name=op.f("pk_request_nonce")),
    )
    op.create_index(op.f("ix_request_nonce_until_at"), "request_nonce", ["until_at"])

"""Keep a fingerprint of the key under which the codes of this database are digested."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Bring the database forward; the first server that starts leaves the fingerprint of its key."""
    op.create_table(
        "code_key",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_code_key_one_code_key")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_code_key")),
    )

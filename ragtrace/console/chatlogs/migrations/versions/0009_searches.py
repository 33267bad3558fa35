"""Whether a retrieval ran."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the change."""
    op.add_column("traces", sa.Column("searched", sa.Boolean, nullable=True))

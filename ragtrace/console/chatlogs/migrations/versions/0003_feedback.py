"""A score and a category of feedback."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the change."""
    op.add_column("feedback", sa.Column("score", sa.Float(53), nullable=True))
    op.add_column("feedback", sa.Column("category", sa.String(length=100), nullable=True))

"""What the models of a request cost."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the change."""
    op.add_column("traces", sa.Column("cost", sa.Float(), nullable=True))

"""The tenant of a request."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the change."""
    op.add_column("traces", sa.Column("tenant", sa.String(200), nullable=True))
    op.create_index("ix_traces_tenant_id", "traces", ["tenant", "id"])

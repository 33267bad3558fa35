"""Scores of reviewed logs that are scored again."""

from alembic import op

from ragtrace.console.chatlogs.queue_schema import anchor_scores

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the change."""
    anchor_scores.create(op.get_bind(), checkfirst=True)

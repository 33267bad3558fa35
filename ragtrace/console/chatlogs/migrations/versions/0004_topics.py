"""Topics of questions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "topics",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("centre", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=16), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_topics")),
    )
    op.create_table(
        "trace_topics",
        sa.Column("trace", _ID, nullable=False),
        sa.Column("topic", _ID, nullable=True),
        sa.ForeignKeyConstraint(["topic"], ["topics.id"], name=op.f("fk_trace_topics_topic"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["trace"], ["traces.id"], name=op.f("fk_trace_topics_trace"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("trace", name=op.f("pk_trace_topics")),
    )
    op.create_index(op.f("ix_trace_topics_topic_trace"), "trace_topics", ["topic", "trace"], unique=False)

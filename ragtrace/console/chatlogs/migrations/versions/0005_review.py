"""Named queues with their reviewers, questions of one's own, and parts of answers that people mark as wrong."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "queues",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=True),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queues")),
        sa.UniqueConstraint("name", name=op.f("uq_queues_name")),
    )
    op.create_table(
        "members",
        sa.Column("queue", _ID, nullable=False),
        sa.Column("user", _ID, nullable=False),
        sa.ForeignKeyConstraint(["queue"], ["queues.id"], name=op.f("fk_members_queue"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_members_user"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("queue", "user", name=op.f("pk_members")),
    )
    op.create_table(
        "questions",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("queue", _ID, nullable=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("text", sa.String(length=300), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["queue"], ["queues.id"], name=op.f("fk_questions_queue"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
        sa.UniqueConstraint("name", name=op.f("uq_questions_name")),
    )
    op.add_column("items", sa.Column("queue", _ID, nullable=True))
    op.add_column("reviews", sa.Column("answers", sa.Text(), nullable=True))
    op.add_column("reviews", sa.Column("evidence", sa.Text(), nullable=True))

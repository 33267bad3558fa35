"""Search, ranges of values in the order of time, sums for the overview, the names of the keys."""

import sqlalchemy as sa
from alembic import op

from ragtrace.console.chatlogs import full_text
from ragtrace.console.chatlogs.schema import bucket, contents, scores

_BATCH = 1_000


revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "sums",
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("count", sa.Float(), nullable=False),
        sa.Column("clipped", sa.Float(), nullable=False),
        sa.Column("w", sa.Float(), nullable=False),
        sa.Column("w2", sa.Float(), nullable=False),
        sa.Column("wv", sa.Float(), nullable=False),
        sa.Column("wv2", sa.Float(), nullable=False),
        sa.Column("w2v", sa.Float(), nullable=False),
        sa.Column("w2v2", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("step", "start", "kind", "app", "model", "name", "version", name=op.f("pk_sums")),
    )
    op.create_index(op.f("ix_reviews_item"), "reviews", ["item"], unique=False)
    op.add_column("scores", sa.Column("bucket", sa.SmallInteger(), server_default="-32768", nullable=False))
    op.drop_index(op.f("ix_scores_evaluator_value_trace"), table_name="scores")
    op.create_index(
        op.f("ix_scores_evaluator_bucket_trace_value"),
        "scores",
        ["evaluator", "bucket", "trace", "value"],
        unique=False,
    )
    op.create_index(
        "ix_scores_failed",
        "scores",
        ["evaluator", "trace"],
        unique=False,
        sqlite_where=sa.text("error IS NOT NULL"),
        postgresql_where=sa.text("error IS NOT NULL"),
    )
    op.drop_index(op.f("ix_traces_app_started"), table_name="traces")
    op.drop_index(op.f("ix_traces_model_started"), table_name="traces")
    op.drop_index(op.f("ix_traces_started"), table_name="traces")
    op.drop_index(op.f("ix_traces_user_key"), table_name="traces")
    op.create_index(op.f("ix_traces_app_id"), "traces", ["app", "id"], unique=False)
    op.create_index(op.f("ix_traces_cause_id"), "traces", ["cause", "id"], unique=False)
    op.create_index(op.f("ix_traces_env_id"), "traces", ["env", "id"], unique=False)
    op.create_index(
        "ix_traces_failed",
        "traces",
        ["id"],
        unique=False,
        sqlite_where=sa.text("error IS NOT NULL"),
        postgresql_where=sa.text("error IS NOT NULL"),
    )
    op.create_index(op.f("ix_traces_model_id"), "traces", ["model", "id"], unique=False)
    op.create_index(op.f("ix_traces_prompt_version_id"), "traces", ["prompt_version", "id"], unique=False)
    op.create_index(op.f("ix_traces_reviewed_id"), "traces", ["reviewed", "id"], unique=False)
    op.create_index(op.f("ix_traces_session_id_id"), "traces", ["session_id", "id"], unique=False)
    op.create_index(op.f("ix_traces_stored"), "traces", ["stored"], unique=False)
    op.create_index(op.f("ix_traces_thumbs_id"), "traces", ["thumbs", "id"], unique=False)
    op.create_index(op.f("ix_traces_user_key_id"), "traces", ["user_key", "id"], unique=False)
    connection = op.get_bind()
    full_text.create(connection)
    _fill_buckets(connection)
    _fill_search(connection)


def _fill_buckets(connection: sa.Connection) -> None:
    value = sa.select(scores.c.value).distinct().where(scores.c.value.is_not(None))
    for (score,) in connection.execute(value).all():
        connection.execute(sa.update(scores).where(scores.c.value == score).values(bucket=bucket(score)))


def _fill_search(connection: sa.Connection) -> None:
    last = -1
    while True:
        plain = sa.select(contents).where(contents.c.trace > last, contents.c.sealed.is_(None))
        rows = connection.execute(plain.order_by(contents.c.trace).limit(_BATCH)).mappings().all()
        if not rows:
            return
        full_text.add(connection, [full_text.index_row(row) for row in rows])
        last = rows[-1]["trace"]

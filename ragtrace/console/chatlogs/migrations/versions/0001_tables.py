"""The tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("time", sa.Float(precision=53), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("address", sa.String(length=60), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_time"), "attempts", ["time"], unique=False)
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("time", sa.Float(precision=53), nullable=False),
        sa.Column("user", sa.String(length=200), nullable=True),
        sa.Column("action", sa.String(length=60), nullable=False),
        sa.Column("object", sa.String(length=300), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("address", sa.String(length=60), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_time"), "audit", ["time"], unique=False)
    op.create_table(
        "calibrations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("evaluator", sa.String(length=100), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("made", sa.Float(precision=53), nullable=False),
        sa.Column("user", sa.String(length=200), nullable=True),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibrations")),
    )
    op.create_table(
        "evaluators",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("direction", sa.String(length=10), nullable=False),
        sa.Column("method", sa.String(length=20), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("first_seen", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name=op.f("pk_evaluators")),
    )
    op.create_table(
        "feedback",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("thumbs", sa.Integer(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=16), nullable=True),
        sa.Column("source", sa.String(length=100), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
    )
    op.create_index(op.f("ix_feedback_trace_id"), "feedback", ["trace_id"], unique=False)
    op.create_table(
        "traces",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("span_id", sa.String(length=16), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=False),
        sa.Column("duration", sa.Float(), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("env", sa.String(length=200), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("prompt_version", sa.String(length=200), nullable=True),
        sa.Column("session_id", sa.String(length=200), nullable=True),
        sa.Column("user_key", sa.String(length=200), nullable=True),
        sa.Column("error", sa.String(length=200), nullable=True),
        sa.Column("cause", sa.String(length=40), nullable=True),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("lag", sa.Float(), nullable=True),
        sa.Column("stored", sa.Float(precision=53), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("thumbs", sa.Integer(), nullable=True),
        sa.Column("reviewed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traces")),
        sa.UniqueConstraint("trace_id", "span_id", name=op.f("uq_traces_trace_id_span_id")),
    )
    op.create_index(op.f("ix_traces_app_started"), "traces", ["app", "started"], unique=False)
    op.create_index(op.f("ix_traces_model_started"), "traces", ["model", "started"], unique=False)
    op.create_index(op.f("ix_traces_started"), "traces", ["started"], unique=False)
    op.create_index(op.f("ix_traces_user_key"), "traces", ["user_key"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("password", sa.String(length=300), nullable=True),
        sa.Column("subject", sa.String(length=300), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
        sa.UniqueConstraint("subject", name=op.f("uq_users_subject")),
    )
    op.create_table(
        "contents",
        sa.Column("trace", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("query", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("documents", sa.Text(), nullable=True),
        sa.Column("attributes", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=16), nullable=True),
        sa.ForeignKeyConstraint(["trace"], ["traces.id"], name=op.f("fk_contents_trace"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("trace", name=op.f("pk_contents")),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trace", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=False),
        sa.Column("probability", sa.Float(), nullable=True),
        sa.Column("priority", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("assigned", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("locked_by", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("locked_until", sa.Float(precision=53), nullable=True),
        sa.Column("skip_reason", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(["assigned"], ["users.id"], name=op.f("fk_items_assigned"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["locked_by"], ["users.id"], name=op.f("fk_items_locked_by"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["trace"], ["traces.id"], name=op.f("fk_items_trace"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_items")),
        sa.UniqueConstraint("trace", "slot", name=op.f("uq_items_trace_slot")),
    )
    op.create_index(op.f("ix_items_state_priority"), "items", ["state", "priority"], unique=False)
    op.create_table(
        "scores",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trace", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluator", sa.String(length=100), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("label", sa.String(length=40), nullable=True),
        sa.Column("error", sa.String(length=200), nullable=True),
        sa.Column("method", sa.String(length=20), nullable=False),
        sa.Column("cause", sa.String(length=40), nullable=True),
        sa.Column("failures", sa.String(length=100), nullable=True),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.Column("scored", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["trace"], ["traces.id"], name=op.f("fk_scores_trace"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scores")),
        sa.UniqueConstraint("trace", "evaluator", "version", name=op.f("uq_scores_trace_evaluator_version")),
    )
    op.create_index(op.f("ix_scores_evaluator_label_trace"), "scores", ["evaluator", "label", "trace"], unique=False)
    op.create_index(op.f("ix_scores_evaluator_value_trace"), "scores", ["evaluator", "value", "trace"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("user", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("csrf", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("seen", sa.Float(precision=53), nullable=False),
        sa.Column("expires", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_sessions_user"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("user", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("expires", sa.Float(precision=53), nullable=True),
        sa.Column("used", sa.Float(precision=53), nullable=True),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_tokens_user"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "views",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("user", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_views_user"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_views")),
        sa.UniqueConstraint("user", "name", name=op.f("uq_views_user_name")),
    )
    op.create_table(
        "details",
        sa.Column("score", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=16), nullable=True),
        sa.ForeignKeyConstraint(["score"], ["scores.id"], name=op.f("fk_details_score"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("score", name=op.f("pk_details")),
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trace", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("item", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("user", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("corrected", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=16), nullable=True),
        sa.Column("source", sa.String(length=100), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name=op.f("fk_reviews_item"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["trace"], ["traces.id"], name=op.f("fk_reviews_trace"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_reviews_user"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
        sa.UniqueConstraint("trace", "user", name=op.f("uq_reviews_trace_user")),
    )
    op.create_index(op.f("ix_reviews_created"), "reviews", ["created"], unique=False)
    op.create_table(
        "verdicts",
        sa.Column("review", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluator", sa.String(length=100), nullable=False),
        sa.Column("label", sa.String(length=20), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["review"], ["reviews.id"], name=op.f("fk_verdicts_review"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("review", "evaluator", name=op.f("pk_verdicts")),
    )

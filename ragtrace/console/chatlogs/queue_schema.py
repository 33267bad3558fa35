"""The tables of named queues and of questions of one's own; the other tables are in `schema`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, String, Table, Text

from ragtrace.console.chatlogs.schema import metadata

_Id = BigInteger().with_variant(Integer(), "sqlite")

queues = Table(  # whose turn a log is, and what is asked of it; they are closed, never deleted
    "queues",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("instructions", Text),  # for its reviewers
    Column("filter", Text, nullable=False),  # JSON: fields of `store_types.Filter`; waiting logs that match come here
    Column("closed", Boolean, nullable=False, default=False),
    Column("created", Float(53), nullable=False),
)

members = Table(  # the reviewers of a queue; a queue without any is for every reviewer
    "members",
    metadata,
    Column("queue", _Id, ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Column("user", _Id, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
)

questions = Table(  # questions of one's own, beside those of the evaluators
    "questions",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("queue", _Id, ForeignKey("queues.id", ondelete="CASCADE")),  # None: asked of every log
    Column("name", String(100), nullable=False, unique=True),
    Column("text", String(300), nullable=False),
    Column("kind", String(20), nullable=False),  # category, number, text
    Column("options", Text, nullable=False),  # JSON: see `review.own_questions`
    Column("closed", Boolean, nullable=False, default=False),
    Column("created", Float(53), nullable=False),
)

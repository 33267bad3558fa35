"""The tables of named queues, of questions of one's own and of anchors; the other tables are in `schema`."""

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

anchor_scores = Table(  # scores of reviewed logs that are scored again: see `review.anchors`
    "anchor_scores",
    metadata,
    Column("trace", _Id, ForeignKey("traces.id", ondelete="CASCADE"), primary_key=True),
    Column("evaluator", String(100), primary_key=True),
    Column("time", Float(53), primary_key=True),  # of the run
    Column("value", Float(53)),
    Column("label", String(20), nullable=False),  # pass, fail
    Column("kind", String(200), nullable=False),  # version, and the model of a judge
)

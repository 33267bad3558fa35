"""The tables. One description for SQLite and PostgreSQL; `migrations/` brings older files here, step by step.

Times are Unix seconds. Content that may quote a user is only in `contents`, `details`, `reviews`, `feedback` and
`topics`: there it is encrypted if the store has a key, and deleted on request.

A trace's id grows with the request's start, not with the time of storing: "newest first" is the descending order of
ids, a period is a range of ids, and every index that ends in the trace's id serves both. `traces.stored` is the time of
storing. The full-text index (`search`) differs between the databases; see `full_text` and the migrations."""

import math
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    or_,
    select,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# SQLite assigns ids only in a column of type INTEGER.
_Id = BigInteger().with_variant(Integer(), "sqlite")


_EPOCH = 1_577_836_800
"""2020-01-01: until 2088, ids are positive and fit into the 53 bits of JavaScript's integers."""
_SECOND = 22
"""Bits of an id below the second: 10 for the millisecond, 12 to distinguish traces of the same millisecond."""
NO_VALUE = -32_768
"""The bucket of a score without a value."""


def lowest_id(started: float) -> int:
    """Returns the smallest id of a trace of this second. Ids of earlier seconds are smaller."""
    return min(max(int(started) - _EPOCH, 0), 2**31 - 1) << _SECOND


def end_id(until: float) -> int:
    """Returns an id above those of all traces that started before a time."""
    return lowest_id(max(until, _EPOCH) + 1)


def id_for(started: float, salt: int) -> int:
    """Returns the id for a trace that started then. If it is taken, the trace gets any free id of the same second."""
    return lowest_id(started) | int(started % 1 * 1000) << 12 | salt & 0xFFF


def bucket(value: float | None) -> int:
    """Returns the bucket of a score's value; it grows with the value. In (0, 1) a bucket is 0.01 wide; above 1, and
    below 0, there are eight buckets for each doubling; 0 and 1 have buckets of their own."""
    if value is None:
        return NO_VALUE
    if value < 0:
        return -bucket(-value)
    if value < 1:
        return 0 if value == 0 else 1 + int(value * 100)
    return 101 if value == 1 else min(102 + int(math.log2(value) * 8), 10_000)


def trace_is(*keys: str | int) -> ColumnElement[bool]:
    """The condition that a row of `traces` has one of these ids: the store's number, also as a text, or 32 hexadecimal
    digits for the newest request of a trace."""
    texts = [str(key).lower() for key in keys]
    numbers = [int(text) for text in texts if len(text) < 19 and text.isascii() and text.isdigit()]
    names = [text for text in texts if len(text) == 32 and text.isalnum()]
    newest = select(func.max(traces.c.id)).where(traces.c.trace_id.in_(names)).group_by(traces.c.trace_id)
    return or_(traces.c.id.in_(numbers), traces.c.id.in_(newest))


def in_period(since: float, until: float, app: str = "") -> list[ColumnElement[bool]]:
    """The conditions that a row of `traces` started in [since, until), in Unix seconds; the range of ids lets an index
    answer. `app` selects one application; empty for all."""
    return [
        traces.c.id >= lowest_id(since), traces.c.id < end_id(until), traces.c.started >= since,
        traces.c.started < until, *([traces.c.app == app] if app else []),
    ]  # fmt: skip


def _bucket(context: Any) -> int:
    return bucket(context.get_current_parameters().get("value"))


def _id() -> Column[int]:
    return Column("id", _Id, primary_key=True, autoincrement=True)


def _of(table: str, name: str, *, primary_key: bool = False) -> Column[int]:
    return Column(name, _Id, ForeignKey(f"{table}.id", ondelete="CASCADE"), primary_key=primary_key, nullable=False)


traces = Table(
    "traces",
    metadata,
    _id(),
    Column("trace_id", String(32), nullable=False),  # lower-case hex
    Column("span_id", String(16), nullable=False),
    Column("started", Float(53), nullable=False),
    Column("duration", Float, nullable=False),  # seconds
    Column("app", String(200), nullable=False),
    Column("env", String(200), nullable=False),
    Column("model", String(200)),
    Column("prompt_version", String(200)),
    Column("tenant", String(200)),
    Column("session_id", String(200)),
    # See `encryption.user_keys`: in a store with a key it can be found but not read.
    Column("user_key", String(200)),
    Column("error", String(200)),
    Column("cause", String(40)),
    Column("searched", Boolean),  # a retrieval ran; NULL in rows of release 0.2 and before
    Column("probability", Float, nullable=False),  # in (0, 1], of being sampled for evaluation
    Column("lag", Float),  # seconds
    Column("cost", Float),  # US dollars of its models; NULL where a price is not known
    Column("stored", Float(53), nullable=False),
    Column("size", Integer, nullable=False),  # bytes of its content
    Column("thumbs", Integer),  # -1, 0 or 1: the last feedback
    Column("reviewed", Boolean, nullable=False, default=False),
    UniqueConstraint("trace_id", "span_id"),
)

contents = Table(
    "contents",
    metadata,
    _of("traces", "trace", primary_key=True),
    Column("query", Text),
    Column("answer", Text),
    Column("reference", Text),
    Column("documents", Text),  # JSON: [{id, content, score, metadata}], by rank
    Column("attributes", Text),  # JSON: {metadata, facts}, see `reader.parse_attributes`
    Column("sealed", LargeBinary),  # instead of the above: all of it, encrypted
    Column("key", String(16)),  # which key sealed it
)

scores = Table(
    "scores",
    metadata,
    _id(),
    _of("traces", "trace"),
    Column("evaluator", String(100), nullable=False),
    Column("version", String(100), nullable=False),
    Column("value", Float),
    # `bucket` of the value: a range of values is a few ranges of an index in the order of time.
    Column("bucket", SmallInteger, nullable=False, default=_bucket, server_default=str(NO_VALUE)),
    Column("label", String(40)),
    Column("error", String(200)),
    Column("method", String(20), nullable=False),
    Column("cause", String(40)),
    Column("failures", String(100)),  # comma-separated
    Column("probability", Float, nullable=False),  # in (0, 1], of being evaluated by this evaluator
    Column("model", String(200)),
    Column("input_tokens", Integer, nullable=False, default=0),
    Column("output_tokens", Integer, nullable=False, default=0),
    Column("cost", Float, nullable=False, default=0.0),  # US dollars
    Column("scored", Float(53), nullable=False),
    UniqueConstraint("trace", "evaluator", "version"),
)

details = Table(
    "details",
    metadata,
    _of("scores", "score", primary_key=True),
    Column("explanation", Text),
    Column("evidence", Text),  # JSON: [Evidence]
    Column("sealed", LargeBinary),
    Column("key", String(16)),
)

evaluators = Table(
    "evaluators",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("version", String(100), primary_key=True),
    Column("threshold", Float),
    Column("direction", String(10), nullable=False),  # higher, lower
    Column("method", String(20), nullable=False),
    Column("description", Text),
    Column("first_seen", Float(53), nullable=False),
)

users = Table(
    "users",
    metadata,
    _id(),
    Column("name", String(200), nullable=False, unique=True),
    Column("role", String(20), nullable=False),  # viewer, reviewer, admin
    Column("password", String(300)),  # argon2; None for a user of OIDC
    Column("subject", String(300), unique=True),  # OIDC: issuer and sub
    Column("disabled", Boolean, nullable=False, default=False),
    Column("created", Float(53), nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),  # sha256 of the cookie
    _of("users", "user"),
    Column("csrf", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("seen", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("hash", String(64), nullable=False, unique=True),  # sha256 of the token
    Column("name", String(200), nullable=False),
    _of("users", "user"),
    Column("scopes", String(200), nullable=False),  # comma-separated: read, feedback, review, admin
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53)),
    Column("used", Float(53)),
    Column("revoked", Boolean, nullable=False, default=False),
)

audit = Table(
    "audit",
    metadata,
    _id(),
    Column("time", Float(53), nullable=False, index=True),
    Column("user", String(200)),  # the name, because the line outlives the user
    Column("action", String(60), nullable=False),  # e.g. trace.view, review.submit, user.add
    Column("object", String(300)),
    Column("detail", Text),  # JSON, never content
    Column("address", String(60)),
)

attempts = Table(  # failed logins, for the rate limit; rows older than the window are removed
    "attempts",
    metadata,
    _id(),
    Column("time", Float(53), nullable=False, index=True),
    Column("name", String(200), nullable=False),
    Column("address", String(60), nullable=False),
)

views = Table(
    "views",
    metadata,
    _id(),
    _of("users", "user"),
    Column("name", String(100), nullable=False),
    Column("query", Text, nullable=False),  # the page's query string
    UniqueConstraint("user", "name"),
)

feedback = Table(
    "feedback",
    metadata,
    _id(),
    Column("trace_id", String(32), nullable=False, index=True),  # may come before its trace
    Column("thumbs", Integer),  # -1, 0 or 1
    Column("comment", Text),
    Column("sealed", LargeBinary),
    Column("key", String(16)),
    Column("source", String(100)),
    Column("created", Float(53), nullable=False),
    Column("score", Float(53)),  # on the application's own scale
    Column("category", String(100)),
)

items = Table(  # the review queue; one row for each requested review
    "items",
    metadata,
    _id(),
    _of("traces", "trace"),
    Column("slot", Integer, nullable=False),  # 0, and 1 for a second review
    Column("reason", String(40), nullable=False),  # one of `review.policy.REASONS`
    # Probability of the random draw, in (0, 1]; None for a log that only a rule picked. `review.weights` uses it.
    Column("probability", Float),
    Column("priority", Float, nullable=False),  # higher comes first
    Column("state", String(20), nullable=False),  # open, done, skipped
    Column("created", Float(53), nullable=False),
    Column("assigned", _Id, ForeignKey("users.id", ondelete="SET NULL")),  # never set
    Column("locked_by", _Id, ForeignKey("users.id", ondelete="SET NULL")),
    Column("locked_until", Float(53)),
    Column("skip_reason", String(200)),
    Column("queue", _Id),  # of `queue_schema.queues`, which are never deleted; None: for everybody
    UniqueConstraint("trace", "slot"),
)

reviews = Table(
    "reviews",
    metadata,
    _id(),
    _of("traces", "trace"),
    Column("item", _Id, ForeignKey("items.id", ondelete="SET NULL")),
    Column("user", _Id, ForeignKey("users.id", ondelete="SET NULL")),
    Column("comment", Text),
    Column("corrected", Text),  # the expected answer: a reference from then on
    Column("answers", Text),  # JSON: by question of one's own
    Column("evidence", Text),  # JSON: [Evidence], the parts of the answer that this person marked as wrong
    Column("sealed", LargeBinary),
    Column("key", String(16)),
    Column("source", String(100), nullable=False),  # console, api, import
    Column("seconds", Float),  # from display to verdict
    Column("created", Float(53), nullable=False),
    UniqueConstraint("trace", "user"),
)

verdicts = Table(
    "verdicts",
    metadata,
    _of("reviews", "review", primary_key=True),
    Column("evaluator", String(100), primary_key=True),
    Column("label", String(20), nullable=False),  # pass, fail, not_applicable, unsure
    Column("version", String(100)),  # of the displayed score
    Column("value", Float),  # and its value
)

calibrations = Table(
    "calibrations",
    metadata,
    _id(),
    Column("evaluator", String(100), nullable=False),
    Column("version", String(100), nullable=False),  # of the evaluator that was fitted
    Column("made", Float(53), nullable=False),
    Column("user", String(200)),
    Column("content", Text, nullable=False),  # JSON: the entry of the calibration file
    Column("active", Boolean, nullable=False, default=False),
)

sums = Table(  # sums for the overview: one row for each value of the columns before `count`
    "sums",
    metadata,
    Column("step", Integer, primary_key=True),  # seconds: 300, 3,600 or 86,400
    Column("start", BigInteger, primary_key=True),  # Unix time, a multiple of step
    Column("kind", String(20), primary_key=True),  # see `rollups`
    Column("app", String(200), primary_key=True),
    Column("model", String(200), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("version", String(100), primary_key=True),
    # The fields of `ragtrace.statistics.Sums`.
    *(Column(name, Float, nullable=False) for name in ("count", "clipped", "w", "w2", "wv", "wv2", "w2v", "w2v2")),
)

topics = Table(  # groups of similar questions; see `ragtrace.console.topics`
    "topics",
    metadata,
    _id(),
    Column("name", Text),  # words of masked questions
    Column("centre", Text),  # base64 of float32
    Column("sealed", LargeBinary),
    Column("key", String(16)),
    Column("model", String(200), nullable=False),  # the embedding model, whose centres alone can be compared
    Column("size", Integer, nullable=False),  # questions that the centre is the mean of
    Column("created", Float(53), nullable=False),
)

trace_topics = Table(  # one row for each question that was looked at
    "trace_topics",
    metadata,
    _of("traces", "trace", primary_key=True),
    Column("topic", _Id, ForeignKey("topics.id", ondelete="SET NULL")),  # None: it fits no topic
)

meta = Table(  # facts about the store; `key:<id>` is a key that has encrypted content
    "meta", metadata, Column("name", String(60), primary_key=True), Column("value", Text, nullable=False)
)

_SOUGHT = ["app", "env", "model", "prompt_version", "tenant", "session_id", "user_key", "cause", "thumbs", "reviewed"]
for _name in _SOUGHT:
    Index(None, traces.c[_name], traces.c.id)
Index(
    "ix_traces_failed", traces.c.id, sqlite_where=traces.c.error.is_not(None),
    postgresql_where=traces.c.error.is_not(None),
)  # fmt: skip
Index(None, traces.c.stored)
Index(None, scores.c.evaluator, scores.c.label, scores.c.trace)
Index(None, scores.c.evaluator, scores.c.bucket, scores.c.trace, scores.c.value)
Index(
    "ix_scores_failed", scores.c.evaluator, scores.c.trace, sqlite_where=scores.c.error.is_not(None),
    postgresql_where=scores.c.error.is_not(None),
)  # fmt: skip
Index(None, items.c.state, items.c.priority)
Index(None, reviews.c.created)
Index(None, reviews.c.item)
Index(None, trace_topics.c.topic, trace_topics.c.trace)

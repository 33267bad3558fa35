"""Assigns the stored questions to topics in the background.

A question is compared once, when it is new, with the centres of the topics that exist. It gets the nearest one if it
fits, else none. Where enough questions fit no topic and are like each other, they become a new topic. Topics keep their
centres and names, so today's figures of a topic can be compared with yesterday's."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, delete, exists, func, insert, select, text, update

from ragtrace.console.chatlogs.engine import among, lock
from ragtrace.console.chatlogs.reader import QUESTION_LENGTH, TOPIC, TOPIC_SEAL, read_questions
from ragtrace.console.chatlogs.schema import lowest_id, topics, trace_topics, traces
from ragtrace.console.regular import Regular
from ragtrace.console.topics import clusters
from ragtrace.text.redaction import mask_beginning

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store
    from ragtrace.evaluate.models.embedding import Embedder

DAYS = 30.0
"""Questions that are older when they are looked at for the first time get no topic."""
MOST_TOPICS = 50
LEAST = 5
"""Questions that a new topic needs."""
MOST_QUESTIONS = 20_000
"""Only so many of the newest questions are looked at: embedding one takes some milliseconds."""
_POOL = 5_000
"""Most questions without a topic that new topics are formed from, the newest ones."""
_GROWTH = 0.05
"""New topics are looked for when the questions without a topic have grown by this share."""
_BATCH = 200
_CENTRE_SIZE = 200
"""A centre moves with the first questions of its topic, and then stays."""
_STALE_DAYS = 90.0
"""A topic without a question for so long is deleted."""
_NAMED_BY = 200
"""Questions of a topic whose words name it."""
_LOCK = 7_236_871_044
"""PostgreSQL's advisory lock for forming topics."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A group of similar questions."""

    id: int
    name: str
    """Words of its questions, with personal data masked."""
    centre: Any
    """A vector of unit length."""
    size: int
    """Questions that the centre is the mean of."""


@dataclass(frozen=True, slots=True)
class GroupingProgress:
    """How many of the questions to look at have been looked at."""

    grouped: int
    waiting: int


def progress(store: Store, now: float | None = None) -> GroupingProgress:
    """Counts the questions of the last `DAYS`, at most `MOST_QUESTIONS`."""
    recent = _recent(time.time() if now is None else now).subquery()
    has_row = exists().where(trace_topics.c.trace == recent.c.id)
    with store.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(recent)) or 0
        waiting = connection.scalar(select(func.count()).select_from(recent).where(~has_row)) or 0
    return GroupingProgress(total - waiting, waiting)


def _recent(now: float) -> Select[Any]:
    query = select(traces.c.id).where(traces.c.id >= lowest_id(now - DAYS * 86_400))
    return query.order_by(traces.c.id.desc()).limit(MOST_QUESTIONS)


class Grouper(Regular):
    """Assigns new questions to topics regularly, from a thread of its own: `with Grouper(store): …`."""

    def __init__(self, store: Store, *, every: float = 60.0, embedder: Embedder | None = None) -> None:
        """`embedder` is the embedded model by default."""
        super().__init__("questions were not grouped by topic", self.update, every=every)
        self._store = store
        self._embedder = embedder
        self._unfit = -1
        """Questions without a topic when new topics were last looked for."""

    def update(self, now: float | None = None) -> int:
        """Assigns the questions that are new, newest first, and forms new topics; returns the number of questions.
        Raises MissingExtraError without the embedding model, StoreError as the store does."""
        now = time.time() if now is None else now
        self._remove_stale(now)
        count = since_formed = 0
        while not self.stop.is_set() and (batch := self._next_batch(now)):
            self._assign(batch)
            count, since_formed = count + len(batch), since_formed + len(batch)
            if since_formed >= _POOL:
                self._form(now)
                since_formed = 0
        if since_formed or self._unfit < 0:
            self._form(now)
        return count

    # --- a question that is new -------------------------------------------------------------------

    def _next_batch(self, now: float) -> list[tuple[int, str]]:
        recent = _recent(now).subquery()
        query = select(recent.c.id).where(~exists().where(trace_topics.c.trace == recent.c.id))
        with self._store.reading() as connection:
            ids = connection.scalars(query.order_by(recent.c.id.desc()).limit(_BATCH)).all()
            texts = read_questions(connection, self._store.keys, ids)
        return [(trace, texts.get(trace, "")) for trace in ids]

    def _assign(self, batch: Sequence[tuple[int, str]]) -> None:
        import numpy as np

        embedder = self._open_embedder()
        current = load_topics(self._store, embedder.name)
        filled = [(trace, question) for trace, question in batch if question.strip()]
        vectors = embedder.embed([question for _, question in filled])
        centres = (
            np.stack([topic.centre for topic in current]) if current else np.zeros((0, vectors.shape[1]), np.float32)
        )
        best, similarity = clusters.nearest(vectors, centres)
        members = np.where(similarity >= clusters.FIT, best, -1)
        topic_of = {trace: current[i].id for (trace, _), i in zip(filled, members.tolist(), strict=True) if i >= 0}
        rows = [{"trace": trace, "topic": topic_of.get(trace)} for trace, _ in batch]
        moved = [
            _moved(current[i], vectors[members == i])
            for i in sorted(set(members.tolist()) - {-1})
            if current[i].size < _CENTRE_SIZE
        ]
        with self._store.writing() as connection:
            # A trace may be deleted, and another process may have looked at it, since it was read.
            connection.execute(text(_INSERT), rows)
            for topic in moved:
                values = {"size": topic.size, **_sealed(self._store, topic.name, topic.centre)}
                connection.execute(update(topics).where(topics.c.id == topic.id).values(**values))

    def _open_embedder(self) -> Embedder:
        if self._embedder is None:
            from ragtrace.evaluate.models.embedding import get_embedder

            self._embedder = get_embedder()
        return self._embedder

    # --- questions without a topic ----------------------------------------------------------------

    def _form(self, now: float) -> None:
        """Forms new topics of the questions that fit none, if there are enough since the last time."""
        unfit = self._read_unfit(now)
        if len(unfit) - self._unfit < max(1, _GROWTH * self._unfit) or len(unfit) < LEAST:
            return
        embedder = self._open_embedder()
        names_in_use = [topic.name for topic in load_topics(self._store, embedder.name)]
        if len(names_in_use) >= MOST_TOPICS:
            return
        questions = [question for _, question in unfit]
        vectors = self._embed(questions)
        if vectors is None:
            return
        groups = clusters.find_groups(vectors, LEAST, MOST_TOPICS - len(names_in_use))
        names = _names([[questions[i] for i in group] for group in groups], questions, names_in_use)
        with self._store.writing() as connection:
            lock(connection, _LOCK)
            for name, group in zip(names, groups, strict=True):
                centre = clusters.centre_of(vectors[group])
                _add_topic(self._store, connection, embedder.name, name, centre, [unfit[i][0] for i in group], now)
        self._unfit = len(unfit) - sum(map(len, groups))

    def _read_unfit(self, now: float) -> list[tuple[int, str]]:
        query = select(trace_topics.c.trace).where(
            trace_topics.c.topic.is_(None), trace_topics.c.trace >= lowest_id(now - DAYS * 86_400)
        )
        with self._store.reading() as connection:
            ids = connection.scalars(query.order_by(trace_topics.c.trace.desc()).limit(_POOL)).all()
            texts = read_questions(connection, self._store.keys, ids)
        return [(trace, texts[trace]) for trace in ids if texts.get(trace, "").strip()]

    def _embed(self, questions: Sequence[str]) -> Any:
        """The vectors of questions; None if the thread shall end meanwhile."""
        import numpy as np

        parts = []
        for start in range(0, len(questions), _BATCH):
            if self.stop.is_set():
                return None
            parts.append(self._open_embedder().embed(questions[start : start + _BATCH]))
        return np.concatenate(parts)

    def _remove_stale(self, now: float) -> None:
        is_used = exists().where(
            trace_topics.c.topic == topics.c.id, trace_topics.c.trace >= lowest_id(now - _STALE_DAYS * 86_400)
        )
        if stale := [topic for (topic,) in self._store.rows(select(topics.c.id).where(~is_used))]:
            self._store.execute(delete(topics).where(topics.c.id.in_(stale), ~is_used))


_INSERT = """
INSERT INTO trace_topics (trace, topic)
SELECT id, (SELECT topics.id FROM topics WHERE topics.id = :topic) FROM traces WHERE id = :trace
ON CONFLICT DO NOTHING"""


def load_topics(store: Store, model: str) -> list[Topic]:
    """The topics whose centres are of this embedding model, in the order of their ids."""
    import numpy as np

    with store.reading() as connection:
        query = select(topics).where(topics.c.model == model).order_by(topics.c.id)
        rows = connection.execute(query).mappings().all()
    result = []
    for row in rows:
        texts = store.unseal(TOPIC_SEAL, row, TOPIC)
        centre = np.frombuffer(base64.b64decode(texts["centre"] or ""), np.float32)
        result.append(Topic(row["id"], texts["name"] or "", centre, row["size"]))
    return result


def load_names(store: Store) -> dict[int, str]:
    """The names of all topics, by id."""
    with store.reading() as connection:
        rows = connection.execute(select(topics).order_by(topics.c.id)).mappings().all()
    return {row["id"]: store.unseal(TOPIC_SEAL, row, TOPIC)["name"] or "" for row in rows}


def _moved(topic: Topic, vectors: Any) -> Topic:
    """The topic with its centre moved by the vectors of new questions."""
    import numpy as np

    total = topic.centre * topic.size + vectors.sum(axis=0)
    return replace(topic, centre=clusters.centre_of(np.atleast_2d(total)), size=topic.size + len(vectors))


def _names(groups: Sequence[Sequence[str]], others: Sequence[str], names_in_use: Sequence[str]) -> list[str]:
    masked = [[mask_beginning(question, QUESTION_LENGTH) for question in group[:_NAMED_BY]] for group in groups]
    rest = [mask_beginning(question, QUESTION_LENGTH) for question in others[: 5 * _NAMED_BY]]
    return clusters.name_groups(masked, rest, names_in_use)


def _add_topic(  # noqa: PLR0917 a row's columns
    store: Store, connection: Connection, model: str, name: str, centre: Any, ids: Sequence[int], now: float
) -> None:
    values = {"model": model, "size": len(ids), "created": now, **_sealed(store, name, centre)}
    topic = connection.execute(insert(topics).values(**values).returning(topics.c.id)).scalar_one()
    # Another process may have put them into a topic since they were read.
    is_free = among(connection, trace_topics.c.trace, ids) & trace_topics.c.topic.is_(None)
    if connection.execute(update(trace_topics).where(is_free).values(topic=topic)).rowcount < LEAST:
        connection.execute(delete(topics).where(topics.c.id == topic))


def _sealed(store: Store, name: str, centre: Any) -> dict[str, Any]:
    encoded = base64.b64encode(centre.astype("float32").tobytes()).decode()
    return store.seal(TOPIC_SEAL, {"name": name, "centre": encoded})

"""Lists the questions to which the retrieval found nothing that answers, for the people who write the documents."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import select

from ragtrace.console.chatlogs.schema import contents, in_period, trace_topics, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.topics.grouper import load_names
from ragtrace.statistics import weight_of

GAP_CAUSES = ("answered_without_context", "nothing_retrieved", "irrelevant_context", "right_refusal")
"""Causes that say of a retrieval that no chunk answers the question: none came, none is relevant, or the application
rightly declined to answer because none is."""
MOST_GAPS = 2_000
"""Most requests that are read, the newest ones."""
TopicChoice = int | None | Literal["all"]
"""The id of a topic, None for the questions that fit none, or `all`."""
ALL_TOPICS: TopicChoice = "all"
_COLUMNS = (traces.c.id, traces.c.trace_id, traces.c.started, traces.c.app, traces.c.cause, traces.c.probability)


@dataclass(frozen=True, slots=True)
class KnowledgeGap:
    """A question that the documents do not answer."""

    question: str
    topic: str
    """The name of its topic; empty if it fits none."""
    times: int
    """Requests with this question, apart from upper and lower case."""
    requests: float
    """Estimated number of requests: the sum of 1/p."""
    cause: str
    """The most frequent one of `GAP_CAUSES`."""
    app: str
    latest: float
    """Unix time of the latest request."""
    trace_id: str
    """The latest request: 32 hexadecimal digits."""
    document: str
    """The id of the chunk that the retrieval ranked first then; empty without chunks."""


def knowledge_gaps(
    store: Store, since: float, until: float, app: str = "", topic: TopicChoice = ALL_TOPICS
) -> list[KnowledgeGap]:
    """The questions of a period (Unix times) that the documents do not answer, the most frequent first; the texts are
    unmasked. `app` selects one application, empty for all."""
    query = (
        select(*_COLUMNS, trace_topics.c.topic, contents)
        .join(contents, contents.c.trace == traces.c.id)
        .outerjoin(trace_topics, trace_topics.c.trace == traces.c.id)
        .where(traces.c.cause.in_(GAP_CAUSES), traces.c.searched.is_not(False), *in_period(since, until, app))
    )
    if topic != ALL_TOPICS:
        query = query.where(trace_topics.c.topic == topic)
    with store.reading() as connection:
        rows = connection.execute(query.order_by(traces.c.id.desc()).limit(MOST_GAPS)).mappings().all()
    names = load_names(store)
    by_question: defaultdict[str, list[tuple[Any, str, str]]] = defaultdict(list)
    for row in rows:
        texts = store.unseal(row["trace_id"], row, ("query", "documents"))
        if question := (texts["query"] or "").strip():
            by_question[" ".join(question.casefold().split())].append((row, question, texts["documents"] or "[]"))
    gaps = [_gap(group, names) for group in by_question.values()]
    return sorted(gaps, key=lambda gap: (-gap.requests, -gap.latest))


def _gap(group: Sequence[tuple[Any, str, str]], names: dict[int, str]) -> KnowledgeGap:
    """From the requests with one question, the latest first."""
    latest, question, documents = group[0]
    chunks = [each for each in json.loads(documents) if not each.get("source")]
    return KnowledgeGap(
        question,
        names.get(latest["topic"], ""),
        len(group),
        sum(weight_of(row["probability"])[0] for row, _, _ in group),
        Counter(row["cause"] for row, _, _ in group).most_common(1)[0][0],
        latest["app"],
        latest["started"],
        latest["trace_id"],
        str(chunks[0].get("id", "")) if chunks else "",
    )

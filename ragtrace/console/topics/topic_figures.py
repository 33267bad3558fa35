"""Computes how often the questions of each topic fail, why, and how that moved; lists questions without a document."""

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection, and_, func, select

from ragtrace.console.chatlogs.filters import higher_is_better
from ragtrace.console.chatlogs.schema import contents, in_period, scores, trace_topics, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.topics.grouper import load_names
from ragtrace.errors import SettingError
from ragtrace.statistics import Estimate, Sums, weight_of
from ragtrace.statistics.differences import ShareDifference, change_verdicts, independent_difference

MOST_ROWS = 50_000
"""Most questions of a period that are read, the newest ones."""
UNFIT = "fits no topic"
"""The name of the questions without a topic."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic in a period."""

    id: int | None
    """None for the questions that fit no topic."""
    name: str
    questions: int
    """Questions in the store."""
    requests: float
    """Estimated number of requests: the sum of 1/p."""
    failures: Estimate | None
    """Weighted share of failures among passes and failures of the evaluator; None without either."""
    before: Estimate | None
    """The same in as long a time before."""
    change: ShareDifference | None
    """From then to now; None without one of them."""
    verdict: str
    """`worse` or `better` where the change is beyond chance, corrected for the number of topics (Holm); else empty."""
    part: float
    """Share of the topic in all failures, weighted, in [0, 1]."""
    causes: tuple[tuple[str, float], ...]
    """Causes of bad answers by estimated number of requests, most frequent first."""
    gaps: int
    """Questions to which the retrieval found nothing that answers."""
    worst: tuple[int, ...]
    """The store's ids of failures, those with the worst value first."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """All topics in a period."""

    since: float
    until: float
    evaluator: str
    total: Estimate | None
    """Weighted share of failures of all questions that were grouped."""
    topics: tuple[TopicRow, ...]
    """Worst first, by the lower end of the interval; the questions that fit no topic last."""
    grouped: int
    """Questions of the period that were grouped."""
    stored: int
    """Questions of the period in the store."""


@dataclass(slots=True)
class TopicTally:
    """The sums of one topic."""

    verdicts: Sums = field(default_factory=Sums)
    """Of failures."""
    questions: int = 0
    requests: float = 0.0
    causes: defaultdict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    gaps: int = 0
    gap_requests: float = 0.0
    failures: list[tuple[float, int]] = field(default_factory=list)
    """(badness, id of the trace)"""

    def add(self, row: Any, sign: int) -> None:
        """Adds a question; `sign` is 1 where higher values are better, else -1."""
        self.questions += 1
        weight, _ = weight_of(row.probability)
        self.requests += weight
        if row.cause in GAP_CAUSES and row.searched is not False:
            self.gaps += 1
            self.gap_requests += weight
        if row.cause and row.cause != "none":
            # The cause comes from an evaluator that may score only a share of the requests.
            self.causes[row.cause].add(1.0, row.scored if row.score_cause else row.probability)
        if row.label is not None:
            self.verdicts.add(float(row.label == "fail"), row.scored)
        if row.label == "fail":
            self.failures.append((-sign * (0.0 if row.value is None else row.value), row.id))


def topic_report(
    store: Store, since: float, until: float, evaluator: str, app: str = "", *, worst: int = 3
) -> TopicReport:
    """Computes the figures of all topics from `since` to `until` (Unix times) by the verdicts of one evaluator. `app`
    selects one application; empty for all. `worst` is the number of failures to name for each topic.

    Reads at most the `MOST_ROWS` newest questions of the period, and as many before. Raises SettingError unless `since`
    is before `until`."""
    _check_period(since, until)
    with store.reading() as connection:
        sign = 1 if higher_is_better(connection, evaluator) else -1
        now = _tally(_rows(connection, since, until, evaluator, app), sign)
        before = _tally(_rows(connection, since - (until - since), since, evaluator, app), sign)
        stored = connection.scalar(select(func.count()).select_from(traces).where(*in_period(since, until, app))) or 0
    names = load_names(store)
    total = Sums()
    for tally in now.values():
        total += tally.verdicts
    rows = [_row(key, names, tally, before.get(key), total.wv, worst) for key, tally in now.items()]
    rows = sorted(_with_verdicts(rows), key=lambda row: (row.id is None, -_badness(row), row.name))
    grouped = sum(tally.questions for tally in now.values())
    return TopicReport(since, until, evaluator, total.rate(), tuple(rows), grouped, stored)


@dataclass(frozen=True, slots=True)
class TopicStep:
    """A step of a period: how often one topic fails in it, and how often all questions do."""

    start: float
    """Unix time."""
    failures: Estimate | None
    """Weighted share of failures of the topic; None without a verdict."""
    total: Estimate | None
    """The same of all grouped questions."""


def topic_history(  # noqa: PLR0917 what is asked
    store: Store, topic: int | None, since: float, until: float, evaluator: str, app: str = "", *, steps: int = 12
) -> tuple[TopicStep, ...]:
    """Computes how the share of failures of one topic moved from `since` to `until` (Unix times), in `steps` equal
    steps. `topic` is None for the questions that fit no topic. Reads at most the `MOST_ROWS` newest questions.

    Raises SettingError unless `since` is before `until`."""
    _check_period(since, until)
    length = (until - since) / steps
    sums = [(Sums(), Sums()) for _ in range(steps)]
    with store.reading() as connection:
        for row in _rows(connection, since, until, evaluator, app):
            if row.label is not None:
                own, total = sums[min(steps - 1, int((row.started - since) / length))]
                for counted in (own, total) if row.topic == topic else (total,):
                    counted.add(float(row.label == "fail"), row.scored)
    return tuple(TopicStep(since + i * length, own.rate(), total.rate()) for i, (own, total) in enumerate(sums))


def _check_period(since: float, until: float) -> None:
    if not since < until:
        raise SettingError(f"the period ends before it begins: since is {since!r}, until is {until!r}")


def largest_topics(store: Store, since: float, until: float, evaluator: str, most: int) -> list[tuple[str, TopicTally]]:
    """The names and sums of the `most` topics with the most requests in a period (Unix times), and as `other` those of
    all other questions. Empty if there is no topic."""
    names = load_names(store)
    if not names:
        return []
    with store.reading() as connection:
        rows = _rows(connection, since, until, evaluator, "")
    tallies = _tally(rows, 1)
    largest = sorted((key for key in names if key in tallies), key=lambda key: -tallies[key].requests)[:most]
    other = TopicTally()
    for row in rows:
        if row.topic not in largest:
            other.add(row, 1)
    return [*((names[key], tallies[key]) for key in largest), ("other", other)]


def _rows(connection: Connection, since: float, until: float, evaluator: str, app: str) -> Iterable[Any]:
    """One row for each grouped question, with its newest verdict of the evaluator; `label` is None without one."""
    own = (traces.c.id, traces.c.started, traces.c.probability, traces.c.cause, traces.c.searched)
    newest = (
        select(*own, trace_topics.c.topic) .join(trace_topics, trace_topics.c.trace == traces.c.id)
        .where(*in_period(since, until, app)) .order_by(traces.c.id.desc()) .limit(MOST_ROWS) .subquery()
    )  # fmt: skip
    has_verdict = and_(
        scores.c.trace == newest.c.id, scores.c.evaluator == evaluator, scores.c.label.in_(("pass", "fail"))
    )
    query = select(
        newest, scores.c.label, scores.c.value, scores.c.cause.label("score_cause"),
        scores.c.probability.label("scored"),
    ).outerjoin(scores, has_verdict)  # fmt: skip
    ordered = query.order_by(newest.c.id.desc(), scores.c.id)
    return {row.id: row for row in connection.execute(ordered)}.values()  # of several verdicts the last one


def _tally(rows: Iterable[Any], sign: int) -> dict[int | None, TopicTally]:
    tallies: defaultdict[int | None, TopicTally] = defaultdict(TopicTally)
    for row in rows:
        tallies[row.topic].add(row, sign)
    return tallies


def _row(  # noqa: PLR0917 a row's columns
    topic: int | None, names: Mapping[int, str], now: TopicTally, before: TopicTally | None, total: float, worst: int
) -> TopicRow:
    failures, earlier = now.verdicts.rate(), before.verdicts.rate() if before is not None else None
    causes = sorted(((name, sums.w) for name, sums in now.causes.items()), key=lambda pair: -pair[1])
    return TopicRow(
        topic, UNFIT if topic is None else names.get(topic, "unnamed"), now.questions, now.requests, failures,
        earlier, independent_difference(earlier, failures) if earlier is not None and failures is not None else None,
        "", now.verdicts.wv / total if total else 0.0, tuple(causes), now.gaps,
        tuple(trace for _, trace in heapq.nlargest(worst, now.failures)),
    )  # fmt: skip


def _with_verdicts(rows: Sequence[TopicRow]) -> list[TopicRow]:
    verdicts = iter(change_verdicts([row.change for row in rows if row.change is not None]))
    return [row if row.change is None else replace(row, verdict=next(verdicts)) for row in rows]


def _badness(row: TopicRow) -> float:
    """The lower end of the interval, so that what certainly fails comes first."""
    return -1.0 if row.failures is None else row.failures.interval[0] if row.failures.interval else row.failures.value


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
        question, names.get(latest["topic"], ""), len(group),
        sum(weight_of(row["probability"])[0] for row, _, _ in group),
        Counter(row["cause"] for row, _, _ in group).most_common(1)[0][0], latest["app"], latest["started"],
        latest["trace_id"], str(chunks[0].get("id", "")) if chunks else "",
    )  # fmt: skip

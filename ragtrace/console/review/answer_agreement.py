"""Measures how people answer questions of one's own, and how far they agree."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from sqlalchemy import or_, select

from ragtrace.console.chatlogs.schema import reviews, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review import own_questions
from ragtrace.console.review.agreement import Alpha, alpha, squares
from ragtrace.console.review.own_questions import OwnQuestion
from ragtrace.console.review.verdicts import read_content


@dataclass(frozen=True, slots=True)
class QuestionAgreement:
    """The answers to one question of one's own. They are of the reviewed logs, without weights."""

    name: str
    text: str
    kind: str
    answers: int
    counts: Mapping[str, int]
    """How often each category was chosen; empty for numbers and texts."""
    mean: float | None
    """Of the numbers; None for categories and texts."""
    alpha: Alpha
    """Krippendorff's alpha, for nominal values (categories) or intervals (numbers)."""


def measure_answers(store: Store, since: float | None = None, until: float | None = None) -> list[QuestionAgreement]:
    """Measures the answers of reviews in [since, until), by question in the order of their creation; questions without
    an answer are left out. Raises StoreError as the store does."""
    by_question = _load_answers(store, since, until)
    questions = own_questions.load(store, closed=True)
    return [_measure(one, by_question[one.name]) for one in questions if one.name in by_question]


def _load_answers(store: Store, since: float | None, until: float | None) -> dict[str, dict[int, list[str | float]]]:
    """The answers by question and log."""
    query = select(reviews, traces.c.trace_id).join(traces, traces.c.id == reviews.c.trace).order_by(reviews.c.id)
    query = query.where(or_(reviews.c.answers.is_not(None), reviews.c.sealed.is_not(None)))
    if since is not None:
        query = query.where(reviews.c.created >= since)
    if until is not None:
        query = query.where(reviews.c.created < until)
    by_question: defaultdict[str, dict[int, list[str | float]]] = defaultdict(dict)
    with store.reading() as connection:
        for row in connection.execute(query).mappings():
            for name, answer in read_content(store, row["trace_id"], row).answers.items():
                by_question[name].setdefault(row["trace"], []).append(answer)
    return dict(by_question)


def _measure(question: OwnQuestion, logs: Mapping[int, list[str | float]]) -> QuestionAgreement:
    answers = [answer for unit in logs.values() for answer in unit]
    numbers = [answer for answer in answers if not isinstance(answer, str)]
    counts: Counter[str] = Counter()
    agreement = Alpha(None, None, 0)
    if question.kind == "category":
        counts.update({category.label: 0 for category in question.categories})
        counts.update(str(answer) for answer in answers)
        agreement = alpha(list(logs.values()))
    elif question.kind == "number":
        agreement = alpha(list(logs.values()), squares)
    mean = fmean(numbers) if numbers else None
    return QuestionAgreement(question.name, question.text, question.kind, len(answers), dict(counts), mean, agreement)

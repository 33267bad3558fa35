"""Measures how people answer questions of one's own, and how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sqlalchemy import or_, select

from ragtrace.console.chatlogs.schema import reviews, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review import own_questions
from ragtrace.console.review.agreement import Alpha, alpha, alpha_of
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
        agreement = interval_alpha([[float(answer) for answer in unit] for unit in logs.values()])
    mean = fmean(numbers) if numbers else None
    return QuestionAgreement(question.name, question.text, question.kind, len(answers), dict(counts), mean, agreement)


def interval_alpha(units: Sequence[Sequence[float]]) -> Alpha:
    """Krippendorff's alpha for numbers, whose disagreement is the square of their difference, with its 95 % interval by
    drawing units. A unit with fewer than two numbers is left out.

    K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), part D, interval data.
    """
    return alpha_of([unit for unit in units if len(unit) >= 2], _interval_alpha)


def _interval_alpha(units: Sequence[Sequence[float]]) -> float | None:
    numbers = [number for unit in units for number in unit]
    n = len(numbers)
    expected = _squares(numbers)
    if n < 2 or expected <= 0:
        return None
    observed = sum(_squares(unit) / (len(unit) - 1) for unit in units)
    return 1.0 - (n - 1) * observed / expected


def _squares(numbers: Sequence[float]) -> float:
    """The sum of (a - b)² over all ordered pairs, from the differences to their mean."""
    mean = fmean(numbers) if numbers else 0.0
    return 2.0 * len(numbers) * sum((number - mean) ** 2 for number in numbers)

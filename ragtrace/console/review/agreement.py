"""Measures how far evaluators agree with people, and people with each other."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from statistics import fmean
from typing import Any

from sqlalchemy import or_, select

from ragtrace.console.chatlogs.schema import reviews, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review import own_questions
from ragtrace.console.review.consensus import ReviewedLog, group_by_log, weighted_rate
from ragtrace.console.review.own_questions import OwnQuestion
from ragtrace.console.review.quality_measures import LabelMeasures, measure_labels
from ragtrace.console.review.verdicts import read_content
from ragtrace.statistics import Estimate
from ragtrace.statistics.intervals import percentile_interval

_DRAWS = 500
_LEAST_UNITS = 5
"""Fewer questions than this give no interval."""
_ANSWERS = ("pass", "fail", "not_applicable")
"""Answers that are compared between people; `unsure` is not an answer."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """The four cells for the label `fail`: numbers of logs, or shares of the requests that they stand for."""

    hits: float
    """Both fail it."""
    false_alarms: float
    """The evaluator alone fails it."""
    misses: float
    """People alone fail it."""
    passes: float
    """Both pass it."""


@dataclass(frozen=True)
class EvaluatorAgreement(LabelMeasures):
    """Agreement of one evaluator with people."""

    evaluator: str
    versions: tuple[str, ...]
    logs: int
    """Logs that both people and the evaluator label `pass` or `fail`."""
    counted: int
    """Those of them with a weight. The others were picked by rules that allow no estimate for other requests."""
    left_out: int
    """Logs with a verdict that the evaluator labels neither `pass` nor `fail` (it failed, or did not apply)."""
    seen: Confusion
    """Counts of the reviewed logs as they are. Review of the worst logs first makes an evaluator look better or worse
    than it is."""
    whole: Confusion | None
    """Shares of the whole traffic; they add up to 1."""
    bad: Estimate | None
    """Share of the traffic that people fail."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Agreement of two reviewers. Kappa corrects for agreement by chance: 1 is full agreement, 0 is chance."""

    first: str
    second: str
    count: int
    """Questions that both answered."""
    agreed: float
    """Share of equal answers, in [0, 1]."""
    kappa: float | None
    """None if both always give the same one answer."""


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha of all reviewers, for nominal answers."""

    value: float | None
    """None if all answers are the same."""
    interval: tuple[float, float] | None
    """95 % interval, by drawing questions with replacement."""
    units: int
    """Questions with at least two answers."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of all evaluators and reviewers."""

    evaluators: tuple[EvaluatorAgreement, ...]
    pairs: tuple[Pair, ...]
    alphas: Mapping[str, Alpha]
    """By evaluator; "" is for all together."""


def agreement(
    store: Store, evaluator: str = "", since: float | None = None, until: float | None = None, *, weighted: bool = True
) -> Agreement:
    """Measures agreement from the reviews in [since, until). With `weighted`, estimates are for the whole traffic (see
    `ragtrace.console.review.weights`); otherwise they are for the reviewed logs alone."""
    from ragtrace.console.review.weights import load_verdicts  # needs sqlalchemy

    return measure_agreement(load_verdicts(store, evaluator, since, until), weighted=weighted)


def measure_agreement(rows: Sequence[ScoredVerdict], *, weighted: bool = True) -> Agreement:
    """Measures agreement from verdicts of any evaluators; see `agreement`."""
    by_name: defaultdict[str, list[ScoredVerdict]] = defaultdict(list)
    for row in rows:
        by_name[row.evaluator].append(row)
    names = sorted(by_name)
    alphas = {name: alpha(_units(by_name[name])) for name in names}
    return Agreement(
        tuple(measure_evaluator(by_name[name], weighted=weighted) for name in names),
        tuple(_pairs(rows)),
        {"": alpha(_units(rows)), **alphas},
    )


def measure_evaluator(rows: Sequence[ScoredVerdict], *, weighted: bool = True) -> EvaluatorAgreement:
    """Measures the agreement of one evaluator with people. Raises ValueError without verdicts."""
    if not rows:
        raise ValueError("measure_evaluator needs at least one verdict")
    every = group_by_log(rows, weighted=False)
    comparable = [log for log in every if log.flagged is not None]
    logs = [log for log in group_by_log(rows, weighted=weighted) if log.flagged is not None]
    total = sum(log.weight for log in logs)
    return EvaluatorAgreement(
        evaluator=rows[0].evaluator, versions=tuple(sorted({row.version for row in rows})), logs=len(comparable),
        counted=len(logs), left_out=len(every) - len(comparable), seen=_confusion(comparable),
        whole=_confusion([replace(log, weight=log.weight / total) for log in logs]) if total else None,
        bad=weighted_rate([(log.bad, log.weight) for log in logs]),
        **vars(measure_labels(logs, [bool(log.flagged) for log in logs])),
    )  # fmt: skip


def _confusion(logs: Iterable[ReviewedLog]) -> Confusion:
    hits = alarms = misses = passes = 0.0
    for log in logs:
        if log.flagged:
            hits += log.weight * log.bad
            alarms += log.weight * (1 - log.bad)
        else:
            misses += log.weight * log.bad
            passes += log.weight * (1 - log.bad)
    return Confusion(hits, alarms, misses, passes)


# --- two reviewers ----------------------------------------------------------------------------------------------------


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters' labels: (observed - chance) / (1 - chance), where chance is the agreement of two
    raters who draw labels with these raters' own frequencies (J. Cohen, A coefficient of agreement for nominal scales,
    1960). None without pairs, and if both always give the same one label."""
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(one == two for one, two in pairs) / n
    first, second = Counter(one for one, _ in pairs), Counter(two for _, two in pairs)
    chance = sum(first[label] * second[label] for label in first) / (n * n)
    return None if chance == 1.0 else (observed - chance) / (1.0 - chance)


def _pairs(rows: Iterable[ScoredVerdict]) -> Iterable[Pair]:
    answers: defaultdict[str, dict[tuple[int, str], str]] = defaultdict(dict)
    for row in rows:
        if row.reviewer and row.verdict in _ANSWERS:
            answers[row.reviewer][row.trace, row.evaluator] = row.verdict
    for first, second in combinations(sorted(answers), 2):
        questions = answers[first].keys() & answers[second].keys()
        both = [(answers[first][question], answers[second][question]) for question in questions]
        if both:
            yield Pair(first, second, len(both), sum(a == b for a, b in both) / len(both), cohen(both))


# --- all reviewers ----------------------------------------------------------------------------------------------------


def _units(rows: Iterable[ScoredVerdict]) -> list[list[str]]:
    """The answers to each question. A question is one evaluator's question about one log."""
    answers: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.verdict in _ANSWERS:
            answers[row.trace, row.evaluator].append(row.verdict)
    return list(answers.values())


def differences(values: Sequence[Hashable]) -> float:
    """The number of ordered pairs of values that differ: the disagreement of nominal values."""
    return float(len(values) ** 2 - sum(count * count for count in Counter(values).values()))


def squares(values: Sequence[float]) -> float:
    """The sum of (a - b)² over all ordered pairs: the disagreement of numbers."""
    mean = fmean(values) if values else 0.0
    return 2.0 * len(values) * sum((value - mean) ** 2 for value in values)


def alpha(units: Sequence[Sequence[Any]], disagreement: Callable[[Sequence[Any]], float] = differences) -> Alpha:
    """Krippendorff's alpha, with its interval: 1 - observed / expected disagreement, within units and among all values.
    A unit holds its coders' values, in any order and number; one with fewer than two is left out. The value is None if
    there is nothing to compare, or all values are the same.

    K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), part C for nominal values, part D for numbers.
    """
    usable = [(unit, disagreement(unit) / (len(unit) - 1)) for unit in units if len(unit) >= 2]

    def measure(sample: Sequence[tuple[Sequence[Any], float]]) -> float | None:
        coded, observed = zip(*sample, strict=True) if sample else ((), ())
        values = list(chain.from_iterable(coded))
        expected = disagreement(values)
        return 1.0 - (len(values) - 1) * sum(observed) / expected if expected > 0 else None

    value = measure(usable)
    if value is None or len(usable) < _LEAST_UNITS:
        return Alpha(value, None, len(usable))
    rng = random.Random(0)
    draws = [measure(rng.choices(usable, k=len(usable))) for _ in range(_DRAWS)]
    # None: all values of this draw are the same, which is full agreement.
    interval = percentile_interval([1.0 if draw is None else draw for draw in draws], value)
    return Alpha(value, interval, len(usable))


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

"""What the tables of the report hold. Text stays text here: escaping is the template's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from ragtrace.records import Evidence, Score
from ragtrace.reporting.analysis import Analysis
from ragtrace.reporting.insights import questions
from ragtrace.reporting.results import FAIL, Metric, Result, clip, label_of, value_of

QUESTIONS = 200
"""Questions in the heat map."""
WORST = 20
"""Rows among the worst cases."""
ANSWER = 4_000
_PASSAGE = 400
_PASSAGES = 3
_NONE = "\N{EN DASH}"
_GRADE = {"contradicted": 0, "unsupported": 1, "supported": 2}


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of the leaderboard or the heat map."""

    text: str
    detail: str = ""
    kind: str = ""
    """`good`, `bad`, or empty where there is no threshold or nothing to judge."""
    heat: int | None = None
    """Of the heat map: 0 (worst) to 10 (best)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of an answer with one verdict; without one where no claim was found."""

    text: str
    verdict: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """Where the context comes closest to a sentence."""

    sentence: str
    verdict: str
    rank: int
    """From 1, for people."""
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """One of the worst rows."""

    row: Result
    score: Score
    pieces: tuple[Piece, ...]
    passages: tuple[Passage, ...]
    others: tuple[tuple[str, str], ...]
    """Other metrics that the row fails, with their values."""


def leaderboard(analysis: Analysis) -> tuple[list[str], list[tuple[Metric, list[Cell]]]]:
    """The models, best first, and for each metric a cell for each of them."""
    models = ranked_models(analysis)
    known = {(s.model, s.metric): s for s in analysis.summaries}
    table = []
    for metric in analysis.run.metrics.values():
        cells = []
        for model in models:
            s = known[model, metric.name]
            if s.mean is not None:
                interval = f"{number(s.interval[0])} to {number(s.interval[1])}, " if s.interval else ""
                cells.append(Cell(number(s.mean), f"{interval}n {s.count}", _kind(metric, s.mean)))
            elif s.pass_rate is not None:
                cells.append(Cell(f"{s.pass_rate:.0%} pass", f"n {s.counts.passed + s.counts.failed}"))
            else:
                cells.append(Cell(_NONE, "no score"))
        table.append((metric, cells))
    return models, table


def ranked_models(analysis: Analysis) -> list[str]:
    """The models by the mean of the primary metric, best first; those without one last."""
    primary = analysis.primary
    if primary is None:
        return analysis.run.models()
    means = {s.model: s.mean for s in analysis.summaries if s.metric == primary.name}

    def place(model: str) -> float:
        mean = means.get(model)
        return math.inf if mean is None else -primary.oriented(mean)

    return sorted(analysis.run.models(), key=place)


def _kind(metric: Metric, value: float) -> str:
    return {True: "good", False: "bad", None: ""}[metric.meets(value)]


def heat_map(analysis: Analysis, models: Sequence[str]) -> tuple[int, list[tuple[str, list[Cell]]]]:
    """How many questions there are, and the hardest 200 of them with a cell for each model: the mean of its rows."""
    primary = analysis.primary
    if primary is None:
        return 0, []
    ranked = questions(analysis.run, primary)
    known = [
        v for _, of in ranked for rows in of.values() for row in rows if (v := value_of(row, primary.name)) is not None
    ]
    ends = _ends(primary, known)
    table = []
    for query, of_model in ranked[:QUESTIONS]:
        cells = [_heat(primary, of_model.get(model, []), ends) for model in models]
        table.append((clip(query, 160), cells))
    return len(ranked), table


def _ends(metric: Metric, values: Sequence[float]) -> tuple[float, float]:
    low, high = metric.range
    low = low if math.isfinite(low) else min(values, default=0.0)
    high = high if math.isfinite(high) else max(values, default=1.0)
    return low, high if high > low else low + 1.0


def _heat(metric: Metric, rows: Sequence[Result], ends: tuple[float, float]) -> Cell:
    values = [v for row in rows if (v := value_of(row, metric.name)) is not None]
    if not values:
        verdicts = [label for row in rows if (label := label_of(row, metric.name))]
        return Cell(verdicts[0] if verdicts else _NONE)
    mean = fmean(values)
    return Cell(number(mean), "", _kind(metric, mean), _step(metric, mean, ends))


def _step(metric: Metric, value: float, ends: tuple[float, float]) -> int:
    """0 to 10, worst to best. The threshold parts 0 to 4 from 6 to 10, so that no colour of the good half fails."""
    worst, best = ends if metric.direction == "higher" else ends[::-1]
    limit = metric.threshold
    if limit is None or not ends[0] < limit < ends[1]:
        return _within(10 * (value - worst) / (best - worst), 0, 10)
    if metric.meets(value):
        return _within(6 + 4 * (value - limit) / (best - limit), 6, 10)
    return _within(4 * (value - worst) / (limit - worst), 0, 4)


def _within(value: float, least: int, most: int) -> int:
    return min(most, max(least, round(value)))


def worst_cases(analysis: Analysis) -> list[Case]:
    """The 20 rows with the worst value of the primary metric."""
    primary = analysis.primary
    if primary is None:
        return []
    valued = [(v, row) for row in analysis.run.originals() if (v := value_of(row, primary.name)) is not None]
    ranked = [row for _, row in sorted(valued, key=lambda pair: primary.oriented(pair[0]))]
    return [_case(analysis, row, primary) for row in ranked[:WORST]]


def _case(analysis: Analysis, row: Result, primary: Metric) -> Case:
    score = row.scores[primary.name]
    evidence = next((s.evidence for s in (score, *row.scores.values()) if s.evidence), ())
    others = tuple(
        (name, "" if s.value is None else number(s.value))
        for name, s in row.scores.items()
        if s.label == FAIL and name != primary.name and name in analysis.run.metrics
    )
    return Case(row, score, pieces(row.answer[:ANSWER], evidence), _passages(row, evidence), others)


def pieces(answer: str, evidence: Sequence[Evidence]) -> tuple[Piece, ...]:
    """The answer cut where verdicts change. Where claims overlap, the worst verdict counts; offsets outside the answer
    are cut to it."""
    usable = [(max(0, e.start), min(len(answer), e.end), e) for e in evidence]
    cuts = sorted({0, len(answer), *(at for start, end, _ in usable if start < end for at in (start, end))})
    found: list[tuple[str, Evidence | None]] = []
    for start, end in pairwise(cuts):
        over = [e for a, b, e in usable if a <= start and end <= b]
        worst = min(over, key=_badness, default=None)
        text = answer[start:end]
        if found and worst is not None and found[-1][1] is worst:
            text = found.pop()[0] + text
        found.append((text, worst))
    return tuple(Piece(text, e.verdict, e.probability) if e else Piece(text) for text, e in found)


def _badness(evidence: Evidence) -> tuple[int, float]:
    probability = 1.0 if evidence.probability is None else evidence.probability
    return _GRADE.get(evidence.verdict, 1), probability


def _passages(row: Result, evidence: Sequence[Evidence]) -> tuple[Passage, ...]:
    """The closest passages of the three worst sentences that lack support."""
    found = []
    for e in sorted(evidence, key=_badness):
        rank, start, end = e.document_rank, e.document_start, e.document_end
        if e.verdict == "supported" or rank is None or start is None or end is None:
            continue
        if 0 <= rank < len(row.contexts) and (text := row.contexts[rank][max(0, start) : end].strip()):
            sentence = clip(row.answer[max(0, e.start) : e.end], 200)
            found.append(Passage(sentence, e.verdict, rank + 1, clip(text, _PASSAGE)))
    return tuple(found[:_PASSAGES])


def errors(analysis: Analysis) -> list[tuple[str, str, int, str]]:
    """(evaluator, reason, rows, one message) of scores that failed, most frequent first; parse failures among them."""
    counts: dict[tuple[str, str], list[str]] = {}
    for row in analysis.run.originals():
        for name, score in row.scores.items():
            if score.error is not None:
                counts.setdefault((name, score.error), []).append(score.explanation or "")
    found = [(name, reason, len(told), clip(max(told, key=bool), 200)) for (name, reason), told in counts.items()]
    return sorted(found, key=lambda item: -item[2])


def judged(analysis: Analysis) -> bool:
    """Whether anything passes, fails or could not be read."""
    return any(s.pass_rate is not None or s.counts.parse_failures for s in analysis.summaries)


def values_of(analysis: Analysis, metric: str) -> list[float]:
    """All values of a metric, of all models."""
    return [v for row in analysis.run.originals() if (v := value_of(row, metric)) is not None]


def number(value: float) -> str:
    """A figure with three places, or three digits where it is large."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"

"""The content of the report's tables. Text is not escaped here; the template does it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from ragtrace.batch.reporting.analysis import Analysis
from ragtrace.batch.reporting.formats import NONE, clip, number
from ragtrace.batch.reporting.insights import questions
from ragtrace.batch.reporting.results import FAIL, Metric, Result, label_of, value_of, values_of
from ragtrace.records import Evidence, Score

QUESTIONS = 200
"""Most questions in the heat map."""
WORST = 20
"""Most rows among the worst cases."""
ANSWER = 4_000
"""Most characters of an answer."""
_PASSAGE = 400
_PASSAGES = 3
_GRADE = {"contradicted": 0, "unsupported": 1, "supported": 2}


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of the leaderboard or the heat map."""

    text: str
    detail: str = ""
    kind: str = ""
    """`good`, `bad`, or empty without a threshold or a value."""
    heat: int | None = None
    """In the heat map, 0 (worst) to 10 (best)."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of an answer with one verdict, or without a verdict outside claims."""

    text: str
    verdict: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of the context that is closest to a sentence."""

    sentence: str
    verdict: str
    rank: int
    """Rank of the chunk, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class WorstCase:
    """One of the worst rows."""

    row: Result
    score: Score
    pieces: tuple[AnswerPart, ...]
    passages: tuple[Passage, ...]
    others: tuple[tuple[str, str], ...]
    """Other metrics that the row fails, with their values."""


def leaderboard(analysis: Analysis) -> tuple[list[str], list[tuple[Metric, list[TableCell]]]]:
    """The models, best first, and for each metric one cell per model."""
    models = ranked_models(analysis)
    summaries = {(s.model, s.metric): s for s in analysis.summaries}
    table = []
    for metric in analysis.run.metrics.values():
        cells = []
        for model in models:
            s = summaries[model, metric.name]
            if s.mean is not None:
                interval = f"{number(s.interval[0])} to {number(s.interval[1])}, " if s.interval else ""
                cells.append(TableCell(number(s.mean), f"{interval}n {s.count}", _kind(metric, s.mean)))
            elif s.pass_rate is not None:
                cells.append(TableCell(f"{s.pass_rate:.0%} pass", f"n {s.counts.passed + s.counts.failed}"))
            else:
                cells.append(TableCell(NONE, "no score"))
        table.append((metric, cells))
    return models, table


def ranked_models(analysis: Analysis) -> list[str]:
    """The models by the mean of the primary metric, best first; models without a mean are last."""
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


def heat_map(analysis: Analysis, models: Sequence[str]) -> tuple[int, list[tuple[str, list[TableCell]]]]:
    """The number of questions, and the hardest 200 of them with one cell per model: the mean of its rows."""
    primary = analysis.primary
    if primary is None:
        return 0, []
    ranked = questions(analysis.run, primary)
    ends = primary.ends(values_of((row for _, of in ranked for rows in of.values() for row in rows), primary.name))
    table = []
    for query, of_model in ranked[:QUESTIONS]:
        cells = [_heat(primary, of_model.get(model, []), ends) for model in models]
        table.append((clip(query, 160), cells))
    return len(ranked), table


def _heat(metric: Metric, rows: Sequence[Result], ends: tuple[float, float]) -> TableCell:
    values = values_of(rows, metric.name)
    if not values:
        verdicts = [label for row in rows if (label := label_of(row, metric.name))]
        return TableCell(verdicts[0] if verdicts else NONE)
    mean = fmean(values)
    return TableCell(number(mean), "", _kind(metric, mean), _step(metric, mean, ends))


def _step(metric: Metric, value: float, ends: tuple[float, float]) -> int:
    """0 to 10, worst to best. The threshold separates 0 to 4 from 6 to 10: no value with a good colour fails."""
    worst, best = ends if metric.direction == "higher" else ends[::-1]
    limit = metric.threshold
    if limit is None or not ends[0] < limit < ends[1]:
        return _within(10 * (value - worst) / (best - worst), 0, 10)
    if metric.meets(value):
        return _within(6 + 4 * (value - limit) / (best - limit), 6, 10)
    return _within(4 * (value - worst) / (limit - worst), 0, 4)


def _within(value: float, least: int, most: int) -> int:
    return min(most, max(least, round(value)))


def worst_cases(analysis: Analysis) -> list[WorstCase]:
    """The 20 rows with the worst value of the primary metric."""
    primary = analysis.primary
    if primary is None:
        return []
    values = [(v, row) for row in analysis.run.originals() if (v := value_of(row, primary.name)) is not None]
    ranked = [row for _, row in sorted(values, key=lambda pair: primary.oriented(pair[0]))]
    return [_case(analysis, row, primary) for row in ranked[:WORST]]


def _case(analysis: Analysis, row: Result, primary: Metric) -> WorstCase:
    score = row.scores[primary.name]
    evidence = next((s.evidence for s in (score, *row.scores.values()) if s.evidence), ())
    others = tuple(
        (name, "" if s.value is None else number(s.value))
        for name, s in row.scores.items()
        if s.label == FAIL and name != primary.name and name in analysis.run.metrics
    )
    return WorstCase(row, score, pieces(row.answer[:ANSWER], evidence), _passages(row, evidence), others)


def pieces(answer: str, evidence: Sequence[Evidence]) -> tuple[AnswerPart, ...]:
    """The answer, divided where the verdict changes. Where claims overlap, the worst verdict counts; offsets outside
    the answer are limited to it."""
    usable = [(max(0, e.start), min(len(answer), e.end), e) for e in evidence]
    cuts = sorted({0, len(answer), *(at for start, end, _ in usable if start < end for at in (start, end))})
    parts: list[tuple[str, Evidence | None]] = []
    for start, end in pairwise(cuts):
        over = [e for a, b, e in usable if a <= start and end <= b]
        worst = min(over, key=badness, default=None)
        text = answer[start:end]
        if parts and worst is not None and parts[-1][1] is worst:
            text = parts.pop()[0] + text
        parts.append((text, worst))
    return tuple(AnswerPart(text, e.verdict, e.probability) if e else AnswerPart(text) for text, e in parts)


def badness(evidence: Evidence) -> tuple[int, float]:
    """Sorts evidence: contradicted first, supported last, and the less probable before the more probable."""
    probability = 1.0 if evidence.probability is None else evidence.probability
    return _GRADE.get(evidence.verdict, 1), probability


def _passages(row: Result, evidence: Sequence[Evidence]) -> tuple[Passage, ...]:
    """The closest passages to the three worst sentences without support."""
    passages = []
    for e in sorted(evidence, key=badness):
        rank, start, end = e.document_rank, e.document_start, e.document_end
        if e.verdict == "supported" or rank is None or start is None or end is None:
            continue
        if 0 <= rank < len(row.contexts) and (text := row.contexts[rank][max(0, start) : end].strip()):
            sentence = clip(row.answer[max(0, e.start) : e.end], 200)
            passages.append(Passage(sentence, e.verdict, rank + 1, clip(text, _PASSAGE)))
    return tuple(passages[:_PASSAGES])


def errors(analysis: Analysis) -> list[tuple[str, str, int, str]]:
    """(evaluator, reason, number of rows, one message) of failed scores, most frequent first; includes parse
    failures."""
    messages: dict[tuple[str, str], list[str]] = {}
    for row in analysis.run.originals():
        for name, score in row.scores.items():
            if score.error is not None:
                messages.setdefault((name, score.error), []).append(score.explanation or "")
    rows = [(name, reason, len(texts), clip(max(texts, key=bool), 200)) for (name, reason), texts in messages.items()]
    return sorted(rows, key=lambda item: -item[2])


def has_verdicts(analysis: Analysis) -> bool:
    """Whether any row passes or fails, or has a parse failure."""
    return any(s.pass_rate is not None or s.counts.parse_failures for s in analysis.summaries)

"""Insights of a run: the best and worst models, retrieval, questions and sentences.

Source: H2O Eval Studio, "Insights diagnosed by the evaluator"."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from ragtrace.batch.reporting.formats import clip, mean_with_interval, model_name
from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result, label_of, value_of, values_of
from ragtrace.batch.reporting.summary import ModelSummary, Summary
from ragtrace.records import Evidence

_GROUNDING = ("faithfulness", "groundedness")
_NOT_RETRIEVAL = frozenset({"context_contradiction"})
"""Metrics that start with `context_` but judge the answer."""


@dataclass(frozen=True, slots=True)
class Insight:
    """One insight, as a sentence and in parts."""

    kind: str
    """`best_model`, `worst_model`, `fastest`, `slowest`, `cheapest`, `most_expensive`, `best_retrieval`,
    `worst_retrieval`, `hardest_question` or `least_grounded`."""
    text: str
    model: str = ""
    id: str = ""
    metric: str = ""
    value: float | None = None


def insights(
    run: EvaluationRun, summaries: Sequence[Summary], models: Sequence[ModelSummary], primary: Metric | None
) -> list[Insight]:
    """The insights. Models are compared only if there are several; with one model, retrieval is compared by row."""
    results: list[Insight] = []
    if primary is not None:
        results += _ranked_models(summaries, primary)
    results += _extremes(models, lambda m: m.duration, ("fastest", "slowest"), lambda x: f"{x:.3g} s for an answer")
    costs = ("cheapest", "most_expensive")
    results += _extremes(models, lambda m: m.cost, costs, lambda x: f"US$ {x:.3g} for an answer")
    results += _retrieval(run, summaries)
    results += [i for i in (_hardest(run, primary), _least_grounded(run)) if i]
    return results


def _ranked_models(summaries: Sequence[Summary], primary: Metric) -> list[Insight]:
    means = [(s.mean, s) for s in summaries if s.metric == primary.name and s.mean is not None]
    ranked = [s for _, s in sorted(means, key=lambda pair: -primary.oriented(pair[0]))]
    if len(ranked) < 2:
        return []
    best, second, last = ranked[0], ranked[1], ranked[-1]
    caution = ""
    both = (best.interval, second.interval) if best.interval and second.interval else None
    if both and max(low for low, _ in both) <= min(high for _, high in both):
        mean = mean_with_interval(second.mean, second.interval)
        caution = f"; its interval overlaps that of {model_name(second.model)} ({mean})"

    def insight(kind: str, word: str, s: Summary, more: str) -> Insight:
        text = f"{model_name(s.model)} is {word} by {primary.name}: mean {mean_with_interval(s.mean, s.interval)}{more}"
        return Insight(kind, text, s.model, "", primary.name, s.mean)

    return [insight("best_model", "best", best, caution), insight("worst_model", "worst", last, "")]


def _extremes(
    models: Sequence[ModelSummary],
    of: Callable[[ModelSummary], float | None],
    kinds: tuple[str, str],
    form: Callable[[float], str],
) -> list[Insight]:
    """The models with the least and the greatest value; none if fewer than two have one, or if all are equal."""
    values = sorted(((value, m.model) for m in models if (value := of(m)) is not None), key=lambda pair: pair[0])
    if len(values) < 2 or values[0][0] == values[-1][0]:
        return []
    return [
        Insight(kind, f"{model_name(model)} is the {kind.replace('_', ' ')}: {form(value)}", model, value=value)
        for kind, (value, model) in zip(kinds, (values[0], values[-1]), strict=True)
    ]


def retrieval_metrics(run: EvaluationRun) -> list[Metric]:
    """The metrics that judge the retrieved context."""
    return [m for n, m in run.metrics.items() if n.startswith("context_") and n not in _NOT_RETRIEVAL]


def _retrieval(run: EvaluationRun, summaries: Sequence[Summary]) -> list[Insight]:
    ranked = sorted(_by_model(run, summaries) if len(run.models()) > 1 else _by_row(run), key=lambda r: r.value)
    if len(ranked) < 2 or ranked[0].value == ranked[-1].value:
        return []
    return [
        Insight(
            kind, f"{word} retrieval: {r.name}, {r.value:.3f} on average of {r.metrics}", r.model, r.id, "", r.value
        )
        for kind, word, r in (("best_retrieval", "Best", ranked[-1]), ("worst_retrieval", "Worst", ranked[0]))
    ]


@dataclass(frozen=True, slots=True)
class _Retrieval:
    value: float
    name: str
    metrics: str
    model: str
    id: str = ""


def _by_model(run: EvaluationRun, summaries: Sequence[Summary]) -> list[_Retrieval]:
    """Each model's mean over the context metrics that all models have."""
    means = {(s.model, s.metric): s.mean for s in summaries if s.mean is not None}
    models = run.models()
    metrics = [m for m in retrieval_metrics(run) if all((model, m.name) in means for model in models)]
    names = ", ".join(m.name for m in metrics)
    return [
        _Retrieval(fmean(_good(m, means[model, m.name]) for m in metrics), model_name(model), names, model)
        for model in (models if metrics else ())
    ]


def _by_row(run: EvaluationRun) -> list[_Retrieval]:
    """Each row's mean over the context metrics, of rows that have them all."""
    rows = list(run.originals())
    metrics = [m for m in retrieval_metrics(run) if any(value_of(row, m.name) is not None for row in rows)]
    names = ", ".join(m.name for m in metrics)
    results = []
    for row in rows:
        goods = [_good(m, value) for m in metrics if (value := value_of(row, m.name)) is not None]
        if goods and len(goods) == len(metrics):
            results.append(_Retrieval(fmean(goods), f"row {row.id} (“{clip(row.query)}”)", names, row.model, row.id))
    return results


def _good(metric: Metric, value: float) -> float:
    """The value on a scale where more is better, so that it can be averaged with others; 1 is best if the range ends
    at 1."""
    return value if metric.direction == "higher" else metric.range[1] - value


def questions(run: EvaluationRun, primary: Metric) -> list[tuple[str, dict[str, list[Result]]]]:
    """The questions with the rows of each model that have a value or verdict, hardest first: most models fail them;
    then by the worst mean. Rows with the same text have the same question."""
    of_question: dict[str, dict[str, list[Result]]] = {}
    for row in run.originals():
        if value_of(row, primary.name) is not None or label_of(row, primary.name) in (PASS, FAIL):
            of_question.setdefault(row.query, {}).setdefault(row.model, []).append(row)

    def hardness(item: tuple[str, dict[str, list[Result]]]) -> tuple[float, float]:
        values = values_of(chain(*item[1].values()), primary.name)
        return -failing(item[1], primary.name), primary.oriented(fmean(values)) if values else 0.0

    return sorted(of_question.items(), key=hardness)


def failing(of_model: Mapping[str, Sequence[Result]], metric: str) -> int:
    """How many models fail a question: at least half of their rows with it fail."""
    shares = (fmean(label_of(row, metric) == FAIL for row in rows) for rows in of_model.values())
    return sum(share >= 0.5 for share in shares)


def _hardest(run: EvaluationRun, primary: Metric | None) -> Insight | None:
    ranked = questions(run, primary) if primary else []
    if primary is None or len(ranked) < 2:
        return None
    query, of_model = ranked[0]
    values = values_of(chain(*of_model.values()), primary.name)
    mean = fmean(values) if values else None
    row = next(iter(of_model.values()))[0]
    failed = f", {failing(of_model, primary.name)} of {len(of_model)} models fail" if len(of_model) > 1 else ""
    score = f": {primary.name} {mean:.3f}" if mean is not None else ""
    text = f"Hardest question: “{clip(query)}”{score}{failed}"
    return Insight("hardest_question", text, "", row.id, primary.name, mean)


def _least_grounded(run: EvaluationRun) -> Insight | None:
    def all_evidence() -> Iterator[tuple[float, Result, Evidence, str]]:
        for row in run.originals():
            for name, score in row.scores.items():
                for evidence in score.evidence if name.startswith(_GROUNDING) else ():
                    if evidence.probability is not None and row.answer[evidence.start : evidence.end].strip():
                        yield evidence.probability, row, evidence, name

    least = min(all_evidence(), key=lambda item: item[0], default=None)
    if least is None:
        return None
    probability, row, evidence, name = least
    sentence = clip(row.answer[evidence.start : evidence.end], 300)
    by = f" of {row.model}" if row.model else ""
    text = f"Least grounded sentence (supported with probability {probability:.2f}), row {row.id}{by}: “{sentence}”"
    return Insight("least_grounded", text, row.model, row.id, name, probability)

"""Problems of a run: means that miss their threshold, evaluators without scores, errors, flips.

Source: H2O Eval Studio, "Problems reported by the evaluator"."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtrace.batch.reporting.formats import mean_with_interval, model_name
from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result, label_of
from ragtrace.batch.reporting.summary import Summary

_ERROR_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class RunProblem:
    """One problem, as a sentence and in parts."""

    kind: str
    """`threshold`, `nothing_usable`, `errors` or `flip`."""
    metric: str
    text: str
    model: str = ""
    id: str = ""
    """For a flip, the id of the original row."""
    perturbation: str = ""
    before: str = ""
    """For a flip, the verdict on the original row."""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Flips:
    """How often one perturbation changes the verdicts of one evaluator."""

    metric: str
    perturbation: str
    pairs: int
    """Pairs of an original and a perturbed row that both pass or fail."""
    flipped: int


def problems(run: EvaluationRun, summaries: Sequence[Summary]) -> list[RunProblem]:
    """Means that miss their threshold, evaluators without usable scores, errors above 5 %, and flips, in this order."""
    usable = [s for s in summaries if s.usable]
    return [
        *(p for s in usable if (p := _missed_threshold(s, run.metrics[s.metric]))), *_unusable(summaries),
        *(p for s in usable if (p := _errors(s))), *flips(run),
    ]  # fmt: skip


def _missed_threshold(s: Summary, metric: Metric) -> RunProblem | None:
    if s.mean is None or metric.threshold is None or metric.meets(s.mean):
        return None
    side = "below" if metric.direction == "higher" else "above"
    caution = ""
    if s.interval and any(metric.meets(bound) for bound in s.interval):
        caution = "; its interval contains the threshold, so more rows may change this"
    mean = mean_with_interval(s.mean, s.interval)
    text = f"{metric.name} of {model_name(s.model)}: mean {mean}, {side} {metric.threshold:g}{caution}"
    return RunProblem("threshold", metric.name, text, s.model)


def _unusable(summaries: Sequence[Summary]) -> list[RunProblem]:
    """One problem for an evaluator without usable scores for any model, or one for each such model."""
    of_metric: dict[str, list[Summary]] = {}
    for s in summaries:
        of_metric.setdefault(s.metric, []).append(s)
    problems = []
    for name, group in of_metric.items():
        unusable = [s for s in group if not s.usable]
        if len(unusable) == len(group):
            problems.append(RunProblem("nothing_usable", name, f"{name} has no usable score: {_reasons(group)}"))
        else:
            for s in unusable:
                text = f"{name} has no usable score for {model_name(s.model)}: {_reasons([s])}"
                problems.append(RunProblem("nothing_usable", name, text, s.model))
    return problems


def _reasons(group: Sequence[Summary]) -> str:
    total: Counter[str] = Counter()
    for s in group:
        total.update({"not applicable": s.not_applicable, "refused": s.refusals})
        total.update({"parse failures": s.counts.parse_failures})
        total.update({f"error {reason}": n for reason, n in s.errors.items()})
    rows = sum(s.rows for s in group)
    total["empty or not evaluated"] = rows - sum(total.values())
    return f"{rows} rows, " + ", ".join(f"{what} {n}" for what, n in total.items() if n > 0)


def _errors(s: Summary) -> RunProblem | None:
    rows = s.rows - s.not_applicable
    if not rows or s.failures / rows <= _ERROR_SHARE:
        return None
    reasons = {**s.errors, **({"parse_failure": s.counts.parse_failures} if s.counts.parse_failures else {})}
    counts = ", ".join(f"{reason} {n}" for reason, n in reasons.items())
    text = f"{s.metric} of {model_name(s.model)}: {s.failures / rows:.1%} of {rows} rows are errors ({counts})"
    return RunProblem("errors", s.metric, text, s.model)


def flips(run: EvaluationRun) -> list[RunProblem]:
    """Every verdict that is `pass` on a row and `fail` on its perturbation, or the other way round."""
    problems = []
    for original, changed, metric in _verdict_pairs(run):
        before, after = label_of(original, metric), label_of(changed, metric)
        if before != after:
            kind = changed.perturbation or ""
            of = f" of {original.model}" if original.model else ""
            text = f"{metric} of row {original.id}{of} flips from {before} to {after} under {kind}"
            flip = RunProblem("flip", metric, text, original.model, original.id, kind, before or "", after or "")
            problems.append(flip)
    return problems


def flip_counts(run: EvaluationRun) -> list[Flips]:
    """For each evaluator and perturbation how many verdicts flip, the largest share first."""
    counts: dict[tuple[str, str], list[int]] = {}
    for original, changed, metric in _verdict_pairs(run):
        count = counts.setdefault((metric, changed.perturbation or ""), [0, 0])
        count[0] += 1
        count[1] += label_of(original, metric) != label_of(changed, metric)
    rows = [Flips(metric, kind, pairs, flipped) for (metric, kind), (pairs, flipped) in counts.items()]
    return sorted(rows, key=lambda f: -f.flipped / f.pairs)


def _verdict_pairs(run: EvaluationRun) -> Iterator[tuple[Result, Result, str]]:
    originals = {(row.id, row.model): row for row in run.originals()}
    for row in run.results:
        original = originals.get((row.original, row.model)) if row.perturbation and row.original is not None else None
        for metric in run.metrics if original else ():
            if original and label_of(original, metric) in (PASS, FAIL) and label_of(row, metric) in (PASS, FAIL):
                yield original, row, metric

"""What asks for something to be done: means beyond their threshold, silent evaluators, errors, flips.

Source: H2O Eval Studio, "Problems reported by the evaluator".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtrace.reporting.results import FAIL, PASS, Metric, Result, Run, label_of, shown
from ragtrace.reporting.summary import Summary, with_interval

_ERROR_SHARE = 0.05
_ALL = "*"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to look at, as one sentence and in parts."""

    kind: str
    """`threshold`, `nothing_usable`, `errors` or `flip`."""
    metric: str
    text: str
    model: str = ""
    id: str = ""
    """Of a flip: the original row."""
    perturbation: str = ""
    before: str = ""
    """Of a flip: the verdict on the original row."""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Flips:
    """How one evaluator's verdicts hold under one perturbation."""

    metric: str
    perturbation: str
    pairs: int
    """Rows that pass or fail both before and after."""
    flipped: int


def problems(run: Run, summaries: Sequence[Summary]) -> list[Problem]:
    """Means beyond their threshold, evaluators that say nothing, errors above 5 %, and every flip, in this order."""
    silent = _silent(summaries)
    quiet = {(p.metric, p.model) for p in silent}
    heard = [s for s in summaries if (s.metric, s.model) not in quiet and (s.metric, _ALL) not in quiet]
    return [
        *(p for s in heard if (p := _beyond(s, run.metrics[s.metric]))),
        *(Problem(p.kind, p.metric, p.text, "" if p.model == _ALL else p.model) for p in silent),
        *(p for s in heard if (p := _erring(s))),
        *flips(run),
    ]


def _beyond(s: Summary, metric: Metric) -> Problem | None:
    if s.mean is None or metric.threshold is None or metric.meets(s.mean):
        return None
    side = "below" if metric.direction == "higher" else "above"
    sure = ""
    if s.interval and any(metric.meets(bound) for bound in s.interval):
        sure = "; its interval reaches the threshold, so more rows may tell otherwise"
    mean = with_interval(s.mean, s.interval)
    text = f"{metric.name} of {shown(s.model)}: mean {mean}, {side} {metric.threshold:g}{sure}"
    return Problem("threshold", metric.name, text, s.model)


def _silent(summaries: Sequence[Summary]) -> list[Problem]:
    """One problem for an evaluator that says nothing of any model (model `_ALL`), else one for each model."""
    of_metric: dict[str, list[Summary]] = {}
    for s in summaries:
        of_metric.setdefault(s.metric, []).append(s)
    found = []
    for name, group in of_metric.items():
        mute = [s for s in group if not s.usable]
        if len(mute) == len(group):
            found.append(Problem("nothing_usable", name, f"{name} has no usable score: {_why(mute)}", _ALL))
        else:
            for s in mute:
                text = f"{name} has no usable score for {shown(s.model)}: {_why([s])}"
                found.append(Problem("nothing_usable", name, text, s.model))
    return found


def _why(group: Sequence[Summary]) -> str:
    total = {
        "not applicable": sum(s.not_applicable for s in group),
        "refused": sum(s.refusals for s in group),
        "parse failures": sum(s.counts.parse_failures for s in group),
    }
    for s in group:
        for reason, n in s.errors.items():
            total[f"error {reason}"] = total.get(f"error {reason}", 0) + n
    rows = sum(s.rows for s in group)
    total["empty or not evaluated"] = rows - sum(total.values())
    return f"{rows} rows, " + ", ".join(f"{what} {n}" for what, n in total.items() if n > 0)


def _erring(s: Summary) -> Problem | None:
    asked = s.rows - s.not_applicable
    if not asked or s.failures / asked <= _ERROR_SHARE:
        return None
    reasons = {**s.errors, **({"parse_failure": s.counts.parse_failures} if s.counts.parse_failures else {})}
    listed = ", ".join(f"{reason} {n}" for reason, n in reasons.items())
    text = f"{s.metric} of {shown(s.model)}: {s.failures / asked:.1%} of {asked} rows are errors ({listed})"
    return Problem("errors", s.metric, text, s.model)


def flips(run: Run) -> list[Problem]:
    """Every verdict that is `pass` on a row and `fail` on its perturbation, or the other way round."""
    found = []
    for original, changed, metric in _verdict_pairs(run):
        before, after = label_of(original, metric), label_of(changed, metric)
        if before != after:
            kind = changed.perturbation or ""
            of = f" of {original.model}" if original.model else ""
            text = f"{metric} of row {original.id}{of} flips from {before} to {after} under {kind}"
            found.append(Problem("flip", metric, text, original.model, original.id, kind, before or "", after or ""))
    return found


def flip_counts(run: Run) -> list[Flips]:
    """For each evaluator and perturbation how many verdicts hold, most fragile first."""
    counts: dict[tuple[str, str], list[int]] = {}
    for original, changed, metric in _verdict_pairs(run):
        count = counts.setdefault((metric, changed.perturbation or ""), [0, 0])
        count[0] += 1
        count[1] += label_of(original, metric) != label_of(changed, metric)
    found = [Flips(metric, kind, pairs, flipped) for (metric, kind), (pairs, flipped) in counts.items()]
    return sorted(found, key=lambda f: -f.flipped / f.pairs)


def _verdict_pairs(run: Run) -> Iterator[tuple[Result, Result, str]]:
    known = {(row.id, row.model): row for row in run.originals()}
    for row in run.results:
        original = known.get((row.original, row.model)) if row.perturbation and row.original is not None else None
        for metric in run.metrics if original else ():
            if original and label_of(original, metric) in (PASS, FAIL) and label_of(row, metric) in (PASS, FAIL):
                yield original, row, metric

"""Limits of a run (`--fail-under`): which mean or which share of passes an evaluator must reach."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ragtrace.batch.reporting.formats import model_name
from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result
from ragtrace.errors import SettingError
from ragtrace.evaluation import NO_INPUT, Evaluator
from ragtrace.settings.section import parse_pairs


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit for one evaluator. Every model of the run must meet it."""

    name: str
    """The evaluator's name."""
    limit: float
    """The least mean if higher is better, the greatest mean if lower is better; with `is_share` the least share of rows
    that pass, in [0, 1]."""
    is_share: bool = False

    @property
    def text(self) -> str:
        """The gate as the option names it: `faithfulness=0.8`, `pii_leakage=100%`."""
        return f"{self.name}={100 * self.limit:g}%" if self.is_share else f"{self.name}={self.limit:g}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate says of one model."""

    gate: Gate
    model: str
    problem: str = ""
    """Why the model misses the gate, or how many rows could not be measured, as a sentence; empty if it meets it."""
    is_missed: bool = False
    """Whether what was measured misses the gate."""


def parse_gate(option: str, text: str) -> Gate:
    """The gate of an option's value NAME=VALUE or NAME=VALUE%. Raises SettingError if VALUE is not a finite number."""
    ((name, value),) = parse_pairs(option, [text]).items()
    is_share = value.endswith("%")
    try:
        limit = float(value.removesuffix("%"))
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise SettingError(
            f"{option} has the invalid value {text}: expected a number after {name}=, and a percent sign after it for "
            "the share of rows that pass"
        )
    return Gate(name, limit / 100 if is_share else limit, is_share)


def check_limit(option: str, check: Evaluator, limit: float) -> None:
    """Raises SettingError for a limit that is not a finite number in the evaluator's range: every value would pass, or
    none."""
    low, high = check.range
    if not (math.isfinite(limit) and low <= limit <= high):
        raise SettingError(f"{option}: {check.name}={limit:g} is outside of the evaluator's range, {low:g} to {high:g}")


def check_gate(option: str, check: Evaluator, gate: Gate) -> None:
    """Raises SettingError for a gate that this evaluator cannot meet, or cannot miss, whatever the rows are."""
    if not gate.is_share:
        check_limit(option, check, gate.limit)
    elif not 0 <= gate.limit <= 1:
        raise SettingError(f"{option}: {gate.text} is no share of rows: expected 0% to 100%")


def gate_results(run: EvaluationRun, gates: Sequence[Gate]) -> list[GateResult]:
    """What each gate says of each model.

    A metric without values, and a run without rows, miss every gate: a gate must not open because nothing was
    measured."""
    results = []
    for gate in gates:
        metric, models = run.metrics.get(gate.name), run.models()
        if metric is None or not models:
            missing = "rows" if metric is not None else "such metric"
            results.append(GateResult(gate, "", f"{gate.name}: the run has no {missing}", is_missed=True))
        else:
            results += [_result(run, gate, metric, model) for model in models]
    return results


def _result(run: EvaluationRun, gate: Gate, metric: Metric, model: str) -> GateResult:
    rows = [row for row in run.originals() if row.model == model]
    missed = _share_problem(gate, rows) if gate.is_share else _mean_problem(gate, metric, rows)
    problem = missed or _unmeasured(gate, rows)
    text = f"{gate.name}: {problem.format(model_name(model))}" if problem else ""
    return GateResult(gate, model, text, is_missed=bool(missed))


def _unmeasured(gate: Gate, rows: Sequence[Result]) -> str:
    """How many rows an error, a blank answer or a missing input left without a score: a gate must not open on the
    others alone."""
    scores = [(s, _is_blank(row.answer)) for row in rows if (s := row.scores.get(gate.name)) and s.value is None]
    reasons = (s.error or ("no answer" if blank else _no_input(s.explanation or "")) for s, blank in scores)
    counts = Counter(filter(None, reasons))
    text = ", ".join(f"{reason}: {count}" for reason, count in counts.most_common())
    return f"{counts.total()} of {len(rows)} rows of {{}} have no score ({text})" if counts else ""


def _no_input(explanation: str) -> str:
    return f"no {explanation.removeprefix(NO_INPUT)}" if explanation.startswith(NO_INPUT) else ""


def _is_blank(answer: str) -> bool:
    """Whether an answer shows nothing: white space, or characters without a width."""
    return not any(c.isprintable() and not c.isspace() for c in answer)


def _mean_problem(gate: Gate, metric: Metric, rows: Sequence[Result]) -> str:
    values = [s.value for row in rows if (s := row.scores.get(gate.name)) and s.value is not None]
    if not values:
        return "no value for {}"
    mean = fmean(values)
    if metric.oriented(round(mean, 9)) >= metric.oriented(round(gate.limit, 9)):  # of .1 and .7 it is not quite .4
        return ""
    return f"the mean of {{}} is {mean:.4g}, {'below' if metric.direction == 'higher' else 'above'} {gate.limit:g}"


def _share_problem(gate: Gate, rows: Sequence[Result]) -> str:
    labels = [s.label for row in rows if (s := row.scores.get(gate.name)) and s.label in (PASS, FAIL)]
    if not labels:
        return "no row of {} passes or fails"
    passed, least = labels.count(PASS), f"{100 * gate.limit:g} %"
    if passed >= round(gate.limit * len(labels), 9):  # 0.56 * 100 is a little more than 56
        return ""
    return f"{passed} of {len(labels)} rows of {{}} pass, fewer than {least}"

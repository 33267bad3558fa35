"""Measures how well an evaluator's labels and probabilities match people's verdicts, with 95 % intervals.

`measure_labels` computes measures for the whole traffic from logs of different weights. The evaluator fails a share F
of the traffic; people fail a share h of these requests, and a share m of the others. Every measure follows from these
three shares. Each share is estimated from logs with Kish's effective sample size, and its uncertainty is that of a
binomial share under Jeffreys' prior (L. Brown, T. Cai, A. DasGupta, Interval estimation for a binomial proportion,
2001). The interval of a measure holds 95 % of its values when the three shares are drawn from these distributions. A
plain linearised variance is far too small as long as none of the few misses of great weight is in the sample; this
method allows for what it has not seen.

`measure_quality` computes measures on logs that had no part in a calibration, by resampling them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragtrace.console.review.consensus import ReviewedLog, weighted_rate
from ragtrace.console.review.curves import numpy
from ragtrace.statistics import Estimate
from ragtrace.statistics.intervals import effective_size, percentile_interval

DRAWS = 1_000
_JEFFREYS = 0.5
"""Jeffreys' prior: Beta(1/2, 1/2)."""
_RANDOM_NUMBERS = 8_000_000
"""Random numbers per resampling at most; more logs get fewer draws."""
_BINS = 10

Cells = tuple[float, float, float, float]
"""Weights of the logs that both fail, the evaluator alone fails, people alone fail, both pass."""


# --- labels of the whole traffic --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelMeasures:
    """Measures of the label `fail`; None where the logs do not determine them."""

    flagged: Estimate | None
    """Share of the traffic that the evaluator fails."""
    precision: Estimate | None
    """Share of requests that people fail, among those that the evaluator fails."""
    recall: Estimate | None
    """Share of requests that the evaluator fails, among those that people fail."""
    f1: Estimate | None
    balanced_accuracy: Estimate | None
    """Mean of recall and specificity."""
    kappa: Estimate | None
    """Cohen's kappa with people."""


@dataclass(frozen=True, slots=True)
class _Share:
    """A share in [0, 1] and the effective number of logs that it comes from."""

    value: float
    effective: float

    def draw(self, rng: random.Random, draws: int) -> list[float]:
        hits = self.value * self.effective
        return [rng.betavariate(hits + _JEFFREYS, self.effective - hits + _JEFFREYS) for _ in range(draws)]


def measure_labels(logs: Sequence[ReviewedLog], flags: Sequence[bool], *, draws: int = DRAWS) -> LabelMeasures:
    """Measures the evaluator's label on n logs; `flags` are n booleans, true where the evaluator fails the log. The
    same logs give the same intervals."""
    pairs = list(zip(logs, flags, strict=True))
    failing, passing = [log for log, flag in pairs if flag], [log for log, flag in pairs if not flag]
    shares = (
        _share(logs, [float(flag) for flag in flags]),
        _share(failing, [log.bad for log in failing]),
        _share(passing, [log.bad for log in passing]),
    )
    cells = _cells(*(share.value for share in shares))
    rng = random.Random(0)
    samples = [_cells(*three) for three in zip(*(share.draw(rng, draws) for share in shares), strict=True)]

    def estimate(measure: Callable[[Cells], float | None], group: Sequence[ReviewedLog]) -> Estimate | None:
        value = measure(cells)
        if value is None or not logs:
            return None
        values = [v for sample in samples if (v := measure(sample)) is not None]
        return Estimate(value, percentile_interval(values, value), len(group), _effective(group))

    return LabelMeasures(
        flagged=weighted_rate([(float(flag), log.weight) for log, flag in pairs]),
        precision=estimate(lambda cells: _ratio(cells[0], cells[0] + cells[1]), failing),
        recall=estimate(_recall, logs),
        f1=estimate(lambda cells: _ratio(2 * cells[0], 2 * cells[0] + cells[1] + cells[2]), logs),
        balanced_accuracy=estimate(_balanced_accuracy, logs), kappa=estimate(kappa, logs),
    )  # fmt: skip


def _share(logs: Sequence[ReviewedLog], values: Sequence[float]) -> _Share:
    """The weighted mean of values in [0, 1], one for each log; 0 without weights."""
    total = sum(log.weight for log in logs)
    part = sum(log.weight * value for log, value in zip(logs, values, strict=True))
    return _Share(min(1.0, part / total) if total else 0.0, _effective(logs))


def _effective(logs: Sequence[ReviewedLog]) -> float:
    return min(float(len(logs)), effective_size(log.weight for log in logs))


def _cells(flagged: float, hits: float, misses: float) -> Cells:
    return flagged * hits, flagged * (1 - hits), (1 - flagged) * misses, (1 - flagged) * (1 - misses)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _recall(cells: Cells) -> float | None:
    return _ratio(cells[0], cells[0] + cells[2])


def _balanced_accuracy(cells: Cells) -> float | None:
    recall, specificity = _recall(cells), _ratio(cells[3], cells[3] + cells[1])
    return None if recall is None or specificity is None else (recall + specificity) / 2


def kappa(cells: Sequence[float]) -> float | None:
    """Cohen's kappa of a table of weights; None for an empty table, and if both always give the same one label."""
    hits, alarms, misses, passes = cells
    total = sum(cells)
    if not total:
        return None
    observed = (hits + passes) / total
    chance = ((hits + alarms) * (hits + misses) + (passes + alarms) * (passes + misses)) / (total * total)
    return None if chance >= 1.0 else (observed - chance) / (1.0 - chance)


# --- labels and probabilities of held-out logs ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QualityMeasures:
    """How good labels and probabilities are on logs that had no part in making them."""

    balanced_accuracy: Estimate
    f1: Estimate
    brier: Estimate | None
    """Mean squared difference between probability and verdict; 0 is best (G. W. Brier, 1950). None if the score is not
    a probability."""
    ece: Estimate | None
    """Expected calibration error in ten bins of equal width: mean distance between the predicted and the observed share
    of failures (M. Pakdaman Naeini, G. F. Cooper, M. Hauskrecht, 2015). With few logs it is overestimated."""


class Sample(NamedTuple):
    """Logs as arrays of n float64 numbers."""

    values: Any
    bad: Any
    weights: Any

    def part(self, mask: Any) -> Sample:
        """The logs that an array of n booleans selects."""
        return Sample(self.values[mask], self.bad[mask], self.weights[mask])


def draw_samples(count: int, rng: Any) -> Any:
    """Draws `count` logs with replacement, many times. Returns an array (draws, count): how often each log is drawn."""
    np = numpy()
    times = min(DRAWS, max(200, _RANDOM_NUMBERS // count))
    return rng.multinomial(count, np.full(count, 1.0 / count), size=times).astype(np.float64)


def measure_quality(sample: Sample, flags: Any, probabilities: Any, draws: Any) -> QualityMeasures:
    """Measures n logs: `flags` are n booleans, `probabilities` n numbers in [0, 1] or None, `draws` come from
    `draw_samples` (B. Efron, 1979). Use the same draws before and after a calibration."""
    np, weights, bad = numpy(), sample.weights, sample.bad

    def balanced_accuracy(n: Any) -> Any:
        recall = (n @ (weights * bad * flags)) / (n @ (weights * bad))
        return (recall + (n @ (weights * (1 - bad) * ~flags)) / (n @ (weights * (1 - bad)))) / 2

    def f1(n: Any) -> Any:
        return 2 * (n @ (weights * bad * flags)) / (n @ (weights * flags) + n @ (weights * bad))

    def brier(n: Any) -> Any:
        error = bad * (1 - probabilities) ** 2 + (1 - bad) * probabilities**2
        return (n @ (weights * error)) / (n @ weights)

    def ece(n: Any) -> Any:
        bins = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
        gaps = [n @ (weights * (probabilities - bad) * (bins == i)) for i in range(_BINS)]
        return sum(np.abs(gap) for gap in gaps) / (n @ weights)

    def estimate(measure: Callable[[Any], Any]) -> Estimate:
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw without bad logs has no value and is left out
            value, values = float(np.nan_to_num(measure(np.ones((1, len(weights))))[0])), measure(draws)
        interval = percentile_interval(values[np.isfinite(values)].tolist() or [value], value)
        return Estimate(value, interval, len(weights), effective_size(weights.tolist()))

    has_probabilities = probabilities is not None
    return QualityMeasures(
        estimate(balanced_accuracy), estimate(f1), estimate(brier) if has_probabilities else None,
        estimate(ece) if has_probabilities else None,
    )  # fmt: skip

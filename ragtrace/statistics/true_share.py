"""Estimates the share of answers that people would fail, from few verdicts of people and all scores of an evaluator.

Verdicts alone leave a wide interval. Scores are many, but an evaluator is not a person. Prediction-powered inference
(A. N. Angelopoulos, J. C. Duchi, T. Zrnic, PPI++: Efficient prediction-powered inference, 2023) corrects the mean of
all scores by what people say of the reviewed ones:

    share = mean of the verdicts + lambda * (mean of all scores - mean of the reviewed scores)

The estimate is unbiased for every lambda, however bad the evaluator is; lambda is the one that makes the interval
shortest, and 0 where the scores say nothing. Each verdict has a weight: the number of requests that it stands for (one
over the probability with which it was evaluated and reviewed).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragtrace.statistics.estimates import Sums
from ragtrace.statistics.intervals import Z, effective_size, wilson

LEAST = 5
"""Reviewed logs that people fail, and that they pass, below which the scores are not used: so few verdicts do not show
how far the scores can be trusted."""
LEAST_EFFECTIVE = 3.0
"""The same, as a part of Kish's effective number: a few logs of great weight may be all that fails."""
PRECISION = 0.03
"""The half width of an interval that is precise enough."""
_LEAST_DEGREES = 4.0


class JudgedLog(NamedTuple):
    """What people say of one log."""

    bad: float
    """Share in [0, 1] of its reviewers who fail it."""
    score: float
    """The evaluator's value, in the same unit and direction as all scores."""
    weight: float
    """The number of requests that the log represents. It is above 0; only ratios of weights matter."""


@dataclass(frozen=True, slots=True)
class TrueShare:
    """The share of requests that people would fail."""

    value: float
    interval: tuple[float, float]
    """95 % interval, in [0, 1]; contains the value."""
    verdicts: int
    scores: int
    alone: tuple[float, float]
    """The 95 % interval of the verdicts alone."""
    factor: float
    """Lambda, how much of a score's difference counts; 0 where the scores are not used."""
    needed: int
    """How many more verdicts of the same kind would bring the interval to within 3 points; 0 where it is so precise."""


def true_share(verdicts: Sequence[JudgedLog], scores: Sums) -> TrueShare | None:
    """Estimates the share of requests that people would fail; None without verdicts.

    `scores` are the sums of all N scores of the same requests, among them the reviewed ones, each with its
    probability. Raises ValueError for a weight that is not above 0.

    The variance is the linearised one of weighted means (C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey
    Sampling, 1992, 5.6), enlarged by Student's quantile on Kish's effective number of verdicts. The interval is
    Wilson's for the number of equal verdicts with this variance: a normal one is too short near 0.
    """
    if not verdicts:
        return None
    if not all(verdict.weight > 0 for verdict in verdicts):
        raise ValueError("true_share needs weights above 0")
    total = sum(v.weight for v in verdicts)
    effective = effective_size(v.weight for v in verdicts)
    share = min(1.0, max(0.0, sum(v.weight * v.bad for v in verdicts) / total))
    alone = wilson(share, effective)
    factor, value, interval, equal = 0.0, share, alone, effective
    failing = sum(v.bad for v in verdicts)
    shows = min(failing, len(verdicts) - failing) >= LEAST and min(share, 1 - share) * effective >= LEAST_EFFECTIVE
    if shows and scores.count > 1:
        factor = _factor(verdicts, share, scores)
        mean = sum(v.weight * v.score for v in verdicts) / total
        value = share + factor * (scores.wv / scores.w - mean)
        rest = [v.bad - share - factor * (v.score - mean) for v in verdicts]
        degrees = max(effective - 2, _LEAST_DEGREES)
        squares = sum((v.weight * r) ** 2 for v, r in zip(verdicts, rest, strict=True))
        variance = squares / total**2 * effective / max(effective - 1, 1.0) * (_student(degrees) / Z) ** 2
        variance += factor**2 * _variance(scores) / scores.effective
        value = min(1.0, max(0.0, value))
        near = min(max(value, 0.5 / len(verdicts)), 1 - 0.5 / len(verdicts))
        equal = near * (1 - near) / max(variance, 1e-12)
        interval = wilson(value, equal)
        if interval[1] - interval[0] > alone[1] - alone[0]:
            factor, value, interval, equal = 0.0, share, alone, effective
    needed = math.ceil(len(verdicts) * (_precise(value) / equal - 1))
    return TrueShare(value, interval, len(verdicts), int(scores.count), alone, factor, max(0, needed))


def _precise(share: float) -> float:
    """The number of equal verdicts whose Wilson interval has the half width `PRECISION`: quadratic in z² / n."""
    a, b, c = PRECISION**2 - 0.25, 2 * PRECISION**2 - share * (1 - share), PRECISION**2
    return Z**2 * 2 * a / (-b - math.sqrt(b * b - 4 * a * c))


def _factor(verdicts: Sequence[JudgedLog], share: float, scores: Sums) -> float:
    """The lambda of the shortest interval: cov(verdict, score) / (var(score) (1 + n / N)), at least 0."""
    total = sum(v.weight for v in verdicts)
    mean = sum(v.weight * v.score for v in verdicts) / total
    # Each term has the square of its weight, as the variance of the estimate has.
    covariance = sum(v.weight**2 * (v.bad - share) * (v.score - mean) for v in verdicts)
    spread = sum(v.weight**2 * (v.score - mean) ** 2 for v in verdicts)
    if spread <= 0:
        return 0.0
    of_all = total**2 * _variance(scores) / scores.effective
    return max(0.0, covariance / (spread + of_all))


def _variance(scores: Sums) -> float:
    """The weighted variance of the scores."""
    return max(0.0, scores.wv2 / scores.w - (scores.wv / scores.w) ** 2)


def _student(degrees: float) -> float:
    """The 97.5 % quantile of Student's t, to 1 % from 4 degrees on (Cornish and Fisher's first terms)."""
    return Z + (Z**3 + Z) / (4 * degrees) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * degrees**2)

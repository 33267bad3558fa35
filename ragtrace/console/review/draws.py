"""Computes with what probability each log is drawn for review, so that a reviewer's hour narrows the true share most.

A share is known best where the draw follows Neyman (J. Neyman, On the two different aspects of the representative
method, 1934): logs are drawn in proportion to the requests that they stand for and to the spread of people's verdicts
among logs with such scores. Where scores are good nearly all verdicts are *pass*, and few of them are needed.
"""

import math
from bisect import bisect
from collections.abc import Sequence

from ragtrace.statistics.true_share import JudgedLog

FLOOR = 0.3
"""Part of the draw in which all logs have the same probability: a kind of failure that the evaluator cannot see is
found there. It also bounds a weight at about three times that of an equal draw."""
_CUTS = (0.5, 0.8, 0.95)
"""The strata are the better half of the scores, and three parts of the worse one."""


def chances(rows: Sequence[tuple[float | None, float]], count: float, past: Sequence[JudgedLog]) -> list[float]:
    """Returns a probability in (0, 1] for each row; their sum is at most `count`.

    A row has the evaluator's score (higher is worse; None without one) and its weight, the requests that it stands for.
    `past` are verdicts of an earlier time with scores of the same kind. Without them only weights count."""
    scores = sorted(score for score, _ in rows if score is not None)
    cuts = [scores[int(q * len(scores))] for q in _CUTS] if scores else []
    mean = (sum(log.bad for log in past) + 1.0) / (len(past) + 2.0)
    verdicts = [[mean] for _ in range(len(cuts) + 1)]  # each part begins with one verdict of the mean share
    for log in past:
        verdicts[bisect(cuts, log.score)].append(log.bad)
    shares = [min(0.98, max(0.02, sum(part) / len(part))) for part in (*verdicts, [mean])]
    spread = [math.sqrt(share * (1 - share)) for share in shares]
    sizes = [weight * spread[-1 if score is None else bisect(cuts, score)] for score, weight in rows]
    total = sum(sizes) or 1.0
    parts = ((1 - FLOOR) * size / total + FLOOR / len(rows) for size in sizes)
    return [round(min(1.0, count * part), 12) for part in parts]

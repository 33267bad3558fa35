"""How well an evaluator's `fail` matches people's, with intervals, for logs that do not all weigh the same.

The traffic has a share F that the evaluator fails; of that people fail a share h, of the rest a share m. Every figure
follows from these three. Each is a share seen in logs, on Kish's effective number of them, and is believed as much as a
binomial share is under Jeffreys' prior (L. Brown, T. Cai, A. DasGupta, Interval estimation for a binomial proportion,
2001); the interval of a figure holds 95 % of its values when the three are drawn from there. A plain linearised
variance is far too small as long as none of the few misses of great weight was drawn; this one knows what it has not
seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtrace.review.consensus import ReviewedLog
from ragtrace.statistics import Estimate

DRAWS = 1_000
_HALF = 0.5
"""Jeffreys' prior: Beta(1/2, 1/2)."""

Cells = tuple[float, float, float, float]
"""Both fail it, the evaluator alone, people alone, both pass it."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Of the label `fail`; None where nothing can be said."""

    precision: Estimate | None
    """Of what the evaluator fails, the share that people fail, too."""
    recall: Estimate | None
    """Of what people fail, the share that the evaluator fails, too."""
    specificity: Estimate | None
    """Of what people pass, the share that the evaluator passes, too."""
    f1: Estimate | None
    balanced_accuracy: Estimate | None
    """The mean of recall and specificity."""
    kappa: Estimate | None
    """Cohen's."""


@dataclass(frozen=True, slots=True)
class _Share:
    value: float
    effective: float

    def drawn(self, chance: random.Random, draws: int) -> list[float]:
        hits = self.value * self.effective
        return [chance.betavariate(hits + _HALF, self.effective - hits + _HALF) for _ in range(draws)]


def measured(found: Sequence[ReviewedLog], flagged: Sequence[bool], *, draws: int = DRAWS) -> Measures:
    """All figures of these logs, each with whether the evaluator fails it. The same logs give the same intervals."""
    flags = [log for log, flag in zip(found, flagged, strict=True) if flag]
    rest = [log for log, flag in zip(found, flagged, strict=True) if not flag]
    shares = _part(found, flags), _bad(flags), _bad(rest)
    cells = _cells(*(share.value for share in shares))
    chance = random.Random(0)
    drawn = [_cells(*three) for three in zip(*(share.drawn(chance, draws) for share in shares), strict=True)]

    def estimate(figure: Callable[[Cells], float | None], count: int, effective: float) -> Estimate | None:
        value = figure(cells)
        if value is None or not found:
            return None
        values = sorted(v for each in drawn if (v := figure(each)) is not None)
        low, high = values[int(0.025 * len(values))], values[int(0.975 * len(values))]
        return Estimate(value, (min(low, value), max(high, value)), count, effective)

    every = shares[0].effective
    return Measures(
        precision=estimate(_precision, len(flags), shares[1].effective),
        recall=estimate(_recall, len(found), every),
        specificity=estimate(_specificity, len(found), every),
        f1=estimate(_f1, len(found), every),
        balanced_accuracy=estimate(_balanced, len(found), every),
        kappa=estimate(kappa, len(found), every),
    )


def _part(found: Sequence[ReviewedLog], flags: Sequence[ReviewedLog]) -> _Share:
    total = sum(log.weight for log in found)
    return _Share(min(1.0, sum(log.weight for log in flags) / total) if total else 0.0, _kish(found))


def _bad(found: Sequence[ReviewedLog]) -> _Share:
    total = sum(log.weight for log in found)
    return _Share(min(1.0, sum(log.weight * log.bad for log in found) / total) if total else 0.0, _kish(found))


def _kish(found: Sequence[ReviewedLog]) -> float:
    squares = sum(log.weight**2 for log in found)
    return min(float(len(found)), sum(log.weight for log in found) ** 2 / squares) if squares else 0.0


def _cells(flagged: float, hits: float, misses: float) -> Cells:
    return flagged * hits, flagged * (1 - hits), (1 - flagged) * misses, (1 - flagged) * (1 - misses)


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _precision(cells: Cells) -> float | None:
    return _over(cells[0], cells[0] + cells[1])


def _recall(cells: Cells) -> float | None:
    return _over(cells[0], cells[0] + cells[2])


def _specificity(cells: Cells) -> float | None:
    return _over(cells[3], cells[3] + cells[1])


def _f1(cells: Cells) -> float | None:
    return _over(2 * cells[0], 2 * cells[0] + cells[1] + cells[2])


def _balanced(cells: Cells) -> float | None:
    one, other = _recall(cells), _specificity(cells)
    return None if one is None or other is None else (one + other) / 2


def kappa(cells: Sequence[float]) -> float | None:
    """Cohen's kappa of a table of weights; None where it is empty, and where both always say the same one thing."""
    hits, alarms, misses, passes = cells
    total = sum(cells)
    if not total:
        return None
    observed = (hits + passes) / total
    chance = ((hits + alarms) * (hits + misses) + (passes + alarms) * (passes + misses)) / (total * total)
    return None if chance >= 1.0 else (observed - chance) / (1.0 - chance)

"""Thresholds and probabilities from people's verdicts, with figures on logs that they were not made from.

`fit` shows each curve of `curves` four fifths of the logs and asks it of the rest, five times; the one with the least
log loss is taken. The threshold is where the expected balanced accuracy (or F1) under the curve is greatest; with
probabilities p that are right, a threshold on p has no better rival (O. Koyejo et al., Consistent binary classification
with generalized performance metrics, 2014). All of it, the choice of the curve included, is done once more within each
four fifths, and what comes out is asked of the fifth that had no part in it: these are the figures, "before" being the
old threshold on the same logs. Logs weigh what they stand for (see `weighing`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragtrace import calibrations as calibration_file
from ragtrace.calibrations import Calibrated, load
from ragtrace.chatlogs.records import ScoredVerdict
from ragtrace.errors import DataError
from ragtrace.evaluation import Direction
from ragtrace.review.consensus import ReviewedLog, group_by_log, newest_version
from ragtrace.review.curves import KINDS, Curve, log_loss, numpy
from ragtrace.review.notices import notify
from ragtrace.review.quality_measures import QualityMeasures, Sample, draw_samples, measure_quality
from ragtrace.review.threshold_effects import ThresholdEffect, measure_thresholds

if TYPE_CHECKING:
    import os

    from ragtrace.chatlogs.store import Store

LEAST = 40
"""Logs that a calibration needs."""
LEAST_OF_EACH = 10
"""Of them that people fail, and that they pass."""
_FOLDS = 5
AIMS = ("balanced_accuracy", "f1")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the verdicts on one evaluator say."""

    evaluator: str
    version: str
    """The evaluator's own."""
    direction: Direction
    threshold: float
    previous: float | None
    """The threshold in force before."""
    curve: Curve
    """Probability that people fail an answer, by its score."""
    aim: str
    count: int
    """Logs."""
    failed: float
    """Of them that people fail; halves where people disagree."""
    effective: float
    """Kish's effective number of logs."""
    before: QualityMeasures | None
    """None where there was no threshold."""
    after: QualityMeasures
    made: float

    @property
    def better(self) -> bool:
        """Whether the aim is met no worse than before, on held-out logs."""
        if self.before is None:
            return True
        return bool(getattr(self.after, self.aim).value >= getattr(self.before, self.aim).value)


def fit(
    judged: Sequence[ScoredVerdict],
    threshold: float | None,
    direction: Direction,
    *,
    aim: str = "balanced_accuracy",
    weighted: bool = True,
    seed: int = 0,
    now: float | None = None,
) -> Calibration:
    """A calibration from verdicts on one evaluator; those on older versions of it are left out.

    `threshold` is the one in force. With `weighted` the figures are for the whole traffic, and verdicts of unknown
    weight are left out; without it they are for the reviewed logs. The same verdicts and seed give the same result.
    Raises DataError where there are too few: it says how many are there and how many are needed.
    """
    if aim not in AIMS:
        raise DataError(f"the aim is {aim!r}; give one of {', '.join(AIMS)}")
    if not judged:
        raise DataError(f"nobody has reviewed anything of it yet; {LEAST} logs are needed")
    version, rows = newest_version(judged)
    found = _usable(rows, judged[0].evaluator, weighted)
    np = numpy()
    data = Sample(*(np.array([getattr(log, name) for log in found], float) for name in ("value", "bad", "weight")))
    chance = np.random.default_rng(seed)
    curve = _best(data, direction, chance)
    after, before = _held_out(data, threshold, direction, aim, chance)
    effective = float(data.weights.sum() ** 2 / (data.weights**2).sum())
    return Calibration(
        judged[0].evaluator, version, direction, _threshold(data, curve, aim), threshold, curve, aim,
        len(found), float(data.bad.sum()), effective, before, after, time.time() if now is None else now,
    )  # fmt: skip


def _usable(rows: Sequence[ScoredVerdict], name: str, weighted: bool) -> list[ReviewedLog]:
    found = [g for g in group_by_log(rows, weighted=weighted) if g.value is not None and math.isfinite(g.value)]
    failed = sum(log.bad for log in found)
    passed = len(found) - failed
    if len(found) >= LEAST and min(failed, passed) >= LEAST_OF_EACH:
        return found
    every = len(group_by_log(rows, weighted=False))
    needed = max(LEAST - len(found), 0, *(_more(kind, len(found)) for kind in (failed, passed)))
    aside = f" ({every - len(found)} more have an unknown weight or no score)" if every > len(found) else ""
    raise DataError(
        f"{name}: people judged {len(found)} logs{aside}, {failed:g} as bad and {passed:g} as good; a calibration "
        f"needs {LEAST} logs, and {LEAST_OF_EACH} of each kind: about {needed} more"
    )


def _more(kind: float, count: int) -> int:
    """Logs to review until there are enough of a kind, if it stays as frequent as it is (or once in 20)."""
    missing = LEAST_OF_EACH - kind
    return 0 if missing <= 0 else math.ceil(missing / max(kind / count if count else 0.0, 0.05))


# --- curve and threshold ----------------------------------------------------------------------------------------------


def _folds(data: Sample, chance: Any) -> Any:
    """A number below `_FOLDS` for each log; bad and good ones are spread evenly."""
    np = numpy()
    found = np.empty(len(data.bad), int)
    for kind in (data.bad >= 0.5, data.bad < 0.5):
        (where,) = np.nonzero(kind)
        found[chance.permutation(where)] = np.arange(len(where)) % _FOLDS
    return found


def _best(data: Sample, direction: Direction, chance: Any) -> Curve:
    """The curve that says best what it has not seen, made from all."""
    np = numpy()
    folds = _folds(data, chance)
    losses: dict[str, float] = {}
    for kind, make in KINDS.items():
        said = np.empty(len(data.bad))
        for fold in range(_FOLDS):
            inside = folds != fold
            curve = make(*data.part(inside), direction)
            if curve is None:
                break
            said[~inside] = curve.at(data.values[~inside])
        else:
            losses[kind] = log_loss(said, data.bad, data.weights)
    made = KINDS[min(losses, key=lambda kind: losses[kind])](*data, direction)
    assert made is not None
    return made


def _threshold(data: Sample, curve: Curve, aim: str) -> float:
    """Where the expected aim is greatest; between two scores, and of equals in the middle."""
    np = numpy()
    order = np.argsort(data.values)
    values, weights = data.values[order], data.weights[order]
    bad = weights * curve.at(values)
    if curve.direction == "lower":
        values, bad, weights = values[::-1], bad[::-1], weights[::-1]
    # The first i logs are flagged.
    hits = np.concatenate([[0.0], np.cumsum(bad)])
    flagged = np.concatenate([[0.0], np.cumsum(weights)])
    total, everything = hits[-1], flagged[-1]
    recall = hits / total
    specificity = 1 - (flagged - hits) / (everything - total)
    score = (recall + specificity) / 2 if aim == "balanced_accuracy" else 2 * hits / (flagged + total)
    score[1:-1][values[1:] == values[:-1]] = -1.0  # no threshold divides equal scores
    best = np.flatnonzero(score[1:-1] >= score[1:-1].max() - 1e-12) + 1
    i = int(best[len(best) // 2])
    return _round((values[i - 1] + values[i]) / 2, values[i - 1], values[i])


def _round(middle: float, one: float, other: float) -> float:
    """The shortest number between two scores: people read it."""
    low, high = min(one, other), max(one, other)
    for digits in range(2, 17):
        short = round(float(middle), digits)
        if low < short < high:
            return short
    return float(high)


def _flags(values: Any, threshold: Any, direction: Direction) -> Any:
    return values < threshold if direction == "higher" else values > threshold


# --- figures ----------------------------------------------------------------------------------------------------------


def _held_out(
    data: Sample, threshold: float | None, direction: Direction, aim: str, chance: Any
) -> tuple[QualityMeasures, QualityMeasures | None]:
    np = numpy()
    folds = _folds(data, chance)
    said, flags = np.empty(len(data.bad)), np.empty(len(data.bad), bool)
    for fold in range(_FOLDS):
        inside = folds != fold
        part = data.part(inside)
        curve = _best(part, direction, chance)
        said[~inside] = curve.at(data.values[~inside])
        flags[~inside] = _flags(data.values[~inside], _threshold(part, curve, aim), direction)
    draws = draw_samples(len(data.bad), chance)
    after = measure_quality(data, flags, said, draws)
    if threshold is None:
        return after, None
    bare = None
    if data.values.min() >= 0.0 and data.values.max() <= 1.0:
        bare = 1.0 - data.values if direction == "higher" else data.values
    return after, measure_quality(data, _flags(data.values, threshold, direction), bare, draws)


# --- the file ---------------------------------------------------------------------------------------------------------


def save(
    path: str | os.PathLike[str],
    calibrations: Sequence[Calibration],
    *,
    store: Store | None = None,
    user: str | None = None,
) -> list[Calibrated]:
    """Write the calibrations into the file, beside those of other evaluators that are there; with a store, down in its
    history, too. Each gets the number after the last one of its evaluator. Raises DataError if the file cannot be read
    or written, and StoreError as the store does; the file is written last."""
    from pathlib import Path

    entries = load(path) if Path(path).exists() else {}
    new = []
    for each in calibrations:
        before = entries.get(each.evaluator)
        numbers = [before.number if before is not None else 0, _last(store, each.evaluator)]
        new.append(_entry(each, max(numbers) + 1))
    if store is not None:
        _remember(store, new, user)
    calibration_file.save(path, {**entries, **{entry.evaluator: entry for entry in new}}.values())
    for each, entry in zip(calibrations, new, strict=True):
        if store is not None:
            said = {"threshold": entry.threshold, "previous": each.previous, "count": each.count}
            notify(store, "calibration.saved", {"evaluator": entry.evaluator, "version": entry.label, **said})
    return new


def _entry(made: Calibration, number: int) -> Calibrated:
    figures = {
        "aim": made.aim, "count": made.count, "failed": made.failed, "effective": made.effective,
        "previous": made.previous, "after": _plain(made.after),
        "before": None if made.before is None else _plain(made.before),
    }  # fmt: skip
    curve = made.curve.as_json()
    return Calibrated(made.evaluator, made.version, number, made.threshold, made.direction, made.made, curve, figures)


def _plain(figures: QualityMeasures) -> Mapping[str, Any]:
    names = ("balanced_accuracy", "f1", "brier", "ece")
    found = {name: getattr(figures, name) for name in names}
    return {n: None if e is None else {"value": e.value, "interval": list(e.interval)} for n, e in found.items()}


def _last(store: Store | None, evaluator: str) -> int:
    """The number of the evaluator's last calibration in the store's history."""
    if store is None:
        return 0
    import json

    from sqlalchemy import select

    from ragtrace.chatlogs.schema import calibrations

    with store.reading() as connection:
        query = select(calibrations.c.content).where(calibrations.c.evaluator == evaluator)
        return max((int(json.loads(content).get("number", 0)) for content in connection.scalars(query)), default=0)


def _remember(store: Store, entries: Sequence[Calibrated], user: str | None) -> None:
    import json

    from sqlalchemy import insert, update

    from ragtrace.chatlogs.schema import calibrations

    with store.writing() as connection:
        for entry in entries:
            same = calibrations.c.evaluator == entry.evaluator
            connection.execute(update(calibrations).where(same).values(active=False))
            content = json.dumps(calibration_file.as_json(entry))
            row = {"evaluator": entry.evaluator, "version": entry.version, "made": entry.made, "user": user}
            connection.execute(insert(calibrations).values(**row, content=content, active=True))


__all__ = [
    "AIMS",
    "Calibrated",
    "Calibration",
    "QualityMeasures",
    "ThresholdEffect",
    "fit",
    "load",
    "measure_thresholds",
    "save",
]

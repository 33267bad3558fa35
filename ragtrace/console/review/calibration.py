"""Fits thresholds and probabilities to people's verdicts, and measures them on logs that were not used for the fit.

`fit` fits each curve of `ragtrace.console.review.curves` to four fifths of the logs and tests it on the rest, five
times, and takes the curve with the least log loss. The threshold is where the expected balanced accuracy (or F1) under
the curve is greatest; if the probabilities p are right, no rule is better than a threshold on p (O. Koyejo et al.,
Consistent binary classification with generalized performance metrics, 2014). The whole procedure, including the choice
of the curve, is repeated within each four fifths and tested on the fifth that had no part in it: these are the reported
measures. "Before" is the old threshold on the same logs. Logs have the weights of `ragtrace.console.review.weights`."""

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select, update

from ragtrace import calibrations as calibration_file
from ragtrace.calibrations import Calibrated, load
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review.consensus import ReviewedLog, group_by_log, group_scored, newest_version
from ragtrace.console.review.curves import KINDS, Curve, log_loss, numpy
from ragtrace.console.review.notices import notify
from ragtrace.console.review.quality_measures import QualityMeasures, Sample, draw_samples, measure_quality
from ragtrace.errors import DataError
from ragtrace.evaluation import Direction
from ragtrace.statistics.intervals import effective_size

LEAST = 40
"""Logs that a calibration needs."""
LEAST_OF_EACH = 10
"""Logs that people fail, and logs that people pass, that a calibration needs."""
_FOLDS = 5
AIMS = ("balanced_accuracy", "f1")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold and a curve that were fitted to the verdicts on one evaluator."""

    evaluator: str
    version: str
    """The evaluator's own version."""
    direction: Direction
    threshold: float
    previous: float | None
    """The threshold in force before."""
    curve: Curve
    """Probability that people fail an answer, by its score."""
    aim: str
    count: int
    """Number of logs."""
    failed: float
    """Logs that people fail; a log on which people disagree counts as a part of one."""
    effective: float
    """Kish's effective number of logs."""
    before: QualityMeasures | None
    """None if there was no threshold."""
    after: QualityMeasures
    made: float
    """Unix time of the fit."""

    @property
    def better(self) -> bool:
        """Whether the new threshold meets the aim at least as well as the old one, on held-out logs."""
        if self.before is None:
            return True
        return bool(getattr(self.after, self.aim).value >= getattr(self.before, self.aim).value)


def fit(
    verdicts: Sequence[ScoredVerdict],
    threshold: float | None,
    direction: Direction,
    *,
    aim: str = "balanced_accuracy",
    weighted: bool = True,
    seed: int = 0,
    now: float | None = None,
) -> Calibration:
    """Fits a calibration to the verdicts on one evaluator; verdicts on older versions of it are left out.

    `threshold` is the one in force. With `weighted` the measures are for the whole traffic, and verdicts of unknown
    weight are left out; otherwise they are for the reviewed logs. The same verdicts and seed give the same result.
    Raises DataError if there are too few verdicts; the message says how many there are and how many are needed."""
    if aim not in AIMS:
        raise DataError(f"the aim is {aim!r}; use one of {', '.join(AIMS)}")
    if not verdicts:
        raise DataError(f"there is no review of this evaluator; a calibration needs {LEAST} reviewed logs")
    version, rows = newest_version(verdicts)
    logs = _usable_logs(rows, verdicts[0].evaluator, weighted)
    np = numpy()
    sample = Sample(*(np.array([getattr(log, name) for log in logs], float) for name in ("value", "bad", "weight")))
    rng = np.random.default_rng(seed)
    curve = _best_curve(sample, direction, rng)
    after, before = _measure_held_out(sample, threshold, direction, aim, rng)
    return Calibration(
        evaluator=verdicts[0].evaluator, version=version, direction=direction,
        threshold=_best_threshold(sample, curve, aim), previous=threshold, curve=curve, aim=aim, count=len(logs),
        failed=float(sample.bad.sum()), effective=effective_size(sample.weights.tolist()), before=before, after=after,
        made=time.time() if now is None else now,
    )  # fmt: skip


def _usable_logs(rows: Sequence[ScoredVerdict], name: str, weighted: bool) -> list[ReviewedLog]:
    logs = group_scored(rows, weighted=weighted)
    failed = sum(log.bad for log in logs)
    passed = len(logs) - failed
    if len(logs) >= LEAST and min(failed, passed) >= LEAST_OF_EACH:
        return logs
    unusable = len(group_by_log(rows, weighted=False)) - len(logs)
    needed = max(LEAST - len(logs), 0, *(_missing_logs(kind, len(logs)) for kind in (failed, passed)))
    note = f" ({unusable} more have an unknown weight or no score)" if unusable > 0 else ""
    raise DataError(
        f"{name}: people reviewed {len(logs)} logs{note}, {failed:g} as bad and {passed:g} as good; a calibration "
        f"needs {LEAST} logs, and {LEAST_OF_EACH} of each kind: about {needed} more"
    )


def _missing_logs(kind: float, count: int) -> int:
    """Logs to review until there are enough of a kind, if it remains as frequent as it is (or one in 20)."""
    missing = LEAST_OF_EACH - kind
    return 0 if missing <= 0 else math.ceil(missing / max(kind / count if count else 0.0, 0.05))


# --- curve and threshold ----------------------------------------------------------------------------------------------


def _folds(sample: Sample, rng: Any) -> Any:
    """A number below `_FOLDS` for each log; bad and good logs are spread evenly."""
    np = numpy()
    folds = np.empty(len(sample.bad), int)
    for kind in (sample.bad >= 0.5, sample.bad < 0.5):
        (places,) = np.nonzero(kind)
        folds[rng.permutation(places)] = np.arange(len(places)) % _FOLDS
    return folds


def _best_curve(sample: Sample, direction: Direction, rng: Any) -> Curve:
    """The kind of curve that predicts held-out logs best, fitted to all logs."""
    np = numpy()
    folds = _folds(sample, rng)
    losses: dict[str, float] = {}
    for kind, fit_curve in KINDS.items():
        probabilities = np.empty(len(sample.bad))
        for fold in range(_FOLDS):
            inside = folds != fold
            curve = fit_curve(*sample.part(inside), direction)
            if curve is None:
                break
            probabilities[~inside] = curve(sample.values[~inside])
        else:
            losses[kind] = log_loss(probabilities, sample.bad, sample.weights)
    curve = KINDS[min(losses, key=lambda kind: losses[kind])](*sample, direction)
    assert curve is not None
    return curve


def _best_threshold(sample: Sample, curve: Curve, aim: str) -> float:
    """The threshold with the greatest expected aim; it lies between two scores, and of equals in the middle."""
    np = numpy()
    order = np.argsort(sample.values)
    values, weights = sample.values[order], sample.weights[order]
    bad = weights * curve(values)
    if curve.direction == "lower":
        values, bad, weights = values[::-1], bad[::-1], weights[::-1]
    # Entry i: the first i logs are flagged.
    hits = np.concatenate([[0.0], np.cumsum(bad)])
    flagged = np.concatenate([[0.0], np.cumsum(weights)])
    all_bad, total = hits[-1], flagged[-1]
    recall = hits / all_bad
    specificity = 1 - (flagged - hits) / (total - all_bad)
    score = (recall + specificity) / 2 if aim == "balanced_accuracy" else 2 * hits / (flagged + all_bad)
    score[1:-1][values[1:] == values[:-1]] = -1.0  # no threshold divides equal scores
    best = np.flatnonzero(score[1:-1] >= score[1:-1].max() - 1e-12) + 1
    i = int(best[len(best) // 2])
    return _shortest_between(values[i - 1], values[i])


def _shortest_between(one: float, other: float) -> float:
    """The number with the fewest digits between two scores, near their middle: people read it."""
    low, high = min(one, other), max(one, other)
    for digits in range(2, 17):
        short = round(float((one + other) / 2), digits)
        if low < short < high:
            return short
    return float(high)


def _flags(values: Any, threshold: Any, direction: Direction) -> Any:
    return values < threshold if direction == "higher" else values > threshold


# --- measures ---------------------------------------------------------------------------------------------------------


def _measure_held_out(
    sample: Sample, threshold: float | None, direction: Direction, aim: str, rng: Any
) -> tuple[QualityMeasures, QualityMeasures | None]:
    """Measures the procedure on held-out logs (after), and the threshold in force on the same logs (before)."""
    np, values = numpy(), sample.values
    folds = _folds(sample, rng)
    probabilities, flags = np.empty(len(values)), np.empty(len(values), bool)
    for fold in range(_FOLDS):
        inside = folds != fold
        part = sample.part(inside)
        curve = _best_curve(part, direction, rng)
        probabilities[~inside] = curve(values[~inside])
        flags[~inside] = _flags(values[~inside], _best_threshold(part, curve, aim), direction)
    draws = draw_samples(len(values), rng)
    after = measure_quality(sample, flags, probabilities, draws)
    if threshold is None:
        return after, None
    bare = None
    if values.min() >= 0.0 and values.max() <= 1.0:
        bare = 1.0 - values if direction == "higher" else values
    return after, measure_quality(sample, _flags(values, threshold, direction), bare, draws)


# --- the file ---------------------------------------------------------------------------------------------------------


def save(
    path: str | os.PathLike[str], calibrations: Sequence[Calibration], *, store: Store, user: str | None = None
) -> list[Calibrated]:
    """Writes the calibrations into the file, which keeps those of other evaluators, and into the history of the store.
    Each gets the number after the last one of its evaluator. Raises DataError if the file cannot be read or written:
    then the history does not change either; and StoreError as the store does."""
    entries = load(path) if Path(path).exists() else {}
    with store.writing() as connection:
        new = [_save_one(connection, each, entries.get(each.evaluator), user) for each in calibrations]
        calibration_file.save(path, {**entries, **{entry.evaluator: entry for entry in new}}.values())
    for each, entry in zip(calibrations, new, strict=True):
        numbers = {"threshold": entry.threshold, "previous": each.previous, "count": each.count}
        notify(store, "calibration.saved", {"evaluator": entry.evaluator, "version": entry.label, **numbers})
    return new


def _save_one(connection: Connection, fit: Calibration, before: Calibrated | None, user: str | None) -> Calibrated:
    """Puts a calibration into the history of the store. `before` is the evaluator's one in the file."""
    of, own = schema.calibrations, schema.calibrations.c.evaluator == fit.evaluator
    numbers = [int(json.loads(row).get("number", 0)) for row in connection.scalars(select(of.c.content).where(own))]
    entry = _entry(fit, max([0 if before is None else before.number, *numbers]) + 1)
    connection.execute(update(of).where(own).values(active=False))
    content = json.dumps(calibration_file.as_json(entry))
    row = {"evaluator": entry.evaluator, "version": entry.version, "made": entry.made, "user": user}
    connection.execute(insert(of).values(**row, content=content, active=True))
    return entry


def _entry(fit: Calibration, number: int) -> Calibrated:
    measures = {name: getattr(fit, name) for name in ("aim", "count", "failed", "effective", "previous")}
    measures |= {"after": asdict(fit.after), "before": None if fit.before is None else asdict(fit.before)}
    curve = fit.curve.as_json()
    return Calibrated(fit.evaluator, fit.version, number, fit.threshold, fit.direction, fit.made, curve, measures)

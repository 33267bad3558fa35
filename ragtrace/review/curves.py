"""From a score to the probability that people would fail the answer. Three shapes; `calibration` chooses.

All are monotone: a better score never makes a bad answer likelier. Arrays are of n float64 numbers; `bad` in [0, 1] is
the share of people who fail the answer, weights are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragtrace.errors import DataError, MissingExtraError
from ragtrace.evaluation import Direction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_EDGE = 1e-4
"""No probability nearer to 0 or 1 is ever said: nobody has seen ten thousand reviews."""
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted curve; its JSON is `{"kind": …, "direction": …, **parameters}`."""

    kind: str
    """`platt`: sigmoid(a·v + b) · `beta`: sigmoid(a·ln s - b·ln(1 - s) + c) of the badness s = v, or 1 - v where higher
    is better · `isotonic`: straight lines between the points x, y."""
    direction: Direction
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, values: Sequence[float]) -> list[float]:
        """Probability in (0, 1) for each value."""
        return [float(p) for p in self.at(numpy().asarray(values, dtype=numpy().float64))]

    def at(self, values: Any) -> Any:
        """The same of an array."""
        np = numpy()
        p = self.parameters
        if self.kind == "isotonic":
            found = np.interp(_badness(values, self.direction), p["x"], p["y"])
        elif self.kind == "beta":
            one, other = _logs(_share(values, self.direction))
            found = _sigmoid(p["a"] * one + p["b"] * other + p["c"])
        else:
            found = _sigmoid(p["a"] * values + p["b"])
        return np.clip(found, _EDGE, 1 - _EDGE)

    def as_json(self) -> dict[str, Any]:
        """As the calibration file has it."""
        return {"kind": self.kind, "direction": self.direction, **self.parameters}


def curve_from_json(given: Mapping[str, Any]) -> Curve:
    """A curve from a calibration file. Raises DataError for one that is none."""
    names = {"platt": ("a", "b"), "beta": ("a", "b", "c"), "isotonic": ("x", "y")}.get(str(given.get("kind")))
    if names is None or given.get("direction") not in ("higher", "lower") or any(name not in given for name in names):
        raise DataError("the calibration's curve is none; known are platt, beta and isotonic")
    return Curve(str(given["kind"]), given["direction"], {name: given[name] for name in names})


def platt(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve:
    """A logistic curve. J. Platt, Probabilistic outputs for support vector machines (1999): the targets are drawn in by
    as much as there is little of one kind, so that separable data give no step."""
    np = numpy()
    sign = -1.0 if direction == "higher" else 1.0
    scale = float(np.std(values)) or 1.0
    slope, level = _logistic([sign * values / scale], _drawn_in(bad, weights), weights)
    return Curve("platt", direction, {"a": sign * slope / scale, "b": level})


def beta(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve | None:
    """Beta calibration, for scores in [0, 1]; None for others. M. Kull, T. Silva Filho, P. Flach, Beta calibration: a
    well-founded and easily implemented improvement on logistic calibration for binary classifiers (2017)."""
    if not (values.min() >= 0.0 and values.max() <= 1.0):
        return None
    one, other = _logs(_share(values, direction))
    a, b, c = _logistic([one, other], _drawn_in(bad, weights), weights)
    return Curve("beta", direction, {"a": a, "b": b, "c": c})


def isotonic(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve:
    """The monotone curve of least squares, by pooling adjacent violators (M. Ayer et al., An empirical distribution
    function for sampling with incomplete information, 1955); straight between the pools' means."""
    np = numpy()
    x = _badness(values, direction)
    order = np.argsort(x, kind="stable")
    pools: list[list[float]] = []  # weight, weight x value, weight x badness
    for i in order:
        pools.append([float(weights[i]), float(weights[i] * bad[i]), float(weights[i] * x[i])])
        while len(pools) > 1 and _falls(pools[-2], pools[-1]):
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last, strict=True)]
    # Half a log of each kind in every pool: a pool of five bad ones does not prove certainty.
    mean = float(weights.mean())
    y = np.maximum.accumulate([(p[1] + mean / 2) / (p[0] + mean) for p in pools])
    return Curve("isotonic", direction, {"x": [p[2] / p[0] for p in pools], "y": [float(v) for v in y]})


KINDS: Mapping[str, Callable[[Any, Any, Any, Direction], Curve | None]] = {
    "platt": platt,
    "beta": beta,
    "isotonic": isotonic,
}


def _falls(before: list[float], after: list[float]) -> bool:
    same = before[2] / before[0] >= after[2] / after[0]  # of one place
    return same or before[1] / before[0] >= after[1] / after[0]


def _logistic(features: Sequence[Any], targets: Any, weights: Any) -> tuple[float, ...]:
    """Coefficients of at least 0, and the level, by Newton's method with a trace of ridge; a feature that would fall is
    left out."""
    np = numpy()
    left = list(range(len(features)))
    weights = weights / weights.mean()
    while True:
        found = _newton(np.stack([*(features[i] for i in left), np.ones(len(targets))], 1), targets, weights)
        fallen = [i for i, c in zip(left, found, strict=False) if c < 0]
        if not fallen:
            by_index = dict(zip(left, found, strict=False))
            return (*(float(by_index.get(i, 0.0)) for i in range(len(features))), float(found[-1]))
        left = [i for i in left if i not in fallen]


def _newton(design: Any, targets: Any, weights: Any) -> Any:
    np = numpy()
    found = np.zeros(design.shape[1])
    ridge = 1e-6 * len(targets) * np.eye(design.shape[1])

    def loss(at: Any) -> float:
        z = design @ at
        return float((weights * (np.logaddexp(0.0, z) - targets * z)).sum() + 0.5 * at @ ridge @ at)

    for _ in range(_STEPS):
        p = _sigmoid(design @ found)
        slope = design.T @ (weights * (p - targets)) + ridge @ found
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design + ridge
        step = np.linalg.solve(curvature, slope)
        size, before = 1.0, loss(found)
        while loss(found - size * step) > before and size > 1e-6:
            size /= 2
        found = found - size * step
        if float(np.abs(size * step).max()) < 1e-9:
            break
    return found


def _drawn_in(bad: Any, weights: Any) -> Any:
    share = weights / weights.sum() * len(weights)
    worse, better = float((share * bad).sum()), float((share * (1 - bad)).sum())
    return bad * (worse + 1) / (worse + 2) + (1 - bad) / (better + 2)


def _badness(values: Any, direction: Direction) -> Any:
    return -values if direction == "higher" else values


def _share(values: Any, direction: Direction) -> Any:
    return 1.0 - values if direction == "higher" else values


def _logs(share: Any) -> tuple[Any, Any]:
    np = numpy()
    inside = np.clip(share, 1e-6, 1 - 1e-6)
    return np.log(inside), -np.log1p(-inside)


def _sigmoid(z: Any) -> Any:
    np = numpy()
    return 1.0 / (1.0 + np.exp(-np.clip(z, -500, 500)))


def numpy() -> Any:
    """The package. Raises MissingExtraError without it."""
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise MissingExtraError("numpy", "store", "Calibration") from error
    return np


def log_loss(probabilities: Any, bad: Any, weights: Any) -> float:
    """Weighted mean of -ln of the probability that was said of what people say."""
    np = numpy()
    said = bad * np.log(probabilities) + (1 - bad) * np.log1p(-probabilities)
    return float(-(weights * said).sum() / weights.sum())


__all__ = ["KINDS", "Curve", "beta", "curve_from_json", "isotonic", "log_loss", "numpy", "platt"]

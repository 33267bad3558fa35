"""Fits curves from an evaluator's score to the probability that people fail the answer. There are three kinds;
`ragtrace.console.review.calibration` chooses one.

All curves are monotone: a better score never gives a higher probability. Arrays hold n float64 numbers; `bad` in [0, 1]
is the share of people who fail the answer, weights are positive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtrace.errors import DataError, package
from ragtrace.evaluation import Direction

_EDGE = 1e-4
"""Probabilities are limited to [_EDGE, 1 - _EDGE]: no calibration is based on ten thousand reviews."""
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted curve; its JSON is `{"kind": …, "direction": …, **parameters}`."""

    kind: str
    """`platt`: sigmoid(a·v + b) · `beta`: sigmoid(a·ln s - b·ln(1 - s) + c) of the badness s = v, or 1 - v where higher
    is better · `isotonic`: straight lines between the points x, y."""
    direction: Direction
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, values: Any) -> Any:
        """An array with a probability in (0, 1) for each of n numbers."""
        np = numpy()
        values, p = np.asarray(values, np.float64), self.parameters
        if self.kind == "isotonic":
            probability = np.interp(_badness(values, self.direction), p["x"], p["y"])
        elif self.kind == "beta":
            one, other = _logs(_share(values, self.direction))
            probability = _sigmoid(p["a"] * one + p["b"] * other + p["c"])
        else:
            probability = _sigmoid(p["a"] * values + p["b"])
        return np.clip(probability, _EDGE, 1 - _EDGE)

    def as_json(self) -> dict[str, Any]:
        """The curve as an object of the calibration file."""
        return {"kind": self.kind, "direction": self.direction, **self.parameters}


def curve_from_json(fields: Mapping[str, Any]) -> Curve:
    """Reads a curve of a calibration file. Raises DataError if it is invalid."""
    kind, direction = str(fields.get("kind")), fields.get("direction")
    names = {"platt": ("a", "b"), "beta": ("a", "b", "c"), "isotonic": ("x", "y")}.get(kind)
    if names is None or direction not in ("higher", "lower") or any(name not in fields for name in names):
        raise DataError(
            f"the curve of the calibration is invalid: kind {kind[:40]!r} with {', '.join(map(str, fields))[:200]}; "
            "the kinds are platt, beta and isotonic"
        )
    return Curve(kind, direction, {name: fields[name] for name in names})


def platt(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve:
    """Fits a logistic curve (J. Platt, Probabilistic outputs for support vector machines, 1999). The targets are shrunk
    from 0 and 1, the more so the fewer logs there are of a kind, so that separable data give no step."""
    np = numpy()
    sign = -1.0 if direction == "higher" else 1.0
    scale = float(np.std(values)) or 1.0
    slope, level = _logistic([sign * values / scale], _shrunk_targets(bad, weights), weights)
    return Curve("platt", direction, {"a": sign * slope / scale, "b": level})


def beta(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve | None:
    """Fits a beta calibration; None if a score is outside [0, 1]. M. Kull, T. Silva Filho, P. Flach, Beta calibration:
    a well-founded and easily implemented improvement on logistic calibration for binary classifiers (2017)."""
    if not (values.min() >= 0.0 and values.max() <= 1.0):
        return None
    one, other = _logs(_share(values, direction))
    a, b, c = _logistic([one, other], _shrunk_targets(bad, weights), weights)
    return Curve("beta", direction, {"a": a, "b": b, "c": c})


def isotonic(values: Any, bad: Any, weights: Any, direction: Direction) -> Curve:
    """Fits the monotone curve of least squares by pooling adjacent violators (M. Ayer et al., An empirical distribution
    function for sampling with incomplete information, 1955). It is linear between the means of the pools."""
    np = numpy()
    x = _badness(values, direction)
    order = np.argsort(x, kind="stable")
    pools: list[list[float]] = []  # weight, weight x value, weight x badness
    for i in order:
        pools.append([float(weights[i]), float(weights[i] * bad[i]), float(weights[i] * x[i])])
        while len(pools) > 1 and _falls(pools[-2], pools[-1]):
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last, strict=True)]
    # Add half a log of each kind to every pool: a pool of five bad logs does not prove certainty.
    mean = float(weights.mean())
    y = np.maximum.accumulate([(p[1] + mean / 2) / (p[0] + mean) for p in pools])
    return Curve("isotonic", direction, {"x": [p[2] / p[0] for p in pools], "y": [float(v) for v in y]})


KINDS: Mapping[str, Callable[[Any, Any, Any, Direction], Curve | None]] = {
    "platt": platt, "beta": beta, "isotonic": isotonic,
}  # fmt: skip


def _falls(before: list[float], after: list[float]) -> bool:
    same = before[2] / before[0] >= after[2] / after[0]  # equal badness
    return same or before[1] / before[0] >= after[1] / after[0]


def _logistic(features: Sequence[Any], targets: Any, weights: Any) -> tuple[float, ...]:
    """Fits coefficients >= 0 and the intercept by Newton's method with a small ridge penalty. A feature with a negative
    coefficient is left out."""
    np = numpy()
    left = list(range(len(features)))
    weights = weights / weights.mean()
    while True:
        solution = _newton(np.stack([*(features[i] for i in left), np.ones(len(targets))], 1), targets, weights)
        by_index = dict(zip(left, solution, strict=False))
        if min(by_index.values(), default=0.0) >= 0:
            return (*(float(by_index.get(i, 0.0)) for i in range(len(features))), float(solution[-1]))
        left = [i for i in left if by_index[i] >= 0]


def _newton(design: Any, targets: Any, weights: Any) -> Any:
    np = numpy()
    solution = np.zeros(design.shape[1])
    ridge = 1e-6 * len(targets) * np.eye(design.shape[1])

    def loss(at: Any) -> float:
        z = design @ at
        return float((weights * (np.logaddexp(0.0, z) - targets * z)).sum() + 0.5 * at @ ridge @ at)

    for _ in range(_STEPS):
        p = _sigmoid(design @ solution)
        slope = design.T @ (weights * (p - targets)) + ridge @ solution
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design + ridge
        step = np.linalg.solve(curvature, slope)
        size, before = 1.0, loss(solution)
        while loss(solution - size * step) > before and size > 1e-6:
            size /= 2
        solution = solution - size * step
        if float(np.abs(size * step).max()) < 1e-9:
            break
    return solution


def _shrunk_targets(bad: Any, weights: Any) -> Any:
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
    """The module numpy. Raises MissingExtraError if it is not installed."""
    return package("numpy", "store", "Calibration")


def log_loss(probabilities: Any, bad: Any, weights: Any) -> float:
    """Weighted mean of -ln of the probability that was predicted for what people answered."""
    np = numpy()
    likelihood = bad * np.log(probabilities) + (1 - bad) * np.log1p(-probabilities)
    return float(-(weights * likelihood).sum() / weights.sum())

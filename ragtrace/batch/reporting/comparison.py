"""Compares two runs over the same rows and tests which differences are significant.
`ragtrace.console.chatlogs.side_by_side` compares stored requests instead."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ragtrace.base.terminal import fitted
from ragtrace.batch.reporting.formats import table
from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result, label_of, value_of
from ragtrace.errors import DataError
from ragtrace.statistics import intervals

BETTER, WORSE, NOTHING = "better", "worse", "no difference shown"
_LEVEL = 0.05
_DRAWS = 10_000
_PASSES = {PASS: 1.0, FAIL: 0.0}
_Pair = tuple[Result, Result]


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric in two runs, over the rows on which both have a value."""

    metric: str
    n: int
    """Questions: the rows of several models are one."""
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    """Mean of B minus mean of A, in the unit of the metric."""
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the difference, over rows."""
    p: float | None
    """Of the paired permutation test; of McNemar's test for verdicts without values; None without pairs."""
    p_holm: float | None
    """The same p, corrected for the number of metrics that differ on a row; 1 for the others."""
    only_a_passes: int
    only_b_passes: int
    mcnemar: float | None
    """p of McNemar's exact test, not corrected; None without verdicts."""
    verdict: str
    """B compared with A: `better`, `worse`, or `no difference shown` (which does not prove that they are equal)."""
    note: str = ""
    """What limits the comparison of this metric."""

    @property
    def varies(self) -> bool:
        """Whether the runs differ on at least one row."""
        return bool(self.difference or self.only_a_passes or self.only_b_passes or (self.p or 1.0) < 1.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of all metrics that two runs share."""

    differences: tuple[Difference, ...]
    matched: int
    """Number of rows that are in both runs."""
    only_a: int
    only_b: int
    changed: int
    """Rows with the same id and another question; they are left out."""


def compare(a: EvaluationRun, b: EvaluationRun) -> Comparison:
    """Match the rows of two runs by id and compare every metric that both have, pair by pair.

    Rows are matched by id and model if several models share an id. Perturbed rows are left out. Raises DataError if no
    row is in both runs, or if ids are not unique."""
    left, right = _keyed(a, b)
    common = [key for key in left if key in right]
    pairs = [(left[key], right[key]) for key in common if left[key].query == right[key].query]
    if not pairs:
        raise DataError("the two runs have no row in common: a pair of rows needs the same id and the same question")
    shared = [metric for name, metric in a.metrics.items() if name in b.metrics]
    differences = [_difference(metric, b.metrics[metric.name], pairs) for metric in shared]
    # A metric that is equal on every row can show nothing, whichever run is called B: it does not count.
    ps = iter(intervals.holm([d.p for d in differences if d.p is not None and d.varies]))
    with_p = [d if d.p is None else replace(d, p_holm=next(ps) if d.varies else 1.0) for d in differences]
    return Comparison(
        differences=tuple(_with_verdict(d, a.metrics[d.metric].direction == "higher") for d in with_p),
        matched=len(pairs),
        only_a=len(left) - len(common), only_b=len(right) - len(common), changed=len(common) - len(pairs),
    )  # fmt: skip


def _keyed(a: EvaluationRun, b: EvaluationRun) -> tuple[dict[tuple[str, str], Result], dict[tuple[str, str], Result]]:
    """The rows of both runs by id, or by id and model if an id alone is not unique in one of them."""
    runs = [list(a.originals()), list(b.originals())]
    by_model = any(len({row.id for row in rows}) < len(rows) for rows in runs)
    keyed = [{(row.id, row.model if by_model else ""): row for row in rows} for rows in runs]
    for name, rows, keys in zip("AB", runs, keyed, strict=True):
        if len(keys) < len(rows):
            (id, _), n = Counter((row.id, row.model) for row in rows).most_common(1)[0]
            raise DataError(f"run {name} has {n} rows with the id {id!r}: rows cannot be matched")
    return keyed[0], keyed[1]


def _difference(metric: Metric, other: Metric, pairs: Sequence[_Pair]) -> Difference:
    both = [(value_of(x, metric.name), value_of(y, metric.name)) for x, y in pairs]
    labels = [(label_of(x, metric.name), label_of(y, metric.name)) for x, y in pairs]
    verdicts = [pair for pair in labels if set(pair) <= {PASS, FAIL}]
    questions = _by_question(pairs, both)
    deltas = [y - x for x, y in questions]
    only_a = sum(pair == (PASS, FAIL) for pair in verdicts)
    only_b = sum(pair == (FAIL, PASS) for pair in verdicts)
    is_each_once = len({row.id for row, _ in pairs}) == len(pairs)
    mcnemar = intervals.mcnemar_p(only_a, only_b) if verdicts and is_each_once else None
    passes = [(_PASSES.get(x or ""), _PASSES.get(y or "")) for x, y in labels]
    tested = deltas if deltas or is_each_once else [y - x for x, y in _by_question(pairs, passes)]
    mean_a, mean_b = (fmean(each) for each in zip(*questions, strict=True)) if questions else (None, None)
    return Difference(
        metric=metric.name, n=len(deltas) or len(_by_question(pairs, passes)), mean_a=mean_a, mean_b=mean_b,
        difference=fmean(deltas) if deltas else None,
        interval=intervals.bootstrap_mean(deltas, draws=_DRAWS),
        p=intervals.permutation_p(tested, draws=_DRAWS) if tested else mcnemar, p_holm=None,
        only_a_passes=only_a, only_b_passes=only_b, mcnemar=mcnemar, verdict=NOTHING,
        note="; ".join(_notes(metric, other, both if questions else passes)),
    )  # fmt: skip


def _by_question(
    pairs: Sequence[_Pair], values: Sequence[tuple[float | None, float | None]]
) -> list[tuple[float, float]]:
    """Both means of each question: rows of several models answer the same one, and are not independent."""
    rows: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for (row, _), (x, y) in zip(pairs, values, strict=True):
        if x is not None and y is not None:
            rows[row.id].append((x, y))
    return [(fmean(x for x, _ in each), fmean(y for _, y in each)) for each in rows.values()]


def _notes(metric: Metric, other: Metric, both: Sequence[tuple[float | None, float | None]]) -> list[str]:
    notes = []
    for name in ("version", "method", "threshold", "direction"):
        if (one := getattr(metric, name)) != (two := getattr(other, name)):
            notes.append(f"{name} differs: {one} and {two}")
    # Rows with a value in one run only are not a random selection: usually the harder rows are missing.
    for name, here, there in (("A", 0, 1), ("B", 1, 0)):
        if alone := sum(pair[here] is not None and pair[there] is None for pair in both):
            notes.append(f"{alone} rows have a score in {name} only")
    return notes


def _with_verdict(d: Difference, higher: bool) -> Difference:
    if d.p_holm is None or d.p_holm >= _LEVEL:
        return d
    up = d.difference > 0 if d.difference is not None else d.only_b_passes > d.only_a_passes
    good = up if d.difference is None else up == higher
    return replace(d, verdict=BETTER if good else WORSE)


def comparison_table(a: EvaluationRun, b: EvaluationRun, columns: int | None = None) -> str:
    """The comparison as text without a final newline, for a terminal with so many columns (None: as many as needed).
    Raises the errors of `compare`."""
    comparison = compare(a, b)
    head = ("metric", "n", "A", "B", "B - A", "95 % interval", "p (Holm)", "lost/won", "B is")
    rows = [head, *(_cells(d) for d in comparison.differences)]
    changed = [d for d in comparison.differences if d.p is not None and d.varies]
    largest = min(changed, key=lambda d: (d.p or 0.0, -abs(d.difference or 0.0)), default=None)
    lines = [
        f"A: {a.info.file or 'first run'}   B: {b.info.file or 'second run'}",
        f"rows in both {comparison.matched} · only in A {comparison.only_a} · only in B {comparison.only_b}"
        + (f" · same id, other question {comparison.changed} (left out)" if comparison.changed else ""), "",
        *table(rows, range(1, len(head) - 1), columns),
        *(f"{d.metric}: {d.note}" for d in comparison.differences if d.note),
        *(f"{name}: only in A" for name in a.metrics if name not in b.metrics),
        *(f"{name}: only in B" for name in b.metrics if name not in a.metrics), "",
        "No metric differs on any row." if largest is None else f"The clearest change: {_change(largest)}.",
        f"p: paired permutation test ({_DRAWS:,} draws), corrected for the {len(changed)} metrics that differ (Holm).",
        "lost/won: rows that pass in A only / in B only. Without a significant difference, A and B may still differ.",
    ]  # fmt: skip
    return "\n".join(fitted(lines, columns))


def _change(d: Difference) -> str:
    size = "" if d.difference is None else f" by {d.difference:+.3f}"
    between = f" (95 % interval {d.interval[0]:+.3f} to {d.interval[1]:+.3f})" if d.interval else ""
    return f"{d.metric}{size}{between}; {d.only_a_passes} rows lost, {d.only_b_passes} won; p {_p(d.p)} uncorrected"


def _p(p: float | None) -> str:
    return "< 0.001" if p is not None and p < 0.001 else _number(p, ".3f")


def _cells(d: Difference) -> tuple[str, ...]:
    return (
        d.metric, str(d.n), _number(d.mean_a, ".3f"), _number(d.mean_b, ".3f"), _number(d.difference, "+.3f"),
        f"{d.interval[0]:+.3f} to {d.interval[1]:+.3f}" if d.interval else "-", _p(d.p_holm),
        "-" if d.mcnemar is None else f"{d.only_a_passes}/{d.only_b_passes}", d.verdict,
    )  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)

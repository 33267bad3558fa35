"""How far evaluators agree with people, and people with each other. The standard library is enough for it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from ragtrace.chatlogs.records import ScoredVerdict
from ragtrace.review.confusion import measured
from ragtrace.review.consensus import ReviewedLog, group_by_log, weighted_rate
from ragtrace.statistics import Estimate

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_DRAWS = 500
_SAYS = ("pass", "fail", "not_applicable")
"""What is compared between people; `unsure` is no answer."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Of the label `fail`. Numbers of logs, or of requests that they stand for."""

    hits: float
    """Both fail it."""
    false_alarms: float
    """The evaluator alone."""
    misses: float
    """People alone."""
    passes: float
    """Both pass it."""


@dataclass(frozen=True, slots=True)
class EvaluatorAgreement:
    """One evaluator against people. Estimates are None where nothing can be said."""

    evaluator: str
    versions: tuple[str, ...]
    logs: int
    """That people judged `pass` or `fail` and the evaluator, too."""
    counted: int
    """Those of them that weigh anything: all others came by rules from which nothing follows for the rest."""
    left_out: int
    """That people judged, and of which the evaluator says neither (it failed, or did not apply)."""
    seen: Confusion
    """Logs as they are: worst-first review makes an evaluator look better or worse than it is."""
    whole: Confusion | None
    """The same as shares of the whole traffic; they add up to 1."""
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    kappa: Estimate | None
    """Cohen's, with people."""
    bad: Estimate | None
    """Share of the traffic that people fail."""
    flagged: Estimate | None
    """Share of the traffic that the evaluator fails."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two reviewers. They agree by chance, too: kappa is 1 for agreement always, 0 for what chance does."""

    first: str
    second: str
    count: int
    """Questions that both answered."""
    agreed: float
    """Share of them, in [0, 1]."""
    kappa: float | None
    """None where both always say the same one thing."""


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha of all reviewers, for nominal answers."""

    value: float | None
    """None where nobody varies."""
    interval: tuple[float, float] | None
    """95 %, by drawing logs with replacement."""
    units: int
    """Questions that two people or more answered."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All of it."""

    evaluators: tuple[EvaluatorAgreement, ...]
    pairs: tuple[Pair, ...]
    alphas: Mapping[str, Alpha]
    """By evaluator; "" for all together."""


def agreement(
    store: Store, evaluator: str = "", since: float | None = None, until: float | None = None, *, weighted: bool = True
) -> Agreement:
    """What the reviews in [since, until) say of the evaluators and of the reviewers. With `weighted`, estimates are for
    the whole traffic (see `weighing`); without it they are for the reviewed logs alone."""
    from ragtrace.review.weights import load_verdicts

    return measure_agreement(load_verdicts(store, evaluator, since, until), weighted=weighted)


def measure_agreement(rows: Sequence[ScoredVerdict], *, weighted: bool = True) -> Agreement:
    """The same of verdicts that are at hand."""
    by_name: defaultdict[str, list[ScoredVerdict]] = defaultdict(list)
    for row in rows:
        by_name[row.evaluator].append(row)
    names = sorted(by_name)
    alphas = {name: alpha(_units(by_name[name])) for name in names}
    return Agreement(
        tuple(measure_evaluator(by_name[name], weighted=weighted) for name in names),
        tuple(_pairs(rows)),
        {"": alpha(_units(rows)), **alphas},
    )


def measure_evaluator(rows: Sequence[ScoredVerdict], *, weighted: bool = True) -> EvaluatorAgreement:
    """One evaluator against people. Raises ValueError without rows."""
    if not rows:
        raise ValueError("no verdicts, no agreement")
    every = group_by_log(rows, weighted=False)
    found = [log for log in group_by_log(rows, weighted=weighted) if log.flagged is not None]
    flags = [bool(log.flagged) for log in found]
    judged = [log for log in every if log.flagged is not None]
    measures = measured(found, flags)
    whole = _confusion(found)
    total = whole.hits + whole.false_alarms + whole.misses + whole.passes
    return EvaluatorAgreement(
        evaluator=rows[0].evaluator,
        versions=tuple(sorted({row.version for row in rows})),
        logs=len(judged),
        counted=len(found),
        left_out=len(every) - len(judged),
        seen=_confusion([ReviewedLog(g.trace, 1.0, g.bad, g.value, g.flagged, g.verdicts) for g in judged]),
        whole=Confusion(*(part / total for part in _cells(whole))) if total else None,
        precision=measures.precision,
        recall=measures.recall,
        f1=measures.f1,
        kappa=measures.kappa,
        bad=weighted_rate([(log.bad, log.weight) for log in found]),
        flagged=weighted_rate([(float(flag), log.weight) for log, flag in zip(found, flags, strict=True)]),
    )


def _confusion(found: Iterable[ReviewedLog]) -> Confusion:
    hits = alarms = misses = passes = 0.0
    for log in found:
        if log.flagged:
            hits += log.weight * log.bad
            alarms += log.weight * (1 - log.bad)
        else:
            misses += log.weight * log.bad
            passes += log.weight * (1 - log.bad)
    return Confusion(hits, alarms, misses, passes)


def _cells(table: Confusion) -> tuple[float, float, float, float]:
    return table.hits, table.false_alarms, table.misses, table.passes


# --- Cohen ------------------------------------------------------------------------------------------------------------


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters' labels: (observed - chance) / (1 - chance), where chance is the agreement of two who
    draw from these two's own shares (J. Cohen, A coefficient of agreement for nominal scales, 1960). None without
    pairs, and where both always say the same one thing."""
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(one == two for one, two in pairs) / n
    first, second = Counter(one for one, _ in pairs), Counter(two for _, two in pairs)
    chance = sum(first[label] * second[label] for label in first) / (n * n)
    return None if chance == 1.0 else (observed - chance) / (1.0 - chance)


# --- reviewers --------------------------------------------------------------------------------------------------------


def _units(rows: Iterable[ScoredVerdict]) -> list[list[str]]:
    """The answers to each question: one evaluator's about one log."""
    found: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.verdict in _SAYS:
            found[row.trace, row.evaluator].append(row.verdict)
    return list(found.values())


def _pairs(rows: Iterable[ScoredVerdict]) -> Iterable[Pair]:
    said: defaultdict[str, dict[tuple[int, str], str]] = defaultdict(dict)
    for row in rows:
        if row.reviewer and row.verdict in _SAYS:
            said[row.reviewer][row.trace, row.evaluator] = row.verdict
    for first, second in combinations(sorted(said), 2):
        both = [(said[first][key], said[second][key]) for key in said[first].keys() & said[second].keys()]
        if both:
            yield Pair(first, second, len(both), sum(a == b for a, b in both) / len(both), cohen(both))


def krippendorff(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Krippendorff's alpha for nominal values: 1 - observed / expected disagreement, from the coincidences of values
    within units. A unit is what its coders said, in any order and number; one with fewer than two is left out. None
    where nothing can be compared or all values are the same.

    K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), part C.
    """
    counted = Counter(tuple(sorted(Counter(unit).items(), key=repr)) for unit in units if len(unit) >= 2)
    return _alpha(counted)


_Kind = tuple[tuple[Hashable, int], ...]
"""A unit as its values with how often each was said."""


def _alpha(units: Mapping[_Kind, int]) -> float | None:
    agreed, totals, n = 0.0, Counter[Hashable](), 0
    for unit, times in units.items():
        coders = sum(count for _, count in unit)
        agreed += times * sum(count * (count - 1) for _, count in unit) / (coders - 1)
        for value, count in unit:
            totals[value] += times * count
        n += times * coders
    expected = sum(count * (count - 1) for count in totals.values())
    if n < 2 or expected == n * (n - 1):
        return None
    return ((n - 1) * agreed - expected) / (n * (n - 1) - expected)


def alpha(units: Sequence[Sequence[Hashable]], *, seed: int = 0) -> Alpha:
    """Krippendorff's alpha with its interval."""
    usable: list[_Kind] = [tuple(sorted(Counter(u).items(), key=repr)) for u in units if len(u) >= 2]
    value = _alpha(Counter(usable))
    if value is None or len(usable) < 5:
        return Alpha(value, None, len(usable))
    chance = random.Random(seed)
    drawn = [_alpha(Counter(chance.choices(usable, k=len(usable)))) for _ in range(_DRAWS)]
    found = sorted(1.0 if each is None else each for each in drawn)  # None: all of them said the same
    low, high = found[int(0.025 * _DRAWS)], found[min(_DRAWS - 1, int(0.975 * _DRAWS))]
    return Alpha(value, (min(low, value), max(high, value)), len(usable))

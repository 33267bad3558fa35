"""Several processes' metrics as one. Sums are exact and rounded once: however the parts are grouped, in whatever order
they come, a total never falls because a process died, which Prometheus would take for a restart of its counter."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ragtrace_prometheus.families import Exemplar, Spec, Taken

Parts = Mapping[int, Sequence[float]]
"""What is to be added to a value, by its place: the digits of a sum that one float does not hold."""


@dataclass(frozen=True, slots=True)
class Part:
    """A metric of one process, or of all that ended."""

    taken: Taken
    more: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Process:
    """What one process wrote."""

    parts: Sequence[Part]
    alive: bool = True


class _Total:
    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._keys: list[tuple[str, ...]] = []
        self._places: dict[tuple[str, ...], int] = {}
        self._rows: list[Sequence[float]] = []
        """The values of each part, in the order of the keys."""
        self._more: dict[int, list[float]] = {}
        self._exemplars: dict[int, Exemplar] = {}

    def add(self, part: Part) -> None:
        taken = part.taken
        to: Sequence[int]
        if taken.keys == self._keys and taken.spec.bounds == self.spec.bounds:
            to = range(len(taken.values))
            self._rows.append(taken.values)
        else:
            to = self._targets(taken)
            row = [0.0] * (len(self._keys) * self.spec.width)
            for at, value in zip(to, taken.values, strict=True):
                row[at] += value  # several only of buckets, which are whole numbers
            self._rows.append(row)
        for at, more in part.more.items():
            self._more.setdefault(to[at], []).extend(more)
        for at, exemplar in taken.exemplars.items():
            if (found := self._exemplars.get(to[at])) is None or found.timestamp < exemplar.timestamp:
                self._exemplars[to[at]] = exemplar

    def _targets(self, taken: Taken) -> list[int]:
        places = _fitting(taken.spec, self.spec)
        for key in taken.keys:
            if key not in self._places:
                self._places[key] = len(self._keys) * self.spec.width
                self._keys.append(key)
        return [self._places[key] + place for key in taken.keys for place in places]

    def part(self, keep: bool) -> Part:
        columns = list(zip_longest(*self._rows, fillvalue=0.0))
        if self.spec.merge != "sum":
            return Part(Taken(self.spec, self._keys, [max(column) for column in columns]))
        for at, more in self._more.items():
            columns[at] += tuple(more)
        taken = Taken(self.spec, self._keys, [_rounded(column) for column in columns], self._exemplars)
        if not keep:
            return Part(taken)
        rests = ((at, exact(column)[1:]) for at, column in enumerate(columns))
        return Part(taken, {at: rest for at, rest in rests if rest})


def merge(processes: Iterable[Process], keep: bool = False) -> list[Part]:
    """One of each metric, in the order in which they come. Of processes that ended only what lasts is taken. What does
    not fit its namesake (another release wrote it) is left out. With `keep`, sums keep what one float does not hold."""
    totals: dict[str, _Total] = {}
    for process in processes:
        for part in process.parts:
            spec = part.taken.spec
            if not process.alive and not spec.lasting:
                continue
            total = totals.setdefault(spec.name, _Total(spec))
            if (total.spec.kind, total.spec.labels) == (spec.kind, spec.labels):
                total.add(part)
    return [total.part(keep) for total in totals.values()]


def exact(values: Iterable[float]) -> list[float]:
    """Floats whose exact sum is that of the values, the rounded sum first. Not empty."""
    left = list(values)
    parts: list[float] = []
    while (rest := _rounded(left)) and math.isfinite(rest):
        parts.append(rest)
        left.append(-rest)
    return parts or [rest]


def _rounded(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond what a float holds; infinity less infinity
        return math.inf


def _fitting(spec: Spec, target: Spec) -> list[int]:
    """Where the values of a series go in one of the target. Where a threshold was changed the buckets are others: what
    was counted up to a bound goes to the next one above it."""
    if spec.kind != "histogram" or spec.bounds == target.bounds:
        return list(range(spec.width))
    return [*(bisect_left(target.bounds, bound) for bound in spec.bounds), target.width - 1]

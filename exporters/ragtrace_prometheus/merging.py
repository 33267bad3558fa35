"""Several processes' metrics as one. Sums are exact and rounded once: however the parts are grouped, in whatever order
they come, a total never falls because a process died, which Prometheus would take for a restart of its counter."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
        self._places: dict[tuple[str, ...], int] = {}
        self._parts: list[list[float]] = []
        self._exemplars: dict[int, Exemplar] = {}

    def add(self, part: Part) -> None:
        taken, width = part.taken, part.taken.spec.width
        places = _fitting(taken.spec, self.spec)
        for series, key in enumerate(taken.keys):
            first = self._place(key)
            for i, place in enumerate(places):
                at = series * width + i
                self._parts[first + place].append(taken.values[at])
                if at in part.more:
                    self._parts[first + place].extend(part.more[at])
        for at, exemplar in taken.exemplars.items():
            to = self._place(taken.keys[at // width]) + places[at % width]
            if to not in self._exemplars or self._exemplars[to].timestamp < exemplar.timestamp:
                self._exemplars[to] = exemplar

    def _place(self, key: tuple[str, ...]) -> int:
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self._parts)
            self._parts.extend([] for _ in range(self.spec.width))
        return found

    def part(self, keep: bool) -> Part:
        one = _rounded if self.spec.merge == "sum" else max
        values = [one(parts) for parts in self._parts]
        more: dict[int, Sequence[float]] = {}
        if keep and self.spec.merge == "sum":
            rests = ((at, exact(parts)[1:]) for at, parts in enumerate(self._parts) if len(parts) > 1)
            more = {at: rest for at, rest in rests if rest}
        return Part(Taken(self.spec, list(self._places), values, self._exemplars), more)


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

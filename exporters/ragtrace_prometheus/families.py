"""Where counts are kept: a metric's values in one flat list.

prometheus_client's own metrics take a lock for each number and cannot be read as a whole; its multi-process mode loses
exemplars and doubles what the application serves itself. Here one lock of the sink's stands around an evaluation, a
list is copied at a scrape, and what several processes wrote is added up list by list.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max", "latest"]


class Exemplar:
    """A trace that stands for a count."""

    __slots__ = ("text", "timestamp", "trace_id", "value")

    def __init__(self, trace_id: str, value: float, timestamp: float) -> None:
        """`timestamp` is in Unix seconds."""
        self.trace_id, self.value, self.timestamp = trace_id, value, timestamp
        self.text: str | None = None
        """As it was written, for the next scrape."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is."""

    name: str
    """Without a counter's `_total`."""
    kind: Kind
    text: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...] = ()
    """Of a histogram, ascending; the last is infinity."""
    merge: Merge = "sum"
    """How several processes' values of a gauge become one: `latest` is the largest, and outlives its process."""

    @property
    def width(self) -> int:
        """Values of a series: of a histogram those of its buckets, not cumulated, and the sum."""
        return len(self.bounds) + 1 if self.kind == "histogram" else 1

    @property
    def lasting(self) -> bool:
        """Whether its values stay when their process ends."""
        return self.kind != "gauge" or self.merge == "latest"


@dataclass(frozen=True, slots=True)
class Taken:
    """A metric at one moment."""

    spec: Spec
    keys: Sequence[tuple[str, ...]]
    """Label values of each series."""
    values: Sequence[float]
    """`spec.width` for each series."""
    exemplars: Mapping[int, Exemplar] = field(default_factory=dict)
    """By the place of their value."""


class Family:
    """A metric that is counted here. Not safe for several threads: the sink's lock is around it."""

    __slots__ = ("_places", "exemplars", "keys", "spec", "values")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.keys: list[tuple[str, ...]] = []
        self.values: list[float] = []
        self.exemplars: dict[int, Exemplar] = {}
        self._places: dict[tuple[str, ...], int] = {}

    def place(self, labels: tuple[str, ...]) -> int:
        """Where a series' values begin; a new one begins at 0."""
        found = self._places.get(labels)
        if found is None:
            found = self._places[labels] = len(self.keys) * self.spec.width
            self.keys.append(labels)
            self.values.extend([0.0] * self.spec.width)
        return found

    def take(self) -> Taken:
        """A copy of this moment."""
        return Taken(self.spec, self.keys.copy(), self.values.copy(), self.exemplars.copy())

    def forked(self) -> None:
        """In a forked child: back to 0. A gauge's series go, for what they said was of the parent. A thread of the
        parent may have been in the middle of `place`, so that only the keys are believed."""
        self.exemplars.clear()
        if self.spec.kind == "gauge":
            self.keys.clear()
        width = self.spec.width
        self._places = {key: series * width for series, key in enumerate(self.keys)}
        self.values[:] = [0.0] * (len(self.keys) * width)  # in place: the series know this list


class Number:
    """A counter's or a gauge's series."""

    __slots__ = ("_at", "_family", "_values")

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self._family, self._values, self._at = family, family.values, family.place(labels)

    def inc(self, amount: float = 1.0, exemplar: Exemplar | None = None) -> None:
        """Count; `amount` is not negative."""
        self._values[self._at] += amount
        if exemplar is not None:
            self._family.exemplars[self._at] = exemplar

    def set(self, value: float) -> None:
        """Say what it is now."""
        self._values[self._at] = value


class Distribution:
    """A histogram's series."""

    __slots__ = ("_at", "_bounds", "_family", "_sum", "_values")

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self._family, self._values, self._at = family, family.values, family.place(labels)
        self._bounds = family.spec.bounds
        self._sum = self._at + len(self._bounds)

    def observe(self, value: float, trace_id: str | None = None, timestamp: float = 0.0) -> None:
        """Count a value that is a number; with `trace_id` that trace (at `timestamp`, Unix seconds) stands for it."""
        at = self._at + bisect_left(self._bounds, value)
        self._values[at] += 1.0
        self._values[self._sum] += max(0.0, value)  # a sum that falls is taken for a restart
        if trace_id is not None:
            self._family.exemplars[at] = Exemplar(trace_id, value, timestamp)


def snapshot(
    kind: Kind,
    name: str,
    text: str,
    labels: Mapping[str, str],
    *,
    keys: tuple[tuple[str, ...], ...],
    values: Sequence[float],
    more: Sequence[str] = (),
    merge: Merge = "sum",
) -> Taken:
    """A metric that is read at a scrape: `labels` stand on all its series, `more` are the names of those that differ,
    `keys` their values. Series of the same labels are one: their sum, a gauge's the last."""
    spec = _spec(kind, name, text, (*labels, *more), merge)
    full = _full(tuple(labels.values()), keys)
    if len(set(full)) == len(full):
        return Taken(spec, full, [float(value) for value in values])
    series: dict[tuple[str, ...], float] = {}
    for key, value in zip(full, values, strict=True):
        series[key] = series.get(key, 0.0) + value if kind == "counter" else float(value)
    return Taken(spec, list(series), list(series.values()))


@lru_cache(1_000)
def _full(base: tuple[str, ...], keys: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """The same at each scrape: thousands of new tuples would call the garbage collector. Not to be changed."""
    return [(*base, *key) for key in keys]


@lru_cache(1_000)
def _spec(kind: Kind, name: str, text: str, labels: tuple[str, ...], merge: Merge) -> Spec:
    """One object for one metric: compared by it."""
    return Spec(name, kind, text, labels, merge=merge)


def upper_bounds(buckets: Iterable[float]) -> tuple[float, ...]:
    """Bounds as a histogram has them: ascending, infinity last."""
    return (*sorted(float(bucket) for bucket in buckets), math.inf)

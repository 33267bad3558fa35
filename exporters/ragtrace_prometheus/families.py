"""Metric families of prometheus_client whose values are counted here.

prometheus_client's own Counter and Histogram do not fit for two reasons. Where PROMETHEUS_MULTIPROC_DIR is set they
keep every value in mapped files, without exemplars, and the application's own scrapes show these files too. And several
of them cannot be read as of one moment, so that `eligible` and its outcomes would differ."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

Base = tuple[str, str]
"""The values of `app` and `env`, the first two labels of every series."""
Key = tuple[str, ...]
"""The label values of a series."""
Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max", "latest"]
"""How the values of several processes become one. `latest` is the largest too, and outlives its process."""
Source = tuple[dict[str, str], float]
"""The labels of an exemplar and its moment in Unix seconds."""
number_text: Callable[[float], str] = floatToGoString


class Family(Metric):
    """A metric with its series. Not thread-safe: the sink holds its lock around each use.

    All values are in one list, as the samples show them: a series of a counter or gauge has one; a series of a
    histogram has the cumulative count of each bucket, the count and the sum. As in prometheus_client, there is no sum
    if a bound is below 0: it might fall, which Prometheus takes for a restart."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        documentation: str,
        labels: Sequence[str],
        *,
        base: Key = (),
        buckets: Iterable[float] = (),
        merge: Merge = "sum",
    ) -> None:
        """`name` has no `_total`. `base` are the values of the first labels, the same on all series. `buckets` are the
        upper bounds of a histogram, in any order, without infinity."""
        self.type, self.name, self.documentation, self.unit = kind, name, documentation, ""
        self.labels, self.merge, self._base = tuple(labels), merge, base
        self.bounds = (*sorted(map(float, buckets)), math.inf) if kind == "histogram" else ()
        self.lines = _lines(kind, self.bounds)
        """For each value of a series what its sample adds to the metric's name and to its labels."""
        self.keys: list[Key] = []
        self.values: list[float] = []
        self.exemplars: dict[int, Exemplar] = {}
        """By the place of the value."""
        self._places: dict[Key, int] = {}

    def begin(self, *labels: str) -> int:
        """Where the values of a series begin; a new series begins at 0."""
        place = self._places.get(labels)
        if place is None:
            place = self._places[labels] = len(self.values)
            self.keys.append(self._base + labels)
            self.values.extend([0.0] * len(self.lines))
        return place

    def has(self, *labels: str) -> bool:
        """Whether there is such a series."""
        return labels in self._places

    def inc(self, *labels: str, by: float = 1.0, source: Source | None = None) -> None:
        """Add to a counter; `by` is not negative."""
        self.add(self.begin(*labels), by, source)

    def add(self, place: int, by: float, source: Source | None = None) -> None:
        """Add to the counter at a place that `begin` returned."""
        self.values[place] += by
        if source is not None:
            self.exemplars[place] = Exemplar(source[0], by, source[1])

    def set(self, value: float, *labels: str) -> None:
        """Set a gauge."""
        self.values[self.begin(*labels)] = float(value)

    def observe(self, value: float, *labels: str, source: Source | None = None) -> None:
        """Count a value in a histogram; it is a finite number. The sum leaves out what is negative."""
        values, first, buckets = self.values, self.begin(*labels), len(self.bounds)
        place = first + bisect_left(self.bounds, value)
        for counted in range(place, first + buckets + 1):  # the buckets from there on, and the count
            values[counted] += 1.0
        if len(self.lines) > buckets + 1:
            values[first + buckets + 1] += max(0.0, value)
        if source is not None:
            self.exemplars[place] = Exemplar(source[0], value, source[1])

    def replaced(self, keys: list[Key], values: list[float], exemplars: dict[int, Exemplar] | None = None) -> Family:
        """The same metric with other series."""
        family = Family.__new__(Family)
        family.__dict__.update(self.__dict__, keys=keys, values=values, exemplars=exemplars or {})
        return family

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]  # the base class stores them
        """The samples as prometheus_client has them."""
        lines = [(dict(zip(self.labels, key, strict=True)), *line) for key in self.keys for line in self.lines]
        return [
            Sample(self.name + suffix, labels | more, value, None, self.exemplars.get(place))
            for place, ((labels, suffix, more), value) in enumerate(zip(lines, self.values, strict=True))
        ]


def joined(members: Sequence[Family]) -> Family:
    """A copy of a metric with the series of several applications."""
    keys: list[Key] = []
    values: list[float] = []
    exemplars: dict[int, Exemplar] = {}
    for member in members:
        exemplars.update((len(values) + place, exemplar) for place, exemplar in member.exemplars.items())
        keys += member.keys
        values += member.values
    return members[0].replaced(keys, values, exemplars)


def _lines(kind: Kind, bounds: Sequence[float]) -> list[tuple[str, dict[str, str]]]:
    if kind != "histogram":
        return [("_total" if kind == "counter" else "", {})]
    buckets = [("_bucket", {"le": number_text(bound)}) for bound in bounds]
    return [*buckets, ("_count", {}), *([("_sum", {})] if bounds[0] >= 0 else ())]


def family(base: Base, kind: Kind, name: str, text: str, labels: str, **options: Any) -> Family:
    """A metric `ragtrace_<name>` with `app`, `env` and further labels, separated by spaces; `options` of `Family`."""
    return Family(kind, f"ragtrace_{name}", text, ("app", "env", *labels.split()), base=base, **options)

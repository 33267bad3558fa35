"""The text of a scrape, byte for byte prometheus_client's, in a tenth of its time.

prometheus_client makes every sample anew at each scrape: its labels as a dictionary, sorted, escaped, joined. Labels
never change, and between two scrapes most values do not either. Here each child keeps its lines with the values that
they were made from. What is not a counter, a gauge or a histogram goes through prometheus_client's own encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

_END = b"# EOF\n"
_go: Callable[[float], str] = floatToGoString
_MAX_SNAPSHOTS = 50_000
"""Lines of snapshots that are kept; evaluators and reasons are bounded well below that."""


class PlainRegistry(CollectorRegistry):
    """A registry without the `_created` series, which nearly double the counters. prometheus_client knows only a
    switch for the whole process, which is the application's to set."""

    def __init__(self) -> None:
        super().__init__()
        self._in_order: list[Collector] = []
        self._encoders = {False: Encoder(openmetrics=False), True: Encoder(openmetrics=True)}

    def register(self, collector: Collector) -> None:
        """Add a collector. Raises ValueError for names that are taken."""
        super().register(collector)
        self._in_order.append(collector)

    def unregister(self, collector: Collector) -> None:
        """Take a collector out again."""
        super().unregister(collector)
        self._in_order.remove(collector)

    def collect(self) -> Iterator[Metric]:
        """Every metric of this moment."""
        for metric in super().collect():
            yield _plain(metric)

    def text(self, openmetrics: bool) -> bytes:
        """What a scrape gets, in the text format or as OpenMetrics (which shows exemplars)."""
        encoder = self._encoders[openmetrics]
        body = b"".join(encoder.encode(collector) for collector in tuple(self._in_order))
        return body + _END if openmetrics else body


class Snapshot(Metric):
    """A counter or gauge whose values are read at a scrape. prometheus_client sees it as any other metric."""

    def __init__(self, kind: str, name: str, text: str, base: Mapping[str, str], more: Sequence[str] = ()) -> None:
        """`base` are labels of all its series, `more` the names of those that differ."""
        super().__init__(name, text, kind)
        self.base = tuple(base.items())
        self.line = f"{name}_total" if kind == "counter" else name
        """What its lines begin with."""
        self.found: list[tuple[tuple[str, ...], float]] = []
        """Values of the labels that differ, and the value."""
        self._more = tuple(more)

    def add(self, value: float, *labels: str) -> None:
        """Add a series."""
        self.found.append((labels, float(value)))

    @property
    def samples(self) -> list[Sample]:
        """As prometheus_client wants them; made only for its encoders."""
        return [Sample(self.line, self.labels(values), value) for values, value in self.found]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """There is nothing to set: they follow from what was found."""

    def labels(self, values: Sequence[str]) -> dict[str, str]:
        """A series' labels."""
        return {**dict(self.base), **dict(zip(self._more, values, strict=True))}


def _plain(metric: Metric) -> Metric:
    if isinstance(metric, Snapshot):
        return metric
    metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
    return metric


class _Alone(Collector):
    """One metric where an encoder expects a registry."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        """The metric."""
        yield self._metric


class Encoder:
    """Writes collectors, and keeps the lines of each child. Two scrapes at once do no harm: what one of them keeps is
    as good as what the other does. Children may be added, and none removed."""

    def __init__(self, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._kept: dict[Collector, list[_Lines]] = {}
        self._snapshots: dict[Any, tuple[float, str, str]] = {}

    def encode(self, collector: Collector) -> bytes:
        """The collector's lines, its HELP and TYPE before them."""
        kind = _KINDS.get(type(collector))
        if kind is not None:
            try:
                return self._family(collector, kind).encode()
            except AttributeError:  # another release of prometheus_client, or its multi-process mode: kept elsewhere
                pass
        return b"".join(self._collected(_plain(metric)) for metric in collector.collect())

    def _collected(self, metric: Metric) -> bytes:
        if not isinstance(metric, Snapshot):
            generate = generate_openmetrics if self._openmetrics else generate_latest
            return generate(_Alone(metric)).removesuffix(_END)
        found = [self._head(metric.name, metric.type, metric.documentation)]
        for values, value in metric.found:
            key = (metric.name, metric.base, values)
            kept = self._snapshots.get(key)
            if kept is None or kept[0] != value:
                start = kept[1] if kept is not None else f"{metric.line}{{{_joined(metric.labels(values).items())}}} "
                kept = (value, start, f"{start}{_number(value)}\n")
                if len(self._snapshots) < _MAX_SNAPSHOTS:
                    self._snapshots[key] = kept
            found.append(kept[2])
        return "".join(found).encode()

    def _family(self, metric: Any, kind: type[_Lines]) -> str:
        kept = self._kept.get(metric, [])
        with metric._lock:
            fresh = list(metric._metrics.items())[len(kept) :]  # a dictionary keeps the order of its additions
        if fresh:
            names = metric._labelnames
            made = [kind(child, metric._name, zip(names, values, strict=True)) for values, child in fresh]
            kept = self._kept[metric] = [*kept, *made]
        openmetrics = self._openmetrics
        head = self._head(metric._name, metric._type, metric._documentation)
        return head + "".join([lines.text(openmetrics) for lines in kept])

    def _head(self, name: str, kind: str, text: str) -> str:
        if kind == "counter" and not self._openmetrics:
            name += "_total"
        text = text.replace("\\", r"\\").replace("\n", r"\n")
        text = text.replace('"', r"\"") if self._openmetrics else text
        return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


class _Lines:
    """One child's lines, with the values that they were made from."""

    def __init__(self, child: Any, name: str, labels: Iterable[tuple[str, str]]) -> None:
        raise NotImplementedError

    def text(self, openmetrics: bool) -> str:
        """The lines of this moment, with exemplars for OpenMetrics."""
        raise NotImplementedError


class _OfCounter(_Lines):
    __slots__ = ("_cell", "_made", "_start")

    def __init__(self, child: Any, name: str, labels: Iterable[tuple[str, str]]) -> None:
        self._cell = child._value
        self._start = f"{name}_total{{{_joined(labels)}}} "
        self._made: tuple[float, Any, str] = (math.nan, None, "")

    def text(self, openmetrics: bool) -> str:
        # Past `get()` and its lock: one attribute is read whole in any case, and this is most of a scrape's time.
        cell, made = self._cell, self._made
        value, exemplar = cell._value, cell._exemplar if openmetrics else None
        if value == made[0] and exemplar is made[1]:
            return made[2]
        text = f"{self._start}{_number(value)}{_exemplar(exemplar)}\n"
        self._made = (value, exemplar, text)
        return text


class _OfGauge(_Lines):
    __slots__ = ("_start", "_value")

    def __init__(self, child: Any, name: str, labels: Iterable[tuple[str, str]]) -> None:
        self._value = child._value.get
        self._start = f"{name}{{{_joined(labels)}}} "

    def text(self, openmetrics: bool) -> str:
        return f"{self._start}{_number(self._value())}\n"


class _OfHistogram(_Lines):
    __slots__ = ("_cells", "_made", "_named", "_starts", "_sum", "_sum_start")

    def __init__(self, child: Any, name: str, labels: Iterable[tuple[str, str]]) -> None:
        known, bounds = list(labels), child._upper_bounds
        self._cells = list(child._buckets)
        self._named: list[tuple[Any, str]] = [(None, "")] * len(self._cells)
        self._sum = child._sum
        places = [_joined([*known, ("le", _go(bound))]) for bound in bounds]
        self._starts = [f"{name}_bucket{{{place}}} " for place in places]
        self._starts.append(f"{name}_count{{{_joined(known)}}} ")
        # As prometheus_client: with bounds below 0 the sum may fall, and is left out.
        self._sum_start = f"{name}_sum{{{_joined(known)}}} " if bounds[0] >= 0 else None
        self._made: tuple[Any, str] = (None, "")

    def text(self, openmetrics: bool) -> str:
        counts = [cell._value for cell in self._cells]
        exemplars = [cell._exemplar for cell in self._cells] if openmetrics else None
        state, made = (self._sum._value, counts, exemplars), self._made
        if state == made[0]:
            return made[1]
        seen = [*accumulate(counts)]
        numbers = [_number(value) for value in (*seen, seen[-1])]
        if exemplars is not None:
            self._named = [n if n[0] is e else (e, _exemplar(e)) for n, e in zip(self._named, exemplars, strict=True)]
            numbers[:-1] = [number + named[1] for number, named in zip(numbers[:-1], self._named, strict=True)]
        lines = [f"{start}{number}\n" for start, number in zip(self._starts, numbers, strict=True)]
        if self._sum_start is not None:
            lines.append(f"{self._sum_start}{_number(state[0])}\n")
        text = "".join(lines)
        self._made = (state, text)
        return text


_KINDS: dict[type, type[_Lines]] = {Counter: _OfCounter, Gauge: _OfGauge, Histogram: _OfHistogram}


def _number(value: float) -> str:
    """As Go writes it, which differs from Python from a million on."""
    return repr(value) if 0 <= value < 1e6 else _go(value)


def _joined(labels: Iterable[tuple[str, str]]) -> str:
    """Labels as they stand between the braces, in the order of their names."""
    return ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(labels))


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _exemplar(exemplar: Any) -> str:
    if exemplar is None:
        return ""
    return f" # {{{_joined(exemplar.labels.items())}}} {_go(exemplar.value)} {exemplar.timestamp}"

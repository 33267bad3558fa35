"""The text of a scrape, byte for byte prometheus_client's, in a fraction of its time.

prometheus_client makes every sample anew at each scrape: its labels as a dictionary, sorted, escaped, joined. Labels
never change, and between two scrapes most values do not either. Here each line is kept with the value that it was made
from. What is not ours in a registry goes through prometheus_client's own encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ClientExemplar
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from ragtrace_prometheus.families import Exemplar, Spec, Taken

_END = b"# EOF\n"
_MAX_ENDS = 10_000
_go: Callable[[float], str] = floatToGoString


@runtime_checkable
class Readable(Protocol):
    """A collector whose metrics can be had as they are kept."""

    def taken(self) -> Sequence[Taken]:
        """All of them, of this moment."""


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
        for collector in tuple(self._in_order):
            yield from _Plain(collector).collect()

    def text(self, openmetrics: bool) -> bytes:
        """What a scrape gets, in the text format or as OpenMetrics (which shows exemplars)."""
        encoder = self._encoders[openmetrics]
        found = [text for collector in tuple(self._in_order) for text in encoder.encode(collector)]
        return b"".join([*found, _END] if openmetrics else found)


class _Plain(Collector):
    """A collector without its `_created` series, where an encoder expects a registry."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        """Its metrics."""
        for metric in self._collector.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


@dataclass(frozen=True, slots=True)
class _Kept:
    """A metric's text, and what it was made from. Never changed: two scrapes at once each make their own."""

    taken: Taken
    pieces: list[str]
    """HELP and TYPE; then of each line what stands before the value, and the rest."""
    text: bytes


class Encoder:
    """Writes collectors, and keeps each metric's lines for the next time."""

    def __init__(self, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._kept: dict[str, _Kept] = {}

    def encode(self, collector: Collector) -> list[bytes]:
        """The collector's lines, each metric's HELP and TYPE before them."""
        if isinstance(collector, Readable):
            return [self._family(taken) for taken in collector.taken()]
        generate = generate_openmetrics if self._openmetrics else generate_latest
        return [generate(_Plain(collector)).removesuffix(_END)]

    def _family(self, taken: Taken) -> bytes:
        kept = self._kept.get(taken.spec.name)
        if kept is None or kept.taken.spec is not taken.spec or kept.taken.keys != taken.keys[: len(kept.taken.keys)]:
            head = self._head(taken.spec)
            kept = _Kept(Taken(taken.spec, (), ()), [head], head.encode())
        # An exemplar comes with a count: where no value has changed, none of them has.
        if kept.taken.values == taken.values:
            return kept.text
        pieces = kept.pieces.copy()
        for key in taken.keys[len(kept.taken.keys) :]:
            for start in _starts(taken.spec, key):
                pieces += (start, "")
        write = _write_histogram if taken.spec.kind == "histogram" else _write_numbers
        write(pieces, kept.taken.values, taken, taken.exemplars if self._openmetrics else {})
        text = "".join(pieces).encode()
        self._kept[taken.spec.name] = _Kept(taken, pieces, text)
        return text

    def _head(self, spec: Spec) -> str:
        name = f"{spec.name}_total" if spec.kind == "counter" and not self._openmetrics else spec.name
        text = spec.text.replace("\\", r"\\").replace("\n", r"\n")
        text = text.replace('"', r"\"") if self._openmetrics else text
        return f"# HELP {name} {text}\n# TYPE {name} {spec.kind}\n"


def _write_numbers(pieces: list[str], old: Sequence[float], now: Taken, exemplars: Mapping[int, Exemplar]) -> None:
    values = now.values
    changed = [at for at, (a, b) in enumerate(zip(old, values, strict=False)) if a != b]
    for at in (*changed, *range(len(old), len(values))):
        pieces[2 * at + 2] = _ENDS[values[at]] if at not in exemplars else _named(_ENDS[values[at]], exemplars[at])


def _write_histogram(pieces: list[str], old: Sequence[float], now: Taken, exemplars: Mapping[int, Exemplar]) -> None:
    """A series has a value for each bucket and the sum; its lines are those of the buckets, the count, the sum."""
    values, width = now.values, now.spec.width
    with_sum = _shows_sum(now.spec)
    lines = width + with_sum
    for series in range(len(now.keys)):
        first = series * width
        found = values[first : first + width]
        if found == old[first : first + width]:
            continue
        ends = [_ENDS[count] for count in accumulate(found[:-1])]
        last = (ends[-1], f"{_number(found[-1])}\n") if with_sum else ends[-1:]
        if exemplars:
            named = map(exemplars.get, range(first, first + width - 1))
            ends = [end if e is None else _named(end, e) for end, e in zip(ends, named, strict=True)]
        at = 2 * series * lines + 2
        pieces[at : at + 2 * lines : 2] = (*ends, *last)


def _starts(spec: Spec, key: tuple[str, ...]) -> list[str]:
    """What stands before the value, on each line of a series."""
    labels = list(zip(spec.labels, key, strict=True))
    if spec.kind != "histogram":
        return [f"{spec.name}{'_total' if spec.kind == 'counter' else ''}{_braced(labels)} "]
    found = [f"{spec.name}_bucket{_braced([*labels, ('le', _go(bound))])} " for bound in spec.bounds]
    found.append(f"{spec.name}_count{_braced(labels)} ")
    return [*found, f"{spec.name}_sum{_braced(labels)} "] if _shows_sum(spec) else found


def _shows_sum(spec: Spec) -> bool:
    """As prometheus_client: with bounds below 0 the sum may fall, and is left out."""
    return spec.bounds[0] >= 0


def _number(value: float) -> str:
    """As Go writes it, which differs from Python from a million on."""
    return repr(value) if 0 <= value < 1e6 else _go(value)


class _Ends(dict[float, str]):
    """What ends a line: its number. Counts come again and again: kept."""

    def __missing__(self, value: float) -> str:
        text = f"{_number(value)}\n"
        if value.is_integer() and len(self) < _MAX_ENDS:
            self[value] = text
        return text


_ENDS = _Ends({0.0: "0.0\n"})


def _named(end: str, exemplar: Exemplar) -> str:
    """The end of a line, with an exemplar."""
    if exemplar.text is None:
        value, at = _number(exemplar.value), _moment(exemplar.timestamp)
        exemplar.text = f' # {{trace_id="{exemplar.trace_id}"}} {value} {at}\n'
    return end[:-1] + exemplar.text


def _braced(labels: Iterable[tuple[str, str]]) -> str:
    """Labels in the order of their names."""
    return "{" + ",".join([f'{name}="{_quoted(value)}"' for name, value in sorted(labels)]) + "}"


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@lru_cache(256)
def _moment(timestamp: float) -> str:
    """All of an evaluation have one."""
    return str(timestamp)


def as_metric(taken: Taken) -> Metric:
    """As prometheus_client's own encoders want it."""
    spec = taken.spec
    metric = Metric(spec.name, spec.text, spec.kind)
    for series, key in enumerate(taken.keys):
        labels = dict(zip(spec.labels, key, strict=True))
        first = series * spec.width
        if spec.kind != "histogram":
            name = f"{spec.name}_total" if spec.kind == "counter" else spec.name
            metric.samples.append(Sample(name, labels, taken.values[first], None, _client(taken.exemplars.get(first))))
            continue
        counts = list(accumulate(taken.values[first : first + len(spec.bounds)]))
        for i, (bound, count) in enumerate(zip(spec.bounds, counts, strict=True)):
            named = _client(taken.exemplars.get(first + i))
            metric.samples.append(Sample(f"{spec.name}_bucket", {**labels, "le": _go(bound)}, count, None, named))
        metric.samples.append(Sample(f"{spec.name}_count", labels, counts[-1]))
        if _shows_sum(spec):
            metric.samples.append(Sample(f"{spec.name}_sum", labels, taken.values[first + spec.width - 1]))
    return metric


def _client(exemplar: Exemplar | None) -> ClientExemplar | None:
    if exemplar is None:
        return None
    return ClientExemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.timestamp)

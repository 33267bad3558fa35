"""The text of a scrape: prometheus_client's, byte for byte.

prometheus_client writes each line of ours once; after that only its number is replaced. Its encoders write all labels
again at each scrape, which takes about twenty times as long (docs/architecture.md has the figures).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from ragtrace_prometheus.families import Family, number_text

_EOF = "# EOF\n"


_number = lru_cache(maxsize=10_000)(number_text)  # the same counts come again and again


class PlainRegistry(CollectorRegistry):
    """A registry without the `_created` series, which nearly double the counters. prometheus_client can leave them out
    only for the whole process, and that is the application's choice."""

    def collect(self) -> Iterator[Metric]:
        """Every metric of this moment."""
        for metric in super().collect():
            if not isinstance(metric, Family):
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


@dataclass(frozen=True, slots=True)
class _LastText:
    """A metric as it was written last."""

    family: Family
    pieces: list[str]
    """The text with a piece of its own for each number; what is between two numbers ends a line and begins one."""
    text: bytes


class Exposition:
    """Writes a registry in the text format or as OpenMetrics. Any thread may call it."""

    def __init__(self, registry: Collector, openmetrics: bool) -> None:
        self._registry, self._openmetrics = registry, openmetrics
        self._last: dict[str, _LastText] = {}

    def text(self) -> bytes:
        """What `generate_latest` returns for the registry."""
        metrics = self._registry.collect()
        parts = [self._family(m) if isinstance(m, Family) else self._generate(m).encode() for m in metrics]
        return b"".join([*parts, _EOF.encode()] if self._openmetrics else parts)

    def _generate(self, metric: Metric) -> str:
        generate = generate_openmetrics if self._openmetrics else generate_latest
        text: str = generate(SimpleNamespace(collect=lambda: [metric])).decode()
        return text.removesuffix(_EOF)

    def _family(self, family: Family) -> bytes:
        last = self._last.get(family.name)
        if last is None or not family.has_series_of(last.family):
            pieces = self._pieces(family)
        elif family.values == last.family.values and family.exemplars == last.family.exemplars:
            return last.text
        else:
            pieces = last.pieces.copy()  # another scrape may be using it
        numbers = list(map(_number, family.values))
        if self._openmetrics:
            for place, exemplar in family.exemplars.items():
                numbers[place] += exemplar.text
        pieces[1::2] = numbers
        last = self._last[family.name] = _LastText(family, pieces, "".join(pieces).encode())
        return last.text

    def _pieces(self, family: Family) -> list[str]:
        pieces = [""]
        for line in self._generate(family.replaced(family.keys, [0.0] * len(family.values))).split("\n")[:-1]:
            if line.startswith("#"):
                pieces[-1] += line + "\n"
            else:
                pieces[-1] += line.removesuffix("0.0")
                pieces += ("", "\n")
        return pieces

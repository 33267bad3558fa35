"""Series over one axis of time, and their OpenMetrics files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
BLOCK = 7200
"""Seconds in one block of Prometheus. promtool reads the whole file for each block, so each block has a file."""
DEPLOYED = {"2026-03": 4 * 3_600}
"""How many seconds before the end a prompt version begins; the others are there from the start."""


class History:
    """Series over one axis of time, by family."""

    def __init__(self, times: Array) -> None:
        self.times = times
        self.families: dict[str, tuple[str, list[tuple[str, Array]]]] = {}

    def _add(self, family: str, kind: str, name: str, labels: Mapping[str, str], values: Array) -> None:
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        self.families.setdefault(family, (kind, []))[1].append((f"{name}{{{text}}}", values))

    def counter(self, name: str, events: Array, **labels: str) -> None:
        """Adds a counter, from its increments in each step."""
        total = np.cumsum(events)
        begin = self.begin(labels.get("prompt_version", ""))
        if begin > self.times[0]:
            total = np.where(self.times < begin, np.nan, total)
        self._add(name.removesuffix("_total"), "counter", name, labels, total)

    def begin(self, version: str) -> float:
        """The time at which a prompt version is deployed, in Unix seconds."""
        return float(self.times[-1] - DEPLOYED.get(version, np.inf))

    def gauge(self, name: str, values: Array, **labels: str) -> None:
        self._add(name, "gauge", name, labels, np.broadcast_to(values, self.times.shape))

    def histogram(self, name: str, bounds: Sequence[float], hits: Array, mids: Array, **labels: str) -> None:
        """Adds a histogram, from the hits of each bucket in each step; the last bucket has no upper bound."""
        grown = np.cumsum(hits, axis=0)
        for i, bound in enumerate((*bounds, None)):
            le = {"le": "+Inf" if bound is None else str(float(bound))}
            self._add(name, "histogram", f"{name}_bucket", {**labels, **le}, grown[:, : i + 1].sum(axis=1))
        self._add(name, "histogram", f"{name}_sum", labels, np.round(grown @ mids, 6))
        self._add(name, "histogram", f"{name}_count", labels, grown.sum(axis=1))

    def write(self, folder: Path) -> list[Path]:
        """Writes one file for each block of Prometheus."""
        files = []
        for block in np.unique(self.times // BLOCK):
            inside = self.times // BLOCK == block
            stamps = [str(int(t)) for t in self.times[inside]]
            parts = []
            for family, (kind, series) in self.families.items():
                parts.append(f"# TYPE {family} {kind}\n")
                for name, values in series:
                    points = values[inside]
                    whole = not np.isnan(points).any() and (points == np.floor(points)).all()
                    numbers = (
                        points.astype(np.int64).tolist()
                        if whole
                        else [None if np.isnan(v) else v for v in points.tolist()]
                    )
                    parts.extend(f"{name} {v} {t}\n" for v, t in zip(numbers, stamps, strict=True) if v is not None)
            path = folder / f"{int(block)}.om"
            path.write_text("".join(parts) + "# EOF\n", encoding="utf-8")
            files.append(path)
        return files

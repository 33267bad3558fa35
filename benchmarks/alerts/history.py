"""Counts as a Prometheus's data, and questions to it."""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import shipped
from traffic import Array, Counted

sys.path.append(str(shipped.RULES.parent))
simulate = importlib.import_module("simulate")

POINTS = 4_000
"""Evaluations in one question: Prometheus holds an answer in memory, and takes two minutes at most."""
SeriesByLabels = dict[tuple[tuple[str, str], ...], list[tuple[float, float]]]
"""By labels, times and values."""


class Writer:
    """An OpenMetrics file of series over one axis of time."""

    def __init__(self, times: Array) -> None:
        self.times = times
        self._families: dict[str, tuple[str, list[str]]] = {}

    def add(self, name: str, values: Array, kind: str = "counter", **labels: str) -> None:
        """A series; where its value is not a number, it is absent."""
        text = name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "} "
        there = ~np.isnan(values)
        numbers = values[there]
        if (numbers == np.floor(numbers)).all():
            numbers = numbers.astype(np.int64)
        lines = [f"{text}{v} {t}\n" for v, t in zip(numbers.tolist(), self.times[there].tolist(), strict=True)]
        family = self._families.setdefault(name.removesuffix("_total"), (kind, []))
        family[1].extend(lines)

    def put(self, name: str, values: Sequence[tuple[float, float]], **labels: str) -> None:
        """A gauge by its times and values."""
        text = name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "} "
        family = self._families.setdefault(name, ("gauge", []))
        family[1].extend(f"{text}{v!r} {int(t)}\n" for t, v in values)

    def blocks(self, data: Path) -> None:
        """Makes them blocks of a Prometheus's data directory."""
        path = data.parent / "history.om"
        with path.open("w", encoding="utf-8") as file:
            for name, (kind, lines) in self._families.items():
                file.write(f"# TYPE {name} {kind}\n")
                file.writelines(lines)
            file.write("# EOF\n")
        simulate.blocks([path], data)
        path.unlink()


def application(writer: Writer, counts: Counted, app: str, evaluator: str = "faithfulness", *, whole: bool) -> None:
    """The series that an application exports of one evaluator; with `whole`, those that only other alerts read, too.

    `naive_score` is what one exports who knows no better: the mean of the scores since the last scrape.
    """
    base = {"app": app, "env": "prod"}
    for verdict in ("pass", "fail"):
        own = {**base, "evaluator": evaluator, "verdict": verdict}
        writer.add("ragtrace_evaluation_weight_total", np.round(np.cumsum(counts.weights[verdict]), 4), **own)
        writer.add("ragtrace_evaluation_weight_squared_total", np.round(np.cumsum(counts.squares[verdict]), 4), **own)
        if whole:
            writer.add("ragtrace_evaluations_total", np.cumsum(counts.evaluations[verdict]), **own)
    passes, fails = counts.evaluations["pass"], counts.evaluations["fail"]
    with np.errstate(invalid="ignore"):
        score = np.round(passes / (passes + fails), 4)
    writer.add("naive_score", score, "gauge", **base, evaluator=evaluator)
    if whole and evaluator == "faithfulness":
        writer.add("ragtrace_requests_total", np.cumsum(counts.requests), status="ok", **base)
        sampled = {**base, "decision": "sampled", "stratum": "ratio"}
        writer.add("ragtrace_sampling_decisions_total", np.cumsum(counts.sampled), **sampled)
        writer.add("ragtrace_build_info", np.ones(len(writer.times)), "gauge", **base)


@contextlib.contextmanager
def served(writer: Writer) -> Iterator[str]:
    """A Prometheus that knows what was written, and the constants of the rules; gives its address."""
    fixed = Writer(writer.times)
    for name, labels, value in shipped.constants():
        fixed.add(name, np.full(len(writer.times), value), "gauge", **labels)
    folder = Path(tempfile.mkdtemp(prefix="ragtrace-alerts-"))
    try:
        data = folder / "data"
        data.mkdir()
        writer.blocks(data)
        fixed.blocks(data)
        with simulate.serving(data) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def asked(url: str, expr: str, times: Sequence[float], step: int, points: int = POINTS) -> SeriesByLabels:
    """An expression's values at `times`, which are `step` seconds apart."""
    by_labels: SeriesByLabels = {}
    for at in range(0, len(times), points):
        part = times[at : at + points]
        body = {"query": expr, "start": part[0], "end": part[-1], "step": step, "timeout": "10m"}
        for series in _post(f"{url}/api/v1/query_range", body)["result"]:
            labels = tuple(sorted((k, v) for k, v in series["metric"].items() if k != "__name__"))
            by_labels.setdefault(labels, []).extend((float(t), float(v)) for t, v in series["values"])
    # An expression `a or b` gives two series that differ by their name alone, which a rule records as one.
    return {labels: sorted(values) for labels, values in by_labels.items()}


def _post(url: str, body: Mapping[str, Any]) -> Any:
    request = urllib.request.Request(url, urllib.parse.urlencode(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=900) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"Prometheus: {error.read().decode()[:500]}: {body['query'][:300]}") from error

"""Reads at each scrape what is counted elsewhere: the pipeline's counts, the exporters', and what runs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrace._version import __version__
from ragtrace_prometheus.families import Base, Family, Key, Kind, Merge, family
from ragtrace_prometheus.labels import Caps, clean

_Row = tuple[Key, float]
"""Labels and value of a series."""
DROPS = ("queue_full", "queue_bytes", "shutdown", "internal")


@dataclass(frozen=True, slots=True)
class JudgeLimits:
    """The judge and what it may spend."""

    model: str = ""
    hour: float = 0.0
    """US dollars in an hour."""
    day: float = 0.0
    """US dollars in a day."""
    shared: bool = False
    """Whether all processes have one budget, in a file."""


class Watcher:
    """Metrics that are read as a whole: what belongs together is read together."""

    def __init__(
        self, base: Base, judge: JudgeLimits, pipeline: Any, telemetry: Any, fail: Callable[[str], None]
    ) -> None:
        """`telemetry` is None where nothing is exported. `fail` logs and counts a failure."""
        self._base, self._judge, self._pipeline, self._telemetry = base, judge, pipeline, telemetry
        self._fail = fail
        self._last: dict[str, tuple[list[Key], Family]] = {}
        """By metric: the labels of its series at the last scrape, and the metric with these series."""

    def families(self, caps: Caps, failures: Callable[[], int]) -> list[Family]:
        """The metrics of this moment; `failures` counts those of the sink. A part that fails is left out: half a scrape
        is better than none."""
        parts: list[Callable[[], list[Family]]] = [
            lambda: self._accounting(caps),
            lambda: self._evaluators(caps),
            lambda: self._queue(caps, failures),
        ]
        if self._telemetry is not None:
            parts.append(self._export)
        if any(check.asks_judge for check in self._pipeline.evaluators):
            parts.append(self._budget)
        families: list[Family] = []
        for part in parts:
            try:
                families += part()
            except Exception:  # noqa: BLE001 counted
                self._fail("a part of /metrics could not be read")
        text = "Label values turned into `other`."
        families.append(self._counter("label_overflow", text, [((), caps.overflows())]))
        families.append(self._gauge("build_info", "This release.", [((__version__,), 1.0)], "version", "max"))
        return families

    def _counter(self, name: str, text: str, rows: Sequence[_Row], labels: str = "") -> Family:
        return self._family("counter", name, text, rows, labels)

    def _gauge(self, name: str, text: str, rows: Sequence[_Row], labels: str = "", merge: Merge = "sum") -> Family:
        return self._family("gauge", name, text, rows, labels, merge=merge)

    def _family(
        self, kind: Kind, name: str, text: str, rows: Sequence[_Row], labels: str, *, merge: Merge = "sum"
    ) -> Family:
        """A metric with these series. Of several with the same labels a counter has the sum, a gauge the last."""
        keys = [key for key, _ in rows]
        last = self._last.get(name)
        if last is None or last[0] != keys:
            empty = family(self._base, kind, name, text, labels, merge=merge)
            for key in keys:
                empty.begin(*key)
            last = self._last[name] = (keys, empty)
        filled = last[1].replaced(last[1].keys, [float(value) for _, value in rows])
        if len(filled.keys) < len(keys):
            filled.values = [0.0] * len(filled.keys)
            for key, value in rows:
                if kind == "counter":
                    filled.inc(*key, by=value)
                else:
                    filled.set(value, *key)
        return filled

    def _accounting(self, caps: Caps) -> list[Family]:
        counts = [(caps.evaluator(name), each) for name, each in self._pipeline.counts().items()]
        eligible: list[_Row] = []
        outcomes: list[_Row] = []
        for name, each in counts:
            eligible.append(((name,), each.eligible))
            for outcome in ("sampled_out", "scored", "failed", "dropped"):
                outcomes.append(((name, outcome), getattr(each, outcome)))
        text = "Requests that the evaluator could have scored: sampled_out + scored + failed + dropped."
        return [
            self._counter("evaluation_eligible", text, eligible, "evaluator"),
            self._counter("evaluation_outcomes", "What became of them.", outcomes, "evaluator outcome"),
        ]

    def _evaluators(self, caps: Caps) -> list[Family]:
        rows: list[_Row] = []
        for check in self._pipeline.evaluators:
            threshold = "" if check.threshold is None else f"{check.threshold:g}"
            model = clean(self._judge.model) if check.asks_judge else ""
            rows.append(((caps.evaluator(check.name), clean(check.version), threshold, model), 1.0))
        labels = "evaluator version threshold judge_model"
        return [self._gauge("evaluator_info", "Evaluators that run.", rows, labels, "max")]

    def _queue(self, caps: Caps, failures: Callable[[], int]) -> list[Family]:
        stats = self._pipeline.stats()
        age = "evaluation_queue_oldest_age_seconds"
        drops = [((reason,), stats.dropped.get(reason, 0)) for reason in sorted({*DROPS, *stats.dropped})]
        names = [check.name for check in self._pipeline.evaluators]
        busy = [((caps.evaluator(name),), stats.busy.get(name, 0.0)) for name in names]
        errors = stats.internal_errors + sum(stats.sink_errors.values()) + failures()
        return [
            self._gauge("evaluation_queue_items", "Traces that wait.", [((), stats.queued)]),
            self._gauge("evaluation_queue_bytes", "Text that waits.", [((), stats.queued_bytes)]),
            self._gauge(age, "How long the oldest has waited.", [((), stats.oldest_age)], merge="max"),
            self._counter("pipeline_dropped", "Sampled requests dropped.", drops, "reason"),
            self._counter("evaluator_busy_seconds", "Time spent in evaluators.", busy, "evaluator"),
            self._counter("internal_errors", "Failures inside ragtrace.", [((), errors)]),
        ]

    def _export(self) -> list[Family]:
        stats = self._telemetry.stats()
        items: list[_Row] = []
        failures: list[_Row] = []
        spans, events = (stats.spans, stats.spans_dropped), (stats.events, stats.events_dropped)
        for sink, (export, lost) in (("spans", spans), ("events", events)):
            if export is not None:
                items.append(((sink,), export.exported))
                failures.append(((sink, "queue_full"), lost))
                failures += [((sink, clean(reason)), count) for reason, count in export.failed.items()]
        families = [
            self._counter("export_items", "Items exported.", items, "sink"),
            self._counter("export_failures", "Items not exported.", failures, "sink reason"),
            self._counter("spans_dropped", "Spans that a full queue dropped.", [((), stats.spans_dropped)]),
        ]
        if stats.hold is not None:
            text = "Root spans that wait for their scores."
            families.append(self._gauge("held_spans", text, [((), stats.hold.held)]))
            families.append(self._counter("hold_expired", "Root spans that left unscored.", [((), stats.hold.expired)]))
        return families

    def _budget(self) -> list[Family]:
        rows = [(("hour",), self._judge.hour), (("day",), self._judge.day)]
        merge: Merge = "max" if self._judge.shared else "sum"
        return [self._gauge("judge_budget_usd", "What the judge may spend in a window.", rows, "window", merge)]

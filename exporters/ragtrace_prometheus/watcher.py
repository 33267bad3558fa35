"""What is read at each scrape: the pipeline's counts, the exporters', and what runs here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ragtrace._version import __version__
from ragtrace.evaluation import Evaluator
from ragtrace.settings import in_force
from ragtrace_prometheus.exposition import Snapshot
from ragtrace_prometheus.labels import LabelCap, clean

_log = logging.getLogger(__name__)
_OUTCOMES = ("sampled_out", "scored", "failed", "dropped")
DROPS = ("queue_full", "queue_bytes", "shutdown", "internal")


def asks_judge(check: Evaluator) -> bool:
    """Whether an evaluator may ask the judge."""
    return check.method == "judge" or check.name.endswith("_cascade")


class Watcher(Collector):
    """A collector over snapshots: what belongs together is read together. A part that fails is left out and counted."""

    def __init__(
        self,
        labels: Mapping[str, str],
        pipeline: Any,
        telemetry: Any,
        evaluator: LabelCap,
        caps: Sequence[LabelCap],
    ) -> None:
        """`evaluator` makes the label of an evaluator's name; `caps` are all whose overflows are told."""
        self._labels = dict(labels)
        self._pipeline = pipeline
        self._telemetry = telemetry
        self._evaluator = evaluator
        self._caps = caps
        self._failures = 0

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment. Never raises: half a scrape is better than none."""
        parts: list[Callable[[], Iterator[Metric]]] = [self._accounting, self._info, self._state]
        if self._telemetry is not None:
            parts.append(self._export)
        if any(asks_judge(check) for check in self._pipeline.evaluators):
            parts.append(self._budget)
        for part in (*parts, self._own):
            try:
                found = list(part())
            except Exception:  # noqa: BLE001 counted, below
                self._failures += 1
                if self._failures == 1:
                    _log.warning(
                        "ragtrace: a part of /metrics failed; further failures are only counted", exc_info=True
                    )
                continue
            yield from found

    def describe(self) -> list[Metric]:
        """Nothing: a registry asks it at the registration, and there is nothing to read yet."""
        return []

    def _counter(self, name: str, text: str, *more: str) -> Snapshot:
        return Snapshot("counter", name, text, self._labels, more)

    def _gauge(self, name: str, text: str, *more: str) -> Snapshot:
        return Snapshot("gauge", name, text, self._labels, more)

    def _accounting(self) -> Iterator[Metric]:
        eligible = self._counter(
            "ragtrace_evaluation_eligible",
            "Requests that the evaluator could have scored: sampled_out + scored + failed + dropped.",
            "evaluator",
        )
        outcomes = self._counter("ragtrace_evaluation_outcomes", "What became of them.", "evaluator", "outcome")
        for name, counts in self._pipeline.counts().items():
            label = self._evaluator(name)
            eligible.add(counts.eligible, label)
            for outcome in _OUTCOMES:
                outcomes.add(getattr(counts, outcome), label, outcome)
        yield from (eligible, outcomes)

    def _info(self) -> Iterator[Metric]:
        info = self._gauge(
            "ragtrace_evaluator_info", "Evaluators that run.", "evaluator", "version", "threshold", "judge_model"
        )
        for check in self._pipeline.evaluators:
            threshold = "" if check.threshold is None else f"{check.threshold:g}"
            model = clean(in_force().judge_model) if asks_judge(check) else ""
            info.add(1, self._evaluator(check.name), clean(check.version), threshold, model)
        yield info

    def _state(self) -> Iterator[Metric]:
        stats = self._pipeline.stats()
        for name, text, value in (
            ("ragtrace_evaluation_queue_items", "Traces that wait.", stats.queued),
            ("ragtrace_evaluation_queue_bytes", "Text that waits.", stats.queued_bytes),
            ("ragtrace_evaluation_queue_oldest_age_seconds", "How long the oldest has waited.", stats.oldest_age),
        ):
            gauge = self._gauge(name, text)
            gauge.add(value)
            yield gauge
        drops = self._counter("ragtrace_pipeline_dropped", "Sampled requests dropped.", "reason")
        for reason in sorted({*DROPS, *stats.dropped}):
            drops.add(stats.dropped.get(reason, 0), reason)
        yield drops
        busy = self._counter("ragtrace_evaluator_busy_seconds", "Time spent in evaluators.", "evaluator")
        for check in self._pipeline.evaluators:
            busy.add(stats.busy.get(check.name, 0.0), self._evaluator(check.name))
        yield busy
        internal = self._counter("ragtrace_internal_errors", "Failures inside ragtrace.")
        internal.add(stats.internal_errors + sum(stats.sink_errors.values()) + self._failures)
        yield internal

    def _export(self) -> Iterator[Metric]:
        stats = self._telemetry.stats()
        items = self._counter("ragtrace_export_items", "Items exported.", "sink")
        failures = self._counter("ragtrace_export_failures", "Items not exported.", "sink", "reason")
        for sink, export in (("spans", stats.spans), ("events", stats.events)):
            if export is not None:
                items.add(export.exported, sink)
                lost = stats.spans_dropped if sink == "spans" else stats.events_dropped
                failures.add(lost, sink, "queue_full")
                for reason, count in export.failed.items():
                    failures.add(count, sink, clean(reason))
        dropped = self._counter("ragtrace_spans_dropped", "Spans that a full queue dropped.")
        dropped.add(stats.spans_dropped)
        yield from (items, failures, dropped)
        if stats.hold is not None:
            held = self._gauge("ragtrace_held_spans", "Root spans that wait for their scores.")
            held.add(stats.hold.held)
            expired = self._counter("ragtrace_hold_expired", "Root spans that left unscored.")
            expired.add(stats.hold.expired)
            yield from (held, expired)

    def _budget(self) -> Iterator[Metric]:
        budget = self._gauge("ragtrace_judge_budget_usd", "What the judge may spend in a window.", "window")
        budget.add(in_force().judge_budget_hour, "hour")
        budget.add(in_force().judge_budget_day, "day")
        yield budget

    def _own(self) -> Iterator[Metric]:
        overflow = self._counter("ragtrace_label_overflow", "Label values turned into `other`.")
        overflow.add(sum(cap.overflows for cap in self._caps))
        build = self._gauge("ragtrace_build_info", "This release.", "version")
        build.add(1, __version__)
        yield from (overflow, build)

"""What is read at each scrape: the pipeline's counts, the exporters', and what runs here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ragtrace._version import __version__
from ragtrace.settings import in_force
from ragtrace_prometheus.families import Merge, Taken, snapshot
from ragtrace_prometheus.labels import Caps, clean

_Series = tuple[tuple[str, ...], float]

_log = logging.getLogger(__name__)
_OUTCOMES = ("sampled_out", "scored", "failed", "dropped")
DROPS = ("queue_full", "queue_bytes", "shutdown", "internal")


class Watcher:
    """Metrics as snapshots: what belongs together is read together. A part that fails is left out and counted."""

    def __init__(
        self,
        labels: Mapping[str, str],
        pipeline: Any,
        telemetry: Any,
        caps: Caps,
        failures: Callable[[], int],
    ) -> None:
        """`failures` tells how often the sink failed itself."""
        self._labels = dict(labels)
        self._pipeline = pipeline
        self._telemetry = telemetry
        self._evaluator = caps.evaluator
        self._caps = caps
        self._sink_failures = failures
        self._failures = 0
        self._told: tuple[object, object, Taken] | None = None
        """The evaluators and settings that were told of last, and what was told."""

    def forked(self) -> None:
        """In a forked child: what failed, failed in the parent."""
        self._failures = 0

    def taken(self) -> list[Taken]:
        """The metrics of this moment. Never raises: half a scrape is better than none."""
        parts: list[Callable[[], Iterator[Taken]]] = [self._accounting, self._info, self._state]
        if self._telemetry is not None:
            parts.append(self._export)
        if any(check.asks_judge for check in self._pipeline.evaluators):
            parts.append(self._budget)
        found: list[Taken] = []
        for part in (*parts, self._own):
            try:
                found += list(part())
            except Exception:  # noqa: BLE001 counted, below
                self._failures += 1
                if self._failures == 1:
                    _log.warning(
                        "ragtrace: a part of /metrics failed; further failures are only counted", exc_info=True
                    )
        return found

    def _counter(self, name: str, text: str, found: Sequence[_Series], *more: str) -> Taken:
        keys, values = tuple(key for key, _ in found), [value for _, value in found]
        return snapshot("counter", name, text, self._labels, keys=keys, values=values, more=more)

    def _gauge(self, name: str, text: str, found: Sequence[_Series], *more: str, merge: Merge = "sum") -> Taken:
        keys, values = tuple(key for key, _ in found), [value for _, value in found]
        return snapshot("gauge", name, text, self._labels, keys=keys, values=values, more=more, merge=merge)

    def _accounting(self) -> Iterator[Taken]:
        counts = self._pipeline.counts()
        labels = tuple(map(self._evaluator, counts))
        yield snapshot(
            "counter",
            "ragtrace_evaluation_eligible",
            "Requests that the evaluator could have scored: sampled_out + scored + failed + dropped.",
            self._labels,
            keys=_keys(labels),
            values=[each.eligible for each in counts.values()],
            more=("evaluator",),
        )
        yield snapshot(
            "counter",
            "ragtrace_evaluation_outcomes",
            "What became of them.",
            self._labels,
            keys=_keys(labels, _OUTCOMES),
            values=[number for c in counts.values() for number in (c.sampled_out, c.scored, c.failed, c.dropped)],
            more=("evaluator", "outcome"),
        )

    def _info(self) -> Iterator[Taken]:
        checks = self._pipeline.evaluators
        used = in_force() if any(check.asks_judge for check in checks) else None
        if self._told is None or self._told[0] is not checks or self._told[1] is not used:
            found: list[_Series] = []
            for check in checks:
                threshold = "" if check.threshold is None else f"{check.threshold:g}"
                model = clean(used.judge_model) if used is not None and check.asks_judge else ""
                found.append(((self._evaluator(check.name), clean(check.version), threshold, model), 1.0))
            more = ("evaluator", "version", "threshold", "judge_model")
            text = "Evaluators that run."
            self._told = (checks, used, self._gauge("ragtrace_evaluator_info", text, found, *more, merge="max"))
        yield self._told[2]

    def _state(self) -> Iterator[Taken]:
        stats = self._pipeline.stats()
        gauges: tuple[tuple[str, str, float, Merge], ...] = (
            ("items", "Traces that wait.", stats.queued, "sum"),
            ("bytes", "Text that waits.", stats.queued_bytes, "sum"),
            ("oldest_age_seconds", "How long the oldest has waited.", stats.oldest_age, "max"),
        )
        for name, text, value, how in gauges:
            yield self._gauge(f"ragtrace_evaluation_queue_{name}", text, [((), value)], merge=how)
        drops = [((reason,), stats.dropped.get(reason, 0)) for reason in sorted({*DROPS, *stats.dropped})]
        yield self._counter("ragtrace_pipeline_dropped", "Sampled requests dropped.", drops, "reason")
        names = [check.name for check in self._pipeline.evaluators]
        keys, busy = _keys(tuple(map(self._evaluator, names))), [stats.busy.get(name, 0.0) for name in names]
        name, text = "ragtrace_evaluator_busy_seconds", "Time spent in evaluators."
        yield snapshot("counter", name, text, self._labels, keys=keys, values=busy, more=("evaluator",))
        failures = stats.internal_errors + sum(stats.sink_errors.values()) + self._failures + self._sink_failures()
        yield self._counter("ragtrace_internal_errors", "Failures inside ragtrace.", [((), failures)])

    def _export(self) -> Iterator[Taken]:
        stats = self._telemetry.stats()
        items: list[_Series] = []
        failures: list[_Series] = []
        for sink, export in (("spans", stats.spans), ("events", stats.events)):
            if export is not None:
                items.append(((sink,), export.exported))
                lost = stats.spans_dropped if sink == "spans" else stats.events_dropped
                failures.append(((sink, "queue_full"), lost))
                failures += [((sink, clean(reason)), count) for reason, count in export.failed.items()]
        yield self._counter("ragtrace_export_items", "Items exported.", items, "sink")
        yield self._counter("ragtrace_export_failures", "Items not exported.", failures, "sink", "reason")
        dropped: list[_Series] = [((), stats.spans_dropped)]
        yield self._counter("ragtrace_spans_dropped", "Spans that a full queue dropped.", dropped)
        if stats.hold is not None:
            held: list[_Series] = [((), stats.hold.held)]
            yield self._gauge("ragtrace_held_spans", "Root spans that wait for their scores.", held)
            expired: list[_Series] = [((), stats.hold.expired)]
            yield self._counter("ragtrace_hold_expired", "Root spans that left unscored.", expired)

    def _budget(self) -> Iterator[Taken]:
        found = [(("hour",), in_force().judge_budget_hour), (("day",), in_force().judge_budget_day)]
        text = "What the judge may spend in a window."
        how: Merge = "max" if in_force().judge_budget_file else "sum"  # a file is one budget for all processes
        yield self._gauge("ragtrace_judge_budget_usd", text, found, "window", merge=how)

    def _own(self) -> Iterator[Taken]:
        overflows = sum(cap.overflows for cap in self._caps.all())
        yield self._counter("ragtrace_label_overflow", "Label values turned into `other`.", [((), overflows)])
        yield self._gauge("ragtrace_build_info", "This release.", [((__version__,), 1.0)], "version", merge="max")


@lru_cache(1_000)
def _keys(evaluators: tuple[str, ...], outcomes: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """Of series of each evaluator, with each outcome if there are any."""
    if not outcomes:
        return tuple((evaluator,) for evaluator in evaluators)
    return tuple((evaluator, outcome) for evaluator in evaluators for outcome in outcomes)

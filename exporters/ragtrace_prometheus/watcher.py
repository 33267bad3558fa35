"""Reads at each scrape what is counted elsewhere: the pipeline's counts, the exporters', and what runs here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtrace._version import __version__
from ragtrace_prometheus.families import Base, Family, Key, Kind, Merge, family
from ragtrace_prometheus.labels import Caps, clean

_Row = tuple[Key, float]
"""Labels and value of a series."""
_OUTCOMES = ("sampled_out", "scored", "failed", "dropped")
_MESSAGE_OUTCOMES = ("acknowledged", "repeated", "failed", "redelivered")
_FAILURES, _LOSSES = ("rejected", "unavailable", "timeout"), ("queue_full", "span_missing", "server_error")
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


@dataclass(frozen=True, slots=True)
class Watcher:
    """Metrics that are read as a whole: what belongs together is read together."""

    base: Base
    bases: Callable[[], Sequence[Base]]
    """Those of all applications that were counted, for what is read together with their evaluations."""
    judge: JudgeLimits
    pipeline: Any
    telemetry: Any
    """None where nothing is exported."""
    fail: Callable[[str], None]
    """Logs and counts a failure of the sink."""
    failures: Callable[[], int]
    """How many there were."""
    redaction: Mapping[str, int] = field(default_factory=dict)
    """Texts whose redaction failed, by reason."""
    deliveries: Sequence[Any] = ()
    """Of scores, to Phoenix, MLflow and Langfuse."""

    def families(self, caps: Caps) -> list[Family]:
        """The metrics of this moment. A part that fails is left out: half a scrape is better than none."""
        parts = [self._accounting(caps), self._evaluators(caps), self._queue(caps)]
        if self.telemetry is not None or self.deliveries:
            parts.append(self._export())
        if self.telemetry is not None:
            parts.append(self._spans())
        if (worker := getattr(self.telemetry, "worker_stats", None)) is not None:
            parts.append(self._worker(worker()))
        if self.redaction:
            parts.append(self._redaction())
        if any(check.asks_judge for check in self.pipeline.evaluators):
            parts.append(self._budget())
        families: list[Family] = []
        for part in parts:
            try:
                families += list(part)
            except Exception:  # noqa: BLE001 counted
                self.fail("a part of /metrics could not be read")
        text = "Label values turned into `other`."
        families.append(self._single("counter", "label_overflow", text, caps.overflows()))
        families.append(
            self._family("gauge", "build_info", "This release.", [((__version__,), 1.0)], "version", merge="max")
        )
        return families

    def _family(
        self, kind: Kind, name: str, text: str, rows: Iterable[_Row], labels: str = "", *, merge: Merge = "sum"
    ) -> Family:
        """A metric with these series. Of several with the same labels a counter has the sum, a gauge the last."""
        values: dict[Key, float] = {}
        for row, value in rows:
            key = self.base + row
            values[key] = value + (values.get(key, 0.0) if kind == "counter" else 0.0)
        return family(self.base, kind, name, text, labels, merge=merge).replaced(list(values), list(values.values()))

    def _single(self, kind: Kind, name: str, text: str, value: float, *, merge: Merge = "sum") -> Family:
        """A metric with one series that has no further labels."""
        return self._family(kind, name, text, [((), value)], merge=merge)

    def _accounting(self, caps: Caps) -> Iterator[Family]:
        counts = [(caps.evaluator(name), each) for name, each in self.pipeline.counts().items()]
        eligible = [((name,), each.eligible) for name, each in counts]
        outcomes = [((name, outcome), getattr(each, outcome)) for name, each in counts for outcome in _OUTCOMES]
        text = "Requests that the evaluator could have scored: sampled_out + scored + failed + dropped."
        yield self._family("counter", "evaluation_eligible", text, eligible, "evaluator")
        yield self._family(
            "counter", "evaluation_outcomes", "Those requests, by outcome.", outcomes, "evaluator outcome"
        )

    def _evaluators(self, caps: Caps) -> Iterator[Family]:
        rows: list[_Row] = []
        for check in self.pipeline.evaluators:
            threshold = "" if check.threshold is None else f"{check.threshold:g}"
            model = clean(self.judge.model) if check.asks_judge else ""
            rows.append(((caps.evaluator(check.name), clean(check.version), threshold, model), 1.0))
        labels = "evaluator version threshold judge_model"
        values = {base + row: value for base in self.bases() for row, value in rows}
        info = family(self.base, "gauge", "evaluator_info", "Evaluators that run.", labels, merge="max")
        yield info.replaced(list(values), list(values.values()))

    def _queue(self, caps: Caps) -> Iterator[Family]:
        stats = self.pipeline.stats()
        yield self._single("gauge", "evaluation_queue_items", "Traces that wait.", stats.queued)
        yield self._single("gauge", "evaluation_queue_bytes", "Text that waits.", stats.queued_bytes)
        name, text = "evaluation_queue_oldest_age_seconds", "How long the oldest has waited."
        yield self._single("gauge", name, text, stats.oldest_age, merge="max")
        drops = [((reason,), stats.dropped.get(reason, 0)) for reason in sorted({*DROPS, *stats.dropped})]
        yield self._family("counter", "pipeline_dropped", "Sampled requests dropped.", drops, "reason")
        names = [check.name for check in self.pipeline.evaluators]
        busy = [((caps.evaluator(name),), stats.busy.get(name, 0.0)) for name in names]
        yield self._family("counter", "evaluator_busy_seconds", "Time spent in evaluators.", busy, "evaluator")
        errors = stats.internal_errors + sum(stats.sink_errors.values()) + self.failures()
        yield self._single("counter", "internal_errors", "Failures inside ragtrace.", errors)

    def _export(self) -> Iterator[Family]:
        items: list[_Row] = []
        failures: list[_Row] = []
        if self.telemetry is not None:
            stats = self.telemetry.stats()
            for sink, export, lost in (
                ("spans", stats.spans, stats.spans_dropped),
                ("events", stats.events, stats.events_dropped),
                ("spans_file", stats.file_spans, stats.file_spans_dropped),
            ):
                if export is not None:
                    items.append(((sink,), export.exported))
                    failures.append(((sink, "queue_full"), lost))
                    failed = dict.fromkeys(_FAILURES, 0) | export.failed
                    failures += [((sink, clean(reason)), count) for reason, count in failed.items()]
        for delivery in self.deliveries:
            delivered = delivery.stats()
            items.append(((delivery.name,), delivered.delivered))
            lost_scores = dict.fromkeys(_LOSSES, 0) | delivered.lost
            failures += [((delivery.name, reason), count) for reason, count in lost_scores.items()]
        waiting = [((delivery.name,), float(delivery.stats().waiting)) for delivery in self.deliveries]
        yield self._family("gauge", "export_waiting", "Scores that a backend has not taken yet.", waiting, "sink")
        yield self._family("counter", "export_items", "Items exported.", items, "sink")
        yield self._family("counter", "export_failures", "Items not exported.", failures, "sink reason")

    def _spans(self) -> Iterator[Family]:
        stats = self.telemetry.stats()
        yield self._single("counter", "spans_dropped", "Spans that a full queue dropped.", stats.spans_dropped)
        if stats.hold is not None:
            yield self._single("gauge", "held_spans", "Root spans that wait for their scores.", stats.hold.held)
            yield self._single("counter", "hold_expired", "Root spans that left unscored.", stats.hold.expired)
        if self.telemetry.source is not None:
            source = self.telemetry.source.stats()
            text = "Traces of other libraries that have not ended."
            yield self._single("gauge", "span_source_open_traces", text, source.open_traces)
            lost = [((reason,), count) for reason, count in source.lost.items()]
            text = "Traces of other libraries that were given up."
            yield self._family("counter", "span_source_lost", text, lost, "reason")

    def _worker(self, stats: Any) -> Iterator[Family]:
        text = "Spans taken over OTLP: sent + dropped + open."
        yield self._single("counter", "worker_received_spans", text, stats.received)
        yield self._single("counter", "worker_sent_spans", "Spans sent on.", stats.sent)
        yield self._single("gauge", "worker_open_spans", "Spans that wait.", stats.open)
        yield self._single("gauge", "worker_open_bytes", "Bytes of these spans.", stats.open_bytes)
        yield self._single("gauge", "worker_open_traces", "Traces that have not ended.", stats.open_traces)
        yield self._single("counter", "worker_late_spans", "Spans that came after the end of their trace.", stats.late)
        text = "Spans that an earlier process left in the buffer."
        yield self._single("counter", "worker_recovered_spans", text, stats.recovered)
        groups = (
            ("worker_dropped_spans", "Spans not sent on.", stats.dropped, "reason"),
            ("worker_refused_requests", "Requests not taken.", stats.refused, "reason"),
            ("worker_traces", "Traces that ended, by what they hold.", stats.traces, "content"),
            ("worker_trace_ends", "Traces that ended, by why.", stats.ends, "reason"),
        )
        for name, text, counts, label in groups:
            yield self._family("counter", name, text, [((clean(key),), n) for key, n in counts.items()], label)
        if stats.messages is not None:
            yield from self._messages(stats.messages)

    def _messages(self, counts: Any) -> Iterator[Family]:
        """What a worker that fetches from a broker has done."""
        yield self._single("counter", "worker_fetched_messages", "Messages from the broker.", counts.fetched)
        rows: list[_Row] = [((name,), getattr(counts, name)) for name in _MESSAGE_OUTCOMES]
        yield self._family("counter", "worker_messages", "Messages, by how they ended.", rows, "outcome")
        rows = [((clean(reason),), count) for reason, count in counts.dead.items()]
        yield self._family("counter", "worker_dead_letters", "Messages that no worker could evaluate.", rows, "reason")
        text = "Requests that the broker refused or did not answer."
        yield self._single("counter", "worker_broker_errors", text, counts.errors)
        yield self._single("gauge", "worker_messages_in_flight", "Messages that are held.", counts.in_flight)
        if counts.lag is not None:
            text = "Messages that no worker of the group has taken."
            yield self._single("gauge", "worker_lag_messages", text, counts.lag, merge="max")

    def _redaction(self) -> Iterator[Family]:
        failures = [((reason,), count) for reason, count in self.redaction.items()]
        text = "Texts that were not exported because their redaction failed."
        yield self._family("counter", "redaction_failures", text, failures, "reason")

    def _budget(self) -> Iterator[Family]:
        text = "What the judge may spend in a window."
        merge: Merge = "max" if self.judge.shared else "sum"
        rows = [(("hour",), self.judge.hour), (("day",), self.judge.day)]
        yield self._family("gauge", "judge_budget_usd", text, rows, "window", merge=merge)

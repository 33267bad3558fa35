"""Spans with their scores, and evaluation events, to OTLP or to a file."""

from ragtrace_otlp.events import EventSink
from ragtrace_otlp.hold import HoldLimits, HoldProcessor, HoldStats
from ragtrace_otlp.jsonl import JsonLinesSpanExporter
from ragtrace_otlp.provider import Telemetry, TelemetryStats, attach, set_up
from ragtrace_otlp.scores import ScoreFormat
from ragtrace_otlp.span_encoder import use_encoder
from ragtrace_otlp.span_source import SpanSource
from ragtrace_otlp.spans import EvaluationSpanSink

__all__ = [
    "EvaluationSpanSink", "EventSink", "HoldLimits", "HoldProcessor", "HoldStats", "JsonLinesSpanExporter",
    "ScoreFormat", "SpanSource", "Telemetry", "TelemetryStats", "attach", "set_up", "use_encoder",
]  # fmt: skip

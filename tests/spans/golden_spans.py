"""The golden spans as records."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragtrace.capture.spans.assembly import requests_in, trace_from
from ragtrace.capture.spans.span_record import SpanEvent, SpanRecord
from ragtrace.records import Trace
from ragtrace.text.sanitizer import Sanitizer

FOLDER = Path(__file__).parent / "golden"


def golden_files() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def golden_spans(name: str) -> dict[str, list[SpanRecord]]:
    payload = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return {case: [_record(span) for span in spans] for case, spans in payload["cases"].items()}


def traces_of(spans: Iterable[SpanRecord]) -> list[Trace]:
    """The traces of all requests in these spans, in the order of their ends."""
    return [trace_from(request, Sanitizer()) for request in requests_in(spans)]


def _record(span: dict[str, Any]) -> SpanRecord:
    return SpanRecord(
        trace_id=int(span["trace_id"], 16), span_id=int(span["span_id"], 16),
        parent_id=int(span["parent_id"], 16) if span["parent_id"] else None, name=span["name"], scope=span["scope"],
        kind=span["kind"], started=span["start"], ended=span["end"], status=span["status"],
        attributes={k: tuple(v) if isinstance(v, list) else v for k, v in span["attributes"].items()},
        events=[SpanEvent(e["name"], e["time"], e["attributes"]) for e in span["events"]],
    )  # fmt: skip

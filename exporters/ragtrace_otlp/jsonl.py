"""Spans as lines of JSON in a file: for a look without a backend, and for tests."""

import contextlib
import json
import os
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

from ragtrace.base.private_file import ends_inside_line, private_opener
from ragtrace.errors import SettingError
from ragtrace.text.sanitizer import finite


class JsonLinesSpanExporter(SpanExporter):
    """Appends every span to a file as one line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SettingError if the file cannot be written."""
        self._lock, self._path = threading.Lock(), Path(path).absolute()
        try:
            self._file = self._opened()
        except OSError as error:
            raise SettingError(f"spans_file {os.fspath(path)!r} cannot be written: {error}") from error

    def _opened(self) -> FileIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = FileIO(self._path, "a", opener=private_opener)
        self._line_is_incomplete = ends_inside_line(self._path)
        return file

    def _is_gone(self) -> bool:
        """Whether the file was deleted, or renamed as logrotate does."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans; FAILURE if the disk does not take them."""
        lines = "".join(json.dumps(finite(span_as_dict(span)), default=str) + "\n" for span in spans)
        try:
            with self._lock:
                if not self._file.closed and self._is_gone():
                    before, self._file = self._file, self._opened()
                    before.close()
                # What follows half a line must not become its end.
                data = (b"\n" if self._line_is_incomplete else b"") + lines.encode()
                written = self._file.write(data) or 0
                self._line_is_incomplete = written < len(data)
                if self._line_is_incomplete:
                    return SpanExportResult.FAILURE
        except (OSError, ValueError):
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file. What a full disk did not take was counted when it was exported."""
        with self._lock, contextlib.suppress(OSError):
            self._file.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Every export is flushed already."""
        return True


def span_as_dict(span: ReadableSpan) -> dict[str, Any]:
    """A span as plain values: ids in hexadecimal, times in Unix nanoseconds."""
    context = span.context
    return {
        "trace_id": format_trace_id(context.trace_id) if context else None,
        "span_id": format_span_id(context.span_id) if context else None,
        "parent_id": format_span_id(span.parent.span_id) if span.parent else None, "name": span.name,
        "kind": span.kind.name, "start_time": span.start_time, "end_time": span.end_time,
        "status": {"code": span.status.status_code.name, "description": span.status.description},
        "attributes": dict(span.attributes or {}),
        "events": [{"name": e.name, "time": e.timestamp, "attributes": dict(e.attributes or {})} for e in span.events],
        "links": [
            {"trace_id": format_trace_id(link.context.trace_id), "span_id": format_span_id(link.context.span_id)}
            for link in span.links
        ],
        "resource": dict(span.resource.attributes),
        "scope": span.instrumentation_scope.name if span.instrumentation_scope else None,
        **({"trace_state": context.trace_state.to_header()} if context and context.trace_state else {}),
    }  # fmt: skip

"""From an object of a file to spans: ragtrace's span file, OTLP, and what the clients of Phoenix and MLflow export."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace import semconv
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.conversion import record_from, tracestate_member
from ragtrace.capture.spans.pieces import is_valid, service_of, spans_in
from ragtrace.capture.spans.request_body import IntakeError, message_from
from ragtrace.capture.spans.span_record import SpanEvent, SpanRecord
from ragtrace.capture.spans.texts import from_json

FORMATS = (
    "ragtrace's spans_file, OTLP in JSON, Phoenix's spans (get_spans, get_spans_dataframe) or MLflow's traces "
    "(Trace.to_json, search_traces)"
)
_MLFLOW_ORIGIN = {"mlflow.trace.session": semconv.OI_SESSION, "mlflow.trace.user": semconv.USER_ID}
_METADATA = "metadata"
_DEPTH = 8


class UnknownFormatError(ValueError):
    """An object is in none of the formats."""


def records_in(value: Mapping[str, Any]) -> Iterator[SpanRecord]:
    """The spans of an object. Raises UnknownFormatError for an object of another kind; ValueError, TypeError, KeyError
    or AttributeError for a damaged one."""
    if "resourceSpans" in value or "resource_spans" in value:
        yield from _of_otlp(value)
    elif isinstance(value.get("otlp"), (bytes, str)):  # a line of Parquet
        yield from _of_column(value["otlp"])
    elif isinstance(value.get("data"), list):  # a page of Phoenix's REST API
        for item in value["data"]:
            yield from records_in(item)
    elif isinstance(value.get("trace"), str):  # a row of MLflow's data frame
        yield from records_in(json.loads(value["trace"]))
    elif isinstance(value.get("data"), Mapping) and "spans" in value["data"]:
        yield from _of_mlflow(value["data"]["spans"], value.get("info") or {})
    elif isinstance(value.get("spans"), list):
        yield from _of_mlflow(value["spans"], {})
    elif "start_time_unix_nano" in value and "trace_id" in value:
        yield _mlflow_span(value)
    elif "span_kind" in value and ("context" in value or "context.trace_id" in value):
        yield _phoenix_span(value)
    elif {"trace_id", "span_id", "start_time", "attributes"} <= value.keys():
        yield _own_span(value)
    else:
        raise UnknownFormatError(f"the object has the fields {', '.join(value)[:200] or 'none'}; expected {FORMATS}")


# --- OTLP ----------------------------------------------------------------------------------------


def _of_otlp(value: Mapping[str, Any]) -> Iterator[SpanRecord]:
    try:
        message = message_from(dict(value))
    except IntakeError as error:
        raise ValueError(error.message) from None
    yield from _of_message(message)


def _of_message(message: Any) -> Iterator[SpanRecord]:
    for resource, scope, span in spans_in(message):
        if not is_valid(span):
            raise ValueError("a span has no valid trace id or span id")
        yield record_from(span, scope.name, service_of(resource))


def _of_column(value: bytes | str) -> Iterator[SpanRecord]:
    if isinstance(value, str):
        yield from _of_otlp(json.loads(value))
        return
    try:
        message = ExportTraceServiceRequest.FromString(value)
    except DecodeError:
        raise ValueError("the column otlp is no TracesData in protobuf") from None
    yield from _of_message(message)


# --- ragtrace's span file ------------------------------------------------------------------------


def _own_span(value: Mapping[str, Any]) -> SpanRecord:
    resource = value.get("resource") or {}
    return SpanRecord(
        trace_id=int(value["trace_id"], 16), span_id=int(value["span_id"], 16),
        parent_id=int(value["parent_id"], 16) if value.get("parent_id") else None, name=str(value["name"]),
        scope=str(value.get("scope") or ""), kind=str(value.get("kind") or "INTERNAL"),
        started=int(value["start_time"]), ended=int(value["end_time"] or 0), status=str(value["status"]["code"]),
        attributes={key: _frozen(item) for key, item in value["attributes"].items()},
        events=[SpanEvent(e["name"], int(e["time"]), e.get("attributes") or {}) for e in value.get("events") or ()],
        service=(str(resource.get("service.name") or ""), str(resource.get("deployment.environment.name") or "")),
        trace_state=tracestate_member(str(value.get("trace_state") or "")),
    )  # fmt: skip


# --- Phoenix -------------------------------------------------------------------------------------


def _phoenix_span(value: Mapping[str, Any]) -> SpanRecord:
    context = value.get("context") or {name: value[f"context.{name}"] for name in ("trace_id", "span_id")}
    attributes = dict(value.get("attributes") or {})
    # A data frame has a column for each attribute; rows without it have null there.
    columns = {key.removeprefix("attributes."): item for key, item in value.items() if key.startswith("attributes.")}
    attributes |= {key: item for key, item in columns.items() if item is not None}
    flat = _with_metadata(dict(_flat(attributes, "")))
    flat.setdefault(semconv.OI_KIND, value["span_kind"])
    return SpanRecord(
        trace_id=int(context["trace_id"], 16),
        span_id=int(context["span_id"], 16),
        parent_id=int(value["parent_id"], 16) if value.get("parent_id") else None,
        name=str(value["name"]),
        scope="",
        kind="INTERNAL",
        started=_nanoseconds(value["start_time"]),
        ended=_nanoseconds(value["end_time"]),
        status=str(value.get("status_code") or "UNSET"),
        attributes=flat,
        events=[
            SpanEvent(str(e["name"]), _nanoseconds(e["timestamp"]), dict(_flat(e.get("attributes") or {}, "")))
            for e in value.get("events") or ()
        ],
    )


def _flat(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Attributes by their full names: Phoenix nests some of them. Metadata and lists of plain values stay whole."""
    is_metadata = name.rpartition(".")[2] == _METADATA
    is_list = isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    if depth < _DEPTH and not is_metadata and (isinstance(value, Mapping) or is_list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _flat(item, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, float) and value.is_integer() and "token_count" in name:  # data frames have no whole numbers
        yield name, int(value)
    elif value is not None:
        yield name, _frozen(value)


def _with_metadata(attributes: dict[str, Any]) -> dict[str, Any]:
    """Puts the single values of metadata together again: `metadata.page` is `page` in `metadata`."""
    result: dict[str, Any] = {}
    for key, value in attributes.items():
        before, sign, inner = f".{key}".partition(f".{_METADATA}.")
        if sign:
            result.setdefault(f"{before}.{_METADATA}".lstrip("."), {})[inner] = value
        else:
            result[key] = value
    return result


def _nanoseconds(value: Any) -> int:
    """Unix nanoseconds of a time: ISO 8601, or Unix time in milliseconds, as data frames write it."""
    if value is None:
        return 0
    if isinstance(value, (int, float)):
        return int(value * 1e6)
    moment = datetime.fromisoformat(str(value))
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return int(seconds) * 10**9 + moment.microsecond * 1_000


# --- MLflow --------------------------------------------------------------------------------------


def _of_mlflow(spans: Any, info: Mapping[str, Any]) -> Iterator[SpanRecord]:
    metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
    origin = {name: metadata[key] for key, name in _MLFLOW_ORIGIN.items() if metadata.get(key)}
    for span in spans:
        record = _mlflow_span(span)
        yield record if record.parent_id else replace(record, attributes={**origin, **record.attributes})


def _mlflow_span(value: Mapping[str, Any]) -> SpanRecord:
    """A span of MLflow 3, or of MLflow 2, which has its ids in `context`."""
    context = value.get("context") or value
    status = value.get("status") or {}
    return SpanRecord(
        trace_id=_mlflow_id(context["trace_id"]) or 0,
        span_id=_mlflow_id(context["span_id"]) or 0,
        parent_id=_mlflow_id(value.get("parent_span_id", value.get("parent_id"))),
        name=str(value["name"]),
        scope="",
        kind="INTERNAL",
        started=int(value.get("start_time_unix_nano", value.get("start_time")) or 0),
        ended=int(value.get("end_time_unix_nano", value.get("end_time")) or 0),
        status=str(status.get("code") or value.get("status_code") or "UNSET").removeprefix("STATUS_CODE_"),
        attributes={key: _decoded(key, item) for key, item in (value.get("attributes") or {}).items()},
        events=[
            SpanEvent(str(e["name"]), int(e.get("time_unix_nano", e.get("timestamp")) or 0), e.get("attributes") or {})
            for e in value.get("events") or ()
        ],
    )


def _mlflow_id(text: Any) -> int | None:
    """An id: base64, or hexadecimal digits after `0x`, or the hexadecimal digits of a trace's name `tr-…`."""
    if not text:
        return None
    digits = str(text).removeprefix("tr-")
    if digits.startswith("0x") or len(digits) in (16, 32):
        return int(digits, 16)
    try:
        return int.from_bytes(base64.b64decode(digits, validate=True), "big") or None
    except binascii.Error as error:
        raise ValueError(f"the id {digits[:40]!r} is neither base64 nor hexadecimal: {error}") from None


def _decoded(key: str, value: Any) -> Any:
    """An attribute as it was set: MLflow keeps each as JSON. Objects and lists stay JSON, as other libraries write
    them, and so do MLflow's own attributes."""
    if not isinstance(value, str) or key in (dialects.MLFLOW_INPUT, dialects.MLFLOW_OUTPUT):
        return value
    decoded = from_json(value)
    return value if isinstance(decoded, (dict, list)) else decoded


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

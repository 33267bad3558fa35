"""From the body of a request to OTLP's message: bounded decompression, protobuf and JSON."""

import base64
import binascii
import json
import zlib
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROTOBUF, JSON = "application/x-protobuf", "application/json"
# protobuf raises SystemError for a field whose name is no valid Unicode.
_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError, SystemError)
_WINDOW = {"gzip": 31, "deflate": 15}
"""zlib's window bits: with 16 more it expects gzip's header."""


class IntakeError(Exception):
    """A request that is not taken: HTTP's status, one word for the metrics, and a sentence for the sender."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def decompress(body: bytes, coding: str, limit: int) -> bytes:
    """The body without its content coding. Raises IntakeError for an unknown coding, bad data, more than `limit`."""
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOW:
        raise IntakeError(415, "coding", f"Content-Encoding is {coding[:40]!r}; give gzip, deflate or none")
    plain, members = b"", 0
    try:
        while not members or (body[:2] == b"\x1f\x8b" and coding == "gzip" and len(plain) <= limit):
            decoder = zlib.decompressobj(_WINDOW[coding])
            plain += decoder.decompress(body, limit + 1 - len(plain))
            body, members = decoder.unused_data, members + 1
            if members > 100:
                raise IntakeError(400, "damaged", "the gzip data have more than 100 parts; send them as one")
    except zlib.error as error:
        raise IntakeError(400, "damaged", f"the {coding} data are damaged: {error}") from None
    if len(plain) > limit:
        raise IntakeError(413, "too_large", f"the body has more than {limit} bytes after decompression")
    if not decoder.eof:
        raise IntakeError(400, "damaged", f"the {coding} data end too early")
    return plain


def decode(body: bytes, content_type: str) -> ExportTraceServiceRequest:
    """The request of a body. Raises IntakeError for another content type and for a body that is no such request."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == PROTOBUF:
        try:
            return cast("ExportTraceServiceRequest", ExportTraceServiceRequest.FromString(body))
        except DecodeError:
            raise IntakeError(400, "damaged", "the body is no ExportTraceServiceRequest in protobuf") from None
    if kind != JSON:
        raise IntakeError(415, "content_type", f"Content-Type is {kind[:80]!r}; give {PROTOBUF} or {JSON}")
    try:
        content = json.loads(body.decode(json.detect_encoding(body), "replace"))
        if b"\\ud" in body.lower():  # half a character of a text that was cut, e.g. inside an emoji
            content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise _damaged(error) from None
    return message_from(content)


def message_from(content: Any) -> ExportTraceServiceRequest:
    """The request of a parsed body, whose ids are replaced in place. Raises IntakeError for what is no request."""
    try:
        _recode_ids(content)
        request = ExportTraceServiceRequest()
        json_format.ParseDict(content, request, ignore_unknown_fields=True, max_recursion_depth=100)
    except (*_UNREADABLE, json_format.Error) as error:
        raise _damaged(error) from None
    return request


def _damaged(error: Exception) -> IntakeError:
    text = f"{type(error).__name__}: {error}"[:200].encode(errors="replace").decode()  # it may quote half a character
    return IntakeError(400, "damaged", f"the body is no ExportTraceServiceRequest in JSON ({text})")


def _recode_ids(content: Any) -> None:
    """OTLP writes ids in hexadecimal, protobuf's JSON in base64."""
    for of_resource in _list(content, "resourceSpans", "resource_spans"):
        for of_scope in _list(of_resource, "scopeSpans", "scope_spans"):
            for span in _list(of_scope, "spans"):
                for item in (span, *_list(span, "links")):
                    for name in _IDS:
                        if name in item:
                            own = _bytes(item[name]) or (_NO_PARENT if "arent" in name and item[name] else b"")
                            item[name] = base64.b64encode(own).decode()


_NO_PARENT = b"\xff" * 8
"""The parent of a span whose parent's id cannot be read: it is no root."""
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


def _bytes(digits: Any) -> bytes:
    """An id; empty, as one that is missing, where it is not hexadecimal: only its span is refused."""
    try:
        return binascii.unhexlify(digits or "")
    except (ValueError, TypeError):
        return b""


def _list(item: Any, *names: str) -> list[Any]:
    value: Any = next((item[name] for name in names if item.get(name) is not None), [])
    if not isinstance(value, list):
        raise TypeError(f"{names[0]} is no list")
    return value

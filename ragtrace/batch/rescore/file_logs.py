"""The requests in a file of spans."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragtrace import sampling, semconv
from ragtrace.base.readers import Record, records
from ragtrace.base.rows import Row
from ragtrace.batch.rescore.span_formats import FORMATS, UnknownFormatError, records_in
from ragtrace.batch.rescore.stored_logs import LogSelection
from ragtrace.capture.spans.assembly import RequestSpans, requests_in, trace_from
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.errors import DataError
from ragtrace.records import INPUTS, Trace, has_input
from ragtrace.text.sanitizer import Sanitizer


@dataclass(frozen=True, slots=True)
class FileLogs:
    """What a file holds."""

    rows: list[Row]
    """The requests, in the order of their ends. An id is the trace id and the span id, with a hyphen between them."""
    spans: int
    errors: list[DataError]
    """One for each line that cannot be read."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Requests that are not evaluated, by reason: `without texts`, `not selected`."""


def read_file_logs(path: Path, selection: LogSelection, head_sample: float = 1.0) -> FileLogs:
    """Reads a file of spans, plain or gzipped: JSON lines, a JSON array, or one JSON object. All spans are in memory.
    `head_sample` is the share that a head sampler kept which does not state it in the tracestate.

    Raises DataError for a file that cannot be read, and for one without spans or requests."""
    spans: list[SpanRecord] = []
    errors: list[DataError] = []
    unknown = 0
    try:
        for number, value in _values(path):
            try:
                if isinstance(value, ValueError):
                    raise value
                spans += records_in(value)
            except UnknownFormatError as error:
                unknown += 1
                errors.append(DataError(f"{path}, line {number}: {error}"))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
                problem = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                errors.append(DataError(f"{path}, line {number}: {problem}"))
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not spans and errors:
        raise errors[0] if unknown < len(errors) or len(errors) == 1 else DataError(f"{path} is not {FORMATS}")
    if not spans:
        raise DataError(f"{path} is empty: it holds no spans")
    requests = requests_in(spans, with_own=True)
    if not requests:
        raise DataError(f"{path}: none of its {len(spans)} spans belongs to a request")
    logs = FileLogs([], len(spans), errors)
    head = sampling.behind_head(sampling.ratio(1.0), head_sample)
    # Where requests that were not sampled are in the file, too, it has all that a head sampler let through.
    has_all = any(request.root.record.attributes.get(semconv.SAMPLED) is False for request in requests)
    for request in requests:
        _add(logs, _trace_of(request, head, has_all), selection)
    return logs


def _values(path: Path) -> Iterator[Record]:
    """The objects of the file with the numbers of their lines. A file that is one object over several lines has one."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give a file of spans")
    first = next((record for _, record in records(path)), None)
    if isinstance(first, ValueError):
        content = path.read_bytes()
        with suppress(ValueError, RecursionError):
            value = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
            if isinstance(value, dict):
                return iter([(1, value)])
    return records(path)


def _trace_of(request: RequestSpans, head: sampling.Sampler, has_all: bool) -> Trace:
    """The request with the probability with which it came into the file: that of its scores, or where they have none or
    the file `has_all` requests that of the head sampler that let them through."""
    trace, record = trace_from(request, Sanitizer()), request.root.record
    stated = None if has_all else record.attributes.get(semconv.PROBABILITY)
    if not isinstance(stated, (int, float)) or not 0 < stated <= 1:
        stated = head(trace).probability
    return replace(trace, sampling_probability=float(stated))


def _add(logs: FileLogs, trace: Trace, selection: LogSelection) -> None:
    is_selected = selection.since <= trace.started < selection.until and selection.app in ("", trace.facts.app or "rag")
    if not is_selected:
        logs.left_out["not selected"] += 1
    elif not any(has_input(trace, name) for name in INPUTS if name != "context"):
        logs.left_out["without texts"] += 1
    else:
        logs.rows.append(Row(f"{trace.trace_id:032x}-{trace.span_id:016x}", trace, trace.facts.model or ""))

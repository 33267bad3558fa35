"""The traces that have not ended, and which of them end when."""

import heapq
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ragtrace.capture.spans.pieces import SpanGroup, without_spans
from ragtrace.records import Trace
from ragtrace.worker.worker_settings import MOST_TRACES, WorkerSettings

_REMEMBERED, _REMEMBERED_IDS = 20_000, 500_000
"""Ended traces that are remembered, the latest, and the ids of their spans."""
_ENTRY_FACTOR = 6
"""A trace without its root waits so many times longer for further spans, where a server's span has arrived."""
LONGEST, _LONGEST_FACTOR = 300.0, 60
"""Seconds after which any trace ends, or so many times `quiet_seconds` if that is longer."""
_SPAN_COST = 200
"""Bytes that the table needs for a span beside its payload, about."""


@dataclass(slots=True, eq=False)
class OpenTrace:
    """The spans of a trace that have arrived."""

    id: bytes
    first: float
    """When its first span arrived, on the monotonic clock."""
    last: float
    sender: str
    payloads: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    span_ids: set[bytes] = field(default_factory=set)
    """Ids of its spans, also of those that come after its end."""
    spans: int = 0
    """Spans among the payloads."""
    size: int = 0
    has_root: bool = False
    has_entry: bool = False
    probability: float | None = None
    """With which its application has kept such a trace; None where nobody has sampled it."""
    request: Trace | None = None
    """The request with its texts, where the application has kept these in a store: its spans are not here."""
    number: int = 0
    """Traces that may end at the same moment end in the order in which they came."""

    @property
    def payload(self) -> bytes:
        """All its spans, as an encoded `ExportTraceServiceRequest`."""
        return self.payloads[0] if len(self.payloads) == 1 else b"".join(self.payloads)


class Ended(NamedTuple):
    """A trace that ends, and why: `quiet`, `longest`, `too_many`, `message` (it came whole) or `shutdown`."""

    trace: OpenTrace
    why: str


class Addition(NamedTuple):
    """How a piece ended."""

    spans: int
    """Spans that are held."""
    size: int
    duplicates: int
    """Spans that had arrived before."""
    late: OpenTrace | None
    """The spans, where their trace has ended already."""


_LATE_SPANS = 10_000
"""Spans of a trace that has ended whose repetition is recognized, about."""


def size_of(piece: SpanGroup) -> int:
    """Bytes that a piece takes."""
    return len(piece.payload) + _SPAN_COST * len(piece.span_ids)


class OpenTraces:
    """The table of open traces. Thread-safe."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._longest = max(LONGEST, _LONGEST_FACTOR * settings.quiet_seconds)
        self.lock = threading.Lock()
        self._traces: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._due: list[tuple[float, int, bytes]] = []
        """When a trace may end, its number in the order of arrival, and its id."""
        self._count = 0
        self._ended: OrderedDict[bytes, set[bytes]] = OrderedDict()
        self._ended_ids = 0
        self._surplus: list[OpenTrace] = []
        self.bytes_by_sender: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._traces)

    def add(self, piece: SpanGroup, sender: str, now: float) -> Addition:
        """Add a piece to its trace. Spans that have arrived before are left out."""
        with self.lock:
            trace = self._traces.get(piece.trace_id)
            before = trace.span_ids if trace is not None else self._ended.get(piece.trace_id)
            payload, span_ids = piece.payload, piece.span_ids
            if len(set(span_ids)) < len(span_ids) or (before and not before.isdisjoint(span_ids)):
                payload, span_ids = without_spans(payload, before or set())
            duplicates = len(piece.span_ids) - len(span_ids)
            size = len(payload) + _SPAN_COST * len(span_ids)
            if trace is None and before is not None:  # it has ended
                if len(before) < _LATE_SPANS:
                    self._remember(piece.trace_id, before | set(span_ids))
                late = OpenTrace(
                    piece.trace_id, now, now, sender, [payload], [piece.row], set(span_ids), len(span_ids), size
                )
                self.bytes_by_sender[sender] += size
                return Addition(len(span_ids), size, duplicates, late)
            if trace is None:
                trace = self._open(piece.trace_id, sender, now)
            trace.payloads.append(payload)
            trace.rows.append(piece.row)
            trace.span_ids.update(span_ids)
            trace.spans += len(span_ids)
            trace.size += size
            trace.last = now
            self.bytes_by_sender[trace.sender] += size
            if (piece.has_root and not trace.has_root) or (piece.has_entry and not trace.has_entry):
                trace.has_root, trace.has_entry = trace.has_root or piece.has_root, trace.has_entry or piece.has_entry
                heapq.heappush(self._due, (self._due_time(trace), trace.number, trace.id))
            return Addition(len(span_ids), size, duplicates, None)

    def _open(self, trace_id: bytes, sender: str, now: float) -> OpenTrace:
        self._count += 1
        trace = self._traces[trace_id] = OpenTrace(trace_id, now, now, sender, number=self._count)
        heapq.heappush(self._due, (now + self._longest, trace.number, trace_id))
        if len(self._traces) > MOST_TRACES:
            _, oldest = self._traces.popitem(last=False)
            self._surplus.append(self._end(oldest))
        return trace

    def _due_time(self, trace: OpenTrace) -> float:
        longest = trace.first + self._longest
        quiet = self._settings.quiet_seconds
        if trace.has_root:
            return min(longest, trace.last + quiet)
        return min(longest, trace.last + _ENTRY_FACTOR * quiet) if trace.has_entry else longest

    def take_due(self, now: float) -> Iterator[Ended]:
        """The traces that end now."""
        with self.lock:
            surplus, self._surplus = self._surplus, []
            due: list[Ended] = [Ended(trace, "too_many") for trace in surplus]
            while self._due and self._due[0][0] <= now:
                _, number, trace_id = heapq.heappop(self._due)
                trace = self._traces.get(trace_id)
                if trace is None or trace.number != number:
                    continue
                if (later := self._due_time(trace)) > now:
                    heapq.heappush(self._due, (later, number, trace_id))
                    continue
                why = "longest" if now >= trace.first + self._longest else "quiet"
                due.append(Ended(self._end(trace), why))
        yield from due

    def take(self, complete_only: bool) -> list[Ended]:
        """All traces, or those whose root has arrived: the worker stops."""
        with self.lock:
            traces = [t for t in self._traces.values() if t.has_root or not complete_only]
            surplus, self._surplus = self._surplus, []
            return [Ended(each, "shutdown") for each in (*surplus, *(self._end(trace) for trace in traces))]

    def take_one(self, trace_id: bytes) -> OpenTrace | None:
        """This trace, which ends: an earlier process has evaluated it."""
        with self.lock:
            trace = self._traces.get(trace_id)
            return None if trace is None else self._end(trace)

    def _end(self, trace: OpenTrace) -> OpenTrace:
        self._traces.pop(trace.id, None)
        self._remember(trace.id, trace.span_ids)
        return trace

    def _remember(self, trace_id: bytes, span_ids: set[bytes]) -> None:
        self._ended_ids += len(span_ids) - len(self._ended.pop(trace_id, ()))
        self._ended[trace_id] = span_ids
        while len(self._ended) > _REMEMBERED or self._ended_ids > _REMEMBERED_IDS:
            self._ended_ids -= len(self._ended.popitem(last=False)[1])

    def note_ended(self, trace_ids: list[bytes]) -> None:
        """Remember traces that an earlier process ended."""
        with self.lock:
            for trace_id in trace_ids:
                self._remember(trace_id, set())

    def release(self, sender: str, size: int) -> None:
        """A sender's spans are held no longer."""
        with self.lock:
            self.bytes_by_sender[sender] -= size
            if self.bytes_by_sender[sender] <= 0:
                del self.bytes_by_sender[sender]

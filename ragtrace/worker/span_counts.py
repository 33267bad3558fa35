"""Counts how each span ended: `received = sent + dropped (by reason) + open` in every snapshot."""

import copy
import threading
from collections import Counter
from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class MessageCounts:
    """How the messages ended that this process fetched from a broker."""

    fetched: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    repeated: int = 0
    """Messages whose content this worker had evaluated before."""
    failed: int = 0
    """Messages that are delivered again after an error."""
    dead: Counter[str] = field(default_factory=Counter)
    """Dead letters, by the first word of their reason."""
    errors: int = 0
    """Requests that the broker refused or did not answer."""
    in_flight: int = 0
    """Messages that the worker holds."""
    lag: int | None = None
    """Messages in the stream that no worker of the group has taken."""


@dataclass(slots=True)
class WorkerStats:
    """A snapshot. `received = sent + sum(dropped.values()) + open`, in spans."""

    received: int = 0
    """Spans that the worker took: acknowledged ones, those that were invalid in a request that was taken, and those
    that it found in its buffer when it started."""
    sent: int = 0
    """Spans that the endpoint took."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Spans that were not sent, by reason: `invalid` (no valid ids), `duplicate` (had arrived already), `rejected` (the
    endpoint refused them), `no_endpoint` (none is set), `spans_off` (the setting `spans` is false), `redaction` (could
    not be redacted), `shutdown` (without a buffer), `internal`."""
    open: int = 0
    """Spans that the worker holds."""
    open_bytes: int = 0
    """Bytes of these, encoded."""
    open_traces: int = 0
    """Traces that have not ended."""
    recovered: int = 0
    """Spans found in the buffer at the start."""
    late: int = 0
    """Spans that came after the end of their trace, and were passed on."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that were not taken, by reason."""
    traces: Counter[str] = field(default_factory=Counter)
    """Traces that ended, by what was in them: `request`, `no_request`, `unread` (a span with too many attributes),
    `failed` (an error while they were read), `relayed` (a broker's workers read it)."""
    ends: Counter[str] = field(default_factory=Counter)
    """Traces that ended, by why: `quiet`, `longest`, `too_many`, `message`, `shutdown`."""
    messages: MessageCounts | None = None
    """How a broker's messages ended, for a worker that fetches from one."""


class SpanCounts:
    """The worker's counts, under one lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._now = WorkerStats()

    @property
    def bytes(self) -> int:
        """Bytes of the spans that are held."""
        return self._now.open_bytes

    def open(self, spans: int, size: int, *, recovered: bool = False) -> None:
        """Count spans that were taken and are held from now on."""
        with self.lock:
            self._now.received += spans
            self._now.open += spans
            self._now.open_bytes += size
            self._now.recovered += spans if recovered else 0

    def settle(self, spans: int, size: int, reason: str = "", refused: int = 0) -> None:
        """Count held spans as sent, or as dropped for this reason; of those sent the endpoint `refused` so many."""
        with self.lock:
            self._now.open -= spans
            self._now.open_bytes -= size
            if reason:
                self._now.dropped[reason] += spans
            else:
                self._now.sent += spans - refused
                self._now.dropped.update({"rejected": refused} if refused else {})

    def refuse(self, reason: str) -> bool:
        """Count a request that was not taken; True the first time for this reason."""
        with self.lock:
            self._now.refused[reason] += 1
            return self._now.refused[reason] == 1

    def note_late(self, spans: int) -> None:
        """Count spans that came after the end of their trace."""
        with self.lock:
            self._now.late += spans

    def note_end(self, why: str, what: str) -> None:
        """Count a trace that ended."""
        with self.lock:
            self._now.ends[why] += 1
            self._now.traces[what] += 1

    def stats(self, open_traces: int = 0, messages: MessageCounts | None = None) -> WorkerStats:
        """All counts, from one snapshot."""
        with self.lock:
            return replace(copy.deepcopy(self._now), open_traces=open_traces, messages=messages)

"""Counts how each span ended: `received = sent + dropped (by reason) + open` in every snapshot."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A snapshot. `received = sent + sum(dropped.values()) + open`, in spans."""

    received: int
    """Spans that the worker took: acknowledged ones, those that were invalid in a request that was taken, and those
    that it found in its buffer when it started."""
    sent: int
    """Spans that the endpoint took."""
    dropped: Mapping[str, int]
    """Spans that were not sent, by reason: `invalid` (no valid ids), `duplicate` (had arrived already), `rejected` (the
    endpoint refused them), `no_endpoint` (none is set), `spans_off` (the setting `spans` is false), `redaction` (could
    not be redacted), `shutdown` (without a buffer), `internal`."""
    open: int
    """Spans that the worker holds."""
    open_bytes: int
    """Bytes of these, encoded."""
    open_traces: int
    """Traces that have not ended."""
    recovered: int
    """Spans found in the buffer at the start."""
    late: int
    """Spans that came after the end of their trace, and were passed on."""
    refused: Mapping[str, int]
    """Requests that were not taken, by reason."""
    traces: Mapping[str, int]
    """Traces that ended, by what was in them: `request`, `no_request`, `unread` (a span with too many attributes),
    `failed` (an error while they were read), `relayed` (a broker's workers read it)."""
    ends: Mapping[str, int]
    """Traces that ended, by why: `quiet`, `longest`, `too_many`, `message`, `shutdown`."""
    messages: MessageCounts | None = None
    """How a broker's messages ended, for a worker that fetches from one."""


class SpanCounts:
    """The worker's counts, under one lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._received = self._sent = self._open = self._recovered = self._late = 0
        self.bytes = 0
        """Bytes of the spans that are held."""
        self._dropped: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._traces: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()

    def open(self, spans: int, size: int, *, recovered: bool = False) -> None:
        """Count spans that were taken and are held from now on."""
        with self.lock:
            self._received += spans
            self._open += spans
            self.bytes += size
            self._recovered += spans if recovered else 0

    def settle(self, spans: int, size: int, reason: str = "") -> None:
        """Count held spans as sent, or as dropped for this reason."""
        with self.lock:
            self._open -= spans
            self.bytes -= size
            if reason:
                self._dropped[reason] += spans
            else:
                self._sent += spans

    def drop(self, spans: int, reason: str) -> None:
        """Count spans that were received and dropped at once."""
        with self.lock:
            self._received += spans
            self._dropped[reason] += spans

    def refuse(self, reason: str) -> bool:
        """Count a request that was not taken; True the first time for this reason."""
        with self.lock:
            self._refused[reason] += 1
            return self._refused[reason] == 1

    def note_late(self, spans: int) -> None:
        """Count spans that came after the end of their trace."""
        with self.lock:
            self._late += spans

    def note_end(self, why: str, what: str) -> None:
        """Count a trace that ended."""
        with self.lock:
            self._ends[why] += 1
            self._traces[what] += 1

    def stats(self, open_traces: int = 0, messages: MessageCounts | None = None) -> WorkerStats:
        """All counts, from one snapshot."""
        with self.lock:
            return WorkerStats(
                self._received,
                self._sent,
                dict(self._dropped),
                self._open,
                self.bytes,
                open_traces,
                self._recovered,
                self._late,
                dict(self._refused),
                dict(self._traces),
                dict(self._ends),
                messages,
            )

"""The worker's buffer where its traces come from a broker: the broker holds them until their scores have left."""

import itertools
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragtrace.base.lazy import Latest
from ragtrace.worker.buffer import Buffer, TraceOutcome
from ragtrace.worker.span_counts import MessageCounts
from ragtrace_brokers.message import TraceMessage, Transport, TransportError

_log = logging.getLogger("ragtrace.worker")
_REMEMBERED = 20_000
"""Messages that are done and whose repetition is recognized, the latest."""
_RETRY_SECONDS = 1.0
End = Literal["done", "dead", "again"]


@dataclass(slots=True, eq=False)
class HeldMessage:
    """A message that this worker holds."""

    deliveries: dict[str, TraceMessage]
    """Its latest delivery, and those of messages with the same content, by their ids. All end together."""
    digest: str
    traces: int
    """Traces in it that have not left."""
    end: End = "done"
    reason: str = ""


class MessageBuffer(Buffer):
    """See `Buffer`. A message is acknowledged when its scores are stored, its spans sent, and its annotations
    delivered. A thread settles messages with the broker and extends those that take long."""

    is_durable = True

    def __init__(self, transport: Transport, visibility_seconds: float) -> None:
        self._transport, self._visibility = transport, visibility_seconds
        self._changed = threading.Condition()
        self._rows: dict[int, tuple[HeldMessage, bytes]] = {}
        self._numbers = itertools.count(1)
        self._annotated: set[bytes] = set()
        self._undelivered: dict[bytes, list[HeldMessage]] = {}
        self._entries: dict[str, HeldMessage] = {}
        self._digests: dict[str, HeldMessage] = {}
        self._done: Latest[str, None] = Latest(_REMEMBERED)
        self._ended: list[HeldMessage] = []
        self._closed = False
        self._error = ""
        self._counts = MessageCounts()
        self._thread = threading.Thread(target=self._settle_messages, name="ragtrace-settle", daemon=True)
        self._thread.start()

    # --- the source's side -----------------------------------------------------------------------

    @property
    def counts(self) -> MessageCounts:
        """How the messages ended."""
        self._counts.in_flight = len(self._entries)
        return self._counts

    def holds(self, message: TraceMessage) -> bool:
        """Whether this message is held."""
        return message.id in self._entries

    def hold(self, message: TraceMessage, traces: Sequence[bytes]) -> list[int]:
        """Hold a message with these traces; returns a row for each. No row for a message that is held already, and for
        one with the content of a message that is held or done."""
        digest = message.digest
        with self._changed:
            entry = self._entries.get(message.id) or self._digests.get(digest)
            if entry is not None:
                self._counts.repeated += message.id not in self._entries
                entry.deliveries[message.id] = message
                self._entries[message.id] = entry
                return []
            entry = self._entries[message.id] = HeldMessage({message.id: message}, digest, len(traces))
            if digest in self._done:
                self._counts.repeated += 1
                self._end(entry)
                return []
            self._digests[digest] = entry
            rows = [next(self._numbers) for _ in traces]
            self._rows.update({row: (entry, trace_id) for row, trace_id in zip(rows, traces, strict=True)})
            return rows

    def bury(self, message: TraceMessage, reason: str) -> None:
        """Make a message that is not held a dead letter."""
        with self._changed:
            if message.id not in self._entries:
                entry = self._entries[message.id] = HeldMessage(
                    {message.id: message}, message.digest, 0, "dead", reason
                )
                self._end(entry)

    def note_error(self, error: Exception | None) -> None:
        """Remember what the broker's last answer was."""
        if error is not None:
            self._counts.errors += 1
            if not self._error:
                _log.warning("ragtrace worker: %s; tried again until the broker answers", error)
        elif self._error:
            _log.info("ragtrace worker: the broker answers again")
        self._error = str(error or "")

    # --- the forwarder's side --------------------------------------------------------------------

    def error(self) -> str:
        """See `Buffer`: what the broker said last, where it was an error."""
        return self._error

    def save(self, outcomes: Sequence[tuple[bytes, TraceOutcome]]) -> None:
        """See `Buffer`. Scores have ids of their own, so that another worker may compute them once more."""
        with self._changed:
            self._annotated.update(trace_id for trace_id, outcome in outcomes if outcome.annotations)

    def finish(self, rows: Sequence[int], trace_ids: Sequence[bytes], reason: str = "") -> None:
        """See `Buffer`. Traces that the endpoint refused, or that could not be redacted, become dead letters."""
        with self._changed:
            for row in rows:
                entry, trace_id = self._rows.pop(row)
                if reason in ("rejected", "redaction"):
                    entry.end, entry.reason = "dead", f"{reason}: the trace could not be sent"
                if trace_id in self._annotated:
                    self._undelivered.setdefault(trace_id, []).append(entry)
                else:
                    self._leave(entry)

    def fail(self, rows: Sequence[int]) -> None:
        """See `Buffer`. The messages are delivered again."""
        with self._changed:
            for row in rows:
                entry, _ = self._rows.pop(row, (None, b""))
                if entry is not None:  # else it had left before the error
                    entry.end = "again"
                    self._leave(entry)

    def forget(self, trace_ids: Sequence[bytes]) -> None:
        with self._changed:
            for trace_id in trace_ids:
                self._annotated.discard(trace_id)
                for entry in self._undelivered.pop(trace_id, ()):
                    self._leave(entry)

    def _leave(self, entry: HeldMessage) -> None:
        entry.traces -= 1
        if entry.traces == 0:
            self._end(entry)

    def _end(self, entry: HeldMessage) -> None:
        self._ended.append(entry)
        self._changed.notify_all()

    # --- the thread ------------------------------------------------------------------------------

    def _settle_messages(self) -> None:
        extended = time.monotonic()
        while True:
            with self._changed:
                due = extended + self._visibility / 3
                self._changed.wait_for(lambda: self._ended or self._closed, max(0.0, due - time.monotonic()))
                ended, self._ended = self._ended, []
                if self._closed and not ended:
                    return
            self._settle(ended)
            if time.monotonic() >= extended + self._visibility / 3:
                extended = time.monotonic()
                self._extend()

    def _extend(self) -> None:
        with self._changed:
            messages = [entry.deliveries[name] for name, entry in self._entries.items()]
        try:
            if messages:
                self._transport.extend(messages)
        except TransportError as error:
            self.note_error(error)

    def _settle(self, ended: Sequence[HeldMessage]) -> None:
        """Acknowledge, return or bury messages at the broker. What fails is tried again."""
        with self._changed:
            deliveries = {entry: list(entry.deliveries.values()) for entry in ended}
        try:
            for entry in ended:
                if entry.end == "dead":
                    self._transport.dead_letter(deliveries[entry][0], entry.reason)
                    self._release(entry, deliveries[entry][:1])
                    entry.end, deliveries[entry] = "done", deliveries[entry][1:]
            done = [message for entry in ended if entry.end == "done" for message in deliveries[entry]]
            if done:
                self._transport.ack(done)
            again = [message for entry in ended if entry.end == "again" for message in deliveries[entry]]
            if again:
                self._transport.nack(again, _RETRY_SECONDS)
            for entry in ended:
                self._release(entry, deliveries[entry])
        except TransportError as error:
            self.note_error(error)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, _RETRY_SECONDS)
                self._ended += [] if self._closed else [entry for entry in ended if entry.deliveries]

    def _release(self, entry: HeldMessage, messages: Sequence[TraceMessage]) -> None:
        with self._changed:
            for message in messages:
                if entry.deliveries.get(message.id) is message:
                    del entry.deliveries[message.id], self._entries[message.id]
            if entry.deliveries:  # it was delivered once more in between
                self._ended.append(entry)
            else:
                self._digests.pop(entry.digest, None)
            self._note_end(entry, len(messages))
            self._changed.notify_all()

    def _note_end(self, entry: HeldMessage, count: int) -> None:
        if entry.end == "dead":
            self._counts.dead[entry.reason.partition(":")[0]] += 1
            _log.warning("ragtrace worker: a message is a dead letter: %s", entry.reason)
        elif entry.end == "again":
            self._counts.failed += count
        elif not entry.reason:
            self._counts.acknowledged += count
            self._done[entry.digest] = None

    def close(self) -> None:
        """Settle what has ended, and leave the rest to other workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(10.0)
        self._transport.close()

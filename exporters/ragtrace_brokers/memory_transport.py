"""A broker in this process: for tests, and for an application that evaluates in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ragtrace_brokers.address import TransportAddress
from ragtrace_brokers.message import HEADER_REASON, PublishResult, TraceMessage, TransportOptions, republished


@dataclass(slots=True, eq=False)
class _Stream:
    """The messages of one name, for all transports of this process."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    messages: OrderedDict[str, TraceMessage] = field(default_factory=OrderedDict)
    digests: set[str] = field(default_factory=set)
    dead: OrderedDict[str, TraceMessage] = field(default_factory=OrderedDict)
    groups: dict[str, _Group] = field(default_factory=dict)
    count: int = 0


@dataclass(slots=True, eq=False)
class _Group:
    """What a group has done."""

    position: int = 0
    leases: dict[str, float] = field(default_factory=dict)
    """When each message that was taken and is not done may be taken again, on the monotonic clock."""
    starts: Counter[str] = field(default_factory=Counter)


_streams: dict[str, _Stream] = {}
_lock = threading.Lock()


class MemoryTransport:
    """See `Transport`."""

    def __init__(self, address: TransportAddress, options: TransportOptions) -> None:
        """The option `max_length` of the address bounds the stream (10,000 messages)."""
        self._options = options
        self._limit = address.number("max_length", 10_000)
        with _lock:
            self._stream = _streams.setdefault(str(address), _Stream())
        with self._stream.changed:
            self._group = self._stream.groups.setdefault(options.group, _Group())

    def publish(self, messages: Sequence[TraceMessage]) -> list[PublishResult]:
        """See `Transport`."""
        with self._stream.changed:
            results = [self._add(message) for message in messages]
            self._stream.changed.notify_all()
        return results

    def _add(self, message: TraceMessage) -> PublishResult:
        stream = self._stream
        if message.digest in stream.digests:
            return ""
        if len(stream.messages) >= self._limit:
            self._trim()
        if len(stream.messages) >= self._limit:
            return "full"
        stream.count += 1
        stream.messages[str(stream.count)] = replace(message, id=str(stream.count))
        stream.digests.add(message.digest)
        return ""

    def _trim(self) -> None:
        """Remove what every group has done."""
        stream = self._stream
        for name in list(stream.messages):
            if any(int(name) > group.position or name in group.leases for group in stream.groups.values()):
                break
            stream.digests.discard(stream.messages.pop(name).digest)

    def fetch(self, count: int, seconds: float) -> list[TraceMessage]:
        """See `Transport`."""
        until = time.monotonic() + seconds
        with self._stream.changed:
            while not (messages := self._take(count)) and (left := until - time.monotonic()) > 0:
                self._stream.changed.wait(min(left, 0.05))
        return messages

    def _take(self, count: int) -> list[TraceMessage]:
        now, group = time.monotonic(), self._group
        due = [name for name, lease in group.leases.items() if lease <= now and name in self._stream.messages]
        messages = [replace(self._stream.messages[name], is_redelivered=True) for name in due[:count]]
        fresh = [m for name, m in self._stream.messages.items() if int(name) > group.position]
        for message in fresh[: count - len(messages)]:
            group.position = int(message.id)
            messages.append(message)
        for message in messages:
            group.leases[message.id] = now + self._options.visibility_seconds
        return messages

    def ack(self, messages: Sequence[TraceMessage]) -> None:
        """See `Transport`."""
        with self._stream.changed:
            for message in messages:
                self._group.leases.pop(message.id, None)

    def nack(self, messages: Sequence[TraceMessage], seconds: float) -> None:
        """See `Transport`."""
        self._lease(messages, seconds)

    def extend(self, messages: Sequence[TraceMessage]) -> list[TraceMessage]:
        """See `Transport`."""
        self._lease(messages, self._options.visibility_seconds)
        return list(messages)

    def _lease(self, messages: Sequence[TraceMessage], seconds: float) -> None:
        with self._stream.changed:
            for message in messages:
                if message.id in self._group.leases:
                    self._group.leases[message.id] = time.monotonic() + seconds

    def starts(self, messages: Sequence[TraceMessage]) -> list[int]:
        """See `Transport`."""
        return [self._group.starts[message.id] for message in messages]

    def count_starts(self, messages: Sequence[TraceMessage]) -> None:
        """See `Transport`."""
        self._group.starts.update(message.id for message in messages)

    def dead_letter(self, message: TraceMessage, reason: str) -> None:
        """See `Transport`."""
        with self._stream.changed:
            self._stream.dead[message.id] = replace(message, headers={**message.headers, HEADER_REASON: reason})
            self._group.leases.pop(message.id, None)

    def dead_letters(self, count: int) -> list[TraceMessage]:
        """See `Transport`."""
        with self._stream.changed:
            return list(self._stream.dead.values())[:count]

    def put_back(self, messages: Sequence[TraceMessage]) -> int:
        """See `Transport`."""
        with self._stream.changed:
            for message in messages:
                self._stream.digests.discard(message.digest)
                if self._add(republished(message)) == "":
                    self._stream.dead.pop(message.id, None)
            self._stream.changed.notify_all()
        return sum(message.id not in self._stream.dead for message in messages)

    def lag(self) -> int | None:
        """See `Transport`."""
        return self._stream.count - self._group.position

    def close(self) -> None:
        """See `Transport`. What this transport holds goes to others when its time is over."""

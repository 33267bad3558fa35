"""Redis Streams, on `redis-py`: a stream `NAME`, its dead letters `NAME:dead`, and keys `NAME:starts:…` that expire.

Redis keeps streams in memory, so the stream is bounded: entries that every group has done are removed where it is full,
and where none can be removed publishers are refused. What a dead worker held is claimed by others."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import redis

from ragtrace_brokers import message as envelope
from ragtrace_brokers.address import TransportAddress

_PUBLISH = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 'known' end
local count, limit = redis.call('XLEN', KEYS[1]), tonumber(ARGV[1])
if count >= limit then
  local groups, last = redis.call('XINFO', 'GROUPS', KEYS[1]), nil
  for _, group in ipairs(groups) do
    local name, done = nil, nil
    for i = 1, #group, 2 do
      if group[i] == 'name' then name = group[i + 1] end
      if group[i] == 'last-delivered-id' then done = group[i + 1] end
    end
    local pending = redis.call('XPENDING', KEYS[1], name, '-', '+', 1)
    local first = pending[1] and pending[1][1] or nil
    -- Entries below the first pending one are done, and so are all delivered ones where none is pending.
    local removable = redis.call('XRANGE', KEYS[1], '-', first and '(' .. first or done, 'COUNT', math.ceil(limit / 10))
    if last == nil or #removable < #last then last = removable end
  end
  local ids = {}
  for i, entry in ipairs(last or {}) do ids[i] = entry[1] end
  if #ids == 0 then return 'full' end
  for i = 1, #ids, 1000 do redis.call('XDEL', KEYS[1], unpack(ids, i, math.min(i + 999, #ids))) end
end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[2])
redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
return 'added'
"""
_LEAVE = """
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if #pending > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
"""
"""Removes a consumer that holds nothing: what one held that is removed would never come again."""
_KEY, _PAYLOAD = b"key", b"payload"
Result = TypeVar("Result")


class RedisTransport(envelope.Transport):
    """Options of the address: `max_length` (10,000), the most messages of the stream, and `db`."""

    def __init__(self, address: TransportAddress, options: envelope.TransportOptions) -> None:
        self._address, self._options = address, options
        self._limit = address.number("max_length", 10_000)
        self._dead = f"{address.stream}:dead"
        host, _, port = address.servers[0].rpartition(":")
        self._client: Any = redis.Redis(
            host=host.strip("[]"), port=int(port), db=int(address.options.get("db", "0")),
            username=address.user or None, password=address.password or None, ssl=address.scheme == "rediss",
            socket_timeout=30.0, socket_connect_timeout=5.0, health_check_interval=30,
        )  # fmt: skip
        self._publish_script = self._client.register_script(_PUBLISH)
        self._leave_script = self._client.register_script(_LEAVE)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._claimed = 0.0
        self._has_group = False

    def _do(self, work: Callable[[], Result]) -> Result:
        """Raises TransportError where Redis does not answer, or refuses."""
        try:
            if not self._has_group:
                self._make_group()
            return work()
        except redis.ResponseError as error:
            self._has_group = False  # NOGROUP: the stream was deleted
            raise envelope.TransportError(f"{self._address}: {str(error)[:200]}") from None
        except (redis.RedisError, OSError) as error:
            raise envelope.TransportError(f"{self._address}: {type(error).__name__}: {str(error)[:200]}") from None

    def _make_group(self) -> None:
        try:
            self._client.xgroup_create(self._address.stream, self._options.group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._has_group = True

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        results: list[envelope.PublishResult] = [
            "too_large" if len(m.payload) > envelope.MESSAGE_BYTES else "" for m in messages
        ]
        try:
            pipe = self._client.pipeline(transaction=False)
            for message, result in zip(messages, results, strict=True):
                if not result:
                    self._add(pipe, message, message.digest)
            answers = iter(pipe.execute(raise_on_error=False))
        except (redis.RedisError, OSError):
            return [result or "unreachable" for result in results]
        return [result or _result(next(answers)) for result in results]

    def _add(self, pipe: Any, message: envelope.TraceMessage, name: str) -> None:
        keys = [self._address.stream, f"{self._address.stream}:published:{name}"]
        self._publish_script(keys=keys, args=[self._limit, envelope.DUPLICATE_SECONDS, *_fields(message)], client=pipe)

    # --- reading ---------------------------------------------------------------------------------

    def fetch(self, count: int, seconds: float) -> list[envelope.TraceMessage]:
        return self._do(lambda: self._fetch(count, seconds)) if count else []

    def _fetch(self, count: int, seconds: float) -> list[envelope.TraceMessage]:
        stream, group = self._address.stream, self._options.group
        if time.monotonic() >= self._claimed + min(1.0, self._options.visibility_seconds / 4):
            self._claimed = time.monotonic()
            idle = int(1_000 * self._options.visibility_seconds)
            _, entries, *_ = self._client.xautoclaim(stream, group, self._consumer, idle, "0-0", count=count)
            if entries:
                return [_message(entry, True) for entry in entries if entry[1]]
            self._remove_consumers()
        wait = max(1, int(1_000 * seconds))
        answer = self._client.xreadgroup(group, self._consumer, {stream: ">"}, count=count, block=wait)
        return [_message(entry, False) for _, entries in answer or () for entry in entries]

    def _remove_consumers(self) -> None:
        """Remove consumers of workers that have died, and whose messages others have claimed."""
        for consumer in self._client.xinfo_consumers(self._address.stream, self._options.group):
            if consumer["pending"] == 0 and consumer["idle"] > 60_000 + 10_000 * self._options.visibility_seconds:
                self._leave(consumer["name"])

    def _leave(self, consumer: Any) -> None:
        self._leave_script(keys=[self._address.stream], args=[self._options.group, consumer])

    def ack(self, messages: Sequence[envelope.TraceMessage]) -> None:
        if messages:
            ids = [each.id for each in messages]
            self._do(lambda: self._client.xack(self._address.stream, self._options.group, *ids))

    def nack(self, messages: Sequence[envelope.TraceMessage], seconds: float) -> None:
        self._set_idle(messages, max(0.0, self._options.visibility_seconds - seconds))

    def extend(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.TraceMessage]:
        self._set_idle(messages, 0.0)
        return list(messages)

    def _set_idle(self, messages: Sequence[envelope.TraceMessage], seconds: float) -> None:
        """Let these messages be held by this worker for so long already."""
        stream, group, ids = self._address.stream, self._options.group, [each.id for each in messages]
        options: Any = {"min_idle_time": 0, "idle": int(1_000 * seconds), "justid": True}
        if ids:
            self._do(lambda: self._client.xclaim(stream, group, self._consumer, message_ids=ids, **options))

    # --- counts of starts ------------------------------------------------------------------------

    def _names(self, messages: Sequence[envelope.TraceMessage]) -> list[str]:
        return [f"{self._address.stream}:starts:{self._options.group}:{each.id}" for each in messages]

    def starts(self, messages: Sequence[envelope.TraceMessage]) -> list[int]:
        return [int(count or 0) for count in self._do(lambda: self._client.mget(self._names(messages)))]

    def count_starts(self, messages: Sequence[envelope.TraceMessage]) -> None:
        def count() -> None:
            pipe = self._client.pipeline()
            for name in self._names(messages):
                pipe.incr(name)
                pipe.expire(name, envelope.KEPT_SECONDS)
            pipe.execute()

        self._do(count)

    # --- dead letters ----------------------------------------------------------------------------

    def dead_letter(self, message: envelope.TraceMessage, reason: str) -> None:
        def move() -> None:
            pipe = self._client.pipeline()
            fields = _fields(message, {envelope.HEADER_REASON: reason})
            pipe.execute_command("XADD", self._dead, "MAXLEN", "~", self._limit, "*", *fields)
            pipe.xack(self._address.stream, self._options.group, message.id)
            pipe.execute()

        self._do(move)

    def dead_letters(self, count: int) -> list[envelope.TraceMessage]:
        entries = self._do(lambda: self._client.xrange(self._dead, count=count))
        return [_message(entry, False) for entry in entries]

    def put_back(self, messages: Sequence[envelope.TraceMessage]) -> int:
        return self._do(lambda: sum(self._put_back(message) for message in messages))

    def _put_back(self, message: envelope.TraceMessage) -> int:
        pipe = self._client.pipeline(transaction=False)
        self._add(pipe, envelope.republished(message), f"back:{message.id}")
        if _result(pipe.execute(raise_on_error=False)[0]):
            return 0
        return int(self._client.xdel(self._dead, message.id))

    def lag(self) -> int | None:
        groups = self._do(lambda: self._client.xinfo_groups(self._address.stream))
        own: Any = next((each for each in groups if each["name"] == self._options.group.encode()), {})
        return cast("int | None", own.get("lag"))

    def close(self) -> None:
        try:
            if self._has_group:
                self._leave(self._consumer)
            self._client.close()
        except (redis.RedisError, OSError):
            pass  # it was away


def _fields(message: envelope.TraceMessage, headers: dict[str, str] | None = None) -> list[Any]:
    pairs: dict[Any, Any] = {_KEY: message.key, _PAYLOAD: message.payload, **message.headers, **(headers or {})}
    return [part for pair in pairs.items() for part in pair]


def _message(entry: tuple[bytes, dict[bytes, bytes]], is_redelivered: bool) -> envelope.TraceMessage:
    name, fields = entry
    headers = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in fields.items()
        if key not in (_KEY, _PAYLOAD)
    }
    key = fields.get(_KEY, b"").decode("utf-8", "replace")
    return envelope.TraceMessage(key, fields.get(_PAYLOAD, b""), headers, name.decode(), is_redelivered)


def _result(answer: Any) -> envelope.PublishResult:
    if isinstance(answer, Exception):
        return "unreachable"
    return "full" if answer == b"full" else ""

"""NATS JetStream, on `nats-py`. The client runs in a thread of its own.

A stream `NAME` with the subject `NAME.traces` that refuses messages when it is full (`discard = new`), a stream
`NAME-dead` with the dead letters, and a bucket `NAME-GROUP-starts` with the counts of starts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import MsgAlreadyAckdError
from nats.js import api
from nats.js.errors import APIError, KeyNotFoundError, NotFoundError
from nats.js.errors import Error as JetStreamError

from ragtrace_brokers import message as envelope
from ragtrace_brokers.address import TransportAddress

_SECONDS = 10.0
_FULL = (10077, 10122)
"""JetStream's numbers for a stream that has reached its limit of messages or bytes."""
_NEXT = "$JS.API.CONSUMER.MSG.NEXT"
_STATUS = "Status"
"""A header of what the server sends in place of messages: it has none, or time is over."""
_HEADER_ID, _HEADER_KEY = "Nats-Msg-Id", "ragtrace-key"
_ERRORS = (NatsError, OSError, EOFError)
"""nats-py lets plain timeouts, which are OSErrors, and errors of sockets through."""
Result = TypeVar("Result")


class NatsTransport(envelope.Transport):
    """Options of the address: `max_bytes` (1 GiB) and `replicas` (1) of a stream that is made here,
    and `credentials`, a file of NATS."""

    def __init__(self, address: TransportAddress, options: envelope.TransportOptions) -> None:
        self._address, self._options = address, options
        self._subject, self._dead = f"{address.stream}.traces", f"{address.stream}-dead"
        self._client: Any = None
        self._has_streams = False
        self._refusal = ""
        """Why the connection was refused, until there is one."""
        self._inbox: Inbox | None = None
        self._bucket: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ragtrace-nats", daemon=True)
        self._thread.start()

    # --- the connection --------------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, Result], seconds: float = _SECONDS) -> Result:
        """Run this in the client's thread. Raises TransportError."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds + _SECONDS)
        except _ERRORS as error:
            future.cancel()
            if isinstance(error, JetStreamError):  # the stream or its consumer may have been deleted
                self._has_streams, self._bucket = False, None
            is_away = self._client is None or not self._client.is_connected
            why = f" ({self._refusal})" if self._refusal and is_away else ""
            raise envelope.TransportError(f"{self._address}: {type(error).__name__}: {str(error)[:200]}{why}") from None

    async def _stream(self) -> Any:
        if self._client is None:
            self._client = await asyncio.wait_for(self._connect(), _SECONDS)
        if self._refusal and not self._client.is_connected:  # it tries again by itself
            raise NatsError(self._refusal)
        stream = self._client.jetstream(timeout=_SECONDS)
        if not self._has_streams:
            await self._make_streams(stream)
            self._has_streams = True
            if self._inbox is not None:
                with contextlib.suppress(*_ERRORS):
                    await self._inbox.close()
                self._inbox = None
        return stream

    async def _connect(self) -> Any:
        address = self._address
        client: Any = Client()
        try:
            await client.connect(
                [f"nats://{server}" for server in address.servers], user=address.user or None,
                password=address.password or None, user_credentials=address.options.get("credentials"),
                max_reconnect_attempts=-1, reconnect_time_wait=0.5, connect_timeout=5, allow_reconnect=True,
                error_cb=self._note_refusal, reconnected_cb=self._note_connection,
            )  # fmt: skip
        except BaseException:  # cancelled too: something accepts connections there and says nothing
            await client.close()
            raise
        return client

    async def _note_refusal(self, error: Exception) -> None:
        """Remember why the client cannot connect again: the calls that wait for it say only that time is over."""
        self._refusal = str(error)[:200]

    async def _note_connection(self) -> None:
        self._refusal = ""

    async def _make_streams(self, stream: Any) -> None:
        """Make the streams that do not exist. Those that exist stay as their operator has made them."""
        common: dict[str, Any] = {
            "max_age": float(envelope.KEPT_SECONDS), "max_bytes": self._address.number("max_bytes", 1 << 30),
            "num_replicas": self._address.number("replicas", 1), "discard": api.DiscardPolicy.NEW,
            "duplicate_window": float(envelope.DUPLICATE_SECONDS),
        }  # fmt: skip
        for name, subject in ((self._address.stream, self._subject), (self._dead, f"{self._dead}.traces")):
            try:
                await stream.stream_info(name)
            except NotFoundError:
                await stream.add_stream(api.StreamConfig(name=name, subjects=[subject], **common))

    async def _reader(self) -> Inbox:
        stream = await self._stream()
        if self._inbox is None:
            config = api.ConsumerConfig(
                durable_name=self._options.group, filter_subject=self._subject, ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=self._options.visibility_seconds, max_ack_pending=50_000,
                deliver_policy=api.DeliverPolicy.ALL,
            )  # fmt: skip
            try:
                await stream.consumer_info(self._address.stream, self._options.group)
            except NotFoundError:
                await stream.add_consumer(self._address.stream, config)
            self._inbox = Inbox(self._client, f"{_NEXT}.{self._address.stream}.{self._options.group}")
            await self._inbox.open()
        return self._inbox

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        try:
            return self._do(self._publish(messages))
        except envelope.TransportError:
            return ["unreachable"] * len(messages)

    async def _publish(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        stream = await self._stream()
        return list(await asyncio.gather(*(self._publish_one(stream, each) for each in messages)))

    async def _publish_one(self, stream: Any, message: envelope.TraceMessage) -> envelope.PublishResult:
        headers = {**message.headers, _HEADER_KEY: message.key, _HEADER_ID: message.digest}
        try:
            await stream.publish(self._subject, message.payload, timeout=_SECONDS, headers=headers)
        except APIError as error:
            return "full" if error.err_code in _FULL else "unreachable"
        except _ERRORS as error:
            self._has_streams = self._has_streams and not isinstance(error, JetStreamError)
            return "too_large" if "MaxPayload" in type(error).__name__ else "unreachable"
        return ""

    # --- reading ---------------------------------------------------------------------------------

    def fetch(self, count: int, seconds: float) -> list[envelope.TraceMessage]:
        return self._do(self._fetch(count, seconds), seconds) if count else []

    async def _fetch(self, count: int, seconds: float) -> list[envelope.TraceMessage]:
        inbox = await self._reader()
        raw = await inbox.fetch(count, seconds)
        if not raw and self._client.is_connected:
            await self._consumer()  # tells a quiet stream from one that was deleted
        return [_message(each) for each in raw]

    async def _consumer(self) -> Any:
        stream = await self._stream()
        return await stream.consumer_info(self._address.stream, self._options.group)

    def ack(self, messages: Sequence[envelope.TraceMessage]) -> None:
        self._do(self._each([each.handle.ack for each in messages]))

    def nack(self, messages: Sequence[envelope.TraceMessage], seconds: float) -> None:
        self._do(self._each([lambda each=each: each.handle.nak(delay=seconds) for each in messages]))

    def extend(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.TraceMessage]:
        self._do(self._each([each.handle.in_progress for each in messages]))
        return list(messages)

    async def _each(self, calls: Sequence[Any]) -> None:
        for call in calls:
            with contextlib.suppress(MsgAlreadyAckdError):  # whose text quotes the message
                await call()
        if self._client is not None:
            await self._client.flush(timeout=int(_SECONDS))

    # --- counts of starts ------------------------------------------------------------------------

    async def _counts(self) -> Any:
        if self._bucket is None:
            stream = await self._stream()
            name = f"{self._address.stream}-{self._options.group}-starts"
            config = api.KeyValueConfig(
                bucket=name, ttl=envelope.KEPT_SECONDS, replicas=self._address.number("replicas", 1)
            )
            self._bucket = await stream.create_key_value(config)
        return self._bucket

    def starts(self, messages: Sequence[envelope.TraceMessage]) -> list[int]:
        return self._do(self._starts(messages))

    async def _starts(self, messages: Sequence[envelope.TraceMessage]) -> list[int]:
        bucket = await self._counts()
        return list(await asyncio.gather(*(_count(bucket, each.id) for each in messages)))

    def count_starts(self, messages: Sequence[envelope.TraceMessage]) -> None:
        self._do(self._count_starts(messages))

    async def _count_starts(self, messages: Sequence[envelope.TraceMessage]) -> None:
        bucket = await self._counts()
        counts = await self._starts(messages)
        await asyncio.gather(
            *(bucket.put(each.id, str(n + 1).encode()) for each, n in zip(messages, counts, strict=True))
        )

    # --- dead letters ----------------------------------------------------------------------------

    def dead_letter(self, message: envelope.TraceMessage, reason: str) -> None:
        self._do(self._bury(message, reason))

    async def _bury(self, message: envelope.TraceMessage, reason: str) -> None:
        stream = await self._stream()
        names = {envelope.HEADER_REASON: reason, _HEADER_KEY: message.key, _HEADER_ID: f"dead-{message.id}"}
        headers = {**message.headers, **names}
        await stream.publish(f"{self._dead}.traces", message.payload, timeout=_SECONDS, headers=headers)
        await message.handle.term()
        await self._client.flush(timeout=int(_SECONDS))

    def dead_letters(self, count: int) -> list[envelope.TraceMessage]:
        return self._do(self._read_dead(count), 60.0)

    async def _read_dead(self, count: int) -> list[envelope.TraceMessage]:
        stream = await self._stream()
        state = (await stream.stream_info(self._dead)).state
        messages: list[envelope.TraceMessage] = []
        for number in range(max(1, state.first_seq), state.last_seq + 1):
            if len(messages) == count:
                break
            try:
                raw = await stream.get_msg(self._dead, number)
            except NotFoundError:  # it was put back
                continue
            headers = dict(raw.headers or {})
            headers.pop(_HEADER_ID, None)
            messages.append(
                envelope.TraceMessage(headers.pop(_HEADER_KEY, ""), raw.data or b"", headers, id=str(number))
            )
        return messages

    def put_back(self, messages: Sequence[envelope.TraceMessage]) -> int:
        return self._do(self._put_back(messages), 60.0)

    async def _put_back(self, messages: Sequence[envelope.TraceMessage]) -> int:
        stream = await self._stream()
        count = 0
        for message in messages:
            again = envelope.republished(message)
            headers = {**again.headers, _HEADER_KEY: again.key, _HEADER_ID: f"{again.digest}-{message.id}"}
            await stream.publish(self._subject, again.payload, timeout=_SECONDS, headers=headers)
            await stream.delete_msg(self._dead, int(message.id))
            count += 1
        return count

    def lag(self) -> int | None:
        return self._do(self._lag())

    async def _lag(self) -> int | None:
        await self._reader()
        return cast("int | None", (await self._consumer()).num_pending)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(envelope.TransportError):  # it is away
                self._do(client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class Inbox:
    """Where a consumer's messages arrive. `fetch` of nats-py makes a task and a timer for each message; this has one of
    them for each request."""

    def __init__(self, client: Any, subject: str) -> None:
        """`subject` takes the requests for the consumer's next messages."""
        self._client, self._subject = client, subject
        self._name = client.new_inbox()
        self._subscription: Any = None
        self._numbers = itertools.count()
        self._messages: list[Any] = []
        self._batch = 1
        self._reply = ""
        self._done = asyncio.Event()

    async def open(self) -> None:
        """Begin to listen."""
        self._subscription = await self._client.subscribe(f"{self._name}.*", cb=self._take)

    async def close(self) -> None:
        """Listen no more. What has arrived is delivered again."""
        await self._subscription.unsubscribe()

    async def fetch(self, count: int, seconds: float) -> list[Any]:
        """At most `count` messages: those that are there, or else the first that comes within `seconds`."""
        until = time.monotonic() + seconds
        missing = count - len(self._messages)
        if missing > 0:
            await self._ask({"batch": missing, "no_wait": True}, count, until)
        left = until - time.monotonic()
        if not self._messages and left > 0:
            await self._ask({"batch": 1, "expires": int(left * 1e9)}, 1, until)
        messages, self._messages = self._messages[:count], self._messages[count:]
        return messages

    async def _ask(self, request: dict[str, Any], count: int, until: float) -> None:
        """Wait until there are `count` messages or the server has no others."""
        self._reply, self._batch = f"{self._name}.{next(self._numbers)}", count
        self._done.clear()
        await self._client.publish(self._subject, json.dumps(request).encode(), self._reply)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), max(0.0, until - time.monotonic()))

    async def _take(self, raw: Any) -> None:
        if raw.headers and _STATUS in raw.headers:
            if raw.subject == self._reply:  # others belong to requests before
                self._done.set()
            return
        self._messages.append(raw)
        if len(self._messages) >= self._batch:
            self._done.set()


async def _count(bucket: Any, name: str) -> int:
    try:
        return int((await bucket.get(name)).value)
    except (KeyNotFoundError, ValueError):
        return 0


def _message(raw: Any) -> envelope.TraceMessage:
    data = raw.metadata
    headers = {name: value for name, value in (raw.headers or {}).items() if not name.startswith("Nats-")}
    key = headers.pop(_HEADER_KEY, "")
    # Numbers begin again in a stream that was deleted and made again; times do not.
    name = f"{data.sequence.stream}-{int(data.timestamp.timestamp() * 1e6)}"
    return envelope.TraceMessage(key, raw.data, headers, name, data.num_delivered > 1, raw)

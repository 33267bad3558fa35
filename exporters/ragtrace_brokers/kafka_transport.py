"""Kafka, on `confluent-kafka`: a topic `NAME`, its dead letters `NAME.dead`, and counts of starts `NAME.GROUP.starts`.

A group commits one offset for each partition, so that the offset below which all is done is what is committed. Messages
from there on that may have been started before come first after each assignment: at most `IN_FLIGHT` of them."""

import contextlib
import heapq
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ragtrace_brokers import message as envelope
from ragtrace_brokers.address import TransportAddress

_SECONDS, _MOST_RECORDS = 10.0, 1_000_000
_REBALANCE_SECONDS = 6.0
"""The shortest time without a sign of life after which a member counts as dead that brokers allow by default."""
_RESULTS: dict[int, envelope.PublishResult] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "too_large",
    KafkaError._QUEUE_FULL: "full",
}


@dataclass(slots=True, eq=False)
class _Partition:
    """A partition that this worker has been assigned. A later assignment of it is another object."""

    number: int
    committed: int | None = None
    """The offset from which this assignment began; None before its first message."""
    open: set[int] = field(default_factory=set)
    """Offsets that were fetched and are not done."""
    next: int = 0
    """The offset after the last one that was fetched."""

    @property
    def low(self) -> int:
        """The offset below which all is done."""
        return min(self.open, default=self.next)


class KafkaTransport(envelope.Transport):
    """Options of the address: `partitions` (6) and `replicas` (1) of topics that are made here, and
    those of librdkafka that begin with `security.`, `sasl.` or `ssl.`."""

    def __init__(self, address: TransportAddress, options: envelope.TransportOptions) -> None:
        self._address, self._options = address, options
        self._dead, self._starts_topic = f"{address.stream}.dead", f"{address.stream}.{options.group}.starts"
        self._lock = threading.RLock()
        """Guards the consumer and the partitions."""
        self._consumer: Any = None
        self._producer = Producer(
            {
                **self._common(),
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": int(1_000 * _SECONDS),
                # Also what a Collector does with `hasher: murmur2`: one trace, one partition.
                "partitioner": "murmur2_random",
            }
        )
        self._partitions: dict[int, _Partition] = {}
        self._again: list[tuple[float, str, envelope.TraceMessage]] = []
        """Messages that are delivered again, and when."""
        self._starts: Counter[str] = Counter()
        self._started: dict[tuple[_Partition, int], str] = {}
        """Ids of the messages that are open, and a start of which was counted here."""
        self._surplus: list[envelope.TraceMessage] = []
        self._has_topics = False

    def _common(self) -> dict[str, Any]:
        options = self._address.options.items()
        own = {name: value for name, value in options if name.startswith(("security.", "sasl.", "ssl."))}
        if self._address.user:
            own |= {"sasl.username": self._address.user, "sasl.password": self._address.password}
        return {
            "bootstrap.servers": ",".join(self._address.servers), "log_level": 0,
            "topic.metadata.refresh.interval.ms": 5_000, **own,
        }  # fmt: skip

    def _leave_group(self) -> None:
        """Leave the group. The next fetch joins it again."""
        if self._consumer is not None:
            self._partitions, self._surplus, self._again = {}, [], []
            with contextlib.suppress(KafkaException, RuntimeError):
                self._consumer.close()
            self._consumer = None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises TransportError."""
        try:
            yield
        except TimeoutError:
            raise envelope.TransportError(f"{self._address}: no broker answered within {_SECONDS:.0f} s") from None
        except (KafkaException, RuntimeError) as error:
            raise envelope.TransportError(f"{self._address}: {str(error)[:200]}") from None

    def _make_topics(self) -> None:
        """Make those topics that do not exist. Raises KafkaException, and TimeoutError where no broker answers."""
        counts = {self._address.stream: self._address.number("partitions", 6), self._dead: 1, self._starts_topic: 1}
        replicas, retention = self._address.number("replicas", 1), {"retention.ms": str(1_000 * envelope.KEPT_SECONDS)}
        topics = [NewTopic(name, count, replicas, config=retention) for name, count in counts.items()]
        admin = AdminClient(self._common())  # as long as it lives, the futures have results
        for future in admin.create_topics(topics, request_timeout=_SECONDS).values():
            try:
                future.result(_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        self._has_topics = True

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        try:
            if not self._has_topics:
                with self._errors():
                    self._make_topics()
        except envelope.TransportError:
            return ["unreachable"] * len(messages)
        return self._produce(self._address.stream, messages)

    def _produce(self, topic: str, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        results: list[envelope.PublishResult] = ["unreachable"] * len(messages)
        for place, message in enumerate(messages):

            def delivered(error: Any, _: Any, place: int = place) -> None:
                results[place] = "" if error is None else _RESULTS.get(error.code(), "unreachable")

            if len(message.payload) > envelope.MESSAGE_BYTES:
                results[place] = "too_large"
                continue
            try:
                headers: Any = list(message.headers.items())
                self._producer.produce(topic, message.payload, message.key, headers=headers, on_delivery=delivered)
            except BufferError:
                results[place] = "full"
            except KafkaException as error:
                results[place] = _RESULTS.get(error.args[0].code(), "unreachable")
        self._producer.flush(2 * _SECONDS)
        return results

    # --- the group -------------------------------------------------------------------------------

    def _join(self) -> Any:
        if self._consumer is None:
            self._make_topics()
            self._consumer = Consumer(
                {
                    **self._common(),
                    # A group of Kafka is one of the whole cluster.
                    "group.id": f"{self._address.stream}.{self._options.group}",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    # Clients report three times in it, also while Python waits. After it the group is formed again,
                    # for which brokers take about as long: both are over within the visibility.
                    "session.timeout.ms": int(1_000 * max(_REBALANCE_SECONDS, self._options.visibility_seconds / 3)),
                    "fetch.wait.max.ms": 100,
                    # A worker keeps what it has while others come and go; by default all of them would stop.
                    "partition.assignment.strategy": "cooperative-sticky",
                }
            )
            self._consumer.subscribe(
                [self._address.stream], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke
            )
        return self._consumer

    def _assign(self, _: Any, assigned: Sequence[Any]) -> None:
        if assigned:
            self._starts = self._read_starts()
            self._partitions |= {each.partition: _Partition(each.partition) for each in assigned}

    def _revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        numbers = {each.partition for each in partitions}
        # This process lives, so none of these starts has ended it. The others read the counts when they take over.
        handles = [handle for handle in self._started if handle[0].number in numbers]
        self._produce(
            self._starts_topic, [envelope.TraceMessage(self._started.pop(handle), _NOT_FATAL) for handle in handles]
        )
        # What is held of these goes to others: what is kept of it here would move the offset past their messages.
        self._partitions = {number: each for number, each in self._partitions.items() if number not in numbers}
        self._surplus = [each for each in self._surplus if each.handle[0].number not in numbers]
        self._again = [each for each in self._again if each[2].handle[0].number not in numbers]
        heapq.heapify(self._again)
        # `_keep_alive` may have paused them, and librdkafka does not forget that: this worker would never read them
        # again where it gets them back.
        with contextlib.suppress(KafkaException):
            consumer.resume(partitions)

    def _commit(self) -> None:
        positions = [
            TopicPartition(self._address.stream, each.number, each.low)
            for each in self._partitions.values()
            if each.committed is not None and each.low > each.committed
        ]
        if positions:
            with contextlib.suppress(KafkaException):
                self._consumer.commit(offsets=positions, asynchronous=True)

    # --- reading ---------------------------------------------------------------------------------

    def fetch(self, count: int, seconds: float) -> list[envelope.TraceMessage]:
        with self._lock, self._errors():
            try:
                return self._fetch(self._join(), count, seconds)
            except KafkaException:
                self._leave_group()  # also where the topic was deleted, and its offsets begin again
                raise

    def _fetch(self, consumer: Any, count: int, seconds: float) -> list[envelope.TraceMessage]:
        now = time.monotonic()
        messages: list[envelope.TraceMessage] = []
        while self._again and self._again[0][0] <= now and len(messages) < count:
            messages.append(heapq.heappop(self._again)[2])
        room = count - len(messages) - len(self._surplus)
        if room > 0:
            wait = 0.0 if messages or self._surplus else seconds
            self._surplus += [each for raw in consumer.consume(room, wait) if (each := self._note(raw))]
        else:
            self._keep_alive(consumer)
        rest = count - len(messages)
        messages += self._surplus[:rest]
        self._surplus = self._surplus[rest:]
        return messages

    def _keep_alive(self, consumer: Any) -> None:
        """Serve the group without taking messages."""
        consumer.pause(consumer.assignment())
        raw = consumer.poll(0.0)
        if raw is not None and (message := self._note(raw)):
            self._surplus.append(message)
        consumer.resume(consumer.assignment())

    def _note(self, raw: Any) -> envelope.TraceMessage | None:
        """The message, which is open from now on. Raises KafkaException for an event that is an error."""
        if raw.error():
            raise KafkaException(raw.error())
        partition = self._partitions.get(raw.partition())
        if partition is None:
            return None
        offset = raw.offset()
        if partition.committed is None:
            partition.committed = offset
        partition.open.add(offset)
        partition.next = offset + 1
        # Offsets begin again in a topic that was deleted and made again; times do not.
        name = f"{raw.partition()}-{offset}-{raw.timestamp()[1]}"
        is_redelivered = offset < partition.committed + envelope.IN_FLIGHT
        return _message(raw, name, is_redelivered, (partition, offset))

    def ack(self, messages: Sequence[envelope.TraceMessage]) -> None:
        with self._lock, self._errors():
            for message in messages:
                partition, offset = message.handle
                partition.open.discard(offset)
                self._started.pop(message.handle, None)
            self._commit()

    def nack(self, messages: Sequence[envelope.TraceMessage], seconds: float) -> None:
        with self._lock:
            for message in messages:
                partition, offset = message.handle
                is_own = self._partitions.get(partition.number) is partition
                if is_own and offset in partition.open:
                    again = replace(message, is_redelivered=True)
                    heapq.heappush(self._again, (time.monotonic() + seconds, message.id, again))

    def extend(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.TraceMessage]:
        """See `Transport`. A member of the group holds its messages until the next change of the group."""
        with self._lock:
            return [each for each in messages if self._partitions.get(each.handle[0].number) is each.handle[0]]

    # --- counts of starts ------------------------------------------------------------------------

    def _read_starts(self) -> Counter[str]:
        """The counts of all workers of the group: one record for each start, and one for each that did no harm."""
        counts: Counter[str] = Counter()
        for raw in self._read_all(self._starts_topic):
            counts[(raw.key() or b"").decode()] += -1 if raw.value() == _NOT_FATAL else 1
        return counts

    def _read_all(self, topic: str) -> list[Any]:
        reader = Consumer({**self._common(), "group.id": f"{self._options.group}-{topic}", "enable.auto.commit": False})
        records: list[Any] = []
        try:
            place = TopicPartition(topic, 0)
            first, end = reader.get_watermark_offsets(place, timeout=_SECONDS)
            place.offset = first
            reader.assign([place])
            until = time.monotonic() + _SECONDS
            while place.offset < end and len(records) < _MOST_RECORDS and time.monotonic() < until:
                for raw in reader.consume(1_000, 0.2):
                    if not raw.error():
                        place.offset = (raw.offset() or 0) + 1
                        records.append(raw)
        finally:
            reader.close()
        return records[:_MOST_RECORDS]

    def starts(self, messages: Sequence[envelope.TraceMessage]) -> list[int]:
        with self._lock:
            return [self._starts[each.id] for each in messages]

    def count_starts(self, messages: Sequence[envelope.TraceMessage]) -> None:
        results = self._produce(self._starts_topic, [envelope.TraceMessage(each.id, b"") for each in messages])
        if any(results):
            raise envelope.TransportError(f"{self._address}: counts of starts cannot be written ({max(results)})")
        with self._lock:
            self._starts.update(each.id for each in messages)
            self._started.update((each.handle, each.id) for each in messages)

    # --- dead letters ----------------------------------------------------------------------------

    def dead_letter(self, message: envelope.TraceMessage, reason: str) -> None:
        [result] = self._produce(
            self._dead, [replace(message, headers={**message.headers, envelope.HEADER_REASON: reason})]
        )
        if result:
            raise envelope.TransportError(f"{self._address}: a dead letter cannot be written ({result})")
        self.ack([message])

    def dead_letters(self, count: int) -> list[envelope.TraceMessage]:
        """See `Transport`. A record with the header `ragtrace-put-back` names a letter that was put back."""
        with self._errors():
            if not self._has_topics:
                self._make_topics()
            letters = [_message(raw, str(raw.offset())) for raw in self._read_all(self._dead)]
        back = {each.headers.get(_HEADER_PUT_BACK) for each in letters}
        return [each for each in letters if _HEADER_PUT_BACK not in each.headers and each.id not in back][:count]

    def put_back(self, messages: Sequence[envelope.TraceMessage]) -> int:
        results = self.publish([envelope.republished(message) for message in messages])
        done = [message for message, result in zip(messages, results, strict=True) if not result]
        self._produce(self._dead, [envelope.TraceMessage(each.key, b"", {_HEADER_PUT_BACK: each.id}) for each in done])
        return len(done)

    def lag(self) -> int | None:
        with self._lock, self._errors():
            if not self._partitions:
                return None
            total: int = 0
            for each in self._partitions.values():
                place = TopicPartition(self._address.stream, each.number)
                end = self._consumer.get_watermark_offsets(place, timeout=_SECONDS)[1]
                total += max(0, int(end) - each.next) if each.committed is not None else 0
            return total

    def close(self) -> None:
        with self._lock, contextlib.suppress(KafkaException, RuntimeError):
            if self._consumer is not None:
                self._commit()
                self._leave_group()
        self._producer.flush(1.0)


_HEADER_PUT_BACK = "ragtrace-put-back"
_NOT_FATAL = b"not fatal"
"""The payload that takes a count of a start back."""


def _message(raw: Any, name: str, is_redelivered: bool = False, handle: Any = None) -> envelope.TraceMessage:
    key = raw.key() or b""
    text = key.hex() if len(key) == 16 else key.decode("utf-8", "replace")  # a trace id in 16 bytes
    headers = {header: (value or b"").decode("utf-8", "replace") for header, value in raw.headers() or ()}
    return envelope.TraceMessage(text, raw.value() or b"", headers, name, is_redelivered, handle)

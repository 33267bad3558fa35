"""The message that carries one trace, and what every broker's adapter does with it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ragtrace.errors import RagtraceError

SCHEMA = "1"
"""The version of the payload's form: the bytes of OTLP's `TracesData`, which are also those of its export request."""
HEADER_SCHEMA = "ragtrace-schema"
HEADER_PROBABILITY = "ragtrace-probability"
"""With which the application kept such a trace: workers keep all that it sends."""
HEADER_TENANT = "ragtrace-tenant"
"""A keyed hash of the tenant, where the application names one."""
HEADER_KEY_ID = "ragtrace-key-id"
"""The day of the key with which the payload is sealed; absent where it is not."""
HEADER_CONTENT = "ragtrace-content"
"""`store` where the payload is a request's span id alone, and the application's store has its texts."""
CONTENT_IN_STORE = "store"
HEADER_REASON = "ragtrace-dead-reason"
MESSAGE_BYTES = 900_000
"""The longest payload: brokers refuse messages above about 1 MB by default."""
DUPLICATE_SECONDS = 120
"""How long a broker that can do so recognizes a message that is published again."""
IN_FLIGHT = 256
"""Messages that one worker holds at most."""
KEPT_SECONDS = 24 * 3600
"""How long a broker keeps messages, dead letters and counts of starts."""

PublishResult = Literal["", "full", "unreachable", "too_large"]
"""How a publication ended: empty where the broker has it; `full` and `unreachable` may be tried again."""


class TransportError(RagtraceError, OSError):
    """The broker cannot be reached, or refuses a request: the message names the address without its password."""


class UnreadableMessageError(RagtraceError):
    """A message that no worker can read: one word, a colon, and a sentence that quotes no text of a request."""


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """One trace on its way."""

    key: str
    """The trace id in 32 hexadecimal digits; what another publisher has set otherwise."""
    payload: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Facts about the message. Never a text of a request."""
    id: str = ""
    """Names the message in its stream. Empty before it is published."""
    is_redelivered: bool = False
    """Whether another worker may have started it."""
    handle: Any = field(default=None, repr=False, compare=False)
    """What the adapter needs to acknowledge it."""

    @property
    def digest(self) -> str:
        """Equal for messages of the same trace with the same content."""
        content = hashlib.blake2b(self.payload, digest_size=12, key=self.key.encode()[:64])
        return content.hexdigest()


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """How a worker reads a stream. Durations are in seconds."""

    group: str = "ragtrace"
    """Workers of one group share the messages; each group gets all of them."""
    visibility_seconds: float = 30.0
    """A message that was neither acknowledged nor extended for so long goes to another worker."""


class Publisher(Protocol):
    """The side of a stream that those who record traces use. Thread-safe."""

    def publish(self, messages: Sequence[TraceMessage]) -> list[PublishResult]:
        """Publish messages and wait for the broker's answers: one result for each message. Raises nothing."""

    def close(self) -> None:
        """Leave the group, and close the connection. Messages that are held go to other workers."""


class Transport(Publisher, Protocol):
    """A stream of messages in a broker. Thread-safe. Every method may raise TransportError, except `publish`."""

    def fetch(self, count: int, seconds: float) -> list[TraceMessage]:
        """Up to `count` messages, after waiting for the first one for up to `seconds`. At 0 it stays a member."""

    def ack(self, messages: Sequence[TraceMessage]) -> None:
        """These messages are done."""

    def nack(self, messages: Sequence[TraceMessage], seconds: float) -> None:
        """Deliver these messages again after `seconds`."""

    def extend(self, messages: Sequence[TraceMessage]) -> list[TraceMessage]:
        """Hold these messages for another `visibility_seconds`; returns those that others have not got meanwhile, as
        far as the broker says so."""

    def starts(self, messages: Sequence[TraceMessage]) -> list[int]:
        """How often the evaluation of each message was started before, as far as `count_starts` has counted it."""

    def count_starts(self, messages: Sequence[TraceMessage]) -> None:
        """Count a start of each message, durably, before its evaluation."""

    def dead_letter(self, message: TraceMessage, reason: str) -> None:
        """Move a message to the dead letters of the stream. The reason quotes no text of the request."""

    def dead_letters(self, count: int) -> list[TraceMessage]:
        """Up to `count` dead letters, the oldest first."""

    def put_back(self, messages: Sequence[TraceMessage]) -> int:
        """Publish dead letters once more and remove them from the dead letters; returns how many."""

    def lag(self) -> int | None:
        """Messages that no worker of the group has taken yet; None where the broker does not say."""


def republished(message: TraceMessage) -> TraceMessage:
    """A dead letter as it was before, to be published again."""
    headers = {name: value for name, value in message.headers.items() if name != HEADER_REASON}
    return TraceMessage(message.key, message.payload, headers)

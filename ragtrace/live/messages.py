"""What the application and its evaluating process send each other: frozen values over one local connection."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ragtrace._version import __version__
from ragtrace.records import Score, Trace

PROTOCOL = f"3 of ragtrace {__version__}"
"""Version of the messages and of the values in them. Both ends must have the same: an upgrade of ragtrace under a
running application changes the one that is started later."""


class ProtocolError(Exception):
    """The other end speaks another version of the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What all messages have."""

    protocol: str = PROTOCOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation(Message):
    """The first message: the evaluators whose models are loaded before the answer, which is `Ready`."""

    names: Sequence[str]
    """Names to load the evaluators by."""
    takes_what_is_left: bool
    """Whether the process runs only while a processor is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Message):
    """The process has loaded its models and takes requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Message):
    """Traces for the following requests. No answer."""

    traces: Sequence[Trace]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest(Message):
    """Evaluate some traces of the last batch. The answer is `Scores` or `Failure`."""

    name: str
    """Name to load the evaluator by."""
    options: Mapping[str, Any]
    """Fields of the evaluator that replace the loaded ones, e.g. `threshold`."""
    indexes: Sequence[int]
    """Positions in the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores(Message):
    """The scores of each trace, in the order of the request."""

    scores: list[list[Score]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Message):
    """The evaluator could not be loaded or run."""

    description: str


def send(connection: Connection, message: Message) -> None:
    """Send a message. Raises OSError if the other end does not take it, and what pickle raises for odd values."""
    connection.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Message:
    """The next message. Raises EOFError or OSError if the other end is closed, ProtocolError if it speaks another
    version."""
    data = connection.recv_bytes()
    try:
        message = pickle.loads(data)  # from our own process, over a connection that nobody else has
    except Exception as error:
        raise ProtocolError(f"a message that this process ({PROTOCOL}) cannot read: {error}") from error
    if not isinstance(message, Message) or message.protocol != PROTOCOL:
        version = getattr(message, "protocol", "unknown")
        raise ProtocolError(f"protocol {version}; this process speaks protocol {PROTOCOL}")
    return message

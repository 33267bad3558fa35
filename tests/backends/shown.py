"""What a backend shows of a trace, in one form for all backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class Message:
    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: str = ""
    """The id of the tool call that a tool's message answers."""


@dataclass(frozen=True)
class Document:
    """A document in a list of documents, as the backend's page draws one."""

    id: str
    text: str
    score: float | None
    metadata: Any


@dataclass(frozen=True)
class Tokens:
    """Tokens of a model call, or of a whole trace."""

    input: int
    output: int
    cache_read: int


@dataclass
class Span:
    """One line of a trace's tree, and what the page of this span shows."""

    name: str
    kind: str
    input: Any
    output: Any
    error: str
    """Message of the failure; empty where there is none."""
    exceptions: tuple[str, ...]
    """Types of the exceptions that are shown with it."""
    attributes: dict[str, Any]
    """The attributes as they are listed, by their full names."""
    model: str = ""
    tokens: Tokens | None = None
    cost: float = 0.0
    """US dollars."""
    messages: tuple[Message, ...] = ()
    """The messages that the model received, and then its own."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the model could call."""
    documents: tuple[Document, ...] = ()
    id: str = ""
    """16 hexadecimal digits."""
    children: list[Span] = field(default_factory=list)
    """In the order of their starts."""

    def walk(self) -> Iterator[Span]:
        yield self
        for child in self.children:
            yield from child.walk()

    def tree(self) -> Any:
        """Names and kinds as nested (name, kind, children)."""
        return (self.name, self.kind, [child.tree() for child in self.children])

    def below(self, name: str) -> list[Span]:
        """The spans with this name in the order of the tree."""
        return [span for span in self.walk() if span.name == name]


@dataclass(frozen=True)
class Trace:
    """One line in the list of traces."""

    question: str
    answer: str
    session: str
    user: str
    failed: bool
    tokens: Tokens | None
    cost: float
    """US dollars."""
    root: Span
    id: str = ""
    """OpenTelemetry's: 32 hexadecimal digits."""

"""Labels that people gave in a tool that shows traces."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A stored request whose labels are asked for."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """What a person said of a request."""

    trace_id: str
    name: str
    """What was judged: an evaluator's name, for comparison with its scores."""
    value: str | float | bool | None
    """As the tool has it."""
    reviewer: str
    """The tool, a colon and the person."""
    comment: str | None = None

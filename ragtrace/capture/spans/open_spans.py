"""Spans that have started in this process and not ended, and what hangs together with them."""

from __future__ import annotations

from typing import Any

SpanKey = tuple[int, int]
"""Trace id and span id."""


class LocalTrace:
    """The part of a trace that this process sees below one root."""

    __slots__ = ("announced", "calls", "containers", "ended", "is_own", "open", "size", "touched")

    def __init__(self) -> None:
        self.open: dict[int, OpenSpan] = {}
        self.ended: list[Any] = []
        self.announced: set[SpanKey] = set()
        """Keys of the spans that may be requests."""
        self.size = 0
        self.calls = False
        self.containers = False
        self.is_own = False
        """Whether ragtrace records it itself: a callback's request is not read a second time from spans."""
        self.touched = 0.0


class OpenSpan:
    """A span that has started, and those above it."""

    __slots__ = ("above", "inside", "local", "origin", "span")

    def __init__(self, span: Any, local: LocalTrace, above: OpenSpan | None, inside: bool, origin: str) -> None:
        self.span, self.local, self.above, self.inside, self.origin = span, local, above, inside, origin


def scope_of(span: Any) -> str:
    """The name of a span's instrumentation scope; "" without one."""
    scope = span.instrumentation_scope
    return scope.name if scope is not None else ""


def is_below(node: OpenSpan, root: OpenSpan) -> bool:
    """Whether one span is below another."""
    above = node.above
    while above is not None:
        if above is root:
            return True
        above = above.above
    return False

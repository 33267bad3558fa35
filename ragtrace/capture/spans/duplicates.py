"""One request that two libraries traced: which of them is read, and which model call was recorded twice."""

import hashlib
from collections import deque
from typing import NamedTuple

from ragtrace import semconv
from ragtrace.capture.request import Run
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.span_facts import SpanFacts
from ragtrace.capture.spans.span_record import SpanRecord

_CALLS = 2_000
"""Model calls that are remembered, the latest."""
_RETRIEVALS = 200
_SLACK = 5_000_000
"""Nanoseconds by which an inner call may begin earlier or end later than the outer one: clocks are read in turn."""


class _Call(NamedTuple):
    trace_id: int
    span_id: int
    scope: str
    started: int
    ended: int
    text: bytes
    answer: int
    """A hash of its letters and digits; 0 where it is not known."""


class Duplicates:
    """Remembers the libraries and the latest model calls of a stream of spans. Not thread-safe."""

    def __init__(self) -> None:
        self.retrievals: deque[Run] = deque(maxlen=_RETRIEVALS)
        """The latest retrievals that were called by themselves: a model call after them may hold their chunks."""
        self._best: dict[tuple[tuple[str, str], str], tuple[int, str]] = {}
        self._calls: deque[_Call] = deque()
        self._by_text: dict[tuple[bytes, str], deque[_Call]] = {}
        self._keys: set[tuple[int, int]] = set()
        self._scopes: set[str] = set()

    def note_scope(self, scope: str, service: tuple[str, str] = ("", "")) -> None:
        """Note that a library traces a framework in a service."""
        if scope in dialects.SCOPES:
            framework, rank = dialects.SCOPES[scope]
            key = (service, framework)
            if key not in self._best or rank < self._best[key][0]:
                self._best[key] = (rank, scope)

    def reads(self, scope: str, service: tuple[str, str] = ("", "")) -> bool:
        """Whether spans of this library are read: of two that trace one framework in a service only the better one."""
        if scope not in dialects.SCOPES:
            return True
        framework, _ = dialects.SCOPES[scope]
        return self._best.get((service, framework), (0, scope))[1] == scope

    def note_call(self, record: SpanRecord, facts: SpanFacts) -> None:
        """Note a model call that has ended. One that was noted already is not noted again."""
        key = (record.trace_id, record.span_id)
        if not record.ended or key in self._keys:
            return
        call = _call(record, facts)
        self._calls.append(call)
        self._keys.add(key)
        self._scopes.add(call.scope)
        self._by_text.setdefault((call.text, call.scope), deque()).append(call)
        if len(self._calls) > _CALLS:
            oldest = self._calls.popleft()
            self._keys.discard(oldest[:2])
            same = self._by_text[oldest.text, oldest.scope]
            same.popleft()
            if not same:
                del self._by_text[oldest.text, oldest.scope]

    def is_second(self, record: SpanRecord, facts: SpanFacts) -> bool:
        """Whether an outer layer recorded a model call as well: a span of another library, not above this one, that
        encloses it in time and has as many tokens. A client's span below a framework's that sets no context is one."""
        call = _call(record, facts)
        others = (self._by_text.get((call.text, scope), ()) for scope in self._scopes if scope != call.scope)
        return any(_encloses(other, call) for calls in others for other in calls)


def _encloses(outer: _Call, inner: _Call) -> bool:
    return (
        outer.started - _SLACK <= inner.started
        and inner.ended <= outer.ended + _SLACK
        and outer.ended - outer.started > inner.ended - inner.started
        and (inner.text != b"" or outer.trace_id == inner.trace_id)
        and (outer.answer == inner.answer or not outer.answer or not inner.answer)
    )


def _call(record: SpanRecord, facts: SpanFacts) -> _Call:
    """A call and what two layers that tell of it share: the answer's tokens, else the answer, else the question."""
    tokens = facts.attributes.get(semconv.OUTPUT_TOKENS)
    text = str(tokens) if tokens else facts.answer or (facts.error and f"{facts.query}\0error") or ""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest() if text else b""
    answer = hash("".join(filter(str.isalnum, facts.answer or "")))
    return _Call(record.trace_id, record.span_id, record.scope, record.started, record.ended, digest, answer)

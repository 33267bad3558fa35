"""From spans to requests: which span is a request, what belongs to it, and its `Trace`.

The rules, in this order:

1. The outermost workflow or agent is a request. Model calls, retrievals and tools beside it below the same span of the
   application belong to it.
2. Where an application has none, e.g. with a model provider's client alone, the application's own span above its model
   calls is the request: the nearest server or consumer span, or else the outermost one.
3. A model call with nothing above it is a request. A retriever, a tool, an embedding, a parser or a prompt template
   alone is not a request.

Spans of several traces may be in one list, in any order, and some may be missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from ragtrace import semconv
from ragtrace.capture import timing
from ragtrace.capture.adapters import SESSION_KEYS
from ragtrace.capture.finish import complete, trace_of
from ragtrace.capture.model_messages import ModelMessage
from ragtrace.capture.request import MAX_STEPS, MODEL_CALLS, SEARCHES, Request, Run
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.duplicates import Duplicates
from ragtrace.capture.spans.message_dialects import prompt_of
from ragtrace.capture.spans.span_facts import SpanFacts, facts_of
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.capture.spans.texts import first_value, plain
from ragtrace.records import Trace, has_text
from ragtrace.text.sanitizer import Sanitizer, identity_of

CONTAINERS = frozenset({semconv.OP_WORKFLOW, semconv.OP_AGENT, dialects.TASK})
_PARTS = frozenset({*SEARCHES, semconv.OP_EMBEDDINGS, semconv.OP_TOOL, *MODEL_CALLS})
_ENTRIES = ("SERVER", "CONSUMER")
_MAX_DEPTH = 1_000
_MINUTE = 60 * 10**9


@dataclass(slots=True, eq=False)
class Node:
    """A span in its tree."""

    record: SpanRecord
    facts: SpanFacts | None
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def operation(self) -> str | None:
        """The operation, or None for a span of the application's own."""
        return None if self.facts is None else self.facts.operation

    def above(self) -> Iterator[Node]:
        """The spans above, the nearest first."""
        node = self.parent
        for _ in range(_MAX_DEPTH):
            if node is None:
                return
            yield node
            node = node.parent

    def below(self) -> Iterator[Node]:
        """The spans below, in the order of their starts."""
        waiting = sorted(self.children, key=_start, reverse=True)
        while waiting:
            node = waiting.pop()
            yield node
            waiting += sorted(node.children, key=_start, reverse=True)


@dataclass(slots=True, eq=False)
class RequestSpans:
    """A request: its root span, and the parts that are beside it below the same span of the application."""

    root: Node
    beside: list[Node] = field(default_factory=list)
    fragments: Sequence[Run] = ()
    """Of a model that was called by itself: the latest retrievals that were called by themselves before it."""

    def members(self) -> Iterator[Node]:
        """All spans of the request but its root."""
        for each in self.beside:
            yield each
            yield from each.below()
        yield from self.root.below()


def _start(node: Node) -> tuple[int, int]:
    return node.record.started, -node.record.ended


def requests_in(
    spans: Iterable[SpanRecord], duplicates: Duplicates | None = None, *, with_own: bool = False
) -> list[RequestSpans]:
    """The requests in these spans that have ended, in the order of their ends. `duplicates` remembers what other lists
    held; a request that two libraries traced is then counted once although its spans come in two lists. ragtrace's own
    spans, whose requests are evaluated already, are read only `with_own`."""
    own = () if with_own else (dialects.OWN_SCOPE,)
    records = {(each.trace_id, each.span_id): each for each in spans if not each.scope.startswith(own)}
    memory = duplicates or Duplicates()
    requests: list[RequestSpans] = []
    for anchor, containers, parts in _groups(_tree([*records.values()], memory)):
        below = _requests_below(anchor, containers, parts)
        if not below:
            searches = [(node, node.facts) for node in parts if node.facts and node.operation in SEARCHES]
            retrievals = [(node, facts) for node, facts in searches if has_text(facts.documents or ())]
            memory.retrievals += [_run(node, facts, Request(), None) for node, facts in retrievals]
        for request in below:
            if request.root.operation in MODEL_CALLS:
                start = request.root.record.started
                request.fragments = [r for r in memory.retrievals if start - _MINUTE < r.started < start]
        requests += below
    ended = [each for each in requests if each.root.record.ended]
    return sorted(ended, key=lambda request: request.root.record.ended)


# --- the tree ------------------------------------------------------------------------------------


def _tree(records: Sequence[SpanRecord], duplicates: Duplicates) -> list[Node]:
    """The spans with their parents; without evaluations, and without what a second library recorded of a framework."""
    for scope, service in {(each.scope, each.service) for each in records}:
        duplicates.note_scope(scope, service)
    nodes = {(each.trace_id, each.span_id): Node(each, facts_of(each)) for each in records}
    for key, node in nodes.items():
        parent = node.record.parent_id
        above = nodes.get((key[0], parent)) if parent is not None else None
        node.parent = above if above is not node else None
    calls = [n for n in nodes.values() if n.operation in MODEL_CALLS and n.facts and not n.facts.is_empty]
    for node in calls:
        duplicates.note_call(node.record, node.facts)  # type: ignore[arg-type]  # not None: it is a model call
    remaining = [node for node in nodes.values() if not _is_left_out(node, duplicates)]
    for node in remaining:  # hangs below the nearest span above it that is read
        node.parent = next((above for above in node.above() if not _is_left_out(above, duplicates)), None)
    for node in remaining:
        if node.parent is not None:
            node.parent.children.append(node)
    return remaining


def _is_left_out(node: Node, duplicates: Duplicates) -> bool:
    if node.operation == semconv.OP_EVALUATION or any(n.operation == semconv.OP_EVALUATION for n in node.above()):
        return True
    if not duplicates.reads(node.record.scope, node.record.service):
        return True
    if node.operation not in MODEL_CALLS or node.facts is None:
        return False
    return not any(n.operation in MODEL_CALLS for n in node.above()) and duplicates.is_second(node.record, node.facts)


# --- which span is the request -------------------------------------------------------------------

_Group = tuple[Node | None, list[Node], list[Node]]


def _groups(nodes: Sequence[Node]) -> list[_Group]:
    """The outermost workflows and agents, and the parts outside them, by the application's span above them."""
    groups: dict[object, _Group] = {}
    for node in sorted(nodes, key=_start):
        if node.operation is None or node.operation == dialects.STEP:
            continue
        if any(above.operation in CONTAINERS or above.operation in _PARTS for above in node.above()):
            continue
        anchor = _anchor(node)
        # Without any span above, parts belong together where their parent is the same one that nobody saw.
        key = id(anchor) if anchor is not None else (node.record.trace_id, node.record.parent_id or node.record.span_id)
        _, containers, parts = groups.setdefault(key, (anchor, [], []))
        (containers if node.operation in CONTAINERS else parts).append(node)
    return list(groups.values())


def _anchor(node: Node) -> Node | None:
    """The application's own span that stands for the request: the nearest server or consumer, else the outermost."""
    own = [above for above in node.above() if above.facts is None]
    return next((each for each in own if each.record.kind in _ENTRIES), own[-1] if own else None)


def _requests_below(anchor: Node | None, containers: Sequence[Node], parts: Sequence[Node]) -> list[RequestSpans]:
    requests = [RequestSpans(node) for node in containers if not _is_fragment(node)]
    if requests:
        for part in parts:
            later = (
                each for each in requests if each.root.record.ended >= part.record.ended or not each.root.record.ended
            )
            next(later, requests[-1]).beside.append(part)
        return requests
    calls = [node for node in parts if node.operation in MODEL_CALLS and node.facts and not node.facts.is_empty]
    if not calls:
        return []
    if anchor is not None:
        return [RequestSpans(anchor)]
    last = calls[-1]
    if last.facts and last.facts.asks_for_tools:
        return []  # the model is called again with their results
    return [RequestSpans(last, [part for part in parts if part is not last])]


def _is_fragment(node: Node) -> bool:
    """Whether a workflow is only a parser, a template or an indexing job that the application calls by itself."""
    operations = {each.operation for each in node.below()} - {dialects.STEP, dialects.TASK, None}
    if operations & {*MODEL_CALLS, *SEARCHES, semconv.OP_TOOL, semconv.OP_AGENT}:
        return False
    if semconv.OP_EMBEDDINGS in operations:
        return True
    return any(dialects.FRAGMENTS.search(name) for name in (node.record.name, node.facts.name if node.facts else ""))


# --- the trace -----------------------------------------------------------------------------------


def trace_from(request: RequestSpans, sanitizer: Sanitizer) -> Trace:
    """The trace of a request."""
    members = list(request.members())
    root, facts = request.root, request.root.facts or _of_application(request.root.record)
    state = Request(service=root.record.service, **origin([root.record, *(node.record for node in members)]))
    runs: dict[int, Run] = {}
    run = runs[id(root)] = _run(root, facts, state, None)
    for node in members:
        _add(node, state, runs, run)
    if root.operation in MODEL_CALLS:
        state.model_calls.append(run)
        if request.fragments and not state.retrieved:
            state.fragments = request.fragments
            run.messages = (ModelMessage("user", prompt_of(root.record.attributes)),)
    _take_over(run, root)
    if run.query is None:
        run.query = _question(state, members, facts)
    complete(run)
    timing.record(state, run, root.record.ended)
    return trace_of(run, facts.error, facts.cancelled, root.record.ended, sanitizer, from_spans=True)


def _take_over(run: Run, root: Node) -> None:
    """Gives a root without texts those of the only workflow directly below it: OpenLLMetry has two around a graph."""
    node = root
    while run.query is None and run.answer is None:
        inner = [child for child in node.children if child.operation in CONTAINERS]
        if len(inner) != 1 or inner[0].facts is None:
            return
        node = inner[0]
        run.query, run.answer = inner[0].facts.query, inner[0].facts.answer


def _of_application(record: SpanRecord) -> SpanFacts:
    """A span of the application's own says how long the request took and whether it failed, and no texts."""
    kind = record.attributes.get(semconv.ERROR_TYPE)
    error = None if record.status != "ERROR" else str(kind or "error").rpartition(".")[2]
    return SpanFacts(semconv.OP_WORKFLOW, record.name, error=error)


def _add(node: Node, state: Request, runs: dict[int, Run], root: Run) -> None:
    """Add a span of the request to its state, where it is a part of its own."""
    facts = node.facts
    outer_runs = [runs[id(n)] for n in node.above() if id(n) in runs]
    above = outer_runs[0] if outer_runs else root
    if facts is None or (facts.operation not in _PARTS and facts.operation != semconv.OP_AGENT):
        return
    if facts.operation in MODEL_CALLS:
        outer = next((run for run in outer_runs if run.operation in MODEL_CALLS), None)
        if outer is not None:
            _merge(outer, facts)
            return
        if facts.is_empty and not any(n.operation in MODEL_CALLS for n in node.below()):
            return
    if facts.operation in {*SEARCHES, semconv.OP_EMBEDDINGS} and _is_twin(node):
        if above.documents is None:
            above.documents = facts.documents
        return
    run = runs[id(node)] = _run(node, facts, state, above)
    if facts.operation in SEARCHES:
        state.retrieved.append(run)
    elif facts.operation in MODEL_CALLS:
        state.model_calls.append(run)
    elif facts.operation == semconv.OP_TOOL:
        if facts.documents:
            state.retrieved.append(run)
        if len(state.tool_calls) < MAX_STEPS:
            state.tool_calls.append(run)
    timing.record(state, run, node.record.ended or node.record.started)


def _is_twin(node: Node) -> bool:
    """Whether a component's public method called its own private one, and both have a span."""
    above = next((n for n in node.above() if n.facts is not None), None)
    if above is None or above.operation != node.operation:
        return False
    return above.record.name.partition(".")[0] == node.record.name.partition(".")[0]


def _merge(outer: Run, inner: SpanFacts) -> None:
    """Of a model call inside a model call: the same one, recorded by another layer. What the outer one lacks."""
    outer.attributes = {**inner.attributes, **outer.attributes}
    outer.answer = inner.answer if outer.answer is None else outer.answer
    outer.query = inner.query if outer.query is None else outer.query
    outer.finish_reason = outer.finish_reason or inner.finish_reason
    outer.first_chunk = outer.first_chunk or inner.first_chunk


def _question(state: Request, members: Sequence[Node], root: SpanFacts) -> str | None:
    """What was asked, where the root does not say: of the retriever, unless an agent asked it in its own words."""
    prompt = next((run.query for run in state.model_calls if run.query), None)
    search = next((run.query for run in state.retrieved if run.query), None)
    if state.tool_calls or root.operation == semconv.OP_AGENT:
        return prompt or search
    return search or prompt


def _run(node: Node, facts: SpanFacts, state: Request, parent: Run | None) -> Run:
    record = node.record
    flags = TraceFlags(TraceFlags.SAMPLED if record.sampled else TraceFlags.DEFAULT)
    trace_state = TraceState([(semconv.TRACE_STATE_MEMBER, record.trace_state)]) if record.trace_state else None
    span = NonRecordingSpan(SpanContext(record.trace_id, record.span_id, False, flags, trace_state))
    operation = semconv.OP_WORKFLOW if facts.operation == dialects.TASK else facts.operation
    return Run(
        key=(record.trace_id, record.span_id), request=state, parent=parent, span=span, operation=operation,
        name=facts.name, started=record.started, recording=False, title="", query=facts.query, answer=facts.answer,
        attributes=dict(facts.attributes), documents=facts.documents, first_chunk=facts.first_chunk,
        finish_reason=facts.finish_reason, failure=facts.error,
    )  # fmt: skip


_PREFIXES = (
    dialects.LANGFUSE_TRACE_METADATA, dialects.LANGFUSE_METADATA, dialects.TRACELOOP_PROPERTY,
    dialects.VERCEL_METADATA, dialects.MLFLOW_TAG,
)  # fmt: skip


def origin(records: Sequence[SpanRecord]) -> dict[str, Any]:
    """The fields `session`, `user`, `tags`, `metadata` and `reference` of a `Request`. The first span that says
    something is believed; the first of `records` is the root."""
    metadata: dict[str, object] = {}
    session = user = None
    tags: list[str] = []
    for record in records:
        attributes = record.attributes
        own = _metadata(attributes)
        if not metadata:
            metadata = {key: value for key, value in own.items() if not key.startswith(dialects.FRAMEWORK_METADATA)}
        session = session or _session(attributes) or _named(own, SESSION_KEYS)
        user = user or _named(attributes, dialects.USERS) or _named(own, ("user_id",))
        tags = tags or _tags(attributes)
        if session and user and tags and metadata:
            break
    reference = metadata.get("reference")
    return {
        "session": session, "user": user, "tags": tags, "metadata": metadata,
        "reference": reference if isinstance(reference, str) else None,
    }  # fmt: skip


def _session(attributes: Mapping[str, Any]) -> str | None:
    """The session that a span names. Spring AI has one id for all conversations whose application names none."""
    value = _named(attributes, dialects.SESSIONS)
    is_none = value == dialects.SPRING_NO_SESSION and dialects.SPRING_SESSION in attributes
    return None if is_none else value


def _named(values: Mapping[str, Any], names: Sequence[str]) -> str | None:
    value = first_value(values, names)
    return None if value is None else identity_of(value)


def _tags(attributes: Mapping[str, Any]) -> list[str]:
    tags: Any = attributes.get(semconv.OI_TAGS) or attributes.get(dialects.LANGFUSE_TAGS)
    if tags is None and dialects.TRACELOOP_INPUT in attributes:
        envelope = plain(attributes[dialects.TRACELOOP_INPUT])
        tags = envelope.get("tags") if isinstance(envelope, Mapping) else None
    items = plain(tags)
    if not isinstance(items, (list, tuple)):
        return []
    return [identity_of(tag) for tag in items if not str(tag).startswith(dialects.FRAMEWORK_TAGS)]


def _metadata(attributes: Mapping[str, Any]) -> dict[str, object]:
    """OpenInference's JSON; Langfuse's and OpenLLMetry's single attributes, whose values may be JSON."""
    value = plain(attributes.get(semconv.OI_METADATA))
    metadata: dict[str, object] = dict(value) if isinstance(value, Mapping) else {}
    for key in [key for key in attributes if key.startswith(_PREFIXES)]:
        item = attributes[key]
        text = item[1:-1] if isinstance(item, str) and len(item) > 1 and item[0] == item[-1] == '"' else item
        prefix = next(each for each in _PREFIXES if key.startswith(each))
        metadata.setdefault(key[len(prefix) :], plain(text))
    for name in ("tags", "finish_reason"):
        metadata.pop(name, None)
    return metadata

"""What is known of a request while it runs, and the Trace that comes of it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.trace import Span

from ragtrace import semconv
from ragtrace.records import DECLARED, Document, Facts, Trace
from ragtrace.text.outgoing import Outgoing
from ragtrace.tracing import timing
from ragtrace.tracing.content import Attributes, Message

MODEL_CALLS = frozenset({semconv.OP_CHAT, semconv.OP_TEXT})
MAX_STEPS = 200
_MAX_NAME = 1_000
"""Characters of a name: a model, an application, a prompt version."""
_MAX_STEP_CHARS = 500
"""Tool calls of a request that its trace tells, and characters of each one's arguments and result."""


@dataclass(slots=True)
class Run:
    """One operation in progress, a span of its own. Adapters fill it in; nobody else holds it."""

    key: Hashable
    request: Request
    parent: Run | None
    span: Span
    operation: str
    name: str
    started: int
    """Unix nanoseconds."""
    recording: bool
    query: str | None = None
    answer: str | None = None
    attributes: Attributes = field(default_factory=dict)
    """What the adapter knows besides; written when the span ends."""
    documents: Sequence[Document] | None = None
    given: Sequence[Document] | None = None
    """The documents that a reranker was given."""
    messages: Sequence[Message] = ()
    reply: Sequence[Message] = ()
    """The model's answer where it is more than text: tool calls."""
    instructions: str | None = None
    chunks: list[str] = field(default_factory=list)
    first_chunk: int = 0
    finish_reason: str | None = None
    owner: object = None
    """The handler that opened it: of two that see the same run, only this one adds to it."""
    failure: str | None = None
    """Why it failed, where it did: the error's type."""


@dataclass(slots=True, eq=False)
class Request:
    """What one root run gathers."""

    common: Attributes = field(default_factory=dict)
    session: str | None = None
    user: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    open: dict[Hashable, Run | None] = field(default_factory=dict)
    """Every key of the request that has not ended, plumbing included, in the order of their starts."""
    retrieved: list[Run] = field(default_factory=list)
    model_calls: list[Run] = field(default_factory=list)
    seen: Sequence[Document] | None = None
    """What the model saw, where the framework says so itself."""
    tool_calls: list[Run] = field(default_factory=list)
    took: list[timing.Took] = field(default_factory=list)
    """What the spans took that have ended."""
    finished: list[tuple[Run, int]] = field(default_factory=list)
    """The first of them, with their ends in Unix nanoseconds."""
    prompt_version: object = None
    """The application's word for the prompt that a model was asked with, where it stands on the model's call."""
    reference: str | None = None
    ended: bool = False


def trace_of(root: Run, error: BaseException | str | None, cancelled: bool, finished: int, outgoing: Outgoing) -> Trace:
    """The trace of a finished request. `finished` is in Unix nanoseconds. `outgoing` prepares the facts that become
    labels of metrics and columns: they leave the process even where content stays."""
    request = root.request
    last = request.model_calls[-1] if request.model_calls else None
    root.query = root.query or next((r.query for r in request.retrieved if r.query), None)
    if root.answer is None and last is not None:
        root.answer = last.answer or "".join(last.chunks)
    context = root.span.get_span_context()
    return Trace(
        # Without an SDK there are no ids; evaluation wants one that samples like any other.
        trace_id=context.trace_id or random.getrandbits(128),
        span_id=context.span_id or random.getrandbits(64),
        query=root.query or "",
        documents=seen_documents(request),
        answer=root.answer or "",
        reference=request.reference,
        started=root.started / 1e9,
        duration=(finished - root.started) / 1e9,
        error=None if error is None else error if isinstance(error, str) else type(error).__name__,
        attributes={key: value for key, value in request.metadata.items() if isinstance(key, str)},
        facts=_facts(root, last, cancelled, outgoing),
    )


def seen_documents(request: Request) -> tuple[Document, ...]:
    """What the model saw: the framework's word for it, or the last reranking, or the outermost retrievals together."""
    if request.seen is not None:
        return tuple(request.seen)
    outer = [run for run in request.retrieved if run.documents is not None and not _inside_retrieval(run)]
    reranked = [run for run in outer if run.operation == semconv.OP_RERANK]
    if reranked:
        return tuple(reranked[-1].documents or ())
    if len(outer) == 1:
        return tuple(outer[0].documents or ())
    found = {document.id: document for run in reversed(outer) for document in reversed(run.documents or ())}
    return tuple(reversed(found.values()))


def _inside_retrieval(run: Run) -> bool:
    above = run.parent
    while above is not None:
        if above.operation in (semconv.OP_RETRIEVAL, semconv.OP_RERANK):
            return True
        above = above.parent
    return False


def _facts(root: Run, last: Run | None, cancelled: bool, outgoing: Outgoing) -> Facts:
    request = root.request
    app, env, prompt_version = (_declared(request.metadata.get(name), outgoing) for name in DECLARED)
    usage = timing.usage_by_model(request.model_calls)
    return Facts(
        app=app,
        env=env,
        prompt_version=_declared(request.prompt_version, outgoing) or prompt_version,
        name=root.name,
        session_id=request.session,
        user_id=request.user,
        tags=tuple(request.tags),
        model=_word(last, semconv.REQUEST_MODEL, outgoing),
        provider=_word(last, semconv.PROVIDER, outgoing),
        response_id=_word(last, semconv.RESPONSE_ID, outgoing),
        finish_reason=last.finish_reason if last is not None else None,
        retrievals=len(request.retrieved),
        stages=timing.seconds_by_stage(request.took),
        time_to_first_chunk=timing.time_to_first_chunk(root, request.model_calls),
        input_tokens=sum(read for read, _ in usage.values()) if usage else None,
        output_tokens=sum(written for _, written in usage.values()) if usage else None,
        usage=usage if len(usage) > 1 else {},
        steps=tuple(_step(call) for call in request.tool_calls),
        cancelled=cancelled,
        unrecorded=not root.span.get_span_context().trace_flags.sampled,
    )


def _declared(value: object, outgoing: Outgoing) -> str | None:
    return outgoing.text(value, _MAX_NAME) if isinstance(value, (str, int, float)) and value != "" else None


def _word(call: Run | None, name: str, outgoing: Outgoing) -> str | None:
    value = call.attributes.get(name) if call is not None else None
    return outgoing.text(value, _MAX_NAME) if isinstance(value, str) else None


def _step(call: Run) -> dict[str, str]:
    """A tool call as `looping_tool_calls` reads it. One that failed, or has not ended, has no result of its own."""
    step = {"tool": call.name, "args": _brief(call.query or "")}
    if call.answer is not None:
        step["result"] = _brief(call.answer)
    elif call.failure is not None:
        step["result"] = f"error: {call.failure}"
    return step


def _brief(text: str) -> str:
    """A text of bounded length that still differs from others with the same beginning: two long pages, say."""
    if len(text) <= _MAX_STEP_CHARS:
        return text
    return f"{text[: _MAX_STEP_CHARS - 12]}... {zlib.crc32(text.encode('utf-8', 'replace')):08x}"

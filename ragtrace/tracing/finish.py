"""Turns a request that has ended into a `Trace`."""

from __future__ import annotations

import random
import zlib

from ragtrace import semconv
from ragtrace.records import DECLARED, Document, Facts, Trace
from ragtrace.text.sanitizer import Sanitizer
from ragtrace.tracing import timing
from ragtrace.tracing.request import Request, Run
from ragtrace.tracing.session_chunks import earlier_chunks

_MAX_NAME = 1_000
"""Characters of a name: a model, an application, a prompt version."""
_MAX_STEP_CHARS = 500
"""Characters of a tool call's arguments and of its result."""


def trace_of(
    root: Run, error: BaseException | str | None, cancelled: bool, finished: int, sanitizer: Sanitizer
) -> Trace:
    """The trace of a finished request. `finished` is in Unix nanoseconds. `sanitizer` prepares the facts that become
    labels of metrics and columns: they leave the process even where content stays."""
    request = root.request
    last = request.model_calls[-1] if request.model_calls else None
    root.query = root.query or next((r.query for r in request.retrieved if r.query), None)
    if root.answer is None and last is not None:
        root.answer = last.answer or "".join(last.chunks)
    documents = seen_documents(request)
    earlier = earlier_chunks(request, documents)
    context = root.span.get_span_context()
    return Trace(
        # Without an SDK there are no ids; evaluation wants one that samples like any other.
        trace_id=context.trace_id or random.getrandbits(128),
        span_id=context.span_id or random.getrandbits(64),
        query=root.query or "",
        documents=documents or earlier,
        answer=root.answer or "",
        reference=request.reference,
        started=root.started / 1e9,
        duration=(finished - root.started) / 1e9,
        error=None if error is None else error if isinstance(error, str) else type(error).__name__,
        attributes={key: value for key, value in request.metadata.items() if isinstance(key, str)},
        facts=_facts(root, last, cancelled, sanitizer, bool(earlier)),
    )


def seen_documents(request: Request) -> tuple[Document, ...]:
    """The documents that the model received: as the framework reports them, else the result of the last reranking, else
    the results of the outermost retrievals together, each document once."""
    if request.sources is not None:
        return tuple(request.sources)
    outer = [run for run in request.retrieved if run.documents is not None and not _inside_retrieval(run)]
    reranked = [run for run in outer if run.operation == semconv.OP_RERANK]
    if reranked:
        return tuple(reranked[-1].documents or ())
    if len(outer) == 1:
        return tuple(outer[0].documents or ())
    by_id = {document.id: document for run in reversed(outer) for document in reversed(run.documents or ())}
    return tuple(reversed(by_id.values()))


def _inside_retrieval(run: Run) -> bool:
    above = run.parent
    while above is not None:
        if above.operation in (semconv.OP_RETRIEVAL, semconv.OP_RERANK):
            return True
        above = above.parent
    return False


def _facts(root: Run, last: Run | None, cancelled: bool, sanitizer: Sanitizer, earlier_turns: bool) -> Facts:
    request = root.request
    app, env, prompt_version = (_declared(request.metadata.get(name), sanitizer) for name in DECLARED)
    usage = timing.usage_by_model(request.model_calls)
    return Facts(
        app=app,
        env=env,
        prompt_version=_declared(request.prompt_version, sanitizer) or prompt_version,
        name=root.name,
        session_id=request.session,
        user_id=request.user,
        tags=tuple(request.tags),
        model=_word(last, semconv.REQUEST_MODEL, sanitizer),
        provider=_word(last, semconv.PROVIDER, sanitizer),
        response_id=_word(last, semconv.RESPONSE_ID, sanitizer),
        finish_reason=last.finish_reason if last is not None else None,
        retrievals=len(request.retrieved),
        chunks_of_earlier_turns=earlier_turns,
        stages=timing.seconds_by_stage(request.stage_times),
        time_to_first_chunk=timing.time_to_first_chunk(root, request.model_calls),
        input_tokens=sum(read for read, _ in usage.values()) if usage else None,
        output_tokens=sum(written for _, written in usage.values()) if usage else None,
        usage=usage if len(usage) > 1 else {},
        steps=tuple(_step(call) for call in request.tool_calls),
        cancelled=cancelled,
        unrecorded=not root.span.get_span_context().trace_flags.sampled,
    )


def _declared(value: object, sanitizer: Sanitizer) -> str | None:
    return sanitizer.text(value, _MAX_NAME) if isinstance(value, (str, int, float)) and value != "" else None


def _word(call: Run | None, name: str, sanitizer: Sanitizer) -> str | None:
    value = call.attributes.get(name) if call is not None else None
    return sanitizer.text(value, _MAX_NAME) if isinstance(value, str) else None


def _step(call: Run) -> dict[str, str]:
    """A tool call as `looping_tool_calls` reads it. A call that has not ended has no result."""
    step = {"tool": call.name, "args": _brief(call.query or "")}
    if call.answer is not None:
        step["result"] = _brief(call.answer)
    elif call.failure is not None:
        step["result"] = f"error: {call.failure}"
    return step


def _brief(text: str) -> str:
    """The text, or its beginning with a checksum of the whole: two long texts with one beginning stay different."""
    if len(text) <= _MAX_STEP_CHARS:
        return text
    return f"{text[: _MAX_STEP_CHARS - 12]}... {zlib.crc32(text.encode('utf-8', 'replace')):08x}"

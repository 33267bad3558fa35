"""Turns a request that has ended into a `Trace`."""

import random
import zlib
from collections.abc import Sequence

from ragtrace import semconv
from ragtrace.capture import timing
from ragtrace.capture.fragments import shown_documents
from ragtrace.capture.model_messages import last_question
from ragtrace.capture.request import SEARCHES, Before, Request, Run
from ragtrace.capture.seen_context import earlier_chunks, in_prompt, latest, seen_besides, with_carried
from ragtrace.records import DECLARED, Document, Facts, Trace
from ragtrace.text.sanitizer import Sanitizer

_WHOLE = (semconv.OP_WORKFLOW, semconv.OP_AGENT)
_MAX_STEP_CHARS = 500
"""Characters of a tool call's arguments and of its result."""


def trace_of(
    root: Run, error: BaseException | str | None, cancelled: bool, finished: int, sanitizer: Sanitizer, *,
    from_spans: bool = False,
) -> Trace:  # fmt: skip
    """The trace of a request that is complete. `finished` is in Unix nanoseconds. `sanitizer` prepares the facts that
    become labels of metrics and columns: they leave the process even where content stays. A request that is read
    `from_spans` lists its spans, and is of the service that recorded them where it names no application."""
    request = root.request
    last = request.model_calls[-1] if request.model_calls else None
    chunks = tuple(request.sources or ())
    earlier = () if request.before.documents or request.before.retrievals else earlier_chunks(root, chunks)
    is_waiting = request.interrupt is not None
    context = root.span.get_span_context()
    return Trace(
        # Without an SDK there are no ids; evaluation wants one that samples like any other.
        trace_id=context.trace_id or random.getrandbits(128),
        span_id=context.span_id or random.getrandbits(64),
        query=root.query or "",
        documents=() if is_waiting else with_carried(root, chunks or earlier, seen_besides(root, chunks or earlier)),
        answer="" if is_waiting else root.answer or "",
        reference=request.reference,
        started=root.started / 1e9,
        duration=(finished - root.started) / 1e9,
        error=None if error is None else error if isinstance(error, str) else type(error).__name__,
        attributes={key: value for key, value in request.metadata.items() if isinstance(key, str)},
        facts=_facts(root, last, sanitizer, cancelled=cancelled, earlier_turns=bool(earlier), from_spans=from_spans),
    )


def complete(root: Run) -> None:
    """Adds to a root what only the runs below it know: question, answer, time of the first chunk, and documents."""
    request = root.request
    if root.query is None:
        root.query = last_question(root.messages)  # of a model that is called directly
    if root.query is None or root.answer is None:
        _take_over_parts(root)
    questions = (r.query or last_question(r.messages) for r in (*request.retrieved, *request.model_calls[:1]))
    root.query = root.query or next(filter(None, questions), None)
    if root.answer is None and request.model_calls:
        last = request.model_calls[-1]
        root.answer = last.answer or "".join(last.chunks) or None
    if not root.first_chunk:
        root.first_chunk = next((call.first_chunk for call in reversed(request.model_calls) if call.first_chunk), 0)
    if request.sources is None and request.fragments:
        request.sources = shown_documents(root)
    elif request.sources is None:
        request.sources = seen_documents(root)
        if not any(run.documents for run in (*request.retrieved, *request.tool_calls)):
            root.documents = request.sources or root.documents  # no other span holds them


def _take_over_parts(root: Run) -> None:
    """Gives a root that says less the question of the first chain, engine or agent right below it, and the answer of
    the last one: a framework's call inside a request by hand, or inside of several."""
    parts = [run for run, _ in root.request.finished if run.operation in _WHOLE and _is_part(run, root)]
    if root.query is None:
        root.query = next((run.query for run in parts if run.query), None)
    if root.answer is None:
        root.answer = next((run.answer for run in reversed(parts) if run.answer), None)


def _is_part(run: Run, root: Run) -> bool:
    above = run.parent
    while above is not None and above is not root and above.operation == semconv.OP_WORKFLOW and above.owner is None:
        above = above.parent
    return above is root


def seen_documents(root: Run) -> tuple[Document, ...]:
    """The documents that the model received, each once: the result of the last reranking, else the results of the
    outermost retrievals together; and what the steps and tools of the request made of them.

    A step that returns some of the documents before it has chosen from them, e.g. graded or reranked them. What was
    returned after the last model call started counts only where nothing else is known; what is in the state at the end,
    only where the prompt held it: a state keeps the documents of earlier turns."""
    request = root.request
    searches = [run for run in request.retrieved if run.documents is not None]
    outer = [run for run in searches if not any(above.operation in SEARCHES for above in run.above())]
    reranked = [run for run in outer if run.operation == semconv.OP_RERANK]
    groups: list[Sequence[Document]] = [run.documents or () for run in reranked[-1:] or outer]
    calls = len(request.model_calls)
    passed = [documents for started, documents in request.passed if started < calls or not calls]
    if not passed and not any(groups):
        at_end = [(documents, started > calls) for started, documents in request.passed]
        passed = [tuple(in_prompt(each, root)) if is_state else each for each, is_state in at_end]
        passed = list(filter(None, passed))
    before = [*groups, *passed]
    for documents in passed:
        groups = _after_step(groups, documents)
    ids = {each.id for group in groups for each in group}
    if dropped := [each for group in before for each in group if each.id not in ids]:
        groups.append(list(in_prompt(dropped, root, is_certain=True)))  # a second search looked like a choice
    if len(groups) == 1:
        return tuple(groups[0])
    return tuple({(each.id, each.content): each for group in groups for each in group}.values())


def before_question(root: Run) -> Before:
    """What a request has done when it stops to ask a person."""
    chunks, request = seen_documents(root), root.request
    context = latest(with_carried(root, chunks, seen_besides(root, chunks)))
    return Before(context, _retrievals(request), (*request.before.steps, *map(_step, request.tool_calls)))


def _retrievals(request: Request) -> int:
    return request.before.retrievals + len(request.retrieved) or int(bool(request.sources))


def _after_step(groups: list[Sequence[Document]], documents: Sequence[Document]) -> list[Sequence[Document]]:
    """Returns the groups of documents after a step that returned `documents`: they replace the groups that they were
    chosen from, and of several such ones that which has just these documents."""
    ids = {document.id for document in documents}
    ids_by_group = [{document.id for document in group} for group in groups]
    replaced = [ids == own if ids in ids_by_group else ids <= own for own in ids_by_group]
    if not any(replaced) and ids <= set().union(*ids_by_group):
        replaced = [bool(ids & own) for own in ids_by_group]
    return [*(group for group, old in zip(groups, replaced, strict=True) if not old), documents]


def _facts(
    root: Run, last: Run | None, sanitizer: Sanitizer, *, cancelled: bool, earlier_turns: bool, from_spans: bool
) -> Facts:
    request = root.request
    of_model = last.attributes if last is not None else {}
    app, env, prompt_version, tenant = (_declared(request.metadata.get(name), sanitizer) for name in DECLARED)
    usage = timing.usage_by_model(request.model_calls, sanitizer)
    context = root.span.get_span_context()
    return Facts(
        app=app or _declared(request.service[0], sanitizer), env=env or _declared(request.service[1], sanitizer),
        prompt_version=_declared(request.prompt_version, sanitizer) or prompt_version, tenant=tenant, name=root.name,
        session_id=request.session, user_id=request.user, tags=tuple(request.tags),
        model=_declared(of_model.get(semconv.REQUEST_MODEL), sanitizer),
        provider=_declared(of_model.get(semconv.PROVIDER), sanitizer),
        response_id=_declared(of_model.get(semconv.RESPONSE_ID), sanitizer),
        finish_reason=last.finish_reason if last is not None else None,
        retrievals=_retrievals(request),
        chunks_of_earlier_turns=earlier_turns, stages=timing.seconds_by_stage(request.stage_times),
        time_to_first_chunk=max(0, root.first_chunk - root.started) / 1e9 if root.first_chunk else None,
        input_tokens=sum(each.input for each in usage.values()) if usage else None,
        output_tokens=sum(each.output for each in usage.values()) if usage else None, usage=usage,
        steps=(*request.before.steps, *map(_step, request.tool_calls)), cancelled=cancelled,
        waiting=request.interrupt is not None, unrecorded=not context.trace_flags.sampled,
        trace_state=context.trace_state.get(semconv.TRACE_STATE_MEMBER, "") if context.trace_state else "",
        spans=timing.spans(root, request.finished) if from_spans else (), from_spans=from_spans,
    )  # fmt: skip


def _declared(value: object, sanitizer: Sanitizer) -> str | None:
    return sanitizer.text(value, timing.MAX_NAME) if isinstance(value, (str, int, float)) and value != "" else None


def _step(call: Run) -> dict[str, str]:
    """A tool call as `looping_tool_calls` reads it. A call that has not ended has no result."""
    step = {"tool": call.name, "args": _brief(call.query or "")}
    if call.answer is not None:
        step["result"] = _brief(call.answer)
    elif call.failure is not None:
        step["result"] = f"error: {call.failure}"
    return step


def _brief(text: str) -> str:
    """The text, or its beginning with a checksum of the whole: two long texts with one beginning stay different. It
    ends before a word or a number, because half of a secret is not recognized when it is masked later."""
    if len(text) <= _MAX_STEP_CHARS:
        return text
    head = text[: _MAX_STEP_CHARS - 12]
    head = head[: max(head.rfind(" "), len(head) - 200)]
    while " " in head and not head.rpartition(" ")[2].strip("0123456789()+./-"):
        head = head.rpartition(" ")[0]
    return f"{head}... {zlib.crc32(text.encode('utf-8', 'replace')):08x}"

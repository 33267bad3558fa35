"""What counts as a request, and what is a fragment of one.

A request is what somebody asked of the application: a workflow, an agent, a chain, a query engine or a function of the
application, with everything below it; or a model that is called directly and answers. A prompt template, a parser, a
retriever, a reranker, an embedding, a tool or the preparation of documents that is called outside of these is a
fragment: it has a span, but it is neither counted nor evaluated. So is a model call that only asks for tools, or a
chain that ends with one, because the model is called again with their results.

The chunks of fragments are not lost: a model that is called directly after them, in the same thread or task, was shown
those chunks whose text is in its messages."""

from collections.abc import Sequence
from contextvars import ContextVar

from ragtrace import semconv
from ragtrace.capture.request import MODEL_CALLS, NO_CONTEXT, SEARCHES, Run
from ragtrace.records import Document

FRAGMENTS = frozenset({
    semconv.OP_PROMPT, semconv.OP_PARSER, semconv.OP_RETRIEVAL, semconv.OP_RERANK, semconv.OP_EMBEDDINGS,
    semconv.OP_TOOL, semconv.OP_INGESTION,
})  # fmt: skip
"""Operations that are no request when nothing is above them."""
_HOLD_DOCUMENTS = SEARCHES | {semconv.OP_TOOL}
_MAX_FRAGMENTS = 8
"""Fragments that a thread or task remembers, the latest."""
_PROBE = 200
"""Characters of a chunk's longest line that are looked for in the messages."""

_latest: ContextVar[tuple[Run, ...]] = ContextVar("ragtrace_fragments", default=())


def is_request(root: Run) -> bool:
    """Returns True for a finished root that counts as a request; see above."""
    if root.request.preparation or root.operation in FRAGMENTS:
        return False
    return bool(root.answer or root.chunks or root.failure) or not any(message.calls for message in root.reply)


def note(root: Run) -> None:
    """Notes a root that has just started: a fragment for later models, and for a model the fragments before it."""
    if root.operation in MODEL_CALLS:
        root.request.fragments = _latest.get()
    elif root.operation in _HOLD_DOCUMENTS:
        _latest.set((*_latest.get(), root)[-_MAX_FRAGMENTS:])


def release(root: Run) -> None:
    """Lets go of what a request that has ended holds. Its runs and its lists refer to each other, and so do its spans
    and the contexts that were made for them: without this, all its texts would wait for the garbage collector, which
    would come more often. What a fragment retrieved stays (see `note`)."""
    request = root.request
    for run in (root, *(run for run, _ in request.finished)):
        if run.place is not None:
            run.place.latest = NO_CONTEXT
    request.finished.clear()
    if root.operation not in _HOLD_DOCUMENTS:
        for runs in (request.retrieved, request.model_calls, request.tool_calls):
            runs.clear()


def shown_documents(root: Run) -> tuple[Document, ...]:
    """The fragments' documents whose text is in the messages of a model that was called directly, each text once: it is
    that of the latest retrieval that found it. Where the question of a retrieval is there as well, it is the request's
    question, for the message is the whole prompt; again the latest counts, an earlier one may be a part of it."""
    messages = "\n".join(message.text for message in root.messages)
    prompt, question = root.query or "", None
    texts: set[str] = set()
    groups: list[list[Document]] = []
    for fragment in reversed(root.request.fragments):
        group = []
        for document in _documents_of(fragment):
            if document.content not in texts and _probe(document) in messages:
                texts.add(document.content)
                group.append(document)
        groups.append(group)
        if group and question is None and fragment.query and fragment.query in prompt:
            root.query = question = fragment.query
    return tuple(document for group in reversed(groups) for document in group)


def _documents_of(fragment: Run) -> Sequence[Document]:
    if fragment.documents is not None:
        return fragment.documents
    return [document for run in fragment.request.retrieved for document in run.documents or ()]


def _probe(document: Document) -> str:
    """A part of a chunk's text that a prompt leaves as it is, also where it indents or cuts the chunk."""
    lines = document.content[: 20 * _PROBE].splitlines() or ("",)
    return max(lines, key=len)[:_PROBE].strip() or "\0"  # an empty chunk is in no message

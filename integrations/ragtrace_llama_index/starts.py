"""Names the LlamaIndex spans that become spans of ours, and starts each kind. All other spans are internal."""

import sys
from collections.abc import Callable
from inspect import BoundArguments
from types import FrameType
from typing import Any, NamedTuple, Protocol

from ragtrace import semconv
from ragtrace.capture.model_messages import last_question
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.request import MODEL_CALLS, Run
from ragtrace_llama_index import conversion, models, streams, workflow_steps
from ragtrace_llama_index.blocks import messages_of

_BUILDERS = frozenset({"build_index_from_nodes", "insert_nodes", "ainsert_nodes"})
_RUN_ARGUMENTS = frozenset({"kwargs", "ctx", "stepwise", "checkpoint_callback", "memory"})
"""Arguments of `Workflow.run` in llama-index-workflows 1 that are no inputs."""
_INDICES = "llama_index.core.indices."
_OBJECT_STREAMS = frozenset({"stream_call", "astream_call"})
_PROGRAM_MODULE = "llama_index.core.program."


class ComponentCall(NamedTuple):
    """One call of a LlamaIndex component, as the dispatcher reports it."""

    id_: str
    """`<class>.<method>-<uuid>`."""
    method: str
    bound: BoundArguments
    instance: Any
    parent: str | None
    tags: Any


class SpanOpener(Protocol):
    """The part of the tracer that the functions below need."""

    recorder: Recorder
    nested: set[str]
    """Open engines and synthesizers below another root, by span id."""
    open_streams: streams.OpenStreams

    def start(self, call: ComponentCall, operation: str, name: str, target: str | None = None) -> Run | None:
        """Opens a span; returns None when the call is not recorded."""


def _root(tracer: SpanOpener, call: ComponentCall) -> None:
    """Starts a query engine, chat engine, synthesizer or workflow: the request, or a part of a larger request."""
    if tracer.recorder.follow(call.id_, call.parent):
        above = tracer.recorder.near(call.parent)
        # A query engine reports its documents itself, when it ends.
        if call.method != "run" and above is not None and "query-" not in str(above.key):
            tracer.nested.add(call.id_)
        return
    name = type(call.instance).__name__
    run = tracer.start(call, semconv.OP_WORKFLOW, name)
    if run is not None:
        run.attributes[semconv.WORKFLOW_NAME] = name
        run.request.preparation = run.parent is None and call.method.endswith("synthesize") and _builds_index()
        _ask(run, call)


def _builds_index() -> bool:
    """Returns True while LlamaIndex builds an index, for which it has no span: summaries, trees and graphs ask a model
    about each node."""
    return _is_called_by(_BUILDERS, _INDICES)


def _is_called_by(functions: frozenset[str], package: str) -> bool:
    """Returns True inside of one of these functions of a package, which ends with a dot."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in functions and str(frame.f_globals.get("__name__")).startswith(package):
            return True
        frame = frame.f_back
    return False


def _program(tracer: SpanOpener, call: ComponentCall) -> None:
    """Starts a call that asks a model and uses the tool that it names: the request if nothing is above it. Inside of
    another request it is internal, and inside of a structured model it is that model's call."""
    if tracer.recorder.follow(call.id_, call.parent):
        return
    around = tracer.open_streams.around()
    if around is not None:
        tracer.recorder.follow(call.id_, around.key)
        return
    run = tracer.start(call, semconv.OP_WORKFLOW, call.method)
    if run is not None:
        run.attributes[semconv.WORKFLOW_NAME] = call.method
        run.query = conversion.query_of(conversion.argument(call.bound, "user_msg"))
        run.request.preparation = run.parent is None and _builds_index()


def is_custom(id_: str, instance: Any) -> bool:
    """Returns True for a function or method of the application under LlamaIndex's decorator `dispatcher.span`."""
    if instance is None:
        return not id_.startswith("run_jobs")  # LlamaIndex's own workers, which ingest and evaluate
    return conversion.is_application(type(instance))  # type: ignore[arg-type]


def start_custom(tracer: SpanOpener, call: ComponentCall) -> None:
    """Starts a function of the application as the request; everything it calls becomes a child."""
    name = call.id_[:-37]
    run = tracer.start(call, semconv.OP_WORKFLOW, name)
    if run is not None:
        run.attributes[semconv.WORKFLOW_NAME] = name
        first = conversion.query_of(conversion.first_argument(call.bound))
        run.query = first or conversion.request_text(dict(call.bound.arguments))


def _agent(tracer: SpanOpener, call: ComponentCall) -> None:
    name = getattr(call.instance, "name", None)
    if not isinstance(name, str) or name in ("", "Agent"):
        name = type(call.instance).__name__
    run = tracer.start(call, semconv.OP_AGENT, name)
    if run is not None:
        run.attributes[semconv.AGENT_NAME] = name
        prompt = getattr(call.instance, "system_prompt", None)
        run.instructions = prompt if isinstance(prompt, str) else None
        run.tools = models.tools_of(getattr(call.instance, "tools", None), schemas=False)
        _ask(run, call)


def _ask(run: Run, call: ComponentCall) -> None:
    if call.method != "run":
        run.query = conversion.query_of(conversion.first_argument(call.bound))
    else:
        run.state = workflow_steps.WorkflowState()
        event = conversion.argument(call.bound, "start_event")
        if event is None and "start_event" not in call.bound.arguments:  # llama-index-workflows 1
            options = {name: value for name, value in call.bound.arguments.items() if name not in _RUN_ARGUMENTS}
            event = {**options, **call.bound.arguments.get("kwargs", {})}
        run.query = conversion.request_text(event)
    if call.method in ("stream_chat", "astream_chat"):
        run.owner = streams.Halves()


def _repeats(tracer: SpanOpener, call: ComponentCall, operation: str) -> bool:
    """Returns True when the parent is the same operation of the same component.

    That is an override that calls its base class, or an async method that calls its sync one."""
    above = tracer.recorder.near(call.parent)
    if above is None or above.operation != operation or above.owner is not call.instance:
        return False
    tracer.recorder.follow(call.id_, above.key)
    return True


def _retrieval(tracer: SpanOpener, call: ComponentCall) -> None:
    if _repeats(tracer, call, semconv.OP_RETRIEVAL):
        return
    name = type(call.instance).__name__
    run = tracer.start(call, semconv.OP_RETRIEVAL, name)
    if run is None:
        return
    run.query = conversion.query_of(conversion.first_argument(call.bound))
    run.attributes[semconv.DATA_SOURCE_ID] = name
    top_k = conversion.number_of(call.instance, "_similarity_top_k", "similarity_top_k")
    if top_k is not None:
        run.attributes[semconv.RETRIEVAL_TOP_K] = top_k
    store = getattr(call.instance, "_vector_store", None)
    if store is not None:
        run.attributes[semconv.PROVIDER] = type(store).__name__


def _rerank(tracer: SpanOpener, call: ComponentCall) -> None:
    if _repeats(tracer, call, semconv.OP_RERANK):
        return
    run = tracer.start(call, semconv.OP_RERANK, type(call.instance).__name__)
    if run is None:
        return
    # Read before the call: rerankers write the new scores into the nodes that they receive.
    run.candidates = conversion.documents_of(conversion.first_argument(call.bound))
    run.query = conversion.query_of(conversion.argument(call.bound, "query_bundle"))
    model = models.name_of(call.instance)
    top = conversion.number_of(call.instance, "top_n")
    if model:
        run.attributes[semconv.REQUEST_MODEL] = model
    if top is not None:
        run.extra[semconv.OI_RERANK_TOP_K] = top


def _model(tracer: SpanOpener, call: ComponentCall) -> None:
    # `chat` calls `complete`, an override its base class, a structured model the one that it wraps: they are one call.
    above = tracer.recorder.near(call.parent)
    outer = above if above is not None and above.operation in MODEL_CALLS else tracer.open_streams.around()
    if outer is not None:
        outer.state.inner = call.id_
        tracer.recorder.follow(call.id_, outer.key)
        return
    model, name = models.name_of(call.instance), type(call.instance).__name__
    operation = semconv.OP_CHAT if "chat" in call.method else semconv.OP_TEXT
    run = tracer.start(call, operation, name, target=model)
    if run is None:
        return
    run.state = streams.ModelCall()
    capture, options = tracer.recorder.capture, call.bound.arguments.get("kwargs")
    models.describe(run, call.instance, model, options)
    run.prompt = run.request.prompts.pop(call.parent, None)
    if capture.spans or capture.events:
        run.tools = models.tools_of(conversion.argument(call.bound, "tools"))
    run.messages = messages_of(conversion.first_argument(call.bound))
    if run.parent is not None and run.parent.name in _PROGRAMS and run.parent.query is None:
        run.parent.query = last_question(run.messages)
    if run.parent is None:
        run.request.preparation = _builds_index()
        # LlamaIndex fills in an object from the stream of this call.
        run.state.is_object = "stream" in call.method and _is_called_by(_OBJECT_STREAMS, _PROGRAM_MODULE)


def _embedding(tracer: SpanOpener, call: ComponentCall) -> None:
    if _repeats(tracer, call, semconv.OP_EMBEDDINGS):
        return
    model, name = models.name_of(call.instance), type(call.instance).__name__
    run = tracer.start(call, semconv.OP_EMBEDDINGS, name, target=model)
    if run is not None:
        models.describe(run, call.instance, model, None)
        texts = conversion.first_argument(call.bound)
        run.embedded = (texts,) if isinstance(texts, str) else tuple(t for t in texts or () if isinstance(t, str))


def _tool(tracer: SpanOpener, call: ComponentCall) -> None:
    metadata = getattr(call.instance, "metadata", None)
    name = str(getattr(metadata, "name", None) or type(call.instance).__name__)
    if getattr(getattr(call.instance, "_fn", None), "__module__", "") == f"{_PROGRAM_MODULE}function_program":
        tracer.recorder.follow(call.id_, call.parent)  # it makes an object of the model's own answer: no evidence
        return
    above = tracer.recorder.near(call.parent)
    if above is not None and above.operation == semconv.OP_TOOL and above.name == name:
        tracer.recorder.follow(call.id_, above.key)  # `__call__` and `call` of one tool, or a wrapper around it
        return
    run = tracer.start(call, semconv.OP_TOOL, name)
    if run is None:
        return
    run.query = conversion.tool_input(call.bound)
    run.attributes[semconv.TOOL_NAME] = name
    run.attributes[semconv.TOOL_TYPE] = "function"
    if tracer.recorder.capture.spans:
        run.tools = models.tools_of([call.instance])


def _ingestion(tracer: SpanOpener, call: ComponentCall) -> None:
    """Starts what prepares documents for an index: the models that it asks answer nobody's question."""
    if not tracer.recorder.follow(call.id_, call.parent):
        tracer.start(call, semconv.OP_INGESTION, type(call.instance).__name__)


Start = Callable[[SpanOpener, ComponentCall], None]
_CHATS = ("chat", "achat", "stream_chat", "astream_chat")
_COMPLETIONS = ("complete", "acomplete", "stream_complete", "astream_complete")
_EMBEDDED = ("query_embedding", "text_embedding", "text_embedding_batch")
_PROGRAMS = ("structured_predict", "astructured_predict", "predict_and_call", "apredict_and_call")
# Not `_retrieve`: only `retrieve` returns the documents that recursive retrieval adds.
_COMPONENTS: tuple[tuple[str, tuple[str, ...], Start], ...] = (
    ("engine", ("query", "aquery"), _root), ("chat_engine", _CHATS, _root),
    ("synthesizer", ("synthesize", "asynthesize"), _root), ("workflow", ("run",), _root),
    ("agent", ("run", *_CHATS), _agent), ("retriever", ("retrieve", "aretrieve"), _retrieval),
    ("reranker", ("_postprocess_nodes", "_apostprocess_nodes"), _rerank), ("model", (*_CHATS, *_COMPLETIONS), _model),
    ("model", _PROGRAMS, _program),
    ("embedding", tuple(f"{a}get_{what}" for a in ("", "a") for what in _EMBEDDED), _embedding),
    ("tool", ("call", "acall", "__call__"), _tool), ("ingestion", ("run", "arun", "__call__", "acall"), _ingestion),
)  # fmt: skip
STARTS: dict[tuple[str, str], Start] = {(role, m): start for role, methods, start in _COMPONENTS for m in methods}
"""Start functions by the component's role (see `conversion.role_of`) and its method."""
METHODS = frozenset(method for _, method in STARTS)

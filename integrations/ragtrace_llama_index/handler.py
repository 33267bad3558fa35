"""LlamaIndex's dispatcher → Recorder."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr

from ragtrace import semconv
from ragtrace.adapting import is_cancellation
from ragtrace.capture import Capture
from ragtrace.recorder import Recorder, Run, shared_recorder
from ragtrace_llama_index import conversion
from ragtrace_llama_index.streams import AsyncStream, SyncStream

_UUID = 37  # "-" and a UUID end every span id
_MODEL_CALLS = {
    "chat": semconv.OP_CHAT,
    "achat": semconv.OP_CHAT,
    "stream_chat": semconv.OP_CHAT,
    "astream_chat": semconv.OP_CHAT,
    "complete": semconv.OP_TEXT,
    "acomplete": semconv.OP_TEXT,
    "stream_complete": semconv.OP_TEXT,
    "astream_complete": semconv.OP_TEXT,
}
_ROOTS = frozenset(
    {"query", "aquery", "chat", "achat", "stream_chat", "astream_chat", "run", "synthesize", "asynthesize"}
)
_RETRIEVALS = frozenset({"retrieve", "aretrieve"})
_RERANKS = frozenset({"postprocess_nodes", "apostprocess_nodes"})
_EMBEDDINGS = frozenset(
    {
        "get_query_embedding",
        "aget_query_embedding",
        "get_text_embedding",
        "aget_text_embedding",
        "get_text_embedding_batch",
        "aget_text_embedding_batch",
    }
)
_TOOLS = frozenset({"call", "acall"})
_NO_ERROR = frozenset({"WorkflowDone", "WorkflowCancelledByUser"})
_Method = Callable[..., Any]


def _quiet(method: _Method) -> _Method:
    """The framework swallows what a handler raises without a word; ours is counted."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed(method.__name__)
            return None

    return guarded


class RagtraceSpanHandler(BaseSpanHandler[Any]):
    """Records the calls on its list as spans; everything between them is plumbing."""

    _recorder: Recorder = PrivateAttr()
    _streams: dict[str, str | None] = PrivateAttr(default_factory=dict)
    _guard: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @classmethod
    def class_name(cls) -> str:
        """The framework's name for the class."""
        return "RagtraceSpanHandler"

    # --- enter -----------------------------------------------------------------------------------

    @_quiet
    def span_enter(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A call starts: a span, or plumbing."""
        recorder = self._recorder
        method = id_[id_.rfind(".", 0, -_UUID) + 1 : -_UUID]
        inside = parent_id is not None and recorder.knows(parent_id)
        model_call = method in _MODEL_CALLS and hasattr(instance, "complete")
        if model_call:
            self._enter_model(id_, bound_args, instance, parent_id, tags, method)
        elif method in _RETRIEVALS and hasattr(instance, "_retrieve"):
            self._enter_retrieval(id_, bound_args, instance, parent_id, tags)
        elif method in _RERANKS and _reranks(instance):
            self._enter_rerank(id_, bound_args, instance, parent_id, tags)
        elif method in _EMBEDDINGS:
            self._enter_embedding(id_, instance, parent_id, tags)
        elif method in _TOOLS and hasattr(getattr(instance, "metadata", None), "name"):
            self._enter_tool(id_, bound_args, instance, parent_id, tags)
        elif inside and parent_id is not None:
            recorder.follow(id_, parent_id)
        elif method in _ROOTS and not hasattr(instance, "transformations"):  # an ingestion pipeline runs, too
            self._enter_root(id_, bound_args, instance, parent_id, tags, method)

    def _enter_root(  # noqa: PLR0917 the dispatcher's own arguments
        self, id_: str, bound_args: Any, instance: Any, parent_id: str | None, tags: Any, method: str
    ) -> None:
        name = type(instance).__name__ if instance is not None else id_[:-_UUID]
        agent = method == "run" and "Agent" in name
        given = getattr(instance, "name", None) if agent else None
        name = given if isinstance(given, str) and given and given != "Agent" else name
        operation = semconv.OP_AGENT if agent else semconv.OP_WORKFLOW
        run = self._recorder.start(id_, parent_id, operation, name, **conversion.origin(tags), owner=self)
        if run is not None:
            run.attributes[semconv.AGENT_NAME if agent else semconv.WORKFLOW_NAME] = name
            run.query = conversion.query_of(conversion.arguments_of(bound_args))

    def _enter_model(  # noqa: PLR0917 as above
        self, id_: str, bound_args: Any, instance: Any, parent_id: str | None, tags: Any, method: str
    ) -> None:
        recorder = self._recorder
        above = recorder.near(parent_id) if parent_id is not None else None
        if above is not None and above.operation in _MODEL_CALLS.values():
            recorder.follow(id_, above.key)  # chat in terms of complete: one call of one model
            return
        waiting = self._behind(above, method, instance)
        if waiting is not None:
            recorder.follow(id_, waiting.key)
            return
        known = conversion.model_attributes(instance, recorder.capture.openinference)
        run = recorder.start(
            id_,
            parent_id,
            _MODEL_CALLS[method],
            type(instance).__name__,
            target=known.get(semconv.REQUEST_MODEL),
            **conversion.origin(tags),
            owner=(method, id(instance)),
        )
        if run is not None:
            run.attributes = known
            run.messages = conversion.messages_of(conversion.arguments_of(bound_args))

    def _behind(self, above: Run | None, method: str, instance: Any) -> Run | None:
        """The asynchronous stream of the same model that this synchronous call is the inside of: it starts when the
        outer call has returned, so nothing else connects them."""
        calls = above.request.model_calls if above is not None else []
        if calls and calls[-1].owner == (f"a{method}", id(instance)) and not calls[-1].chunks:
            return calls[-1] if self._recorder.get(calls[-1].key) is calls[-1] else None
        return None

    def _enter_retrieval(self, id_: str, bound_args: Any, instance: Any, parent_id: str | None, tags: Any) -> None:
        name = type(instance).__name__
        run = self._recorder.start(id_, parent_id, semconv.OP_RETRIEVAL, name, **conversion.origin(tags), owner=self)
        if run is None:
            return
        run.query = conversion.query_of(conversion.arguments_of(bound_args))
        run.attributes[semconv.DATA_SOURCE_ID] = name
        top_k = getattr(instance, "similarity_top_k", None)
        if isinstance(top_k, int):
            run.attributes[semconv.RETRIEVAL_TOP_K] = top_k
        store = getattr(instance, "_vector_store", None)
        if store is not None:
            run.attributes[semconv.PROVIDER] = type(store).__name__

    def _enter_rerank(self, id_: str, bound_args: Any, instance: Any, parent_id: str | None, tags: Any) -> None:
        run = self._recorder.start(
            id_, parent_id, semconv.OP_RERANK, type(instance).__name__, **conversion.origin(tags), owner=self
        )
        if run is None:
            return
        arguments = conversion.arguments_of(bound_args)
        run.query = conversion.query_of(arguments)
        run.given = conversion.documents_of(arguments.get("nodes"))
        model, top_n = getattr(instance, "model", None), getattr(instance, "top_n", None)
        if isinstance(model, str):
            run.attributes[semconv.REQUEST_MODEL] = model
        if self._recorder.capture.openinference:
            if isinstance(model, str):
                run.attributes[semconv.OI_RERANK_MODEL] = model
            if isinstance(top_n, int):
                run.attributes[semconv.OI_RERANK_TOP_K] = top_n

    def _enter_embedding(self, id_: str, instance: Any, parent_id: str | None, tags: Any) -> None:
        above = self._recorder.near(parent_id) if parent_id is not None else None
        if above is not None and above.operation == semconv.OP_EMBEDDINGS:
            self._recorder.follow(id_, above.key)
            return
        model = getattr(instance, "model_name", None)
        known = isinstance(model, str) and model and model != "unknown"
        name = str(model) if known else type(instance).__name__
        run = self._recorder.start(id_, parent_id, semconv.OP_EMBEDDINGS, name, **conversion.origin(tags), owner=self)
        if run is not None and known:
            run.attributes[semconv.REQUEST_MODEL] = name
            if self._recorder.capture.openinference:
                run.attributes[semconv.OI_EMBEDDING_MODEL] = name

    def _enter_tool(self, id_: str, bound_args: Any, instance: Any, parent_id: str | None, tags: Any) -> None:
        recorder = self._recorder
        above = recorder.near(parent_id) if parent_id is not None else None
        name = str(instance.metadata.name or type(instance).__name__)
        if above is not None and above.operation == semconv.OP_TOOL and above.name == name:
            recorder.follow(id_, above.key)
            return
        run = recorder.start(id_, parent_id, semconv.OP_TOOL, name, **conversion.origin(tags), owner=self)
        if run is None:
            return
        arguments = conversion.arguments_of(bound_args)
        given = {k: v for k, v in arguments.items() if k not in ("args", "kwargs")} or arguments.get("args")
        run.query = conversion.text_of(given) if given else None
        run.attributes[semconv.TOOL_NAME] = name
        if recorder.capture.openinference:
            run.attributes[semconv.OI_TOOL_NAME] = name
        if recorder.capture.spans and run.query:
            run.attributes[semconv.TOOL_ARGUMENTS] = recorder.capture.text(run.query)

    # --- exit ------------------------------------------------------------------------------------

    @_quiet
    def span_exit(self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **kwargs: Any) -> None:
        """A call returned; a stream, if that is what it returned, goes on."""
        run = self._recorder.get(id_)
        if run is None:
            self._recorder.end(id_)
        elif run.operation in (semconv.OP_WORKFLOW, semconv.OP_AGENT):
            self._exit_root(run, result)
        elif run.operation in _MODEL_CALLS.values():
            if not _is_stream(result):
                conversion.read_reply(run, result, self._recorder.capture.openinference)
                self._recorder.end(id_)
        else:
            self._exit_other(run, result)
            self._recorder.end(id_)

    def _exit_other(self, run: Run, result: Any) -> None:
        if run.operation in (semconv.OP_RETRIEVAL, semconv.OP_RERANK):
            run.documents = conversion.documents_of(result)
        elif run.operation == semconv.OP_EMBEDDINGS:
            first = result[0] if isinstance(result, list) and result else None
            vector = first if isinstance(first, list) else result
            if isinstance(vector, list) and vector:
                run.attributes[semconv.EMBEDDING_DIMENSIONS] = len(vector)
        elif run.operation == semconv.OP_TOOL:
            run.answer = conversion.text_of(getattr(result, "content", result))
            if self._recorder.capture.spans:
                run.attributes[semconv.TOOL_RESULT] = self._recorder.capture.text(run.answer)

    def _exit_root(self, run: Run, result: Any) -> None:
        key = str(run.key)
        sources = conversion.sources_of(result)
        if sources or (sources is not None and hasattr(result, "metadata")):
            run.request.seen = sources
        stream = getattr(result, "response_gen", None) if hasattr(result, "response_txt") else None
        if stream is not None:
            proxy = AsyncStream if hasattr(stream, "__anext__") else SyncStream
            result.response_gen = proxy(stream, key, functools.partial(self._end_stream, key))
        elif hasattr(result, "write_response_to_history"):  # a chat engine's stream, written by another thread
            with self._guard:
                done = key in self._streams
                text = self._streams.pop(key, None)
                if not done:
                    self._streams[key] = None
            if done:
                self._end_stream(key, text or "", None, False)
        else:
            run.answer = conversion.answer_of(result)
            self._recorder.end(key)

    def _end_stream(self, key: str, text: str, error: BaseException | None, cancelled: bool) -> None:
        run = self._recorder.get(key)
        if run is not None:
            run.answer = text
        self._recorder.end(key, error=error, cancelled=cancelled)

    @_quiet
    def span_drop(
        self, id_: str, bound_args: Any, instance: Any = None, err: BaseException | None = None, **kwargs: Any
    ) -> None:
        """A call raised."""
        if is_cancellation(err):
            self._recorder.end(id_, cancelled=True)
        elif err is not None and type(err).__name__ in _NO_ERROR:
            self._recorder.end(id_)
        else:
            self._recorder.end(id_, error=err or "unknown")

    # --- a chat engine's stream ------------------------------------------------------------------

    def chat_delta(self, span_id: str, delta: str) -> None:
        """A piece of a chat engine's streamed answer passed."""
        run = self._recorder.near(span_id)
        if run is not None:
            self._recorder.chunk(run, delta)

    def chat_ended(self, span_id: str, error: BaseException | None) -> None:
        """The thread that writes a chat engine's answer is done; the engine's own call may not have returned yet."""
        run = self._recorder.near(span_id)
        if run is None:
            return
        key, text = str(run.key), "".join(run.chunks)
        with self._guard:
            returned = key in self._streams
            if returned:
                del self._streams[key]
            elif error is None:
                self._streams[key] = text
        if returned or error is not None:
            self._end_stream(key, text, error, False)

    # --- what the base class asks for ------------------------------------------------------------

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Not used: `span_enter` does it all."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Not used: `span_exit` does it all."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Not used: `span_drop` does it all."""


class RagtraceEventHandler(BaseEventHandler):
    """Follows streams: everything else is read from the calls themselves."""

    _recorder: Recorder = PrivateAttr()
    _spans: RagtraceSpanHandler = PrivateAttr()

    @classmethod
    def class_name(cls) -> str:
        """The framework's name for the class."""
        return "RagtraceEventHandler"

    @_quiet
    def handle(self, event: Any, **kwargs: Any) -> None:
        """An event of the framework."""
        read = _EVENTS.get(type(event).__name__)
        if read is not None and event.span_id:
            read(self, event)

    def _progress(self, event: Any) -> None:
        run = self._recorder.get(event.span_id)
        if run is not None:
            self._recorder.chunk(run, str(getattr(event.response, "delta", None) or ""))

    def _model_end(self, event: Any) -> None:
        run = self._recorder.get(event.span_id)
        # One that did not stream ends when its call returns.
        if run is not None and event.response is not None and "stream" in str(run.owner):
            conversion.read_reply(run, event.response, self._recorder.capture.openinference)
            self._recorder.end(event.span_id)

    def _chat_delta(self, event: Any) -> None:
        self._spans.chat_delta(event.span_id, event.delta)

    def _chat_end(self, event: Any) -> None:
        self._spans.chat_ended(event.span_id, getattr(event, "exception", None))


_EVENTS: dict[str, Callable[[RagtraceEventHandler, Any], None]] = {
    "LLMChatInProgressEvent": RagtraceEventHandler._progress,
    "LLMCompletionInProgressEvent": RagtraceEventHandler._progress,
    "LLMChatEndEvent": RagtraceEventHandler._model_end,
    "LLMCompletionEndEvent": RagtraceEventHandler._model_end,
    "StreamChatDeltaReceivedEvent": RagtraceEventHandler._chat_delta,
    "StreamChatEndEvent": RagtraceEventHandler._chat_end,
    "StreamChatErrorEvent": RagtraceEventHandler._chat_end,
}


def _reranks(instance: Any) -> bool:
    """Whether a node postprocessor orders anew; mere filters show in what the answer was made from."""
    return "rerank" in type(instance).__name__.lower()


def _is_stream(result: Any) -> bool:
    return hasattr(result, "__next__") or hasattr(result, "__anext__")


def make_handlers(
    tracer_provider: Any = None,
    capture_content: bool | str | None = None,
    capture: Capture | None = None,
    logger_provider: Any = None,
    consumer: Any = None,
) -> tuple[RagtraceSpanHandler, RagtraceEventHandler]:
    """The two handlers that belong together. Arguments as for the instrumentor."""
    settings = capture if capture is not None else Capture.of(capture_content)
    scope = "ragtrace_llama_index"
    if consumer is None:
        recorder = shared_recorder(tracer_provider, settings, scope, logger_provider)
    else:
        recorder = Recorder(
            tracer_provider, capture=settings, scope=scope, logger_provider=logger_provider, consumer=consumer
        )
    spans, events = RagtraceSpanHandler(), RagtraceEventHandler()
    spans._recorder = events._recorder = recorder
    events._spans = spans
    return spans, events

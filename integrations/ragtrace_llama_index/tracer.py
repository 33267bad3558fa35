"""Turns LlamaIndex's spans and events into runs of the Recorder.

Most spans of a LlamaIndex query are internal. They produce no span of ours, but their ids are kept, so that their
children find the right parent."""

from collections.abc import Callable
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any

from ragtrace import semconv
from ragtrace.capture import current
from ragtrace.capture.adapters import warn_of_other
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.reply_streams import is_stream, reaper, substitute_stream
from ragtrace.capture.request import MODEL_CALLS, SEARCHES, Run
from ragtrace.records import Document
from ragtrace_llama_index import conversion, models, streams, workflow_steps
from ragtrace_llama_index.starts import METHODS, STARTS, ComponentCall, is_custom, start_custom
from ragtrace_llama_index.streams import ModelCall
from ragtrace_llama_index.workflow_steps import WorkflowState

_OTHERS = ("openinference.instrumentation.", "opentelemetry.instrumentation.")
_UUID = -37
"""Every span id ends with a dash and a UUID."""


class Tracer:
    """Turns the dispatcher's spans and events into the recorder's runs; the keys are LlamaIndex's span ids."""

    def __init__(
        self, recorder: Recorder, dispatcher: Any, active_span: ContextVar[str | None], active_tags: ContextVar[Any]
    ) -> None:
        self.recorder = recorder
        self.nested: set[str] = set()
        """Open engines and synthesizers below another root: their documents count as documents of the root."""
        self.open_streams = streams.OpenStreams()
        self._dispatcher = dispatcher
        self._active_span = active_span
        self._active_tags = active_tags
        self._attached: dict[str, current.Attachment] = {}
        self._handlers_seen = -1
        self._silent = False

    # --- starts ----------------------------------------------------------------------------------

    def enter(self, id_: str, bound: BoundArguments, instance: Any, parent: str | None, tags: Any) -> None:
        """Handles the start of a span, and makes ours the current one until its end. An internal span, the most
        frequent kind, costs a few look-ups."""
        method = id_[id_.rfind(".", 0, _UUID) + 1 : _UUID]
        start = None
        if method in METHODS and instance is not None:
            start = STARTS.get((conversion.role_of(type(instance)) or "", method))  # type: ignore[arg-type]
        if start is not None:
            start(self, ComponentCall(id_, method, bound, instance, parent, tags))
        elif parent is not None:
            workflow_steps.enter(self.recorder, id_, parent, bound)
        elif is_custom(id_, instance):
            start_custom(self, ComponentCall(id_, method, bound, instance, parent, tags))
        # The dispatcher calls this function and `exit` or `drop` around the call, in one context. A workflow's own call
        # is the exception: it may return before its end, so each of its steps is attached.
        if method != "run" and (token := current.attach(self.recorder.near(id_))) is not None:
            self._attached[id_] = token

    def detach(self, id_: str) -> None:
        """Ends what `enter` has attached; the last thing that is done for a span."""
        current.detach(self._attached.pop(id_, None))

    def start(self, call: ComponentCall, operation: str, name: str, target: str | None = None) -> Run | None:
        """Opens a span; returns None when the call is not recorded."""
        if not self.recorder.knows(call.parent) and self._others_active():
            return None
        # LlamaIndex passes no tags to a workflow's own span, although they are set.
        tags = call.tags if call.tags is not None else self._active_tags.get()
        origin = conversion.origin(tags) if tags else {}
        return self.recorder.start(call.id_, call.parent, operation, name, target=target, owner=call.instance, **origin)

    def _others_active(self) -> bool:
        """Returns True when another library traces LlamaIndex; ragtrace then records nothing, to avoid duplicates."""
        handlers = self._dispatcher.span_handlers
        if len(handlers) != self._handlers_seen:
            self._handlers_seen = len(handlers)
            other = next((type(h).__module__ for h in handlers if type(h).__module__.startswith(_OTHERS)), None)
            if other is not None and not self._silent:
                warn_of_other("LlamaIndex", other)
            self._silent = other is not None
        return self._silent

    # --- ends ------------------------------------------------------------------------------------

    def exit(self, id_: str, result: Any) -> None:
        """Handles the end of a span without an error; the result may be a stream that has not started."""
        run = self.recorder.near(id_)
        if run is None or run.key != id_:
            self._exit_inner(id_, run, result)
        elif run.operation in MODEL_CALLS:
            self._exit_model(run, result)
        elif run.operation in (semconv.OP_WORKFLOW, semconv.OP_AGENT):
            self._exit_root(run, conversion.unwrap(result))
        else:
            self._read(run, result)
            self.recorder.end(id_, error="tool_error" if getattr(result, "is_error", False) is True else None)

    def _exit_inner(self, id_: str, above: Run | None, result: Any) -> None:
        """Handles the end of a LlamaIndex span that has no span of ragtrace; `above` is the nearest one."""
        if above is None:
            self.nested.discard(id_)
        elif id_ in self.nested:
            self.nested.discard(id_)
            self._add_sources(above, conversion.sources_of(result))
        elif not isinstance(above.state, ModelCall):
            workflow_steps.leave(above, result)
        else:
            if above.state.stream == id_ and is_stream(result):
                return  # the events of the stream still come under this key
            if above.state.inner == id_:
                models.read_inner(above, result)
        self.recorder.leave(id_)

    def _add_sources(self, run: Run, documents: list[Document] | None) -> None:
        """Adds the documents of an engine inside an agent or a workflow to those of the request."""
        request = run.request
        if run.operation == semconv.OP_RETRIEVAL or documents is None:
            return
        if documents or len(request.retrieved) == 1:  # with several searches it is not known which one gave nothing
            request.passed.append((-1, documents))  # the engine's own model has seen them

    def _read(self, run: Run, result: Any) -> None:
        if run.operation in SEARCHES:
            run.documents = conversion.documents_of(result)
            run.state = tuple(result) if isinstance(result, list) else ()  # the response holds the same nodes
        elif run.operation == semconv.OP_EMBEDDINGS:
            size = conversion.embedding_size(result)
            if size is not None:
                run.attributes[semconv.EMBEDDING_DIMENSIONS] = size
        elif run.operation == semconv.OP_TOOL:
            run.answer = conversion.tool_output(result)
            documents = conversion.documents_within(getattr(result, "raw_output", None))
            if documents:
                run.documents = documents
                run.request.passed.append((len(run.request.model_calls), documents))

    def _exit_model(self, run: Run, result: Any) -> None:
        if not is_stream(result):
            models.read_reply(run, result)
            self.recorder.end(run.key)
            return
        # A model without LlamaIndex's callbacks reports nothing; one that calls its base class later does.
        run.reports_end = run.state.stream is not None
        if not self.open_streams.add(result, run, self.recorder) and not run.reports_end:
            self.recorder.end(run.key)

    def _exit_root(self, run: Run, result: Any) -> None:
        workflow_steps.leave(run, result)
        sources = conversion.sources_of(result, _documents_by_node(run))
        if sources is not None:
            # The answer to a sub-question is a node that nobody retrieved, but supports nothing: a model wrote it.
            own = {document.id for retrieval in run.request.retrieved for document in retrieval.documents or ()}
            replies = [text for call in run.request.model_calls if own and (text := (call.answer or "").strip())]
            sources = [d for d in sources if d.id in own or not any(text in d.content for text in replies)] or sources
            sources = list({(d.id, d.content): d for d in sources}.values())  # several questions find the same
            if run.parent is None:
                run.request.sources = sources
            else:  # one of several components of a request of another framework, or by hand
                self._add_sources(run, sources)
            if not run.request.retrieved and sources:
                run.documents = sources  # no retrieval span holds them
        # An engine inside another component of LlamaIndex leaves its stream to that one.
        is_outermost = run.parent is None or not self.recorder.knows(run.parent.key)
        if is_outermost and hasattr(result, "response_txt") and result.response_txt is None:
            if self._watch(run, result, "response_gen"):
                return
        elif hasattr(result, "is_writing_to_memory") and isinstance(run.owner, streams.Halves):
            if result.is_writing_to_memory:
                self._end_half(run)
                return
            if self._watch(run, result, "chat_stream") or self._watch(run, result, "achat_stream"):
                return
        run.answer = conversion.answer_of(result)
        self.recorder.end(run.key)

    def _watch(self, run: Run, response: Any, attribute: str) -> bool:
        """Replaces a response's generator by one that is read; returns False when the response has no generator."""
        inner = getattr(response, attribute, None)
        if not is_stream(inner):
            return False
        reader = streams.ResponseReader(self.recorder, run, self._active_span)
        reaper.start()
        try:
            setattr(response, attribute, substitute_stream(inner, reader))
        except Exception:  # noqa: BLE001 an application's response class may be read-only
            reader.run = None  # the caller ends the request
            return False
        return True

    def _end_half(self, run: Run, error: BaseException | None = None) -> None:
        """Ends one half of a streaming chat: its call has returned, or its writer has finished."""
        halves = run.owner
        if isinstance(halves, streams.Halves):
            halves.error = halves.error or error
            if halves.complete():
                streams.finish(self.recorder, run, halves.error)

    def drop(self, id_: str, error: BaseException | None) -> None:
        """Handles the end of a span with an exception."""
        self.nested.discard(id_)
        run = self.recorder.get(id_)
        if run is None:
            root = self.recorder.near(id_) if "write_response_to_history-" in id_ else None
            self.recorder.end(id_)
            if root is not None:
                self._end_half(root, error)
        elif error is None or conversion.is_control_flow(error):
            if error is not None:
                workflow_steps.wait(run, error)
            self.recorder.end(id_)
        else:
            streams.finish(self.recorder, run, error)

    # --- events ----------------------------------------------------------------------------------

    def event(self, event: Any) -> None:
        """Handles the events that spans do not report: the progress of streams, and a cancelled workflow."""
        read = _EVENTS.get(type(event).__name__)
        if read is not None and event.span_id is not None:
            read(self, event)

    def _on_model_start(self, event: Any) -> None:
        run = self._model_of(event)
        # The outermost call with LlamaIndex's callbacks reports the stream; calls inside it would repeat each chunk.
        if run is not None and run.state.stream is None and _streams(run.key):
            run.state.stream, run.reports_end = event.span_id, True
            run.attributes[semconv.REQUEST_STREAM] = True

    def _model_of(self, event: Any) -> Run | None:
        run = self.recorder.near(event.span_id)
        return run if run is not None and isinstance(run.state, ModelCall) else None

    def _on_model_delta(self, event: Any) -> None:
        run = self._model_of(event)
        if run is None:
            return
        if run.state.inner in (None, event.span_id):
            run.state.chunks.append(event.response)
        if run.state.stream != event.span_id:
            return
        delta = getattr(event.response, "delta", None)
        if isinstance(delta, str):
            self.recorder.chunk(run, delta)
        elif delta is None:
            run.chunks.clear()  # each chunk holds the whole text so far
            self.recorder.chunk(run, models.text_of_reply(event.response) or "")

    def _on_model_end(self, event: Any) -> None:
        if (run := self._model_of(event)) is None:
            return
        if run.state.stream == event.span_id:
            models.read_reply(run, event.response)
            streams.finish(self.recorder, run)
        elif run.state.inner == event.span_id and _streams(event.span_id):
            models.read_inner(run, event.response)

    def _on_model_error(self, event: Any) -> None:
        run = self._model_of(event)
        if run is None or run.state.stream != event.span_id:  # other calls end when they return
            return
        models.read_reply(run, None)
        if isinstance(event.exception, GeneratorExit):
            streams.drop_run(self.recorder, run)  # the garbage collector may be closing the generator now
        else:
            streams.finish(self.recorder, run, event.exception)

    def _on_chat_delta(self, event: Any) -> None:
        run = self.recorder.near(event.span_id)
        if run is not None and isinstance(run.owner, streams.Halves):
            self.recorder.chunk(run, event.delta)

    def _on_chat_end(self, event: Any) -> None:
        if (run := self.recorder.near(event.span_id)) is not None:
            self._end_half(run)

    def _on_cancel(self, event: Any) -> None:
        run = self.recorder.get(event.span_id)
        question = run.state.request_to_person if run is not None and isinstance(run.state, WorkflowState) else None
        if run is not None and question is not None and run.parent is None:
            run.answer = run.request.interrupt = question  # it goes on with its context when the person has replied
        self.recorder.end(event.span_id, cancelled=question is None)

    def _on_prompt(self, event: Any) -> None:
        """Notes a template that was filled in, for the model that is called with it by the same component."""
        run = self.recorder.near(event.span_id) if self.recorder.capture.spans else None
        if run is not None and (prompt := models.prompt_of(event)) is not None:
            run.request.prompts[event.span_id] = prompt


def _documents_by_node(root: Run) -> dict[int, Document]:
    """Returns the documents of a request's retrievals by the identity of their nodes, which the runs keep alive."""
    return {
        id(node): document
        for run in root.request.retrieved
        if run.documents and isinstance(run.state, tuple) and len(run.state) == len(run.documents)
        for node, document in zip(run.state, run.documents, strict=True)
    }


def _streams(key: object) -> bool:
    """Returns True for the key of a `stream_chat`, an `astream_complete` and so on."""
    name = str(key)
    return "stream_" in name[name.rfind(".", 0, _UUID) : _UUID]


_EVENTS: dict[str, Callable[[Tracer, Any], None]] = {
    "LLMPredictStartEvent": Tracer._on_prompt, "LLMStructuredPredictStartEvent": Tracer._on_prompt,
    "LLMChatStartEvent": Tracer._on_model_start, "LLMCompletionStartEvent": Tracer._on_model_start,
    "LLMChatInProgressEvent": Tracer._on_model_delta, "LLMCompletionInProgressEvent": Tracer._on_model_delta,
    "LLMChatEndEvent": Tracer._on_model_end, "LLMCompletionEndEvent": Tracer._on_model_end,
    "ExceptionEvent": Tracer._on_model_error, "StreamChatDeltaReceivedEvent": Tracer._on_chat_delta,
    "StreamChatEndEvent": Tracer._on_chat_end, "SpanCancelledEvent": Tracer._on_cancel,
}  # fmt: skip

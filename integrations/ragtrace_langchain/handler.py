"""Turns LangChain's callbacks into runs of the Recorder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from ragtrace import semconv
from ragtrace.capture import current, manual
from ragtrace.capture.adapters import convert_each, is_cancellation
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.model_messages import ModelMessage
from ragtrace.capture.recorder import Recorder, all_recorders, open_recorder
from ragtrace.capture.request import Run
from ragtrace_langchain import conversion, graphs
from ragtrace_langchain.chat_messages import message_of
from ragtrace_langchain.conversion import key_of
from ragtrace_langchain.documents import documents_in, documents_of, documents_of_state
from ragtrace_langchain.model_calls import model_attributes, prompt_of, tool_of, tools_of
from ragtrace_langchain.question_answer import note_interrupt, query_of, question_of_state, read_answer, read_interrupt
from ragtrace_langchain.tool_calls import is_failure, read_call, read_result
from ragtrace_langchain.vector_stores import current_retrieval, wrap_vector_stores

_Method = Callable[..., None]
_FRAGMENTS = {"prompt": semconv.OP_PROMPT, "parser": semconv.OP_PARSER}
"""Operation by LangChain's type of a run, for a template or a parser that is called outside of a chain."""


def _quiet(method: _Method) -> _Method:
    """Counts an exception instead of raising it: LangChain would log it together with the application's data. The
    method gets the keys of the run and of its parent as `run_id` and `parent_run_id`."""
    is_end = method.__name__.endswith(("_end", "_error"))

    @functools.wraps(method)
    def guarded(self: RagtraceCallbackHandler, *args: Any, **kwargs: Any) -> None:
        try:
            kwargs["run_id"], kwargs["parent_run_id"] = key_of(kwargs["run_id"]), key_of(kwargs.get("parent_run_id"))
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed(method.__name__, kwargs.get("run_id") if is_end else None)

    return guarded


class RagtraceCallbackHandler(BaseCallbackHandler):
    """Records LangChain runs as OpenTelemetry spans, one tree per request.

    Pass it per call, `chain.invoke(question, config={"callbacks": [handler]})`, or let
    RagtraceLangChainInstrumentor pass it to every call. One handler serves any number of concurrent calls."""

    run_inline = True
    """On the event loop: the callbacks are short, and one thread switch for each token would cost more."""
    raise_error = False
    ignore_retry = ignore_custom_event = True
    """Each retry is a run and has its own callbacks; custom events are what the application defines."""
    records_searches = True
    """The wrappers of vector stores recognize this handler by it."""

    def __init__(
        self,
        tracer_provider: Any = None,
        capture_content: bool | str | None = None,
        *,
        capture: ContentPolicy | None = None,
        logger_provider: Any = None,
        consumer: Any = None,
    ) -> None:
        """`tracer_provider` defaults to OpenTelemetry's global one. `capture_content` puts queries, chunks and answers
        on spans: True, False, a mode such as `SPAN_AND_EVENT`, or None for what
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says (no content when unset). `capture` sets more than
        that. Without any of them it is as `ragtrace.init` has it, where that has run. Raises ValueError for an unknown
        mode."""
        active = manual.active_recorder()
        arguments = (tracer_provider, capture_content, capture, logger_provider, consumer)
        if active is not None and all(each is None for each in arguments):
            tracer_provider, capture, logger_provider = active.provider, active.capture, active.logger_provider
        self._recorder = open_recorder(
            "ragtrace_langchain", tracer_provider=tracer_provider, capture_content=capture_content, capture=capture,
            logger_provider=logger_provider, consumer=consumer,
        )  # fmt: skip
        wrap_vector_stores()

    @property
    def recorder(self) -> Recorder:
        """The recorder of the runs that this handler sees."""
        return self._recorder

    def __copy__(self) -> RagtraceCallbackHandler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RagtraceCallbackHandler:
        return self  # LangChain copies configurations deeply; the open runs must stay with this handler

    def _start(self, operation: str, name: str, kwargs: dict[str, Any], target: str | None = None) -> Run | None:
        run_id, parent = kwargs["run_id"], kwargs["parent_run_id"]
        tags, metadata = kwargs.get("tags"), kwargs.get("metadata") or {}
        above = self._recorder.near(parent) if parent is not None else None
        if above is not None:
            origin = conversion.child_origin(tags, metadata, above.request)
        elif not self._recorder.knows(parent) and self._is_recorded_elsewhere(run_id, parent):
            return None
        else:
            origin = conversion.origin(tags, metadata)
        run = self._recorder.start(run_id, parent, operation, name, target=target, owner=self, **origin)
        if run is not None and above is not None:
            run.extra.update(graphs.node_attributes(metadata))
        return run

    def _is_recorded_elsewhere(self, run_id: Hashable, parent: Hashable | None) -> bool:
        """Returns True when a handler with other settings records this run or its parent."""
        others = (each for each in all_recorders() if each is not self._recorder)
        return any(each.knows(run_id) or (parent is not None and each.knows(parent)) for each in others)

    # --- chains ----------------------------------------------------------------------------------
    # A request has a dozen of these callbacks and only one root. Internal steps are recognized first, before anything
    # else is called, and these two methods catch exceptions themselves, without the cost of `_quiet`.

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: Hashable, parent_run_id: Hashable | None = None, **kwargs: Any
    ) -> None:
        """Handles the start of a runnable: a request's root, or an internal step."""
        try:
            run_id, parent_run_id = key_of(run_id), key_of(parent_run_id)
            above = self._recorder.near(parent_run_id)
            is_agent = above is not None and graphs.begins_agent(inputs, kwargs, above)
            if not is_agent and self._recorder.follow(run_id, parent_run_id):
                if kwargs.get("run_type") == "prompt":
                    self._note_prompt(serialized, inputs, parent_run_id)
                elif above is not None and graphs.is_chain(above) and "thread_id" in (kwargs.get("metadata") or ()):
                    graphs.begin_inside(above, kwargs["metadata"]["thread_id"], inputs)
                return
            kwargs.update(run_id=run_id, parent_run_id=parent_run_id)
            self._start_root(serialized, inputs, kwargs, is_agent)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed("on_chain_start")

    def _start_root(self, serialized: Any, inputs: Any, kwargs: dict[str, Any], is_agent: bool) -> None:
        name = conversion.name_of(serialized, kwargs, "chain")
        metadata = kwargs.get("metadata") or {}
        if fragment := _FRAGMENTS.get(kwargs.get("run_type", "")):
            run = self._start(fragment, name, kwargs)
            if run is not None:
                run.query = query_of(inputs)
                run.prompt = prompt_of(serialized, inputs) if self._recorder.capture.spans else None
            return
        is_agent = is_agent or graphs.is_agent(name, metadata)
        is_root = self._recorder.near(kwargs["parent_run_id"]) is None
        name, agent = graphs.names_of(name, metadata, is_agent, is_root=is_root)
        run = self._start(semconv.OP_AGENT if is_agent else semconv.OP_WORKFLOW, name, kwargs, agent)
        if run is None:
            return
        if not is_agent:
            run.attributes[semconv.WORKFLOW_NAME] = name
        elif agent is not None:
            run.attributes[semconv.AGENT_NAME] = agent
        run.state = graphs.GRAPH if graphs.is_called_by_graph() else None
        self._read_inputs(run, inputs)
        root = graphs.root_of(run)
        if root is not None and "thread_id" in metadata:
            graphs.begin(root, run, metadata["thread_id"], inputs)

    def _note_prompt(self, serialized: Any, inputs: Any, parent: Hashable | None) -> None:
        """Notes a template that was filled in, for the model that is called with it by the same chain."""
        run = self._recorder.near(parent) if self._recorder.capture.spans else None
        if run is not None and (prompt := prompt_of(serialized, inputs)) is not None:
            run.request.prompts[parent] = prompt

    def _read_inputs(self, run: Run, inputs: Any) -> None:
        run.query = query_of(inputs)
        if run.parent is None and (documents := documents_of_state(inputs)):
            run.request.passed.insert(0, (0, documents))

    def on_chain_end(self, outputs: Any, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles the end of a runnable. The question of a stream is known only now."""
        try:
            run_id = key_of(run_id)
            if type(outputs) is not str:
                self._read_documents(outputs, run_id)
            if self._recorder.leave(run_id):
                return
            self._end_root(outputs, run_id, kwargs)
        except Exception:  # noqa: BLE001 as above
            self._recorder.failed("on_chain_end", run_id)

    def _read_documents(self, outputs: Any, run_id: Hashable) -> None:
        """Reads the documents that a chain, a function or a node of a graph returns, for a retrieval without callbacks
        and for steps that choose from what was retrieved."""
        documents = documents_in(outputs)
        run = self._recorder.near(run_id) if documents else None
        if run is None or run.owner is not self or run.operation == semconv.OP_RETRIEVAL:
            return
        is_end = run.key == run_id
        if documents := documents_of_state(outputs) if is_end else documents:
            run.request.passed.append((len(run.request.model_calls) + is_end, documents))

    def _end_root(self, outputs: Any, run_id: Hashable, kwargs: dict[str, Any]) -> None:
        run = self._recorder.get(run_id)
        cancelled = False
        if run is not None and run.owner is self:
            if run.query is None:
                self._read_inputs(run, kwargs.get("inputs"))
                run.query = run.query or question_of_state(run, outputs)
            # LangChain ends a run whose stream was closed like any other, with what was read before the last chunk. The
            # model that was streaming has not ended then, or there is no output although it answered.
            request = run.request
            streams = [call for call in request.model_calls if call.chunks]
            cancelled = any(outputs is None or call.key in request.open for call in streams)
            root = graphs.root_of(run)
            if run.state == graphs.ELSEWHERE and root is not None:
                root.query = run.query = question_of_state(run, outputs) or run.query
            graphs.note_breakpoint(run)
            if root is not None and read_interrupt(root, outputs):
                graphs.remember_interrupt(root)
            if not cancelled:
                read_answer(run, outputs)
                graphs.go_on(run, outputs)
                graphs.forget_interrupt(root)
            cancelled = not graphs.complete_interrupt(run) and cancelled
        self._recorder.end(run_id, cancelled=cancelled)

    @_quiet
    def on_chain_error(self, error: BaseException, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles a runnable that failed or was cancelled, or a graph that was interrupted to ask a person."""
        run = self._recorder.get(run_id)
        if run is not None and run.query is None:
            run.query = query_of(kwargs.get("inputs"))
        if conversion.is_control_flow(error):
            parent = kwargs["parent_run_id"]
            root = graphs.asking_root(self._recorder.near(parent), parent)
            if root is not None and note_interrupt(root, error):
                graphs.remember_interrupt(root)  # now: who leaves the stream here may resume before it is closed
        elif run is not None and is_cancellation(error):
            graphs.note_breakpoint(run)
        self._fail(run_id, error)

    def _fail(self, run_id: Hashable, error: BaseException) -> None:
        if is_cancellation(error):
            self._recorder.end(run_id, cancelled=not graphs.complete_interrupt(self._recorder.get(run_id)))
        else:
            self._recorder.end(run_id, error=None if conversion.is_control_flow(error) else error)

    @_quiet
    def _on_error(self, error: BaseException, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles a failed model call, whose text before the failure is kept, a failed retriever or a failed tool."""
        self._fail(run_id, error)

    on_llm_error = on_retriever_error = on_tool_error = _on_error

    # --- models ----------------------------------------------------------------------------------

    @_quiet
    def on_chat_model_start(self, serialized: Any, messages: Sequence[Sequence[Any]], **kwargs: Any) -> None:
        """Handles the start of a chat model."""
        run = self._start_model(semconv.OP_CHAT, serialized, kwargs)
        if run is not None:
            run.messages = convert_each((m for batch in messages for m in batch), message_of)

    @_quiet
    def on_llm_start(self, serialized: Any, prompts: Sequence[str], **kwargs: Any) -> None:
        """Handles the start of a text-completion model."""
        run = self._start_model(semconv.OP_TEXT, serialized, kwargs)
        if run is not None:
            run.messages = [ModelMessage("user", prompt) for prompt in prompts]

    def _start_model(self, operation: str, serialized: Any, kwargs: dict[str, Any]) -> Run | None:
        metadata = kwargs.get("metadata") or {}
        name = conversion.name_of(serialized, kwargs, "model")
        parameters, capture = kwargs.get("invocation_params") or {}, self._recorder.capture
        attributes, extra = model_attributes(serialized, metadata, parameters)
        model = attributes.get(semconv.REQUEST_MODEL)
        run = self._start(operation, name, kwargs, model)
        if run is not None:
            run.attributes.update(attributes)
            run.extra.update(extra)
            run.prompt = run.request.prompts.pop(kwargs["parent_run_id"], None)
            run.tools = tools_of(parameters) if capture.spans or capture.events else ()
            # LangChain configures each step with metadata; the prompt's version is set on the model's call.
            run.request.prompt_version = metadata.get("prompt_version", run.request.prompt_version)
            current.attach_expected(run)
        return run

    @_quiet
    def on_llm_new_token(self, token: Any, *, run_id: Hashable, chunk: Any = None, **kwargs: Any) -> None:
        """Handles a chunk of a streamed answer."""
        run = self._recorder.get(run_id)
        if run is not None and run.owner is self:
            # OpenAI's Responses API streams lists of parts, of which the first are empty.
            self._recorder.chunk(run, token if isinstance(token, str) else conversion.content_text(token))

    @_quiet
    def on_llm_end(self, response: Any, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles the end of a model call."""
        run = self._recorder.get(run_id)
        if run is not None and run.owner is self:
            conversion.read_reply(run, response)
        self._recorder.end(run_id)

    # --- retrievers and tools --------------------------------------------------------------------

    @_quiet
    def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
        """Handles the start of a retriever."""
        metadata = kwargs.get("metadata") or {}
        name = conversion.name_of(serialized, kwargs, "retriever")
        run = self._start(semconv.OP_RETRIEVAL, name, kwargs)
        if run is not None:
            current_retrieval.set(run)
            run.query = query if isinstance(query, str) else conversion.text_of(query)
            run.attributes[semconv.DATA_SOURCE_ID] = name
            if store := metadata.get("ls_vector_store_provider"):
                run.attributes[semconv.PROVIDER] = str(store)
            current.attach_expected(run)

    @_quiet
    def on_retriever_end(self, documents: Any, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles the end of a retriever."""
        run = self._recorder.get(run_id)
        if run is not None and run.owner is self:
            run.documents = documents_of(documents)
        self._recorder.end(run_id)

    @_quiet
    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        """Handles the start of a tool."""
        name = conversion.name_of(serialized, kwargs, "tool")
        run = self._start(semconv.OP_TOOL, name, kwargs)
        if run is not None:
            run.tools = [tool_of(serialized, name)]
            read_call(run, input_str, kwargs)

    @_quiet
    def on_tool_end(self, output: Any, *, run_id: Hashable, **kwargs: Any) -> None:
        """Handles the end of a tool."""
        run = self._recorder.get(run_id)
        if run is not None and run.owner is self:
            read_result(run, output)
        self._recorder.end(run_id, error="tool_error" if is_failure(output) else None)

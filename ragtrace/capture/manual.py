"""Records a request by hand: `ragtrace.request`, for an application without a framework that ragtrace traces."""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ragtrace import semconv
from ragtrace.capture import current, timing
from ragtrace.capture.adapters import is_cancellation, labels_of, session_and_user
from ragtrace.capture.model_messages import ModelMessage
from ragtrace.capture.plain_values import documents_of
from ragtrace.capture.provider_replies import token_counts, write_counts
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.request import Run
from ragtrace.text.sanitizer import identity_of, sendable

_recorder: Recorder | None = None


def set_recorder(recorder: Recorder | None) -> None:
    """Set what records by hand in this process; None for nothing."""
    global _recorder  # noqa: PLW0603 one per process, set by `ragtrace.init`
    _recorder = recorder


def active_recorder() -> Recorder | None:
    """What records by hand in this process; None without `ragtrace.init`."""
    return _recorder


class ManualRequest:
    """One request of the application, as `ragtrace.request` makes it: a context manager, `with` or `async with`.

    No method raises because of what it is given. Without `ragtrace.init`, all of them do nothing."""

    __slots__ = ("_name", "_options", "_question", "_recorder", "_run", "_token")

    def __init__(self, question: object, name: str, options: Mapping[str, Any]) -> None:
        self._question, self._name, self._options = question, name, options
        self._recorder: Recorder | None = None
        self._run: Run | None = None
        self._token: current.Attachment | None = None

    def __enter__(self) -> Self:
        recorder = self._recorder = _recorder
        if recorder is not None and self._token is None:  # else it is entered already
            try:
                self._open(recorder)
            except Exception:  # noqa: BLE001 nothing of ours may reach the application
                recorder.failed("request")
            except BaseException as error:  # a Ctrl-C: without an end, later requests would be steps of this one
                self.__exit__(type(error), error, None)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recorder, run = self._recorder, self._run
        current.detach(self._token)
        self._token = None
        if recorder is None or run is None:
            return
        with recorder.guard("request"):
            request = run.request
            if len(request.model_calls) > request.calls_before:
                request.interrupt = None  # a graph inside stopped to ask a person, and the application went on
            if request.interrupt is not None:
                run.answer = run.answer or request.interrupt
            end_run(recorder, run, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _open(self, recorder: Recorder) -> None:
        options = self._options
        name = identity_of(self._name)
        session, user = session_and_user(options)
        tags, metadata = labels_of(options["tags"]), _metadata(options["metadata"])
        run = start_run(recorder, semconv.OP_WORKFLOW, name, session=session, user=user, tags=tags, metadata=metadata)
        if run is not None:
            self._run, self._token = run, current.attach(run)
            run.attributes[semconv.WORKFLOW_NAME] = recorder.capture.sanitizer.text(name, 200)
            run.query = _text(self._question)

    @property
    def trace_id(self) -> str:
        """The trace id for `ragtrace.feedback` and `ragtrace.score`: 32 hexadecimal digits. Empty without a record."""
        identity = self._run.span.get_span_context().trace_id if self._run is not None else 0
        return f"{identity:032x}" if identity else ""

    def asked(self, question: object) -> None:
        """Set the question, where it is known only inside the request."""
        if self._run is not None:
            self._run.query = _text(question)

    def retrieved(self, documents: object) -> None:
        """Set the documents that the model receives, best first; a second call adds further ones.

        Texts, mappings (`content`, and where known `id`, `score`, `metadata`), pairs of document and score, Documents
        of ragtrace or LangChain, and LlamaIndex nodes. They replace what retrievers inside the request returned: what
        was reranked or filtered by hand is what counts. An empty list says that nothing was there."""
        recorder, run = self._recorder, self._run
        if recorder is None or run is None or self._token is None:  # after the block it belongs to no request
            return
        with recorder.guard("retrieved"):
            _record_documents(recorder, run, documents)

    def used(self, tool: object, result: object, arguments: object = None) -> None:
        """Add what a tool returned to the model: the answer may rest on it, and reviewers see it."""
        recorder = self._recorder
        if recorder is None or self._token is None:
            return
        with recorder.guard("used"):
            now = time.time_ns()
            run = start_run(recorder, semconv.OP_TOOL, identity_of(tool), started=now)
            if run is not None:
                answer = "null" if result is None else _text(result)  # it found nothing
                run.query, run.answer, run.state = _text(arguments), answer, timing.NO_DURATION
                recorder.end(run.key, finished=now)

    def answered(self, text: object, *, usage: object = None, model: object = None) -> None:
        """Set the answer, and what is known of the model that gave it.

        `usage` is a reply's usage, or a reply, of OpenAI, Anthropic and others, or a mapping with `input_tokens` and
        `output_tokens`. `usage` and `model` are left out where the model call has a span: by a framework, or by
        `@ragtrace.generation`."""
        recorder, run = self._recorder, self._run
        if recorder is None or run is None or self._token is None:  # after the block it belongs to no request
            return
        with recorder.guard("answered"):
            run.answer = _text(text)
            if usage is not None or model is not None:
                _record_model(recorder, run, usage, model)


def request(
    question: object = None, *, name: str = "request", session_id: object = None, user_id: object = None,
    tags: Iterable[str] = (), metadata: Mapping[str, object] | None = None,
) -> ManualRequest:  # fmt: skip
    """Record a request by hand; see docs/by-hand.md. What frameworks and `@ragtrace.retriever`, `@ragtrace.generation`
    and `@ragtrace.tool` record inside it belongs to it: it counts once, and is evaluated once.

    >>> with ragtrace.request("How long is the pump covered?", session_id="s1") as request:
    ...     documents = search("pump warranty")
    ...     request.retrieved(documents)
    ...     request.answered(ask(documents))

    `name` is the name of the pipeline, one of few. `tags` are names of the request, and `metadata` may name its `app`,
    `env`, `prompt_version`, `reference` and `constraints`. Inside another request it is a part of that one."""
    options = {"session_id": session_id, "user_id": user_id, "tags": tags, "metadata": metadata}
    return ManualRequest(question, name, options)


def start_run(recorder: Recorder, operation: str, name: str, **options: Any) -> Run | None:
    """Open a span below the run around this call; None where nothing is recorded. `options` as for `Recorder.start`."""
    key = object()
    run = recorder.start(key, None, operation, name, **options)
    if run is None:
        recorder.leave(key)  # nobody else knows the key, and nobody will end it
    return run


def end_run(recorder: Recorder, run: Run, error: BaseException | None = None, cancelled: bool = False) -> None:
    """End a run. An error that says that the consumer left does not count as an error."""
    if error is not None and is_cancellation(error):
        error, cancelled = None, True
    recorder.end(run.key, error=error, cancelled=cancelled)


def _record_documents(recorder: Recorder, root: Run, values: object) -> None:
    """A retrieval without a duration of its own, and the documents as the request's."""
    request, documents = root.request, documents_of(values)
    present = {(document.id, document.content) for document in request.sources or ()}
    request.sources = [*(request.sources or ()), *(d for d in documents if (d.id, d.content) not in present)]
    if any(run.parent is not None and run.documents is not None for run in request.retrieved):
        return  # a span holds what was retrieved
    now = time.time_ns()
    run = start_run(recorder, semconv.OP_RETRIEVAL, "by hand", started=now)
    if run is not None:
        run.query, run.documents, run.state = root.query, documents, timing.NO_DURATION
        recorder.end(run.key, finished=now)


def _record_model(recorder: Recorder, root: Run, usage: object, model: object) -> None:
    """A model call without a duration of its own; where one has a span, only what that one lacks."""
    counts = token_counts({"usage": usage}) or token_counts(usage)
    name = _text(model, 256)
    calls = root.request.model_calls
    if calls:
        if semconv.INPUT_TOKENS not in calls[-1].attributes:
            write_counts(calls[-1], counts)
        if name:
            calls[-1].attributes.setdefault(semconv.REQUEST_MODEL, name)
        return
    now = time.time_ns()
    run = start_run(recorder, semconv.OP_CHAT, name or "model", started=now)
    if run is None:
        return
    if name:
        run.attributes[semconv.REQUEST_MODEL] = name
    write_counts(run, counts)
    run.messages = [ModelMessage("user", root.query)] if root.query else []
    run.answer, run.state = root.answer, timing.NO_DURATION
    recorder.end(run.key, finished=now)


def _text(value: object, limit: int = 1_000_000) -> str | None:
    return None if value is None else sendable(value, limit)


def _metadata(values: object) -> dict[Any, Any]:
    try:
        return dict(values) if isinstance(values, Mapping) else {}
    except Exception:  # noqa: BLE001 an application's object: the request is recorded without metadata
        return {}

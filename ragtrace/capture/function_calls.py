"""`@ragtrace.retriever`, `@ragtrace.generation`, `@ragtrace.tool`: spans of calls of the application's own functions.

A function is plain, asynchronous, a generator, an asynchronous generator, or returns a stream; what it returns and
raises passes through. Its span is the current one while its own code works, and not while its consumer's does."""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ragtrace import semconv
from ragtrace.capture import current, manual
from ragtrace.capture.content_blocks import tool_definitions
from ragtrace.capture.plain_values import chunk_text, documents_of, field_of, messages_of, reply_of
from ragtrace.capture.provider_replies import finish_reason, token_counts, write_counts
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.reply_streams import is_coroutine, is_stream, reaper, substitute_manager, substitute_stream
from ragtrace.capture.request import Run
from ragtrace.capture.wrappers import wrapped
from ragtrace.records import Document
from ragtrace.text.sanitizer import identity_of, sendable

_QUERY_NAMES = ("messages", "query", "question", "prompt", "text", "input", "message")
_NOT_MESSAGES = frozenset({"model", "system", "instructions", "tools"})
_MANAGERS = ("StreamManager", "ContextManager")
"""How the classes of clients end whose streams begin where they are entered."""
_MAX_ITEMS = 10_000
"""Items of a stream that are kept until its end, where they are no pieces of a text."""


@dataclass(frozen=True, slots=True)
class DecoratedFunction:
    """A function under one of the decorators."""

    operation: str
    name: str
    model: str | None
    parameters: tuple[str, ...]
    """The names of its parameters by position."""
    skip: int
    """1 for a method, whose first parameter is its object."""

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by their names."""
        positional, names = args[self.skip :], self.parameters[self.skip :]
        further = {f"argument_{i}": value for i, value in enumerate(positional[len(names) :], len(names))}
        return {**dict(zip(names, positional, strict=False)), **further, **kwargs}


def begin(decorated: DecoratedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> FunctionCall | None:
    """Open the span of a call. None where nothing is recorded. Never raises."""
    recorder = manual.active_recorder()
    if recorder is None:
        return None
    with recorder.guard(decorated.name):
        arguments = decorated.arguments(args, kwargs)
        model = field_of(arguments, "model") if decorated.operation == semconv.OP_CHAT else None
        model = identity_of(model) if isinstance(model, str) else decorated.model
        run = manual.start_run(recorder, decorated.operation, decorated.name, target=model)
        if run is not None:
            _read_arguments(run, arguments, model)
            return FunctionCall(recorder, run)
    return None


def begin_stream(decorated: DecoratedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> FunctionCall | None:
    """Open the span of a call of a generator, whose consumer may leave it. Otherwise as `begin`."""
    call = begin(decorated, args, kwargs)
    if call is not None:
        reaper.start()
    return call


def _read_arguments(run: Run, arguments: Mapping[str, Any], model: str | None) -> None:
    subject = next((arguments[name] for name in _QUERY_NAMES if name in arguments), None)
    if subject is None:
        subject = next((value for name, value in arguments.items() if name not in _NOT_MESSAGES), None)
    if run.operation == semconv.OP_RETRIEVAL:
        run.query = None if subject is None else sendable(subject)
        run.attributes[semconv.DATA_SOURCE_ID] = run.name
    elif run.operation == semconv.OP_TOOL:
        run.query = sendable(dict(arguments))
        run.attributes[semconv.TOOL_NAME] = run.name
    else:
        if model:
            run.attributes[semconv.REQUEST_MODEL] = model
        run.messages = messages_of(subject)
        system = messages_of(field_of(arguments, "system", "instructions"))
        run.instructions = "\n".join(message.text for message in system) or None
        run.tools = tool_definitions(arguments.get("tools"))


class FunctionCall:
    """One call in progress."""

    __slots__ = ("_items", "_last", "_recorder", "_run")

    def __init__(self, recorder: Recorder, run: Run) -> None:
        self._recorder, self._run = recorder, run
        self._items: list[Any] = []
        self._last: deque[Any] = deque(maxlen=4)
        """The pieces of a stream that are no plain texts: the first and the last ones say model, tokens and reason."""

    # --- calls that return -------------------------------------------------------------------------------

    def result_of(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; returns its result, or a stream that reads it where it is one."""
        with self._as_current():
            result = function(*args, **kwargs)
        if is_coroutine(result):
            return self.awaited(result)
        return self._returned(result)

    async def awaited(self, awaitable: Awaitable[Any]) -> Any:
        """Await the function's result."""
        with self._as_current():
            result = await awaitable
        return self._returned(result)

    @contextmanager
    def _as_current(self, *ends: type[BaseException]) -> Iterator[None]:
        """The call is the current one, and an exception ends it; one of `ends` is the end of the stream alone."""
        token = current.attach(self._run)
        try:
            yield
        except BaseException as error:
            self._read_stream()
            self._end(None if isinstance(error, ends) else error)
            raise
        finally:
            current.detach(token)

    def _returned(self, result: Any) -> Any:
        if is_stream(result):
            reaper.start()
            return substitute_stream(result, self)
        if type(result).__name__.endswith(_MANAGERS):
            reaper.start()
            return substitute_manager(result, self)
        self.finish(result)
        return result

    def enter(self, function: Callable[[], Any]) -> Any:
        """Enter a manager."""
        with self._as_current():
            stream = function()
        return self._follow(stream)

    async def aenter(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Enter an asynchronous manager."""
        with self._as_current():
            stream = await function()
        return self._follow(stream)

    def _follow(self, stream: Any) -> Any:
        """What a manager gave, with its pieces read on their way: the clients' streams take them from `_iterator`."""
        inner = getattr(stream, "_iterator", None)
        if is_stream(inner):
            stream._iterator = substitute_stream(inner, self)
        elif is_stream(stream):
            return substitute_stream(stream, self)
        else:
            self.finish(None)  # e.g. a response that the application reads itself
        return stream

    # --- streams -----------------------------------------------------------------------------------------

    def step(self, step: Callable[[Any], Any], value: Any) -> Any:
        """The next piece of a stream. Raises what the stream raises, StopIteration at its end."""
        with self._as_current(StopIteration, StopAsyncIteration):
            chunk = step(value)
        self._record(chunk)
        return chunk

    async def astep(self, step: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """The next piece of an asynchronous stream. Raises what it raises, StopAsyncIteration at its end."""
        with self._as_current(StopAsyncIteration):
            chunk = await step(value)
        self._record(chunk)
        return chunk

    def _record(self, chunk: Any) -> None:
        try:
            if self._run.operation == semconv.OP_CHAT:
                if not isinstance(chunk, str):
                    whole = getattr(chunk, "chunk", chunk)  # OpenAI's helper tells of each chunk by an event
                    if not self._items:
                        self._items.append(whole)
                    self._last.append(whole)
                self._recorder.chunk(self._run, chunk_text(chunk))
            elif len(self._items) < _MAX_ITEMS:
                self._items.append(chunk)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed("stream")

    # --- ends --------------------------------------------------------------------------------------------

    def finish(self, result: Any) -> None:
        """End the call with its result."""
        with self._recorder.guard("result"):
            _READERS[self._run.operation](self._run, result)
        self._end()

    def drop(self, at_once: bool = False) -> None:
        """End a stream that its consumer left. Without `at_once` it may be called from a finalizer, which must start no
        thread: the reaper's was started when the stream began."""
        if at_once:
            return self._drop()
        if self._run.operation != semconv.OP_CHAT and self._recorder.knows(self._run.key):
            self._read_stream()  # now: the request may end before the reaper comes
        reaper.drop(self._recorder, self._drop)

    def _drop(self) -> None:
        if self._recorder.knows(self._run.key):
            self._read_stream()
            self._end(cancelled=True)

    def _read_stream(self) -> None:
        run = self._run
        with self._recorder.guard("stream"):
            if run.operation != semconv.OP_CHAT:
                items, self._items = self._items, []
                if items:
                    _READERS[run.operation](run, items)
                return
            run.answer = "".join(run.chunks) or None
            for chunk in (*self._items, *self._last):
                _read_model_reply(run, chunk)

    def _end(self, error: BaseException | None = None, cancelled: bool = False) -> None:
        with self._recorder.guard("end"):
            manual.end_run(self._recorder, self._run, error, cancelled)


# --- what a function returned ----------------------------------------------------------------------------


def _read_documents(run: Run, result: Any) -> None:
    run.documents = documents_of(result)


def _read_tool_result(run: Run, result: Any) -> None:
    run.answer = None if result is None else sendable(result)
    items = result if isinstance(result, (list, tuple)) else [result]
    if items and all(isinstance(i, Document) or _has(i, "page_content") or _has(i, "node", "score") for i in items):
        run.documents = documents_of(items)
        run.request.passed.append((len(run.request.model_calls), run.documents))


def _has(item: Any, *names: str) -> bool:
    try:
        return all(hasattr(item, name) for name in names)
    except Exception:  # noqa: BLE001 an application's object whose attributes raise
        return False


def _read_reply(run: Run, result: Any) -> None:
    if (response := field_of(result, "http_response")) is not None and _has(result, "parse"):
        if not field_of(response, "is_closed"):
            return  # a stream that the application has not read yet
        result = result.parse()  # of a client's raw response, which keeps what it has parsed
    message = reply_of(result)
    if message is None:
        return
    run.answer = message.text or None
    if message.calls:
        run.reply = [message]
    _read_model_reply(run, result[-1] if isinstance(result, tuple) and result else result)


def _read_model_reply(run: Run, reply: Any) -> None:
    """Read tokens, model, id and finish reason of a client's reply, or of a piece of it."""
    if reply is None or isinstance(reply, str):
        return
    write_counts(run, token_counts(reply))
    reason = finish_reason(reply)
    if reason:
        run.finish_reason = reason
        run.attributes[semconv.FINISH_REASONS] = (reason,)
    source = field_of(reply, "response", "message") if field_of(reply, "model") is None else reply
    for name, key in ((semconv.RESPONSE_MODEL, "model"), (semconv.RESPONSE_ID, "id")):
        value = field_of(source, key) if source is not None else None
        if isinstance(value, str) and value:
            run.attributes[name] = identity_of(value)
    if semconv.RESPONSE_MODEL in run.attributes and semconv.REQUEST_MODEL not in run.attributes:
        run.attributes[semconv.REQUEST_MODEL] = run.attributes[semconv.RESPONSE_MODEL]


_READERS: dict[str, Callable[[Run, Any], None]] = {
    semconv.OP_RETRIEVAL: _read_documents, semconv.OP_TOOL: _read_tool_result, semconv.OP_CHAT: _read_reply,
}  # fmt: skip


_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def retriever(function: _F, /) -> _F: ...
@overload
def retriever(*, name: str | None = None) -> Callable[[_F], _F]: ...
def retriever(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a function that searches a retrieval span: its query is the parameter of that name or the first one, its
    documents are what it returns or yields, in any form that `request.retrieved` takes."""
    return _decorate(function, semconv.OP_RETRIEVAL, name, None)


@overload
def generation(function: _F, /) -> _F: ...
@overload
def generation(*, name: str | None = None, model: str | None = None) -> Callable[[_F], _F]: ...
def generation(function: Any = None, /, *, name: str | None = None, model: str | None = None) -> Any:
    """Make a function that asks a model a model span: its messages are the parameter `messages` or `prompt` or the
    first one, its system prompt is `system` or `instructions`, its answer is the text, the client's reply or the stream
    that it returns, or what it yields. Tokens, model and finish reason are read from a client's reply. `model` names
    the model, as does a parameter `model`."""
    return _decorate(function, semconv.OP_CHAT, name, model)


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(*, name: str | None = None) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a function a tool span with its arguments and its result."""
    return _decorate(function, semconv.OP_TOOL, name, None)


def _decorate(function: Any, operation: str, name: str | None, model: str | None) -> Any:
    if function is None:
        return lambda bare: _decorate(bare, operation, name, model)
    title = name or getattr(function, "__name__", None) or type(function).__name__
    try:
        signature = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        signature = []
    parameters = tuple(p.name for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    if model is None:
        model = next((p.default for p in signature if p.name == "model" and isinstance(p.default, str)), None)
    skip = 1 if parameters[:1] in (("self",), ("cls",)) else 0
    decorated = DecoratedFunction(operation, sendable(title, 200), model, parameters, skip)
    is_stream = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return wrapped(function, functools.partial(begin_stream if is_stream else begin, decorated))

"""Opens and ends the spans of a request by the framework's own keys, and builds the Trace from what passed by.

Adapters translate framework callbacks into calls of `Recorder`; nothing else knows spans. Parents are passed explicitly
and no context is attached here: a callback may run on another thread or task than the code it reports on. Adapters
attach a run's span where the framework lets them (see `tracing.current`), so a run whose parent is unknown belongs to
the run around it: what one framework calls in another is one request."""

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.capture import current, timing
from ragtrace.capture.adapters import failures
from ragtrace.capture.attributes import add_attributes, emit_inference, mark_failed
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.current import Provenance, describe
from ragtrace.capture.finish import complete, trace_of
from ragtrace.capture.fragments import FRAGMENTS, is_request, note, release
from ragtrace.capture.request import MAX_STEPS, MODEL_CALLS, SEARCHES, Request, Run, agent_of
from ragtrace.capture.span_writer import redact_written
from ragtrace.errors import log_failure
from ragtrace.records import Trace
from ragtrace.sampling import Decision

_CLIENT = frozenset({semconv.OP_RETRIEVAL, semconv.OP_EMBEDDINGS, semconv.OP_CHAT, semconv.OP_TEXT, semconv.OP_RERANK})
_EXPIRE = 900.0
"""Seconds after which a request whose end never came is ended."""
_MAX_OPEN = 10_000
"""Open requests at most; the oldest is ended beyond that."""


class Consumer(Protocol):
    """Where finished requests go: the pipeline."""

    def sample(self, trace: Trace) -> Decision:
        """Whether the trace is to be evaluated."""

    def submit(self, trace: Trace, decision: Decision | None = None) -> bool:
        """Take the trace; never block."""


_WAITING = Decision(False, 1.0, "waiting")
_consumer: Consumer | None = None


def set_consumer(consumer: Consumer | None) -> None:
    """The process's consumer, used by every recorder that was given none of its own."""
    global _consumer  # noqa: PLW0603 one per process, set by `ragtrace.init`
    _consumer = consumer


def current_consumer() -> Consumer | None:
    """The process's consumer, if there is one."""
    return _consumer


class _Suppressed:
    """Stands for a run that is not traced: its children are not either."""


_SUPPRESSED = _Suppressed()


class Recorder:
    """Turns framework runs into spans and finished requests into Traces. Thread-safe; keys must be unique."""

    def __init__(
        self, tracer_provider: otel.TracerProvider | None = None, *, capture: ContentPolicy | None = None,
        consumer: Consumer | None = None, scope: str = "ragtrace", logger_provider: Any = None,
    ) -> None:  # fmt: skip
        """`scope` is the instrumentation scope's name. `consumer` defaults to the process's one, at each request."""
        self.capture = capture or ContentPolicy()
        self.provider = tracer_provider  # kept alive: shared recorders are found by its id
        self._tracer = otel.get_tracer(scope, __version__, tracer_provider)
        self.logger_provider = logger_provider
        self._own_consumer = consumer
        self._runs: dict[Hashable, Run | _Suppressed] = {}
        self._roots: dict[Hashable, Run] = {}
        self._outlived: deque[Hashable] = deque()
        self._sweep_lock = threading.Lock()
        self._next_sweep = time.monotonic() + 60.0
        self.failures = 0
        """Callbacks that went wrong inside ragtrace. The application never saw them."""

    # --- starts ----------------------------------------------------------------------------------

    def start(
        self, key: Hashable, parent: Hashable | None, operation: str, name: str, *,
        target: str | None = None, started: int | None = None, session: str | None = None, user: str | None = None,
        tags: Sequence[str] = (), metadata: Mapping[str, object] | None = None, owner: object = None,
    ) -> Run | None:  # fmt: skip
        """Open a span below `parent`, below the run around this call where `parent` is unknown here, or else a
        request's root.

        `target` follows the operation in the span's name: a model or a source, `name` by default.
        `started` is in Unix nanoseconds, now by default. None where nothing is recorded."""
        if isinstance(self._runs.get(key), Run):
            return None  # the same handler was registered twice
        above = self._runs.get(parent) if parent is not None else None
        if above is None:
            above = current.run_here()
        if above is _SUPPRESSED or current.is_suppressed():
            self._runs[key] = _SUPPRESSED
            if isinstance(above, Run):
                above.request.open[key] = None
            return None
        started = started or time.time_ns()
        title = self.capture.sanitizer.text(f"{operation} {target or name}", 200)
        if isinstance(above, Run):
            # Below a root that the application's sampler dropped, its empty span serves for all.
            span = self._span(title, operation, started, current.below(above)) if above.recording else above.span
            run = Run(key, above.request, above, span, operation, name, started, above.recording, title, owner=owner)
            if agent := agent_of(above):
                run.attributes[semconv.AGENT_NAME] = agent
        else:
            root = self._open_root(key, operation, name, title=title, started=started, owner=owner)
            if root is None:
                return None
            run = root
        describe(run, Provenance(session, user, tags, metadata or {}), self.capture)
        self._register(run)
        return run

    def _open_root(
        self, key: Hashable, operation: str, name: str, *, title: str, started: int, owner: object
    ) -> Run | None:
        """The root of a new request; None where neither a span nor a trace would be used."""
        self._sweep()
        outside, context = current.outside()
        span = self._span(title, operation, started, context)
        recording = span.is_recording()
        if not recording and self._own_consumer is None and _consumer is None:
            self._runs[key] = _SUPPRESSED
            return None
        run = Run(key, Request(outside=outside), None, span, operation, name, started, recording, title, owner=owner)
        self._roots[key] = run
        note(run)
        return run

    def _register(self, run: Run) -> None:
        request, operation = run.request, run.operation
        request.open[run.key] = run
        self._runs[run.key] = run
        tables = request.tables
        if not tables or (tables[0] is not self._runs and not any(table is self._runs for table in tables)):
            tables.append(self._runs)
        if operation in SEARCHES:
            request.retrieved.append(run)
        elif operation in MODEL_CALLS:
            request.model_calls.append(run)
        elif operation == semconv.OP_TOOL and len(request.tool_calls) < MAX_STEPS and not _is_wrapped(run):
            request.tool_calls.append(run)

    def _span(self, title: str, operation: str, started: int, context: Context | None) -> Span:
        """A new span below the one in `context`, or below the current one (a web framework's, say)."""
        kind = SpanKind.CLIENT if operation in _CLIENT else SpanKind.INTERNAL
        return self._tracer.start_span(title, context, kind, {semconv.OPERATION: operation}, start_time=started)

    def follow(self, key: Hashable, parent: Hashable | None) -> bool:
        """Note a run without a span: its children hang below the nearest span above. False if its parent is unknown."""
        above = self._runs.get(parent)
        if above is None:
            return False
        if key not in self._runs:
            self._runs[key] = above
            if above is not _SUPPRESSED:
                above.request.open[key] = None  # type: ignore[union-attr]
        return True

    def leave(self, key: Hashable) -> bool:
        """End a run that got no span of its own. False if it has one, or is unknown here."""
        run = self._runs.get(key)
        if run is None:
            return False
        if run is not _SUPPRESSED:
            if run.key == key:  # type: ignore[union-attr]
                return False
            run.request.open.pop(key, None)  # type: ignore[union-attr]
        self._runs.pop(key, None)
        return True

    def get(self, key: Hashable) -> Run | None:
        """The run with this very key, if it has a span and is open."""
        run = self._runs.get(key)
        return run if isinstance(run, Run) and run.key == key else None

    def near(self, key: Hashable) -> Run | None:
        """The run with this key, or the nearest one above it that has a span."""
        run = self._runs.get(key)
        return run if isinstance(run, Run) else None

    def knows(self, key: Hashable) -> bool:
        """True if this key was started and has not ended, recorded or not."""
        return key in self._runs

    # --- on the way ------------------------------------------------------------------------------

    def chunk(self, run: Run, text: str) -> None:
        """A piece of a streamed answer. The first one that holds text sets the time to first chunk."""
        if text:
            if not run.first_chunk:
                run.first_chunk = time.time_ns()
            run.chunks.append(text)

    # --- ends ------------------------------------------------------------------------------------

    def end(
        self, key: Hashable, *, error: BaseException | str | None = None, cancelled: bool = False,
        finished: int | None = None,
    ) -> None:  # fmt: skip
        """End a run. The end of a root ends all that is open below it and hands the trace on.

        `cancelled` says that the consumer walked away, which is not an error. An unknown key is ignored: its request
        was ended before it, and its spans with it. `finished` is in Unix nanoseconds, now by default and for a root."""
        run = self._runs.pop(key, None)
        if run is None or isinstance(run, _Suppressed):
            return
        run.request.open.pop(key, None)
        if cancelled or error is not None:
            run.request.broken.append(key)
        if run.key != key:
            return
        if error is not None:
            run.failure = error if isinstance(error, str) else type(error).__name__
        if run.parent is None:
            self._end_request(run, error, cancelled)
            release(run)
        else:
            self._end_span(run, error, cancelled, finished)

    def _end_request(self, root: Run, error: BaseException | str | None, cancelled: bool) -> None:
        request = root.request
        request.ended = True
        self._roots.pop(root.key, None)
        # Runs whose end never comes (a cancelled task) or comes later (a stream closed early) end with their request.
        left = list(request.open)
        for key in reversed(left):
            run = request.open.pop(key, None)
            for table in request.tables:
                table.pop(key, None)
            if run is not None:
                self._end_span(run, None, run.reports_end)
        if cancelled or (error is not None and error != "expired"):
            self._outlive([*request.broken, *left])
        consumer = self._own_consumer or _consumer
        if root.operation not in FRAGMENTS:
            try:
                complete(root)
            except Exception:  # noqa: BLE001 the root ends with what it has
                self.failed("complete")
        if consumer is None or not is_request(root):
            self._end_span(root, error, cancelled)
            return
        finished = _end_of(root)
        timing.record(request, root, finished)
        try:
            trace = trace_of(root, error, cancelled, finished, self.capture.sanitizer)
            decision = _WAITING if trace.facts.waiting else consumer.sample(trace)
            root.attributes[semconv.SAMPLED] = decision.keep
            root.attributes[semconv.PROBABILITY] = decision.probability
            if decision.keep:
                trace = replace(trace, facts=replace(trace.facts, spans=timing.spans(root, request.finished)))
            else:
                root.attributes[semconv.STATUS] = "waiting" if trace.facts.waiting else "sampled_out"
        finally:  # without a trace the span still leaves
            self._end_span(root, error, cancelled, finished)
        consumer.submit(trace, decision)

    def _outlive(self, keys: Sequence[Hashable]) -> None:
        """A thread may go on after its request was cancelled or failed: what it starts is no request of its own."""
        self._runs.update(dict.fromkeys(keys, _SUPPRESSED))
        self._outlived.extend(keys)
        while len(self._outlived) > _MAX_OPEN:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._runs.pop(self._outlived.popleft(), None)

    def _end_span(
        self, run: Run, error: BaseException | str | None, cancelled: bool, finished: int | None = None
    ) -> None:
        if run.recording:
            try:
                redact_written(run.span, run.title, self.capture.others or self.capture.sanitizer)
                if error is not None:
                    run.attributes[semconv.ERROR_TYPE] = mark_failed(run.span, error, self.capture)
                add_attributes(self.capture, run, cancelled, self.failed)
            except Exception:  # noqa: BLE001 a value that cannot be written costs neither the span nor its request
                self.failed("attributes")
        finished = finished or _end_of(run)
        if run.parent is not None:  # a root was noted before its trace was made
            timing.record(run.request, run, finished)
        run.span.end(finished)
        if self.capture.events and run.operation in MODEL_CALLS:
            try:
                emit_inference(self.capture, run, self.logger_provider)
            except Exception:  # noqa: BLE001 as above
                self.failed("event")

    # --- care ------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """End requests whose end was lost, once a minute, and the oldest ones beyond the bound."""
        now = time.monotonic()
        if (now < self._next_sweep and len(self._roots) < _MAX_OPEN) or not self._sweep_lock.acquire(blocking=False):
            return
        try:
            self._next_sweep = now + 60.0
            self.expire(_EXPIRE, keep=_MAX_OPEN - 1)
        finally:
            self._sweep_lock.release()

    def expire(self, age: float = 0.0, keep: int = 0) -> int:
        """End open requests that are at least `age` seconds old, and the oldest beyond `keep`; says how many. Without
        arguments it ends all: for a process that stops while requests are open."""
        limit = time.time_ns() - int(age * 1e9)
        roots = sorted(self._roots.values(), key=lambda run: run.started)
        surplus = len(roots) - keep if age else len(roots)
        lost = [run for i, run in enumerate(roots) if i < surplus or run.started <= limit]
        for run in lost:
            self.end(run.key, error="expired")
        return len(lost)

    @contextlib.contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Let no exception of ours reach the application: it is counted. Not for what every step of a request does."""
        try:
            yield
        except Exception:  # noqa: BLE001 see above
            self.failed(where)

    def failed(self, where: str, key: Hashable | None = None) -> None:
        """Count a failure inside ragtrace, and log the first one with its traceback. The run with this `key` ends."""
        self.failures += 1
        failures.count += 1
        if self.failures == 1:
            log_failure(__name__, "ragtrace: %s failed; further failures are only counted", where)
        if key is not None:
            with contextlib.suppress(Exception):
                self.end(key)


_recorders: weakref.WeakValueDictionary[Hashable, Recorder] = weakref.WeakValueDictionary()
_recorders_lock = threading.Lock()


def open_recorder(
    scope: str, *, tracer_provider: Any = None, capture_content: bool | str | None = None,
    capture: ContentPolicy | None = None, logger_provider: Any = None, consumer: Any = None,
) -> Recorder:  # fmt: skip
    """Returns the recorder of an adapter: a shared one for the same options, so that a run which two handlers see is
    recorded once, or a new one for a `consumer`.

    `scope` is the adapter's instrumentation scope. Raises ValueError for an unknown mode of `capture_content`."""
    content = capture if capture is not None else ContentPolicy.of(capture_content)
    if consumer is not None:
        return Recorder(
            tracer_provider, capture=content, scope=scope, logger_provider=logger_provider, consumer=consumer
        )
    key = (id(tracer_provider), id(logger_provider), content, scope)
    with _recorders_lock:
        recorder = _recorders.get(key)
        if recorder is None:
            recorder = Recorder(tracer_provider, capture=content, scope=scope, logger_provider=logger_provider)
            _recorders[key] = recorder
    return recorder


def all_recorders() -> list[Recorder]:
    """Every shared recorder in use."""
    # Not by `values`, which takes longer: LangChain's handler asks at the start of each request.
    return [recorder for reference in _recorders.valuerefs() if (recorder := reference()) is not None]


def _is_wrapped(run: Run) -> bool:
    """Whether it is the tool that is recorded around it: a decorated function that a framework calls as its tool."""
    return run.parent is not None and (run.parent.operation, run.parent.name) == (run.operation, run.name)


def _end_of(run: Run) -> int:
    """Now, in Unix nanoseconds; not before the run's start, for clocks are set back."""
    return max(time.time_ns(), run.started)

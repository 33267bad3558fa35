"""The two handlers that LlamaIndex's dispatcher calls, in the application's thread or task.

LlamaIndex silently drops an exception that a handler raises; ours are counted instead."""

from inspect import BoundArguments
from typing import TYPE_CHECKING, Any

from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import active_instrument_tags
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span_handlers import BaseSpanHandler

from ragtrace.capture.recorder import open_recorder
from ragtrace.capture.reply_streams import reaper
from ragtrace_llama_index.tracer import Tracer

_SETTLE = 1.0
"""Seconds that the end of tracing waits at most for streams that were just dropped."""


class RagtraceSpanHandler(BaseSpanHandler[Any]):
    """Passes LlamaIndex's spans to the tracer; keeps no spans itself."""

    if TYPE_CHECKING:
        tracer: Tracer

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        # Bypasses pydantic: reading one of its private attributes costs a microsecond.
        object.__setattr__(self, "tracer", tracer)

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Handles the start of a span."""
        try:
            self.tracer.enter(id_, bound_args, instance, parent_id, tags)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self.tracer.recorder.failed("span_enter")

    def span_exit(
        self, id_: str, bound_args: BoundArguments, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> None:
        """Handles the end of a span."""
        try:
            self.tracer.exit(id_, result)
        except Exception:  # noqa: BLE001 as above
            self.tracer.recorder.failed("span_exit")
        self.tracer.detach(id_)

    def span_drop(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """Handles the end of a span with an exception."""
        try:
            self.tracer.drop(id_, err)
        except Exception:  # noqa: BLE001 as above
            self.tracer.recorder.failed("span_drop")
        self.tracer.detach(id_)

    def _is_never_called(self, *args: Any, **kwargs: Any) -> None:
        """The base class calls these methods only in the three methods that are overridden above."""

    new_span = prepare_to_exit_span = prepare_to_drop_span = _is_never_called

    def close(self) -> None:
        """Ends all open runs; the dispatcher calls this when it shuts down."""
        self.tracer.recorder.expire()


class RagtraceEventHandler(BaseEventHandler):
    """Passes LlamaIndex's events to the tracer."""

    if TYPE_CHECKING:
        tracer: Tracer

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        object.__setattr__(self, "tracer", tracer)

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Handles an event inside a span."""
        try:
            self.tracer.event(event)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self.tracer.recorder.failed(type(event).__name__)


class Handlers:
    """The two handlers of one instrumentation, on LlamaIndex's root dispatcher."""

    def __init__(self, **options: Any) -> None:
        """Adds both handlers to the dispatcher, with the instrumentor's options. Raises ValueError for an unknown mode
        of `capture_content`."""
        self.recorder = open_recorder("ragtrace_llama_index", **options)
        self._dispatcher = get_dispatcher()
        tracer = Tracer(self.recorder, self._dispatcher, active_span_id, active_instrument_tags)
        self._spans, self._events = RagtraceSpanHandler(tracer), RagtraceEventHandler(tracer)
        self._dispatcher.add_span_handler(self._spans)
        self._dispatcher.add_event_handler(self._events)

    def unregister(self) -> None:
        """Removes both handlers. Ends the requests in progress, because their ends would not be reported any more."""
        dispatcher = self._dispatcher
        dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not self._spans]
        dispatcher.event_handlers = [h for h in dispatcher.event_handlers if h is not self._events]
        reaper.settle(_SETTLE)  # a stream that was closed just now is cancelled, not expired
        self.recorder.expire()

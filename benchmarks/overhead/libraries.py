"""The tracing libraries that are measured: how each one is set up, and what it exports to."""

import contextlib
import json
import os
import pkgutil
import time
from collections.abc import Callable
from typing import Any

from applications import CHUNKS

CONTENT = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": ("SPAN_ONLY", "NO_CONTENT"),
    "OTEL_SEMCONV_STABILITY_OPT_IN": ("gen_ai_latest_experimental", "gen_ai_latest_experimental"),
    "TRACELOOP_TRACE_CONTENT": ("true", "false"), "OPENINFERENCE_HIDE_INPUTS": ("false", "true"),
    "OPENINFERENCE_HIDE_OUTPUTS": ("false", "true"), "TRACELOOP_TELEMETRY": ("false", "false"),
    "LANGSMITH_TRACING": ("false", "false"), "OTEL_BSP_MAX_QUEUE_SIZE": ("100000", "100000"),
}  # fmt: skip
"""Environment variables with and without the texts of the requests."""
SDK = "ragtrace, SDK's processor"
"""ragtrace's instrumentation with the batch processor that all peers use."""
ENCODER = f"{SDK}, use_encoder"
"""The same, with an exporter that was given to `ragtrace_otlp.use_encoder`."""
EVALUATING = "ragtrace with evaluation"
BUSY = "none, beside a busy process"
"""No tracing, while another process keeps one processor busy, as the evaluating process does: what of a duration is the
machine's."""
UNTRACED = ("none", BUSY)
OURS = (*UNTRACED, "by hand", "ragtrace", SDK, ENCODER, EVALUATING)


def set_environment(content: str) -> None:
    """Sets the environment variables; `content` is `full` or `none`."""
    for name, (full, none) in CONTENT.items():
        os.environ[name] = full if content == "full" else none


class Encoded:
    """An exporter that encodes to OTLP and keeps only the numbers of spans and bytes."""

    spans = 0
    bytes = 0

    def __init__(self, library: str) -> None:
        if library in UNTRACED:
            return
        from opentelemetry.exporter.otlp.proto.common import trace_encoder

        self._encode: Callable[[Any], Any] = trace_encoder.encode_spans
        if library in {"ragtrace", ENCODER, EVALUATING}:
            with contextlib.suppress(ImportError):  # earlier commits have none
                from ragtrace_otlp.span_encoder import encode_spans

                self._encode = encode_spans

    def export(self, batch: Any) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.spans += len(batch)
        self.bytes += len(self._encode(batch).SerializeToString())
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Does nothing: there is nothing to close."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def _sdk_processor(exporter: Encoded) -> Any:
    """The SDK's batch processor with its own defaults."""
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return BatchSpanProcessor(exporter, schedule_delay_millis=200)  # type: ignore[arg-type]


def _own_processor(exporter: Encoded) -> Any:
    """The processor that ragtrace sets up: its exporting thread lets others run between spans."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    from ragtrace_otlp.batch import CountingExporter, PacedSpanProcessor

    counted: CountingExporter[Any] = CountingExporter(exporter, "spans", SpanExportResult.FAILURE)
    return PacedSpanProcessor(counted)


def make_provider(library: str, exporter: Encoded) -> Any:
    """Returns the application's tracer provider, or None without tracing."""
    if library in UNTRACED:
        return None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    if library in {"ragtrace", EVALUATING}:
        provider.add_span_processor(_own_processor(exporter))
    elif library != "langfuse":  # it brings a processor of its own
        provider.add_span_processor(_sdk_processor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def drain(provider: Any) -> None:
    """Waits until the processors' own threads have exported what waits; `force_flush` would do it in this thread."""
    processors = provider._active_span_processor._span_processors if provider is not None else ()
    queues = [
        getattr(getattr(processor, "_batch_processor", None), "_queue", ()) for processor in _innermost(processors)
    ]
    while any(queues):
        time.sleep(0.1)
    if provider is not None:
        provider.force_flush()


def _innermost(processors: Any) -> list[Any]:
    """Processors, also those behind ragtrace's hold."""
    inner: list[Any] = []
    for processor in processors:
        nested = getattr(processor, "inner", None) or getattr(processor, "processors", None)
        if nested is None:
            inner.append(processor)
        else:
            inner += _innermost(nested if isinstance(nested, tuple) else (nested,))
    return inner


# --- instrumentation -----------------------------------------------------------------------------


def instrument(framework: str, library: str, provider: Any, content: str, exporter: Encoded) -> None:
    """Switches a library on. `framework` is `langchain`, which includes LangGraph, or `llama_index`."""
    if library in {*UNTRACED, "by hand"}:
        return
    if library.startswith("ragtrace"):
        _ragtrace(framework, provider, library == EVALUATING, content == "full")
    elif library == "langfuse":
        _langfuse(provider, exporter)
    else:
        instrumentor = pkgutil.resolve_name(_INSTRUMENTORS[library, framework])
        instrumentor().instrument(tracer_provider=provider)


def _ragtrace(framework: str, provider: Any, evaluating: bool, content: bool) -> None:
    """ragtrace on a provider; `evaluating` starts the whole of it, with the default evaluators and sampling."""
    if evaluating:
        import ragtrace

        ragtrace.init(tracer_provider=provider, capture_content="true" if content else "false")
        return
    if framework == "langchain":
        from ragtrace_langchain import RagtraceLangChainInstrumentor as Instrumentor
    else:
        from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor as Instrumentor  # type: ignore[assignment]
    Instrumentor().instrument(tracer_provider=provider, capture_content=content)


def _langfuse(provider: Any, exporter: Encoded) -> None:
    """Langfuse's callback handler for all calls, with its own processor and our exporter."""
    from contextvars import ContextVar

    from langchain_core.tracers.context import register_configure_hook
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    Langfuse(
        public_key="pk-lf-x", secret_key="sk-lf-x", host="http://127.0.0.1:9", tracer_provider=provider,
        span_exporter=exporter,
    )  # fmt: skip
    of_all_calls = CallbackHandler()
    handler: ContextVar[Any] = ContextVar("langfuse", default=of_all_calls)
    register_configure_hook(handler, True)


_INSTRUMENTORS = {
    ("openinference", "langchain"): "openinference.instrumentation.langchain:LangChainInstrumentor",
    ("openinference", "llama_index"): "openinference.instrumentation.llama_index:LlamaIndexInstrumentor",
    ("opentelemetry", "langchain"): "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor",
    ("opentelemetry", "llama_index"): "opentelemetry.instrumentation.genai.llama_index:LlamaIndexInstrumentor",
    ("openllmetry", "langchain"): "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
    ("openllmetry", "llama_index"): "opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor",
}
PEERS = {
    "openinference": ["openinference-instrumentation-langchain", "openinference-instrumentation-llama-index"],
    "opentelemetry": [
        "opentelemetry-instrumentation-genai-langchain",
        "opentelemetry-instrumentation-genai-llama-index",
    ],
    "openllmetry": [
        "opentelemetry-instrumentation-langchain",
        "opentelemetry-instrumentation-llamaindex",
        "llama-index-llms-openai",  # it is imported, and not among its requirements
    ],
    "langfuse": ["langfuse"],
}
"""The packages of each peer. Langfuse has no instrumentation of its own for LlamaIndex."""


def by_hand(provider: Any, ask: Callable[[str], Any]) -> Callable[[str], Any]:
    """Writes three spans around a request as one would by hand."""
    tracer = provider.get_tracer("by hand")

    def traced(question: str) -> Any:
        with tracer.start_as_current_span("rag", attributes={"input.value": question}) as root:
            with tracer.start_as_current_span("retrieval") as span:
                span.set_attribute("documents", json.dumps([{"id": i, "content": c} for i, c in enumerate(CHUNKS)]))
            with tracer.start_as_current_span("chat") as span:
                span.set_attribute("input", json.dumps([{"role": "user", "content": question}]))
                answer = ask(question)
                span.set_attribute("output", json.dumps([{"role": "assistant", "content": str(answer)}]))
            root.set_attribute("output.value", str(answer))
        return answer

    return traced

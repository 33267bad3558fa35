"""One process, one framework, one way of tracing: what a request costs. Run by `run.py`; prints one JSON line.

    python app.py FRAMEWORK LIBRARY REQUESTS

`cpu_us` is the CPU time of the whole process for a request, the encoding of what is exported to OTLP included;
`p50_us` and `p99_us` are the request's own durations. Texts are captured wherever a library can.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

for name, value in {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    "TRACELOOP_TRACE_CONTENT": "true",
    "TRACELOOP_TELEMETRY": "false",
    "LANGSMITH_TRACING": "false",
}.items():
    os.environ.setdefault(name, value)

TEXT = (
    "Every delivery of the nursery is guaranteed for eighteen months, provided that the roots are watered twice a week "
    "in the first summer and the trunk is tied to a post until the second winter. "
) * 4
CHUNKS = [f"({i}) {TEXT}" for i in range(5)]
ANSWER = (
    "A tree is guaranteed for eighteen months. Water its roots twice a week in the first summer. "
    "Tie the trunk to a post. Take the post away after the second winter."
)
WARM = 100


class Encoded:
    """An exporter that encodes to OTLP and throws the bytes away."""

    spans = 0

    def export(self, batch: Any) -> Any:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.spans += len(batch)
        encode_spans(batch).SerializeToString()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to close."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def sdk(exporter: Encoded) -> Any:
    """A provider as applications have it: the SDK's batch processor with its own defaults."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=100_000, schedule_delay_millis=200))
    trace.set_tracer_provider(provider)
    return provider


def own(exporter: Encoded) -> Any:
    """A provider as ragtrace sets it up: its exporting thread steps aside between two spans."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from ragtrace_otlp.batch import CountingExporter, PacedSpanProcessor

    provider = TracerProvider()
    from opentelemetry.sdk.trace.export import SpanExportResult

    counted: CountingExporter[Any] = CountingExporter(exporter, "spans", SpanExportResult.FAILURE)
    os.environ["OTEL_BSP_MAX_QUEUE_SIZE"] = "100000"
    provider.add_span_processor(PacedSpanProcessor(counted))
    trace.set_tracer_provider(provider)
    return provider


def langchain() -> Callable[[str], str]:
    """A chain of a retriever, a prompt, a model and a parser."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    documents = [
        Document(page_content=text, id=str(i), metadata={"source": f"guide-{i}.pdf", "score": 0.9 - i / 10})
        for i, text in enumerate(CHUNKS)
    ]

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return documents

    prompt = ChatPromptTemplate.from_messages([("system", "Use the context."), ("human", "{context}\n\n{question}")])
    chain = (
        {
            "context": Fixed() | (lambda documents: "\n\n".join(d.page_content for d in documents)),
            "question": RunnablePassthrough(),
        }
        | prompt
        | FakeListChatModel(responses=[ANSWER])
        | StrOutputParser()
    )
    return chain.invoke


def llama_index() -> Callable[[str], str]:
    """A query engine over a retriever."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [
        NodeWithScore(node=TextNode(text=text, id_=str(i), metadata={"source": f"guide-{i}.pdf"}), score=0.9 - i / 10)
        for i, text in enumerate(CHUNKS)
    ]

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return nodes

    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=60), response_mode="compact")  # type: ignore[arg-type]
    engine = RetrieverQueryEngine(retriever=Fixed(), response_synthesizer=synthesizer)
    return lambda question: str(engine.query(question))


def by_hand(provider: Any, ask: Callable[[str], str]) -> Callable[[str], str]:
    """Three spans as one would write them by hand: the floor."""
    tracer = provider.get_tracer("by hand")

    def traced(question: str) -> str:
        with tracer.start_as_current_span("rag", attributes={"input.value": question}) as root:
            with tracer.start_as_current_span("retrieval") as span:
                span.set_attribute("documents", json.dumps([{"id": i, "content": c} for i, c in enumerate(CHUNKS)]))
            with tracer.start_as_current_span("chat") as span:
                span.set_attribute("input", json.dumps([{"role": "user", "content": question}]))
                answer = ask(question)
                span.set_attribute("output", json.dumps([{"role": "assistant", "content": answer}]))
            root.set_attribute("output.value", answer)
        return answer

    return traced


def ragtrace_setup(framework: str, provider: Any, evaluating: bool) -> None:
    """ragtrace on a provider; `evaluating` starts the whole of it, with the default evaluators and sampling."""
    if evaluating:
        import ragtrace

        ragtrace.init(tracer_provider=provider, capture_content="true")
        return
    if framework == "langchain":
        from ragtrace_langchain import RagtraceLangChainInstrumentor as Instrumentor
    else:
        from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor as Instrumentor  # type: ignore[assignment]
    Instrumentor().instrument(tracer_provider=provider, capture_content=True)


def instrument(framework: str, library: str, provider: Any) -> None:
    """Switch a library on."""
    if library.startswith("ragtrace"):
        ragtrace_setup(framework, provider, library == "ragtrace+evaluation")
    elif library == "openinference" and framework == "langchain":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=provider)
    elif library == "openinference":
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    elif library == "opentelemetry" and framework == "langchain":
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as Official

        Official().instrument(tracer_provider=provider)
    elif library == "opentelemetry":
        from opentelemetry.instrumentation.genai.llama_index import LlamaIndexInstrumentor as OfficialIndex

        OfficialIndex().instrument(tracer_provider=provider)
    else:
        raise SystemExit(f"unknown library {library}")


def main() -> None:
    framework, library, requests = sys.argv[1], sys.argv[2], int(sys.argv[3])
    exporter, provider = Encoded(), None
    if library.startswith("ragtrace") and not library.endswith("stock"):
        provider = own(exporter)
    elif library != "none":
        provider = sdk(exporter)
    if library not in ("none", "by hand"):
        instrument(framework, library, provider)
    ask = langchain() if framework == "langchain" else llama_index()
    if library == "by hand":
        ask = by_hand(provider, ask)
    for i in range(WARM):
        ask(f"How long is tree {i} guaranteed?")
    if provider is not None:
        provider.force_flush()
    exporter.spans = 0
    gc.collect()
    walls = []
    start = time.process_time()
    for i in range(requests):
        started = time.perf_counter_ns()
        ask(f"How long is tree {i} guaranteed?")
        walls.append((time.perf_counter_ns() - started) / 1000)
    if provider is not None:
        provider.force_flush()
    cpu = (time.process_time() - start) / requests * 1e6
    walls.sort()
    print(
        json.dumps(
            {
                "cpu_us": round(cpu, 1),
                "p50_us": round(walls[len(walls) // 2], 1),
                "p99_us": round(walls[int(len(walls) * 0.99)], 1),
                "spans": round(exporter.spans / requests, 1),
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""Other libraries' spans in one process: which span waits for its scores, and what is counted."""

import time
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, set_span_in_context

import ragtrace
from ragtrace import sampling
from ragtrace.capture import seen_context
from ragtrace.capture.spans.collector import CollectorLimits
from ragtrace.evaluation import evaluator
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Evaluation, Trace
from ragtrace_otlp import SpanSource, attach
from tests.conftest import Gathering
from tests.row_files import rows, table

OI, TRACELOOP = "openinference.instrumentation.langchain", "opentelemetry.instrumentation.langchain"
CLIENT = "openinference.instrumentation.openai"
CHAIN, CALL, RETRIEVAL = rows(__file__, "attributes")


@evaluator(needs={"answer"}, threshold=0.5)
def present(trace: Trace) -> float:
    return 1.0


class Application:
    """A provider with an exporter, in front of which ragtrace reads."""

    def __init__(self, consumer: Any = None, limits: CollectorLimits | None = None, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.consumer = consumer or Gathering()
        self.telemetry = attach(self.provider)
        self.source = SpanSource(consumer=self.consumer, limits=limits or CollectorLimits(settle=0.02))
        self.source.attach(self.provider, self.telemetry.hold)

    def start(self, name: str, scope: str, parent: Any = None, **options: Any) -> Any:
        context = None if parent is None else set_span_in_context(parent)
        return self.provider.get_tracer(scope).start_span(name, context, **options)

    def span(self, name: str, scope: str, attributes: dict[str, Any], parent: Any = None, **options: Any) -> Any:
        span = self.start(name, scope, parent, attributes=attributes, **options)
        span.end()
        return span

    def named(self, name: str) -> ReadableSpan:
        [span] = [each for each in self.exporter.get_finished_spans() if each.name == name]
        return span

    @property
    def traces(self) -> list[Trace]:
        assert self.source.flush(60)
        return self.consumer.traces

    def flush(self) -> None:
        assert self.source.flush(60)
        pipeline: Any = self.source._consumer
        assert pipeline.flush(60)


@pytest.fixture(autouse=True)
def application() -> Application:
    seen_context._chunks.clear()
    return Application()


def test_scores_are_on_the_other_librarys_root() -> None:
    evaluations: list[Evaluation] = []
    application = Application(consumer=Pipeline([present]))
    pipeline = Pipeline([present], [application.telemetry.hold, evaluations.append])  # type: ignore[list-item]
    application.source._consumer = pipeline
    root = application.start("rag", OI, attributes=CHAIN)
    application.span("retriever", OI, RETRIEVAL, root)
    assert application.named("retriever").attributes == RETRIEVAL
    root.end()
    application.flush()
    attributes = dict(application.named("rag").attributes or {})
    assert (attributes["gen_ai.evaluation.present.score"], attributes["ragtrace.evaluation.status"]) == (1.0, "scored")
    assert attributes["ragtrace.sampling.probability"] == 1.0
    assert [d.content for d in evaluations[0].trace.documents] == ["The pump is covered for 24 months."]
    pipeline.close(5)


def test_a_span_around_a_workflow_has_its_texts(application: Application) -> None:
    """OpenLLMetry records a graph twice: the outer span, the request's root, has neither question nor answer."""
    attributes = table(__file__, "recorded twice")
    root = application.start("invoke_agent LangGraph", TRACELOOP, attributes=attributes["root"])
    inner = application.start("LangGraph.workflow", TRACELOOP, root, attributes=attributes["inner"])
    application.span("chat", TRACELOOP, attributes["call"], inner)
    inner.end()
    root.end()
    [trace] = application.traces
    assert (trace.span_id, trace.query, trace.answer) == (root.context.span_id, "How long?", "24 months.")


def test_a_request_that_is_sampled_out_says_so() -> None:
    pipeline = Pipeline([present], sampler=sampling.ratio(0.0))
    application = Application(consumer=pipeline)
    application.span("rag", OI, CHAIN)
    assert application.source.flush(60)
    attributes = dict(application.named("rag").attributes or {})
    assert attributes["ragtrace.evaluation.status"] == "sampled_out"
    assert attributes["ragtrace.sampling.probability"] == 0.0
    assert pipeline.counts()["present"].sampled_out == 1
    pipeline.close(5)


def test_what_is_no_request_leaves_unchanged(application: Application) -> None:
    application.span("StrOutputParser", OI, CHAIN)
    application.span("retriever", OI, RETRIEVAL)
    assert (application.traces, application.named("StrOutputParser").attributes) == ([], CHAIN)
    assert application.named("retriever").attributes == RETRIEVAL


def test_the_server_span_is_the_request_of_a_client_alone(application: Application) -> None:
    """Two model calls below a web server's span are one request, whose root is that span; a database is no part."""
    server = application.start("POST /ask", "web", kind=SpanKind.SERVER)
    handler = application.start("handle", "app", server)
    application.span("SELECT", "db", {"db.system": "x"}, handler, kind=SpanKind.CLIENT)
    for _ in range(2):
        application.span("ChatCompletion", CLIENT, CALL, handler)
    handler.end()
    server.end()
    [trace] = application.traces
    assert trace.span_id == server.context.span_id
    assert (trace.query, trace.answer, trace.facts.input_tokens) == ("How long?", "24 months.", 80)


def test_a_chain_below_a_server_does_not_wait_for_the_server(application: Application) -> None:
    """A chain is evaluated when it has ended, though the connection that asked for it stays open for hours."""
    server = application.start("WS /chat", "web", kind=SpanKind.SERVER)
    for n in range(3):
        application.span("ChatCompletion", CLIENT, CALL, server)  # rewrites the question
        application.span(f"rag {n}", OI, CHAIN, server)
        assert len(application.traces) == n + 1
    assert (application.traces[-1].facts.name, application.traces[-1].facts.output_tokens) == ("rag 2", 9)
    application.span("ChatCompletion", CLIENT, CALL, server)  # gives the conversation a title
    assert application.source.stats().kept_bytes < 2_000  # and nothing of what was handed on
    server.end()
    assert len(application.traces) == 3


def test_a_root_that_ends_before_its_children() -> None:
    """A stream that is read after its chain has ended gives its answer to the request."""
    application = Application(limits=CollectorLimits(settle=0.01))
    root = application.start("rag", OI, attributes={"openinference.span.kind": "CHAIN", "input.value": "How long?"})
    call = application.start("model", OI, root, attributes=CALL)
    root.end()
    time.sleep(0.2)
    assert application.consumer.traces == []
    call.end()
    assert application.traces[0].answer == "24 months."


def test_a_child_without_an_end_is_not_waited_for_for_ever() -> None:
    application = Application(limits=CollectorLimits(settle=0.01, patience=0.05))
    root = application.start("rag", OI, attributes=CHAIN)
    application.start("model", OI, root, attributes=CALL)
    root.end()
    assert [trace.answer for trace in application.traces] == ["24 months."]


def test_a_request_without_an_end_is_given_up(application: Application) -> None:
    root = application.start("rag", OI, attributes=CHAIN)
    application.span("model", OI, CALL, root)
    application.source.close(5)
    assert [trace.error for trace in application.consumer.traces] == ["expired"]
    assert application.source.stats().lost["expired"] == 1


def test_a_request_inside_one_that_never_ended(application: Application) -> None:
    """A library that leaves its context behind hides later requests below a span that never ends: they count."""
    lost = application.start("lost", OI, attributes={"openinference.span.kind": "CHAIN"})
    application.span("rag", OI, CHAIN, lost)
    application.source.close(5)
    assert [trace.facts.name for trace in application.consumer.traces] == ["rag"]


def test_traces_that_the_sampler_drops_cost_nothing() -> None:
    application = Application(sampler=ParentBased(ALWAYS_OFF))
    root = application.start("rag", OI, attributes=CHAIN)
    assert not root.is_recording()
    application.span("model", OI, CALL, root)
    root.end()
    assert application.traces == []


def test_other_traces_are_ignored(application: Application) -> None:
    for _ in range(100):
        server = application.start("GET /health", "web", kind=SpanKind.SERVER)
        application.span("SELECT", "db", {"db.system": "x"}, server, kind=SpanKind.CLIENT)
        server.end()
    assert (application.traces, len(application.exporter.get_finished_spans())) == ([], 200)
    stats = application.source.stats()
    assert (stats.open_traces, stats.kept_bytes, sum(stats.lost.values())) == (0, 0, 0)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (CollectorLimits(traces=10, settle=0.02), "traces"),
        (CollectorLimits(bytes=40_000, settle=0.02), "bytes"),
        (CollectorLimits(open_spans=10, settle=0.02), "open_spans"),
    ],
)
def test_open_traces_are_bounded(limits: CollectorLimits, reason: str) -> None:
    application = Application(limits=limits)
    roots = []
    for _ in range(1_000):
        roots.append(application.start("rag", OI, attributes=CHAIN))
        application.span("model", OI, CALL, roots[-1])
    stats = application.source.stats()
    assert stats.lost[reason] > 900
    assert stats.open_traces <= 1_000 - stats.lost[reason] + 10
    assert stats.kept_bytes <= max(40_000, 20 * 2_000)
    for root in roots:
        root.end()
    assert len(application.exporter.get_finished_spans()) >= 1_000


def test_one_trace_is_bounded_too() -> None:
    """A script whose span stays open while it makes thousands of calls does not fill the memory."""
    application = Application(limits=CollectorLimits(bytes=100_000, settle=0.02))
    script = application.start("main", "app")
    for _ in range(1_000):
        application.span("embed", CLIENT, {"openinference.span.kind": "EMBEDDING", "input.value": "x" * 1_000}, script)
    stats = application.source.stats()
    assert stats.kept_bytes <= 100_000
    assert stats.lost["bytes"] > 0


def test_thousands_at_once(application: Application) -> None:
    roots = [application.start(f"rag {n}", OI, attributes=CHAIN) for n in range(2_000)]
    for root in roots:
        application.span("model", OI, CALL, root)
    for root in roots:
        root.end()
    assert len({trace.span_id for trace in application.traces}) == 2_000
    assert application.source.stats().open_traces == 0


def test_a_framework_traced_twice_is_read_once(application: Application) -> None:
    """Where OpenInference and OpenLLMetry both trace LangChain, only OpenInference's request counts."""
    for _ in range(3):
        root = application.start("rag", OI, attributes=CHAIN)
        other = application.start("rag.workflow", TRACELOOP)
        other.set_attributes({"traceloop.span.kind": "workflow", "traceloop.entity.input": '{"inputs": "?"}'})
        other.end()
        root.end()
    assert [trace.facts.name for trace in application.traces] == ["rag"] * 3


@pytest.mark.parametrize("outer", [OI, TRACELOOP])
def test_a_framework_traced_twice_in_one_trace(outer: str) -> None:
    """Where one library's root is below the other's, each question is one request, the first one, too."""
    application = Application(limits=CollectorLimits(settle=0.1))
    inner = OI if outer != OI else TRACELOOP
    attributes = {OI: CHAIN, TRACELOOP: {"traceloop.span.kind": "workflow"}}
    for n in range(3):
        root = application.start(f"rag {n}", outer, attributes=attributes[outer])
        below = application.start(f"rag {n}", inner, root, attributes=attributes[inner])
        application.span("model", OI, CALL, below if inner == OI else root)
        below.end()
        root.end()
        assert application.source.flush(60)
    assert [trace.facts.name for trace in application.traces] == ["rag 0", "rag 1", "rag 2"]
    assert {trace.answer for trace in application.traces} == {"24 months."}


def test_a_clients_span_beside_its_frameworks_is_the_same_call() -> None:
    """A client that is traced as well, in a trace of its own, is no second request."""
    application = Application(limits=CollectorLimits(settle=0.5))
    root = application.start("rag", OI, attributes=CHAIN)
    call = application.start("ChatOpenAI", OI, root, attributes=CALL)
    application.span("ChatCompletion", CLIENT, CALL)
    call.end()
    root.end()
    [trace] = application.traces
    assert (trace.facts.name, trace.facts.output_tokens) == ("rag", 9)


@pytest.mark.parametrize(
    ("name", "scope", "attributes"),
    [("invoke_workflow rag", "ragtrace_langchain", {}), ("judge", OI, {"openinference.span.kind": "EVALUATOR"})],
)
def test_what_is_below_is_no_request(application: Application, name: str, scope: str, attributes: Any) -> None:
    """A client's and a chain's spans are a part of a request that ragtrace records, or of an evaluation."""
    outer = application.start(name, scope, attributes=attributes)
    application.span("ChatCompletion", CLIENT, CALL, outer)
    application.span("chain", OI, CHAIN, outer)
    outer.end()
    assert application.traces == []


def test_a_span_that_ends_twice_counts_once(application: Application) -> None:
    """A source that stands in the provider twice sees each span twice, and counts it once."""
    application.provider.add_span_processor(application.source)
    application.span("rag", OI, CHAIN)
    assert len(application.traces) == 1


def test_nothing_raises_in_the_applications_thread(application: Application) -> None:
    application.source.on_start(object())  # type: ignore[arg-type]
    application.source.on_end(object())  # type: ignore[arg-type]
    for name, attributes in table(__file__, "odd").items():
        application.span(name, OI, attributes)
    application.span("kind", OI, {"gen_ai.operation.name": ("chat",)})
    assert application.provider.force_flush()
    assert {span.name for span in application.exporter.get_finished_spans()} == {"odd", "numbers", "kind"}
    assert application.source.stats().lost["failed"] >= 2


def test_a_source_that_is_closed_leaves_the_provider_as_it_was(application: Application) -> None:
    application.source.close()
    application.span("rag", OI, CHAIN)
    assert (application.named("rag").attributes, application.consumer.traces) == (CHAIN, [])


@evaluator(needs={"answer", "documents"}, threshold=0.5)
def supported(trace: Trace) -> float:
    return 1.0


def test_chunks_of_which_only_ids_are_known() -> None:
    """OpenTelemetry's libraries write no chunk texts: what needs chunks is not eligible, and the retrieval counts."""
    pipeline = Pipeline([present, supported])
    application = Application(consumer=pipeline)
    scope, attributes = "opentelemetry.instrumentation.genai.langchain", table(__file__, "ids alone")
    traces: list[Trace] = []
    pipeline._observers = (lambda trace, _decision: traces.append(trace),)
    root = application.start("rag", scope, attributes=attributes["root"])
    application.span("retrieval", scope, attributes["retrieval"], root)
    application.span("chat", scope, attributes["call"], root)
    root.end()
    application.flush()
    assert [(d.id, d.content, d.score) for d in traces[0].documents] == [("d0", "", 0.9)]
    assert (traces[0].answer, traces[0].facts.retrievals) == ("24 months.", 1)
    assert (pipeline.counts()["present"].eligible, pipeline.counts()["supported"].eligible) == (1, 0)
    # Without any text a request is counted, and evaluators that need its answer are not eligible.
    application.span("chat", "opentelemetry.instrumentation.genai.openai", attributes["call without a text"])
    application.flush()
    assert application.source.stats().requests == 2
    assert pipeline.counts()["present"].eligible == 1
    pipeline.close(5)


@pytest.mark.parametrize("source", ["auto", "spans", "callbacks"])
def test_init_reads_the_spans_of_the_applications_provider(source: str) -> None:
    """`ragtrace.init` evaluates other libraries' spans by itself; `source="callbacks"` leaves them alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    processors = provider._active_span_processor._span_processors
    evaluations: list[Evaluation] = []
    runtime = ragtrace.init(
        tracer_provider=provider, evaluators=[present], sinks=[evaluations.append], source=source, sample_per_second=0
    )
    provider.get_tracer(OI).start_span("rag", attributes=CHAIN).end()
    assert runtime.flush(60)
    [span] = exporter.get_finished_spans()
    is_read = source != "callbacks"
    assert (dict(span.attributes or {}).get("gen_ai.evaluation.present.score") == 1.0) == is_read
    assert len(evaluations) == is_read
    assert (runtime.spans.requests if is_read else runtime.spans) == (1 if is_read else None)
    runtime.close()
    assert provider._active_span_processor._span_processors == processors


@pytest.mark.parametrize("attributes", rows(__file__, "messages_in_other_shapes"))
def test_messages_in_other_shapes(application: Application, attributes: dict[str, Any]) -> None:
    """Thoughts and pictures are no text; parts come as attributes, as JSON in a text, or structured."""
    application.span("chat", "any", attributes)
    [trace] = application.traces
    assert (trace.query, trace.answer) == ("How long?", "24 months.")

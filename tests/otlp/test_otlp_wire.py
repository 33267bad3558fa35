"""The OTLP path over the wire: a real gRPC and a real HTTP receiver, protobuf decoded, nothing mocked."""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

import ragtrace
from ragtrace import semconv
from ragtrace.evaluation import evaluator
from ragtrace.records import Evidence, Score, Trace
from ragtrace_otlp import set_up
from ragtrace_otlp.jsonl import JsonLinesSpanExporter
from tests.otlp.receivers import Received, grpc_server, http_server, plain, slow_server
from tests.waiting import until


class Two(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=f"passage {i}", id=f"d{i}", metadata={"score": 0.5}) for i in range(2)]


def ask(question: str) -> Any:
    chain = Two() | RunnableLambda(lambda ds: ds[0].page_content) | FakeListChatModel(responses=["An answer."])
    return chain.with_config(run_name="wire").invoke(question)


@evaluator(needs={"answer"}, threshold=0.5)
def half(trace: Trace) -> float:
    return 0.25


@evaluator(needs={"answer"})
def broken(trace: Trace) -> float:
    raise ValueError


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_tree_and_events_arrive(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    server: Any = grpc_server() if protocol == "grpc" else http_server()
    with server as (endpoint, received), contextlib.closing(ragtrace.init(
        app="wire-app", env="test", evaluators=[half, broken], otlp_endpoint=endpoint, capture_content="true",
        frameworks=("langchain",), sample_per_second=0,
    )) as runtime:  # fmt: skip
        ask("How?")
        assert runtime.flush(60)
    spans = received.spans()
    assert set(spans) == {"invoke_workflow wire", "retrieval Two", "chat FakeListChatModel"}
    root = spans["invoke_workflow wire"]
    assert root.parent_span_id == b""
    for name in ("retrieval Two", "chat FakeListChatModel"):
        assert (spans[name].parent_span_id, spans[name].trace_id) == (root.span_id, root.trace_id)
    attributes = plain(root.attributes)
    assert (attributes["gen_ai.evaluation.half.score"], attributes["gen_ai.evaluation.half.label"]) == (0.25, "fail")
    assert attributes["gen_ai.evaluation.broken.label"] == "error"
    assert "How?" in attributes[semconv.INPUT_MESSAGES]
    names = {"service.name": "wire-app", "deployment.environment.name": "test"}
    assert names.items() <= received.resource().items()
    events = {plain(r.attributes)[semconv.EVALUATION_NAME]: r for r in received.records()}
    assert set(events) == {"half", "broken"}
    for event in events.values():
        assert event.event_name == semconv.EVENT_EVALUATION
        assert (event.trace_id, event.span_id) == (root.trace_id, root.span_id)
    assert plain(events["half"].attributes)[semconv.EVALUATION_SCORE_VALUE] == 0.25
    failed = plain(events["broken"].attributes)
    assert failed[semconv.ERROR_TYPE] == "ValueError"
    assert semconv.EVALUATION_SCORE_VALUE not in failed


def test_late_scores_arrive_as_linked_spans() -> None:
    release = threading.Event()

    @evaluator(needs={"answer"}, timeout=30)
    def slow(trace: Trace) -> float:
        release.wait(30)
        return 1.0

    with http_server() as (endpoint, received), contextlib.closing(
        ragtrace.init(evaluators=[slow, half], otlp_endpoint=endpoint, hold_seconds=0.05, frameworks=("langchain",))
    ) as runtime:  # fmt: skip
        ask("How?")
        hold = next(s for s in runtime.pipeline._sinks if hasattr(s, "stats"))
        until(lambda: hold.stats().expired)
        release.set()
        assert runtime.flush(60)
    spans = received.spans()
    root, late = spans["invoke_workflow wire"], spans["evaluation"]
    assert plain(root.attributes)[semconv.STATUS] == "pending_timeout"
    assert (late.parent_span_id, [link.span_id for link in late.links]) == (root.span_id, [root.span_id])
    attributes = plain(late.attributes)
    assert (attributes["gen_ai.evaluation.slow.score"], attributes["gen_ai.evaluation.half.score"]) == (1.0, 0.25)
    assert sum(len(scope.spans) for each in received.traces.resource_spans for scope in each.scope_spans) == 4
    assert len(received.records()) == 2


SLOW = {
    "HTTP, never": ("http", "http/protobuf", b""),
    "HTTP, the head byte by byte": ("http", "http/protobuf", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000),
    "HTTP, the body byte by byte": ("http", "http/protobuf", b"HTTP/1.1 200 OK\r\n\r\n"),
    "HTTPS, the handshake byte by byte": ("https", "http/protobuf", b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xf0"),
    "gRPC, never": ("http", "grpc", b""), "gRPC, byte by byte": ("http", "grpc", b"\x00\x00\x00\x04" + bytes(50)),
}  # fmt: skip


@pytest.mark.parametrize("kind", SLOW)
def test_a_collector_without_an_end_is_given_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request costs the exporter's timeout and no more, the next one is tried, and at the end all is counted."""
    scheme, protocol, answer = SLOW[kind]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    with slow_server(answer) as port:
        telemetry = set_up(app="a", env="b", endpoint=f"{scheme}://127.0.0.1:{port}")
        tracer = telemetry.tracer_provider.get_tracer("t")
        for _ in range(6_000):
            tracer.start_span("s").end()
        exporter = telemetry.span_exporter
        assert exporter is not None
        until(lambda: sum(exporter.stats().failed.values()) >= 600)
        assert not telemetry.flush(0.2)
        assert exporter.stats().failed.keys() <= {"timeout", "rejected"}
        telemetry.close(0.2)
    stats = exporter.stats()
    assert stats.exported == 0
    assert telemetry.stats().spans_dropped + sum(stats.failed.values()) == 6_000


def test_what_the_queue_of_the_file_drops_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes, write = threading.Event(), JsonLinesSpanExporter.export
    monkeypatch.setattr(JsonLinesSpanExporter, "export", lambda self, spans: writes.wait(60) and write(self, spans))
    with http_server() as (address, _received):
        telemetry = set_up(app="a", env="b", endpoint=address, spans_file=str(tmp_path / "spans"))
        tracer = telemetry.tracer_provider.get_tracer("t")
        for _ in range(6_000):
            tracer.start_span("s").end()
        writes.set()
        telemetry.flush(30)
        stats = telemetry.stats()
        telemetry.close(5)
    assert stats.spans is not None
    assert stats.file_spans is not None
    assert stats.file_spans.exported < 6_000
    assert stats.spans.exported + stats.spans_dropped == 6_000
    assert stats.file_spans.exported + stats.file_spans_dropped == 6_000
    assert telemetry.undelivered == stats.spans_dropped + stats.file_spans_dropped


PAGE = "Location: http://127.0.0.1:9/\r\nRetry-After: 60\r\nContent-Type: text/html"
PARTIAL = ExportTraceServiceResponse(partial_success={"rejected_spans": 3}).SerializeToString()


@pytest.mark.parametrize(
    ("status", "headers", "body", "failed"),
    [
        (200, PAGE, b"", {"rejected": 10}),
        (200, "Content-Type: application/x-protobuf", PARTIAL, {"rejected": 3}),
        (200, "Content-Type: application/json", b"{}", {}),
        (302, PAGE, b"", {"rejected": 10}),
        (308, PAGE, b"", {"rejected": 10}),
        (429, PAGE, b"", {"unavailable": 10}),
    ],
)
def test_what_a_collector_does_not_take_is_no_success(status: int, headers: str, body: bytes, failed: Any) -> None:
    """What an endpoint sends elsewhere, a page answers or it refuses is rejected; a busy one was not available."""
    answer = f"HTTP/1.1 {status} No\r\n{headers}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with http_server(answer=answer) as (endpoint, _):
        telemetry = set_up(app="a", env="b", endpoint=endpoint)
        for _ in range(10):
            telemetry.tracer_provider.get_tracer("t").start_span("s").end()
        telemetry.flush(10)
        telemetry.close(1)
    stats = telemetry.stats().spans
    assert stats is not None
    assert (stats.exported, stats.failed) == (10 - sum(failed.values()), failed)


def test_a_second_start_does_not_join_what_the_first_one_shut_down() -> None:
    """A provider of ours stays the global one after `close`; the next `init` without an endpoint does not join it."""
    with http_server() as (endpoint, _):
        ragtrace.init(evaluators=[half], otlp_endpoint=endpoint, frameworks=("langchain",)).close()
    with contextlib.closing(
        ragtrace.init(evaluators=[half], frameworks=("langchain",), sample_per_second=0)
    ) as runtime:
        ask("How?")
        assert runtime.flush(60)


SECRET = "MARKED-7f3a9c"


def hide(text: str) -> str:
    return text.replace(SECRET, "[hidden]")


class Leaky(BaseRetriever):
    """A retriever whose every field holds the secret."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        metadata = {"source": SECRET, SECRET: 1, "deep": [{"a": SECRET}], "score": 0.5}
        return [Document(page_content=f"{'x ' * 8_190}{SECRET} tail", id=f"id {SECRET}", metadata=metadata)]


@evaluator(needs={"answer"}, threshold=0.5)
def quotes(trace: Trace) -> Score:
    evidence = (Evidence(0, 3, "unsupported", 0.1, trace.documents[0].id, 0, 0, 3),) if trace.documents else ()
    return Score("quotes", 0.1, f"label {trace.answer}", f"because {trace.answer}", evidence=evidence)


@evaluator(needs={"query"})
def fails(trace: Trace) -> Score:
    return Score("fails", error=f"error {trace.query}")


def leak(fail: bool) -> None:
    """One request with the secret in each of its inputs."""

    def answer(documents: list[Document]) -> str:
        if fail:
            try:
                raise KeyError(f"inner {SECRET}")
            except KeyError as error:
                raise ValueError(f"outer {SECRET} {'y' * 600}") from error
        return f"question {SECRET} {documents[0].page_content}"

    model = FakeListChatModel(responses=[f"An answer with {SECRET}."])
    chain = (Leaky() | RunnableLambda(answer) | model).with_config(run_name=f"run {SECRET}")
    metadata = {
        "session_id": f"s-{SECRET}", "user_id": f"u-{SECRET}", "prompt_version": f"v-{SECRET}", "plan": SECRET,
        SECRET: "key", "app": f"app-{SECRET}",
    }  # fmt: skip
    with contextlib.suppress(ValueError):
        chain.invoke(f"question {SECRET}", config={"metadata": metadata, "tags": [f"tag {SECRET}"]})
    tool = StructuredTool.from_function(lambda text: f"{text} back", name=f"tool_{SECRET}", description="A tool.")
    RunnableLambda(lambda text: tool.invoke({"text": text})).invoke(f"{SECRET} to the tool")


class Named(FakeMessagesListChatModel):
    """A model with the secret in each name that it has, and in what it calls."""

    number: int

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {
            "ls_provider": f"provider {SECRET}", "ls_model_name": f"model {SECRET} {self.number}",
            "ls_model_type": "chat", "ls_stop": [SECRET],
        }  # fmt: skip


def named(number: int, **fields: Any) -> Any:
    """A model with tools, and the secret in all that names or describes them."""
    reply = AIMessage(
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"model_name": f"model {SECRET}", "finish_reason": f"end {SECRET}", "id": f"r {SECRET}"},
        **fields,
    )
    schema = {"type": "object", "properties": {SECRET: {"type": "string", "description": SECRET}}}
    function = {"name": f"tool_{SECRET}", "description": SECRET, "parameters": schema}
    own = StructuredTool.from_function(lambda text: text, name=f"own_{SECRET}", description=f"own {SECRET}")
    return Named(responses=[reply], number=number).bind(
        tools=[{"type": "function", "function": function}, own], base_url=f"https://{SECRET}.example/{SECRET}"
    )


def leak_names() -> None:
    """Requests with the secret in the names of workflow, agent, tenant, models, tools, prompt variables and steps."""
    call = {"name": f"tool_{SECRET}", "args": {SECRET: SECRET}, "id": f"call {SECRET}"}
    prompt = ChatPromptTemplate.from_messages([("system", f"rules {SECRET}"), ("human", f"{{{SECRET}}}")])
    chain = (
        prompt | named(1, content="", tool_calls=[call]) | RunnableLambda(lambda _: "go on") | named(2, content="So.")
    )
    metadata = {"tenant": f"tenant {SECRET}", "env": SECRET, "langgraph_node": f"node {SECRET}"}
    for name in ("workflow_name", "agent_name"):
        chain.invoke({SECRET: SECRET}, config={"metadata": {**metadata, name: f"{name} {SECRET}"}})
    named(3, content="", tool_calls=[call]).with_config(run_name=SECRET).invoke(SECRET)


def exported(leaks: Callable[[], None], folder: Path, framework: str) -> tuple[Received, dict[str, bytes]]:
    """What is received, and all bytes that leave, of requests that hold the secret. None of them may hold it."""
    spans, report = folder / "spans.jsonl", folder / "report.jsonl"
    with http_server() as (endpoint, received), contextlib.closing(ragtrace.init(
        app="wire-app", evaluators=[quotes, fails], otlp_endpoint=endpoint, spans_file=str(spans),
        report_file=str(report), capture_content="SPAN_AND_EVENT", capture_tags=["plan", "tenant"],
        explanations=True, redact=hide, prometheus_port=0, frameworks=(framework,), sample_per_second=0,
    )) as runtime:  # fmt: skip
        leaks()
        assert runtime.flush(60)
        with urllib.request.urlopen(runtime.metrics_url or "") as page:
            metrics = page.read()
    places = {
        "spans": received.traces.SerializeToString(), "events": received.logs.SerializeToString(),
        "spans_file": spans.read_bytes(), "report_file": report.read_bytes(), "metrics": metrics,
    }  # fmt: skip
    for place, written in places.items():
        assert written, place
        assert SECRET.encode() not in written, place
    return received, places


@pytest.mark.parametrize("fail", [False, True])
def test_no_exported_byte_holds_a_redacted_secret(fail: bool, tmp_path: Path) -> None:
    """Spans, events, files and metrics are looked at. A file and an endpoint have the same spans, with their scores."""

    def leaks() -> None:
        leak(fail)
        leak_names()
        told = {"category": SECRET, "comment": SECRET, "source": SECRET}
        assert ragtrace.feedback("ab" * 16, thumbs=-1, **told)  # type: ignore[arg-type]
        assert ragtrace.score("ab" * 16, "own", None, SECRET, SECRET)

    received, places = exported(leaks, tmp_path, "langchain")
    names = ("invoke_workflow run", "invoke_workflow workflow_name", "invoke_agent agent_name", "chat model")
    assert all(any(span.startswith(f"{name} [hidden]") for span in received.spans()) for name in names)
    if fail:
        (event,) = received.spans()["invoke_workflow run [hidden]"].events
        assert "inner [hidden]" in plain(event.attributes)["exception.stacktrace"]
    written = [json.loads(line) for line in places["spans_file"].splitlines()]
    assert {each["name"] for each in written} == set(received.spans())
    assert any("gen_ai.evaluation.quotes.score" in each["attributes"] for each in written)


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "export_pressure.py"


@pytest.mark.process
def test_a_saturated_event_loop_drops_no_span() -> None:
    """200 tasks that never idle end six times as many spans as the queue takes: each reaches the collector."""
    # A queue of the usual size: a busy machine may let the collector's process wait while the application goes on.
    size = ["--spans", "24576", "--queue", "4096", "--work", "2000"]
    command = [sys.executable, str(BENCHMARK), *size]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    report = json.loads(done.stdout)
    assert (report["missing"], report["dropped"]) == (0, 0)

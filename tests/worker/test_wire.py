"""From real senders through the worker to a real receiver."""

import gzip
import json
import zlib
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from ragtrace_otlp.wire import write_attributes
from tests.otlp.receivers import grpc_server, plain
from tests.worker.running import ANSWER, QUESTION, is_balanced, post, request_of, retriever, root, running, scope, span


@pytest.mark.parametrize("kind", ["grpc", "http", "gzip"])
def test_a_request_of_the_real_sdk_is_scored_and_sent_on(kind: str) -> None:
    with running() as run:
        provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        exporter: Any = HttpExporter(run.url, compression=Compression.Gzip if kind == "gzip" else None)
        if kind == "grpc":
            exporter = GrpcExporter(f"http://127.0.0.1:{run.worker.grpc_port}", insecure=True)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = provider.get_tracer("openinference.instrumentation.langchain", "1.0")
        words = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
        with tracer.start_as_current_span("chain", attributes=words), tracer.start_as_current_span("inner"):
            pass
        provider.shutdown()
        stats = run.wait(lambda s: s.sent == 2)
        spans, [event] = run.received.spans(), run.received.records()
        assert plain(spans["chain"].attributes)["gen_ai.evaluation.kept.score"] == 1.0
        assert plain(spans["chain"].attributes)["ragtrace.evaluation.status"] == "scored"
        assert plain(spans["inner"].attributes) == {}
        assert (event.trace_id, event.span_id) == (spans["chain"].trace_id, spans["chain"].span_id)
        assert plain(run.received.logs.resource_logs[0].resource.attributes)["service.name"] == "shop"
        [trace] = run.evaluated
        assert (trace.query, trace.answer, trace.facts.app) == (QUESTION, ANSWER, "shop")
        assert stats.open == 0
        assert is_balanced(stats)


def _with_everything() -> ExportTraceServiceRequest:
    """A message with all that OTLP knows, and with fields that it does not know yet."""
    request = ExportTraceServiceRequest()
    for number in (1, 2):
        target = scope(request, "shop", "openinference")
        of_resource = request.resource_spans[-1]
        of_resource.schema_url = "https://opentelemetry.io/schemas/1.30.0"
        of_resource.resource.dropped_attributes_count = 3
        target.schema_url, target.scope.version = "https://opentelemetry.io/schemas/1.29.0", "2.1"
        one = root(target, number, number)
        one.trace_state, one.flags, one.status.code, one.status.message = "vendor=1", 0x101, 1, "fine"
        one.dropped_attributes_count, one.dropped_events_count, one.dropped_links_count = 4, 5, 6
        event = one.events.add(name="happened", time_unix_nano=5, dropped_attributes_count=1)
        event.attributes.add(key="list").value.array_value.values.add(int_value=7)
        link = one.links.add(trace_id=bytes(15) + b"9", span_id=bytes(7) + b"8", trace_state="x=y", flags=1)
        link.attributes.add(key="why").value.kvlist_value.values.add(key="deep").value.bytes_value = b"\x00\xff"
        retriever(target, number, 100 + number, number)
    for of_resource in request.resource_spans:
        of_resource.MergeFromString(b"\xfa\x3e\x05later")  # field 1007
        of_resource.scope_spans[0].MergeFromString(b"\xfa\x3e\x05later")
        of_resource.scope_spans[0].spans[0].MergeFromString(b"\xfa\x3e\x05later")
    return request


def _parts(request: Any) -> dict[bytes, tuple[bytes, bytes, bytes]]:
    """Resource, scope and span of each span, encoded, without the attributes that ragtrace adds."""
    parts = {}
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for each in of_scope.spans:
                around, frame, copy = (type(m).FromString(m.SerializeToString()) for m in (of_resource, of_scope, each))
                around.ClearField("scope_spans")
                frame.ClearField("spans")
                own = ("ragtrace.", "gen_ai.evaluation", "evaluations.")
                copy.ClearField("attributes")
                copy.attributes.extend(pair for pair in each.attributes if not pair.key.startswith(own))
                parts[each.span_id] = tuple(m.SerializeToString(deterministic=True) for m in (around, frame, copy))
    return parts


@pytest.mark.parametrize("behind", ["http", "grpc"])
def test_what_came_leaves_untouched(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _parts(_with_everything())
    if behind == "grpc":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with grpc_server() as (url, over_grpc), running(behind=url if behind == "grpc" else "") as run:
        assert run.post(_with_everything().SerializeToString())[0] == 200
        run.wait(lambda s: s.sent == 4)
        received = over_grpc if behind == "grpc" else run.received
        assert _parts(received.traces) == before


@pytest.mark.parametrize("coding", ["", "gzip", "members", "deflate"])
def test_json_is_read_as_protobuf_is(coding: str) -> None:
    """OTLP's JSON, with ids in hexadecimal and unknown fields, gives the same spans; the answer is JSON, too."""
    content = json_format.MessageToDict(request_of(7))
    content["comesLater"] = {"unknown": 1}
    for each in content["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        number = 72 if "parentSpanId" in each else 71
        parent = {"parentSpanId": f"{71:016x}"} if number == 72 else {}
        each |= {"traceId": f"{7:032x}", "spanId": f"{number:016X}", **parent}
    text = json.dumps(content).encode()
    body = {"gzip": gzip.compress, "deflate": zlib.compress}.get(coding, bytes)(text)
    if coding == "members":  # as two files of gzip that were joined
        coding, body = "gzip", gzip.compress(text[:99]) + gzip.compress(text[99:])
    with running() as run:
        status, answer, headers = run.post(body, "application/json; charset=utf-8", Content_Encoding=coding)
        assert (status, json.loads(answer), headers["content-type"]) == (200, {}, "application/json")
        run.wait(lambda s: s.sent == 2)
        assert _parts(run.received.traces) == _parts(request_of(7))


def test_spans_late_twice_out_of_order_and_from_several_services_are_one_request() -> None:
    """Parts in any order are one request; what comes after its end is passed on, and evaluated no more."""
    first, second, third = ExportTraceServiceRequest(), ExportTraceServiceRequest(), ExportTraceServiceRequest()
    root(scope(first, "gateway"), 5)
    retriever(scope(second, "search"), 5)
    span(scope(third, "search"), 3, 5, 2)
    with running({"quiet_seconds": 0.8}) as run:
        for message in (first, second, first, second):
            assert run.post(message.SerializeToString())[0] == 200
        run.wait(lambda s: s.sent == 2)
        for message in (third, second):
            run.post(message.SerializeToString())
        stats = run.wait(lambda s: s.sent == 3)
        assert [len(trace.documents) for trace in run.evaluated] == [1]
        assert run.evaluated[0].facts.app == "gateway"
        assert len(run.sent_spans()) == 3
        assert (stats.dropped, stats.late, stats.open) == ({"duplicate": 3}, 1, 0)
        assert is_balanced(stats)


def test_a_request_that_is_not_sampled_says_so() -> None:
    traces = [(1 << 56) * number + draw for number, draw in enumerate([0, (1 << 56) - 1] * 3, 1)]
    with running(sample=0.25) as run:
        message = ExportTraceServiceRequest()
        for trace in traces:
            root(scope(message), trace, trace >> 56)
        run.post(message.SerializeToString())
        run.wait(lambda s: s.sent == 6)
        marks = {int.from_bytes(s.trace_id, "big"): plain(s.attributes) for s in run.sent_spans()}
        assert [marks[trace]["ragtrace.sampling.probability"] for trace in traces] == [0.25] * 6
        assert ["gen_ai.evaluation.kept.score" in marks[trace] for trace in traces] == [False, True] * 3
        assert [marks[trace]["ragtrace.evaluation.status"] for trace in traces] == ["sampled_out", "scored"] * 3


def _web(target: Any) -> None:
    target.scope.name = "opentelemetry.instrumentation.fastapi"
    span(target, 1, 3).kind = SpanKind.SERVER.value + 1
    span(target, 2, 3, 1, db_system="sqlite")


def _unknown(target: Any) -> None:
    span(target, 1, 3, gen_ai_operation_name="dream")
    span(target, 2, 3, 1, acme_llm_prompt=QUESTION)


def _fragment(target: Any) -> None:
    retriever(target, 3, 1, 0)


def _own(target: Any) -> None:
    target.scope.name = "ragtrace"
    root(target, 3)


def _too_many(target: Any) -> None:
    write_attributes(root(target, 3), {f"key {number}": number for number in range(6_000)})


@pytest.mark.parametrize("fill", [_web, _unknown, _fragment, _own, _too_many])
def test_what_is_not_understood_is_passed_on_untouched(fill: Any) -> None:
    """What is no request, or too large to read, leaves byte by byte as it came, and is counted by reason."""
    message = ExportTraceServiceRequest()
    fill(scope(message))
    body = message.SerializeToString()
    with running() as run:
        run.post(body)
        stats = run.wait(lambda s: s.open == 0 and s.sent > 0)
        assert run.received.traces.SerializeToString() == body
        assert (stats.traces, run.evaluated) == ({"unread" if fill is _too_many else "no_request": 1}, [])
        assert is_balanced(stats)


def test_sessions_of_two_services_are_apart() -> None:
    with running() as run:
        for trace, service, retrieves in ((1, "shop", True), (2, "bank", False), (3, "shop", False)):
            message = ExportTraceServiceRequest()
            target = scope(message, service)
            root(target, trace).attributes.add(key="session.id").value.string_value = "session-1"
            if retrieves:
                retriever(target, trace)
            run.evaluate(message)
        assert [(t.facts.app, len(t.documents)) for t in run.evaluated] == [("shop", 1), ("bank", 0), ("shop", 1)]


def test_other_signals_are_refused() -> None:
    with running() as run:
        for name in ("logs", "metrics"):
            assert post(run.url.replace("traces", name), b"")[0] == 404
        with grpc.insecure_channel(f"127.0.0.1:{run.worker.grpc_port}") as channel:
            call = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
            with pytest.raises(grpc.RpcError) as refused:
                call(b"")
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert run.worker.stats().refused == {"path": 2}


def test_scores_have_the_probability_of_a_sampler_before_the_worker() -> None:
    """Behind a consistent head sampler (`ot=th`) the lower rate counts, behind `head_sample` the product."""
    request = ExportTraceServiceRequest()
    target = scope(request)
    for trace, state in ((1, "vendor=x,ot=th:c;rv:ffffffffffffff"), (2, "ot=rv:ffffffffffffff"), (3, "")):
        root(target, trace).trace_state = state
    with running(head_sample=0.5, sample=0.9999999) as run:
        run.post(request.SerializeToString())
        run.wait(lambda stats: stats.traces.get("request", 0) == 3)
        assert run.worker.runtime.flush(60.0)
        probabilities = {trace.trace_id: trace.sampling_probability for trace in run.evaluated}
    assert probabilities == pytest.approx({1: 0.25, 2: 0.5, 3: 0.5}, rel=1e-3)

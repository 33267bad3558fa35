"""What is damaged, too large or odd is refused or bounded, and the next good request is served."""

import base64
import gzip
import http.client
import json
import logging
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragtrace.errors import SettingError
from ragtrace.worker import grpc_receiver, http_receiver, intake, open_traces
from tests.otlp.certificates import make_certificate
from tests.otlp.receivers import http_server
from tests.row_files import table
from tests.worker.running import PROTOBUF, Running, is_balanced, request_of, retriever, root, running, scope, span

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_GOOD = request_of(1).SerializeToString()
_LIMIT, _JSON = 1_000_000, "application/json"


@pytest.fixture(scope="module", autouse=True)
def _short_bodies() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (grpc_receiver, http_receiver, intake):
            patch.setattr(module, "BODY_BYTES", _LIMIT)
        patch.setattr(open_traces, "LONGEST", 2.0)
        yield


@pytest.fixture(scope="module")
def run(_short_bodies: None) -> Iterator[Running]:
    with running({"quiet_seconds": 0.03}) as run:
        yield run


def _call(run: Running, body: bytes, compression: grpc.Compression | None = None, **metadata: str) -> bytes:
    with grpc.insecure_channel(f"127.0.0.1:{run.worker.grpc_port}", compression=compression) as channel:
        return bytes(channel.unary_unary(_EXPORT)(body, metadata=tuple(metadata.items()), timeout=30))


def _is_served(run: Running) -> bool:
    """Whether a good request is taken, over both protocols, and sent on."""
    before, trace = run.worker.stats().sent, random.randrange(1, 1 << 50)
    bodies = [request_of(number).SerializeToString() for number in (trace, trace + 1)]
    taken = run.post(bodies[0])[0] == 200 and _call(run, bodies[1]) == b""
    run.wait(lambda s: s.sent >= before + 4)
    return taken and is_balanced(run.worker.stats())


_BODIES: dict[str, tuple[bytes, str, str, int]] = {
    "truncated protobuf": (_GOOD[: len(_GOOD) // 2], PROTOBUF, "", 400),
    "random gzip": (random.Random(2).randbytes(5_000), PROTOBUF, "gzip", 400),
    "gzip of many members": (gzip.compress(b"") * 9_999, PROTOBUF, "gzip", 400),
    "truncated gzip": (gzip.compress(_GOOD)[:-12], PROTOBUF, "gzip", 400),
    "gzip bomb": (gzip.compress(bytes(50_000_000)), PROTOBUF, "gzip", 413),
    "50 MB": (bytes(50_000_000), PROTOBUF, "", 413), "another coding": (_GOOD, PROTOBUF, "br", 415),
    "another type": (_GOOD, "text/plain", "", 415), "a page of a browser": (_GOOD, PROTOBUF, "", 403),
    "deep JSON": (b"[" * 100_000, _JSON, "", 400),
} | {name: (text.encode(), _JSON, "", 400) for name, text in table(__file__, "json").items()}  # fmt: skip


@pytest.mark.parametrize("name", _BODIES)
def test_a_bad_body_is_refused(name: str, run: Running) -> None:
    """Each bad body gets its status and a reason in OTLP's form; nothing of it is taken, and a good one is."""
    body, kind, coding, status = _BODIES[name]
    before = run.worker.stats()
    connection = http.client.HTTPConnection("127.0.0.1", run.worker.http_port or 0, timeout=60)
    headers = {"Content-Type": kind, "Content-Encoding": coding, "Content-Length": str(len(body))}
    headers.update({"Origin": "https://evil.example"} if "browser" in name else {})
    connection.request("POST", "/v1/traces", body if len(body) < _LIMIT else b"", headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    message = json.loads(text)["message"] if kind == _JSON else Status.FromString(text).message
    assert (answer.status, bool(message)) == (status, True)
    after = run.worker.stats()
    assert (after.received, sum(after.refused.values())) == (before.received, sum(before.refused.values()) + 1)
    assert _is_served(run)


def test_a_body_of_unknown_length_is_bounded(run: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", run.worker.http_port or 0, timeout=60)
    connection.putrequest("POST", "/v1/traces")
    connection.putheader("Content-Type", PROTOBUF)
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    for _ in range(20):
        connection.send(chunk)
    assert connection.getresponse().status == 413
    connection.close()
    assert _is_served(run)


@pytest.mark.parametrize(
    ("body", "compression", "code"),
    [
        (_GOOD[: len(_GOOD) // 2], None, grpc.StatusCode.INVALID_ARGUMENT),
        (bytes(50_000_000), None, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (bytes(50_000_000), grpc.Compression.Gzip, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=["truncated", "50 MB", "compressed"],
)
def test_a_bad_message_is_refused_over_grpc(body: bytes, compression: Any, code: Any, run: Running) -> None:
    """Each bad message, be it large only after decompression, gets its code, and the next good one is taken."""
    before = sum(run.worker.stats().refused.values())
    with pytest.raises(grpc.RpcError) as refused:
        _call(run, body, compression)
    assert refused.value.code() is code
    assert _is_served(run)
    run.wait(lambda s: sum(s.refused.values()) == before + 1)


def test_silent_grpc_calls_keep_nobody_out(run: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty senders open a call and say nothing: others are served, and theirs end."""
    monkeypatch.setattr(grpc_receiver, "_MESSAGE_SECONDS", 1.0)
    silence = threading.Event()
    with grpc.insecure_channel(f"127.0.0.1:{run.worker.grpc_port}") as channel:
        export = channel.stream_unary(_EXPORT)
        silent = [export.future(iter(silence.wait, True), timeout=30) for _ in range(40)]
        assert _is_served(run)
        assert all(call.code() is grpc.StatusCode.INVALID_ARGUMENT for call in silent)
        silence.set()


def test_spans_without_valid_ids_are_left_out(run: Running) -> None:
    message = request_of(77)
    for number, trace in ((0, 5), (5, 0), (6, 6)):
        last = span(scope(message), number, trace)
    last.trace_id = b"short"
    before = run.worker.stats()
    status, answer, _ = run.post(message.SerializeToString())
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert (status, partial.rejected_spans, bool(partial.error_message)) == (200, 3, True)
    stats = run.wait(lambda s: s.sent == before.sent + 2)
    assert stats.dropped["invalid"] == before.dropped.get("invalid", 0) + 3
    assert is_balanced(stats)


def test_one_odd_span_of_json_costs_no_other(run: Running) -> None:
    """An id of other letters, and half an emoji where JavaScript cut a text."""
    good = json_format.MessageToDict(request_of(78))
    (spans,) = (of_scope["spans"] for of_resource in good["resourceSpans"] for of_scope in of_resource["scopeSpans"])
    for each in spans:
        each |= {key: base64.b64decode(each[key]).hex() for key in ("traceId", "spanId", "parentSpanId") if key in each}
    body = json.dumps(good).replace("24 months", "\\ud83d months").replace(spans[0]["spanId"], "zz", 1)
    before = run.worker.stats().dropped.get("invalid", 0)
    answer = requests.post(run.url, body, headers={"Content-Type": _JSON}, timeout=60)
    assert (answer.status_code, answer.json()["partialSuccess"]["rejectedSpans"]) == (200, "1")
    run.wait(lambda s: s.dropped["invalid"] == before + 1 and s.open == 0)


def _cycle(target: Any, trace: int) -> None:
    root(target, trace, 1).parent_span_id = (2).to_bytes(8, "big")
    retriever(target, trace, 2, 1)
    retriever(target, trace, 3, 3)


def _odd_times(target: Any, trace: int) -> None:
    one, two = root(target, trace, 1), retriever(target, trace, 2, 1)
    one.start_time_unix_nano, one.end_time_unix_nano = 2**64 - 1, 0
    two.start_time_unix_nano = two.end_time_unix_nano = 0


def _deep_value(target: Any, trace: int) -> None:
    value = root(target, trace).attributes.add(key="deep").value
    for _ in range(40):
        value = value.array_value.values.add()


def _deep_json(target: Any, trace: int) -> None:
    one = root(target, trace)
    one.attributes.add(key="input.value").value.string_value = "[" * 20_000
    one.attributes.add(key="output.value").value.string_value = '{"a":' * 2_000


def _same_key_twice(target: Any, trace: int) -> None:
    one = root(target, trace)
    one.attributes.add(key="input.value").value.bytes_value = b"\xff\xfe"
    one.attributes.add(key="").value.SetInParent()


def _odd_kinds(target: Any, trace: int) -> None:
    words = ("openinference.span.kind", "langfuse.observation.type", "ai.operationId", "gen_ai.operation.name")
    for number, word in enumerate((*words, "traceloop.span.kind", "llm.request.type"), 1):
        value = span(target, number, trace).attributes.add(key=word).value
        value.kvlist_value.values.add(key="kind").value.string_value = "CHAIN"


@pytest.mark.parametrize("fill", [_cycle, _odd_times, _deep_value, _deep_json, _same_key_twice, _odd_kinds])
def test_odd_spans_are_passed_on(fill: Any, run: Running) -> None:
    """Parents in a circle, times before the start or of 1970, and deep values leave as they came."""
    message = ExportTraceServiceRequest()
    fill(scope(message), random.randrange(1, 1 << 120))
    spans = list(message.resource_spans[0].scope_spans[0].spans)
    before, count = run.worker.stats(), len(run.sent_spans())
    assert run.post(message.SerializeToString())[0] == 200
    run.wait(lambda s: s.sent == before.sent + len(spans))
    arrived = run.sent_spans()[count:]
    for one, two in zip(spans, arrived, strict=True):
        assert list(two.attributes)[: len(one.attributes)] == list(one.attributes)
        del one.attributes[:], two.attributes[:]
        assert one == two
    assert run.worker.stats().traces.get("failed", 0) == 0


def test_a_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    large = bytes(_LIMIT + 1)
    with caplog.at_level(logging.WARNING, "ragtrace.worker"), running() as run:
        for _ in range(20):
            run.post(b"\xff")
            run.post(_GOOD, Content_Encoding="br")
            with pytest.raises(grpc.RpcError):
                _call(run, large)
        run.wait(lambda s: s.refused == {"damaged": 20, "coding": 20, "incomplete": 20})
    assert len([r for r in caplog.records if "refused" in r.getMessage()]) == 3


def test_traces_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand traces without a root at most a hundred stay open; the oldest leave, and none is lost."""
    monkeypatch.setattr(open_traces, "MOST_TRACES", 100)
    with running({"quiet_seconds": 10.0}) as run:
        for first in range(1, 1_001, 50):
            message = ExportTraceServiceRequest()
            target = scope(message)
            for trace in range(first, first + 50):
                retriever(target, trace, 5, 4)
            assert run.post(message.SerializeToString())[0] == 200
        stats = run.wait(lambda s: s.sent == 900)
        assert (stats.open, stats.open_traces, stats.ends) == (100, 100, {"too_many": 900})
        assert is_balanced(stats)


def _large(trace: int, service: str) -> bytes:
    message = ExportTraceServiceRequest()
    retriever(scope(message, service), trace).attributes.add(key="text").value.string_value = "x" * 100_000
    return message.SerializeToString()


def test_a_sender_that_floods_leaves_room_for_others() -> None:
    """Who has half of a worker that is half full is asked to come again; in a full one everybody is."""
    with running({"bytes": 1_000_000, "quiet_seconds": 600.0}) as run:
        answers = [run.post(_large(trace, "flood")) for trace in range(1, 10)]
        statuses = [status for status, _, _ in answers]
        assert (statuses, statuses[3], statuses[-1], answers[-1][2]["retry-after"]) == (sorted(statuses), 200, 429, "2")
        assert run.post(_large(100, "other"))[0] == 200
        with pytest.raises(grpc.RpcError) as refused:
            _call(run, _large(101, "flood"))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        trailers = dict(refused.value.trailing_metadata())  # type: ignore[attr-defined]
        info = RetryInfo()
        assert Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
        assert info.retry_delay.seconds == 2
        others = [run.post(_large(trace, f"service {trace}"))[0] for trace in range(200, 210)]
        assert others[-1] == 429
        assert is_balanced(run.worker.stats())


def test_only_those_with_a_token_may_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDERS", "shop=0123456789abcdef\n# a comment\nother=fedcba9876543210")
    with running({"tokens": "SENDERS"}) as run:
        assert run.post(_GOOD)[0] == 401
        assert run.post(_GOOD, Authorization="Bearer 0123456789abcdeF")[0] == 401
        with pytest.raises(grpc.RpcError) as refused:
            _call(run, _GOOD)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert run.post(_GOOD, Authorization="Bearer 0123456789abcdef")[0] == 200
        assert _call(run, request_of(2).SerializeToString(), authorization="Bearer fedcba9876543210") == b""
        run.wait(lambda s: s.sent == 4)
        assert run.worker.stats().refused == {"unauthorized": 3}


@pytest.mark.parametrize("mutual", [False, True])
def test_tls_on_both_ports(mutual: bool, tmp_path: Path) -> None:
    """With a certificate both ports speak TLS alone; with an authority of senders, only to those with a certificate."""
    certificate, key = make_certificate(tmp_path)
    own = {"tls_certificate": str(certificate), "tls_key": str(key)}
    with running({**own, "tls_client_ca": str(certificate) if mutual else ""}) as run:
        message = request_of(1).SerializeToString()
        with pytest.raises(OSError):  # noqa: PT011 without TLS, in whatever way the connection ends
            run.post(message)
        url = run.url.replace("http:", "https:")
        common: dict[str, Any] = {"verify": str(certificate), "headers": {"Content-Type": PROTOBUF}}
        if mutual:
            with pytest.raises(requests.exceptions.RequestException):
                requests.post(url, message, timeout=30, **common)
            common["cert"] = (str(certificate), str(key))
        assert requests.post(url, message, timeout=30, **common).status_code == 200
        pair = (key.read_bytes(), certificate.read_bytes()) if mutual else (None, None)
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes(), *pair)
        with grpc.secure_channel(f"127.0.0.1:{run.worker.grpc_port}", credentials) as channel:
            assert channel.unary_unary(_EXPORT)(request_of(2).SerializeToString(), timeout=30) == b""
        run.wait(lambda s: s.sent == 4)


def test_a_worker_does_not_send_to_itself() -> None:
    with pytest.raises(SettingError, match="would send to itself"):
        running({"http": "127.0.0.1:4399"}, behind="http://localhost:4399").__enter__()


@pytest.mark.parametrize("rejected", [2, 6])
def test_spans_that_an_endpoint_refuses_of_a_message_are_not_sent(rejected: int) -> None:
    """Some of them by a partial success, all of them by a status."""
    body = ExportTraceServiceResponse(partial_success={"rejected_spans": 2}).SerializeToString()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body) if rejected == 2 else b""
    with http_server({"traces": 400}, answer=answer) as (url, _), running(behind=url) as run:
        run.post(request_of(1, 2, 3).SerializeToString())
        stats = run.wait(lambda s: s.open == 0 and s.dropped)
        assert (stats.sent, stats.dropped) == (6 - rejected, {"rejected": rejected})
        assert is_balanced(stats)


def test_senders_that_dribble_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 senders that send a byte now and then are let go, and meanwhile others are served."""
    monkeypatch.setattr(http_receiver, "_GRACE", 1.0)
    with running() as run, ExitStack() as stack:
        address = ("127.0.0.1", run.worker.http_port or 0)
        slow = [stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(300)]
        for each in slow:
            each.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx")
        assert requests.post(run.url, data=b"", timeout=10).status_code == 200
        assert {each.recv(12) for each in slow} == {b"HTTP/1.1 408"}

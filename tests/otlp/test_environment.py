"""OpenTelemetry's environment variables: each one of the SDK's list, with real receivers."""

import contextlib
import json
import logging
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk import environment_variables as sdk_variables
from opentelemetry.trace import Link, SpanContext, TraceFlags

from ragtrace.records import Evaluation, Score
from ragtrace.testing import make_trace
from ragtrace_otlp import Telemetry, set_up
from tests.otlp.certificates import make_certificate
from tests.otlp.receivers import Received, grpc_server, http_server, plain
from tests.row_files import rows

DOCS = Path(__file__).parents[2] / "docs" / "opentelemetry.md"
EXPORT = "OTEL_EXPORTER_OTLP_"
Holds = Callable[[Received, Telemetry], bool]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "REQUESTS_CA", "CURL_CA"))]:
        monkeypatch.delenv(name)  # requests prefers a bundle of the environment to the exporter's certificate


def send(telemetry: Telemetry, spans: int = 1) -> None:
    """Export spans with two attributes, two events and two links, and one score."""
    tracer = otel.get_tracer("test", tracer_provider=telemetry.tracer_provider)
    context = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    two = {"first": "a" * 20, "second": "b" * 20}
    for i in range(spans):
        span = tracer.start_span(f"span {i}", attributes=two, links=[Link(context, two), Link(context, two)])
        span.add_event("one", two)
        span.add_event("two", two)
        span.end()
    score = Score("quality", 0.5, "pass", version="1", method="code")
    for sink in telemetry.sinks:
        sink(Evaluation(make_trace(), (score,)))


@dataclass(frozen=True)
class Case:
    """Variables beside the one that is tested, its value, and what must be so after an export."""

    value: str
    holds: Holds
    others: dict[str, str] = field(default_factory=dict)
    receiver: str = "http"
    spans: int = 1


def count(place: str, expected: int) -> Holds:
    """The first span has so many of something; the place is a path of names and numbers."""

    def holds(received: Received, _: Telemetry) -> bool:
        value = received.spans()["span 0"]
        for name in place.split("."):
            value = value[int(name)] if name.isdigit() else getattr(value, name)
        return len(value) == expected

    return holds


def paths(*expected: str) -> Holds:
    return lambda received, _: sorted(path for path, _ in received.requests) == list(expected)


def header(path: str, name: str, value: str) -> Holds:
    """Every request to a path that ends so has the header, and there is one."""

    def holds(received: Received, _: Telemetry) -> bool:
        values = [headers.get(name) for where, headers in received.requests if where.endswith(path)]
        return bool(values) and set(values) == {value}

    return holds


def timed_out(received: Received, telemetry: Telemetry) -> bool:
    stats = telemetry.stats()
    return any(part is not None and dict(part.failed) == {"timeout": 1} for part in (stats.spans, stats.events))


def setting_of(place: int, name: str, expected: float) -> Holds:
    return lambda _, telemetry: (
        getattr(((*telemetry.processors, telemetry.event_processor)[place])._batch_processor, name) == expected
    )


HTTP = {EXPORT + "ENDPOINT": "{url}"}
PREDICATES: dict[str, Holds] = {
    "both": lambda received, _: bool(received.spans()) and bool(received.records()),
    "spans_alone": lambda received, _: bool(received.spans()) and not received.records(),
    "events_alone": lambda received, _: not received.spans() and bool(received.records()),
    "nothing": lambda received, _: not received.requests,
    "five_letters": lambda received, _: (
        {len(value) for value in plain(received.spans()["span 0"].attributes).values()} == {5}
    ),
    "timed_out": timed_out,
}
MAKERS: dict[str, Callable[..., Holds]] = {each.__name__: each for each in (header, setting_of, count, paths)}
CASES: dict[str, Case] = {
    **{
        variable: Case(value, PREDICATES[holds] if isinstance(holds, str) else MAKERS[holds[0]](*holds[1:]), *others)
        for variable, value, holds, *others in rows(__file__, "cases")
    },
    "OTEL_SERVICE_NAME": Case("shop", lambda r, t: r.resource()["service.name"] == "shop" == t.names[0], HTTP),
    "OTEL_RESOURCE_ATTRIBUTES": Case(
        "service.name=shop,deployment.environment.name=live,team=a",
        lambda r, t: r.resource()["team"] == "a" and t.names == ("shop", "live"),
        HTTP,
    ),
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT": Case("1", lambda r, _: len(r.records()[0].attributes) == 1, HTTP),
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT": Case(
        "3", lambda r, _: plain(r.records()[0].attributes)["gen_ai.evaluation.name"] == "qua", HTTP),
}  # fmt: skip
NOT_USED = re.compile(
    # ragtrace has metrics for Prometheus alone, and no exporter to Zipkin or Jaeger
    r"OTEL_(METRIC|EXPORTER_OTLP_METRICS|EXPORTER_(PROMETHEUS|ZIPKIN|JAEGER)|PYTHON_METER_CONFIGURATOR)\w*"
    # read by the SDK itself, and without an effect on what is sent here
    r"|OTEL_LOG_LEVEL|OTEL_EXPERIMENTAL_RESOURCE_DETECTORS|OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"
    # read by `opentelemetry-instrument` alone, whose provider is joined
    r"|OTEL_CONFIG_FILE|OTEL_PYTHON_(TRACER|LOGGER)_CONFIGURATOR"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine that signs itself, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@contextlib.contextmanager
def receiver(kind: str, certificate: Callable[[], tuple[Path, Path]]) -> Iterator[tuple[str, Received]]:
    answer = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.callback(answer.set)
        if kind == "grpc":
            yield stack.enter_context(grpc_server())
        elif kind in ("tls", "mutual"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate())
            if kind == "mutual":
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(certificate()[0])
            yield stack.enter_context(http_server(tls=context))
        else:
            yield stack.enter_context(http_server(wait=answer if kind == "silent" else None))


@pytest.mark.filterwarnings("ignore:Log record attributes were dropped")
@pytest.mark.parametrize("variable", CASES)
def test_a_variable_is_obeyed(variable: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    case = CASES[variable]

    def files() -> tuple[Path, Path]:
        pair: tuple[Path, Path] = request.getfixturevalue("certificate")
        return pair

    with receiver(case.receiver, files) as (url, received):
        for name, value in {**case.others, variable: case.value}.items():
            certificate, key = files() if "{certificate}" in value or "{key}" in value else ("", "")
            filled = value.format(url=url, host=url.partition("//")[2], certificate=certificate, key=key)
            monkeypatch.setenv(name, filled)
        telemetry = set_up()
        try:
            send(telemetry, case.spans)
            telemetry.flush(20)
            assert case.holds(received, telemetry), (received.requests, telemetry.stats())
        finally:
            telemetry.close(0.1)


def test_every_variable_is_tested_and_documented() -> None:
    listed = {value for name, value in vars(sdk_variables).items() if name.startswith("OTEL_")}
    assert {name for name in listed - set(CASES) if not NOT_USED.fullmatch(name)} == set()
    page = DOCS.read_text("utf-8")
    assert {name for name in CASES if name not in page and not name.startswith(EXPORT)} == set()
    of_otlp = [re.sub("^(TRACES_|LOGS_)", "", name.removeprefix(EXPORT)) for name in CASES if EXPORT in name]
    assert {each for each in of_otlp if f"`{each}`" not in page and f"LOGS_]{each}" not in page} == set()


def test_a_setting_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server() as (url, received), http_server() as (other, unused):
        monkeypatch.setenv(EXPORT + "ENDPOINT", other)
        monkeypatch.setenv(EXPORT + "TRACES_ENDPOINT", other)
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=theirs,deployment.environment.name=theirs")
        telemetry = set_up(app="mine", env="test", endpoint=url)
        send(telemetry)
        telemetry.close(20)
    assert unused.requests == []
    assert PREDICATES["both"](received, telemetry)
    assert telemetry.names == ("mine", "test")
    assert received.resource()["openinference.project.name"] == "mine"


@pytest.mark.parametrize("environment", rows(__file__, "a_wrong_environment_never_raises"))
def test_a_wrong_environment_never_raises(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING):
        telemetry = set_up()
        send(telemetry)
        telemetry.flush(5)
        telemetry.close(0.1)
    assert caplog.records


@pytest.mark.parametrize("kind", [404, 405, "grpc"])
def test_a_backend_without_logs_ends_the_events(
    kind: int | str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence and no failure; the spans are not concerned."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc" if kind == "grpc" else "")
    server: Any = grpc_server(logs=False) if kind == "grpc" else http_server({"/v1/logs": int(kind)})
    with server as (url, received), caplog.at_level(logging.WARNING):
        telemetry = set_up(app="a", endpoint=url)
        for _ in range(3):
            send(telemetry)
            assert telemetry.flush(60)
        stats = telemetry.stats()
        telemetry.close(5)
    (record,) = caplog.records
    assert "no events" in record.getMessage()
    assert stats.events is not None
    assert stats.spans is not None
    assert (stats.events.exported, dict(stats.events.failed), stats.events_dropped) == (0, {}, 0)
    assert (stats.spans.exported, dict(stats.spans.failed)) == (3, {})
    assert sum(path.endswith("logs") for path, _ in received.requests) == (0 if kind == "grpc" else 1)


def test_a_backend_that_refuses_spans_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A 404 for spans, or for events after some arrived, is counted: there something is wrong."""
    statuses = {"/v1/traces": 404}
    with http_server(statuses) as (url, _):
        telemetry = set_up(app="a", endpoint=url)
        send(telemetry)
        telemetry.flush(20)
        statuses["/v1/logs"] = 404
        send(telemetry)
        telemetry.flush(20)
        stats = telemetry.stats()
        telemetry.close(5)
    assert stats.events is not None
    assert stats.spans is not None
    assert dict(stats.spans.failed) == {"rejected": 2}
    assert (stats.events.exported, dict(stats.events.failed)) == (1, {"rejected": 1})


APPLICATION = """
import os, sys
import ragtrace
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

{provider}
runtime = ragtrace.init(
    evaluators=["looping_compression_ratio"], frameworks=("langchain",), prometheus_port=0, workers=0
)
chain = (RunnableLambda(lambda q: q) | FakeListChatModel(responses=["An answer."])).with_config(run_name="app")
chain.invoke("q")
assert runtime.flush(60)
import urllib.request
print(urllib.request.urlopen(runtime.metrics_url).read().decode())
runtime.close()
"""
OWN_PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider(resource=Resource.create({resource}))
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
trace.set_tracer_provider(provider)
"""


def run(provider: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the application, with this code before `init`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RAGTRACE_"))}
    command, env = [sys.executable, "-c", APPLICATION.format(provider=provider)], {**own, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done


def test_the_applications_provider_is_used_where_there_is_one(tmp_path: Path) -> None:
    """Its exporters alone get the spans with their scores, and the metrics have its service's name."""
    with http_server() as (url, received):
        provider = OWN_PROVIDER.format(resource='{"deployment.environment.name": "live"}')
        done = run(provider, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_SERVICE_NAME="shop")
    assert received.spans() == {}
    assert '"name": "invoke_workflow app"' in done.stderr
    assert "gen_ai.evaluation.looping_compression_ratio.score" in done.stderr
    assert 'ragtrace_requests_total{app="shop",env="live"' in done.stdout


def test_the_applications_provider_is_completed_by_the_environment(tmp_path: Path) -> None:
    """OTEL_LOGS_EXPORTER brings the events that it lacks; an unknown_service has the name in ragtrace's settings."""
    with http_server() as (url, received):
        environment = {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": url, "RAGTRACE_APP": "mine"}
        done = run(OWN_PROVIDER.format(resource="{}"), tmp_path, **environment)
    assert received.spans() == {}
    (record,) = received.records()
    assert plain(record.attributes)["gen_ai.evaluation.name"] == "looping_compression_ratio"
    assert received.resource()["service.name"] == "mine"
    assert '"service.name": "mine"' in done.stderr
    assert 'ragtrace_requests_total{app="mine",env="dev"' in done.stdout


def test_a_disabled_sdk_leaves_evaluation_and_metrics(tmp_path: Path) -> None:
    """OTEL_SDK_DISABLED stops spans and events; requests are evaluated all the same, each under its own trace id."""
    with http_server() as (url, received):
        names = {"OTEL_SERVICE_NAME": "shop", "RAGTRACE_OTLP_ENDPOINT": url, "RAGTRACE_REPORT_FILE": "report"}
        done = run("", tmp_path, OTEL_SDK_DISABLED="true", **names)
    assert received.requests == []
    assert 'ragtrace_evaluations_total{app="shop"' in done.stdout
    (line,) = (tmp_path / "report").read_text().splitlines()
    assert int(json.loads(line)["trace"], 16)


def test_console_and_endpoint_together(tmp_path: Path) -> None:
    """A list of exporters is a list. OTEL_SERVICE_NAME is `service.name` on spans and events, and `app` in metrics."""
    exporters = {"OTEL_TRACES_EXPORTER": "otlp, console", "OTEL_LOGS_EXPORTER": "console"}
    with http_server() as (url, received):
        done = run("", tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_SERVICE_NAME="shop", **exporters)
    assert (received.resource()["service.name"], received.resource()["openinference.project.name"]) == ("shop", "shop")
    assert "invoke_workflow app" in received.spans()
    assert received.records() == []
    assert 'ragtrace_requests_total{app="shop",env="dev"' in done.stdout
    assert '"name": "invoke_workflow app"' in done.stdout
    assert "gen_ai.evaluation.result" in done.stdout
    assert done.stdout.count('"service.name": "shop"') >= 2

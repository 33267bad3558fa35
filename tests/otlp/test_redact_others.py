"""`redact_others`: what other libraries record to the same provider leaves redacted, too."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, get_current_span

import ragtrace
from ragtrace import plugins
from ragtrace.capture.span_writer import redact_written
from ragtrace.capture.spans.texts import document_of
from ragtrace.errors import SettingError
from ragtrace.evaluation import EvaluationError, evaluator, run
from ragtrace.records import Evaluation, Facts, Trace
from ragtrace.testing import make_trace
from ragtrace.text.redaction import mask_pii
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp import attach, set_up
from ragtrace_otlp.scores import ScoreFormat
from tests.otlp.receivers import recording
from tests.row_files import rows

SECRET = "jane.doe@example.org"
MASKING = Sanitizer(mask_pii)


def _provider(
    redact_others: Sanitizer | None = MASKING, limits: SpanLimits | None = None
) -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, exporter = recording(span_limits=limits)
    attach(provider, redact_others=redact_others)
    return provider, exporter


def _record(provider: TracerProvider) -> None:
    link = Link(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1)), {"note": SECRET})
    span = provider.get_tracer("httpx").start_span(f"GET /users/{SECRET}", links=[link])
    span.set_attribute("url.full", f"https://api.example.org/users?mail={SECRET}")
    span.set_attribute("list", [SECRET, "plain"])
    span.set_attribute("count", 7)
    span.add_event("log", {"message": f"asked by {SECRET}"})
    span.record_exception(ValueError(f"no user {SECRET}"))
    span.set_status(Status(StatusCode.ERROR, f"no user {SECRET}"))
    span.end()


@pytest.mark.parametrize("library", ["httpx", "ragtrace-helpdesk"])
def test_names_of_events_and_long_numbers_of_another_library_are_redacted(library: str) -> None:
    """A number of eight digits or more can be a card or a phone, also as a float, which pandas makes of it."""
    provider, exporter = _provider()
    kept = {"size": 70_000, "share": 0.123456789, "seconds": 12345678.5}
    numbers = {"card": 4111111111111111, "cards": [4111111111111111, 2], "column": 4111111111111111.0}
    with provider.get_tracer(library).start_as_current_span("GET") as span:
        span.set_attributes({**numbers, "columns": [4111111111111111.0], **kept})
        span.add_event(f"mail to {SECRET}", {"card": 4111111111111111})
    (ended,) = exporter.get_finished_spans()
    redacted = {"card": "[number]", "cards": ("[number]", "2"), "column": "[number]", "columns": ("[number]",)}
    assert dict(ended.attributes or {}) == {**redacted, **kept}
    (event,) = ended.events
    assert (event.name, dict(event.attributes or {})) == ("mail to [email]", {"card": "[number]"})


def test_every_text_of_another_library_s_span_is_redacted() -> None:
    provider, exporter = _provider()
    _record(provider)
    (span,) = exporter.get_finished_spans()
    wire = encode_spans([span]).SerializeToString()
    assert SECRET.encode() not in wire
    assert b"jane" not in wire
    assert span.attributes is not None
    assert (span.attributes["count"], span.attributes["list"]) == (7, ("[email]", "plain"))
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["log", "exception"]
    assert span.links[0].context.trace_id == 1
    assert span.start_time is not None
    assert span.end_time is not None


@pytest.mark.parametrize(
    ("name", "value", "kept"), rows(__file__, "parameters_that_name_a_person_or_a_key_leave_addresses")
)
def test_parameters_that_name_a_person_or_a_key_leave_addresses(name: str, value: Any, kept: Any) -> None:
    """The parameter's name tells what its value is; so it is on ragtrace's own span, which was the current one."""
    provider, exporter = _provider(replace(MASKING, identify=lambda _: "hashed"))
    provider.get_tracer("httpx").start_span("GET", attributes={name: value}).end()
    with provider.get_tracer("ragtrace").start_as_current_span("GET", attributes={name: value}) as own:
        redact_written(own, "GET", replace(MASKING, identify=lambda _: "hashed"))
    for span in exporter.get_finished_spans():
        assert dict(span.attributes or {}) == {name: tuple(kept) if isinstance(kept, list) else kept}


def test_without_the_setting_they_are_untouched() -> None:
    """The application's own spans are its own, unless it says so."""
    provider, exporter = _provider(None)
    _record(provider)
    assert SECRET.encode() in encode_spans(exporter.get_finished_spans()).SerializeToString()


def test_counts_of_what_the_sdk_dropped_stay() -> None:
    provider, exporter = _provider(limits=SpanLimits(max_attributes=2, max_events=1, max_links=1))
    _record(provider)
    (span,) = exporter.get_finished_spans()
    assert (span.dropped_attributes, span.dropped_events, span.dropped_links) == (1, 1, 0)


def test_what_cannot_be_redacted_does_not_leave() -> None:
    sanitizer = Sanitizer(lambda text: 1 // 0 and text)
    provider, exporter = _provider(sanitizer)
    _record(provider)
    assert sanitizer.failures.by_reason["error"] == 0  # nothing is redacted before an exporter reads it
    assert b"jane" not in encode_spans(exporter.get_finished_spans()).SerializeToString()
    assert sanitizer.failures.by_reason["error"] > 0


def test_a_provider_that_cannot_be_wrapped_is_an_error() -> None:
    """A promise that cannot be kept is refused at the start: exporters that are added later would get raw spans."""
    with pytest.raises(SettingError, match="add the exporters to the provider first"):
        attach(TracerProvider(shutdown_on_exit=False), redact_others=MASKING)
    with pytest.raises(SettingError, match="redact is off"):
        ragtrace.init(redact_others=True, capture_content=True, frameworks=(), prometheus_port=-1)


@pytest.mark.process
def test_other_libraries_in_a_provider_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    options: dict[str, Any] = {"frameworks": (), "prometheus_port": -1, "evaluators": ["pii_leakage"]}
    with closing(ragtrace.init(spans_file=str(path), redact="pii", redact_others=True, **options)) as runtime:
        _record(runtime.tracer_provider)
        assert runtime.flush()
    (line,) = path.read_text("utf-8").splitlines()
    assert "jane" not in line
    assert json.loads(line)["name"] == "GET /users/*"


@pytest.mark.process
def test_what_is_written_on_a_span_of_ragtrace_is_redacted(tmp_path: Path) -> None:
    link = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    options: dict[str, Any] = {"evaluators": ["no_answer"], "redact": lambda text: f"<{mask_pii(text)}>"}
    options |= {"capture_content": True, "prometheus_port": -1}
    runtime = ragtrace.init(spans_file=tmp_path / "spans.jsonl", **options)
    for writes in (True, False):
        with ragtrace.request(f"What has {SECRET}?"):
            span: Any = get_current_span()
            if not writes:
                continue
            span.set_attributes({"user.email": SECRET, "cards": [4111111111111111], "count": 3})
            span.add_event(f"asked by {SECRET}", {"mail": SECRET})
            span.record_exception(ValueError(SECRET))
            span.add_link(link, {"note": SECRET})
            span.set_status(Status(StatusCode.ERROR, f"no {SECRET}"))
            span.update_name(f"GET /users/{SECRET}")
    assert runtime.close(30)
    text = (tmp_path / "spans.jsonl").read_text()
    assert "jane" not in text
    written, plain = map(json.loads, text.splitlines())
    assert (written["name"], written["attributes"]["user.email"]) == ("<GET /users/[email]>", "<[email]>")
    assert written["attributes"]["count"] == 3
    assert [event["name"] for event in written["events"]] == ["<asked by [email]>", "<exception>"]
    assert (len(written["links"]), written["status"]) == (1, {"code": "ERROR", "description": "<no [email]>"})
    assert plain["name"].count("<") == 1


class Quoting:
    """A user's object whose text cannot be read, with a reason that quotes it."""

    def __call__(self, evaluation: Evaluation) -> None:
        raise ValueError(f"cannot send {evaluation.trace.query}")

    def __getattr__(self, name: str) -> Any:
        raise ValueError(f"{SECRET} has no {name}")


@pytest.mark.process
def test_what_is_logged_of_a_failure_is_redacted(caplog: pytest.LogCaptureFixture) -> None:
    """A traceback names the lines and quotes no user; handlers get no frames, whose variables some send elsewhere."""
    options: dict[str, Any] = {"evaluators": ["no_answer"], "redact": "pii", "sample_per_second": 0}
    runtime = ragtrace.init(prometheus_port=-1, sinks=[Quoting()], **options)
    with ragtrace.request(f"I am {SECRET}") as request:
        request.retrieved(Quoting())
        request.answered("Hello.")
    runtime.close(10)
    assert "the sink Quoting failed" in caplog.text
    assert "cannot send I am [email]" in caplog.text
    assert "in __call__" in caplog.text
    assert "jane" not in caplog.text
    assert not any(record.exc_info for record in caplog.records if record.name.startswith("ragtrace"))


def test_values_are_cut_after_they_are_masked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """OpenTelemetry's limit of length would cut an address in two, and half of one is not recognized."""
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "16")
    telemetry = set_up(spans_file=str(tmp_path / "spans.jsonl"), redact_others=MASKING)
    text = {"found": "Write to jane.doe@corp.example at once"}
    with telemetry.tracer_provider.get_tracer("mine").start_as_current_span("find") as span:
        span.set_attributes({**text, "gen_ai.evaluation.pii.explanation": "It has an address."})
        span.add_event("found", text)
    telemetry.close()
    (line,) = (tmp_path / "spans.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["attributes"].pop("gen_ai.evaluation.pii.explanation") == "It has an address."
    assert [found["attributes"], found["events"][0]["attributes"]] == [{"found": "Write to [email]"[:16]}] * 2


API_KEY = "sk-proj-Ab3dEfGh1jKlMn0pQrStUvWxYz12345678"
FORM = ScoreFormat(explanations=True, sanitizer=MASKING)


@evaluator(needs={"answer"})
def quotes(trace: Trace) -> float:
    """Fails with the answer as the reason."""
    raise EvaluationError("broken", trace.answer)


def test_ids_of_other_libraries_spans_have_no_half_of_a_secret() -> None:
    document = document_of({"id": f"{'word ' * 49} {API_KEY}", "content": "The pump runs."})
    assert document is not None
    assert "sk-proj" not in MASKING.text(document.id, 256)


@pytest.mark.parametrize("name", ["groundedness", "groundedness_lexical", "groundedness_cosine", "quotes"])
@pytest.mark.parametrize("cut", [40, 80, 200, 300, 1_000])
def test_explanations_have_no_half_of_a_secret(name: str, cut: int) -> None:
    """Evaluators return whole texts; what leaves is masked, and then cut."""
    check = quotes if name == "quotes" else plugins.load(name)
    for shift in (2, 12, 30):
        words = "the pump runs very well and " * 50
        answer = f"{words[: cut - shift]} {API_KEY} {words}."
        trace = make_trace("What?", answer=answer, documents=["The valve is red."], facts=Facts(name="x"))
        ((score,),) = run(check, [trace])
        left = FORM.explanation(score) or ""
        assert left, score
        assert not any(API_KEY[:n] in left for n in range(10, len(API_KEY)))

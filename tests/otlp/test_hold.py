"""The hold: scores on the root span, and no span lost or doubled."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import set_span_in_context

import ragtrace_otlp.hold
from ragtrace import semconv
from ragtrace.records import Evaluation, Evidence, Facts, Score
from ragtrace.testing import make_trace
from ragtrace.text.redaction import mask_pii
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp import EvaluationSpanSink, HoldLimits, HoldProcessor, attach
from ragtrace_otlp.batch import CountingExporter
from ragtrace_otlp.jsonl import JsonLinesSpanExporter
from ragtrace_otlp.scores import ScoreFormat, score_attributes
from tests.otlp.receivers import recording
from tests.waiting import in_fork, until

SCORES = (
    Score(
        "groundedness", 0.4, "fail", "quotes the answer", evidence=(Evidence(0, 5, "unsupported", 0.4, "d0", 0, 1, 9),)
    ),
    Score("toxicity", 0.1, "pass", method="model"),
    Score("judge", error="timeout", method="judge"),
    Score("language_mismatch", label="not_applicable"),
)
BOTH = ScoreFormat(openinference=True)


def evaluation_of(span: Any, **more: Any) -> Evaluation:
    context = span.get_span_context()
    return Evaluation(make_trace(trace_id=context.trace_id, span_id=context.span_id), SCORES, **more)


class Bench:
    def __init__(self, limits: HoldLimits | None = None, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.late: list[Evaluation] = []
        self.hold = HoldProcessor(SimpleSpanProcessor(self.exporter), limits, BOTH, self.late.append, **options)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.hold)
        self.tracer = self.provider.get_tracer("test")

    def root(self, name: str = "root", sampled: bool = True, **attributes: Any) -> Evaluation:
        """End a root span with a child; the evaluation that belongs to it."""
        span = self.tracer.start_span(name)
        self.tracer.start_span(f"child of {name}", set_span_in_context(span)).end()
        span.set_attributes({**attributes, semconv.SAMPLED: sampled})
        span.end()
        self.hold._worker.flush()
        return evaluation_of(span, cause="unsupported")

    def out(self) -> dict[str, dict[str, Any]]:
        return {span.name: dict(span.attributes or {}) for span in self.exporter.get_finished_spans()}

    def statuses(self) -> dict[str, Any]:
        return {name: a.get(semconv.STATUS) for name, a in self.out().items() if not name.startswith("child")}


def test_scores_come_on_the_root_span() -> None:
    """In both dialects, once, without explanations, which are opt-in; a root that is not evaluated leaves at once."""
    bench = Bench()
    bench.root("other", sampled=False)
    assert list(bench.out()) == ["child of other", "other"]
    evaluation = bench.root(**{semconv.OI_INPUT: "q"})
    assert list(bench.out()) == ["child of other", "other", "child of root"]
    bench.hold(evaluation)
    root = bench.out()["root"]
    assert (root[semconv.OI_INPUT], root["gen_ai.evaluation.groundedness.score"]) == ("q", 0.4)
    assert root["gen_ai.evaluation.groundedness.label"] == "fail"
    assert "gen_ai.evaluation.groundedness.explanation" not in root
    assert root["gen_ai.evaluation.judge.label"] == "error"
    assert "gen_ai.evaluation.judge.score" not in root
    assert not any("language_mismatch" in key for key in root)
    assert root["evaluations.0.evaluation.name"] == "groundedness"
    assert root["evaluations.0.evaluation.annotator_kind"] == "CODE"
    assert (root["evaluations.1.evaluation.identifier"], root[semconv.STATUS]) == ("toxicity@1", "scored")
    assert root[semconv.FAILURE_CAUSE] == "unsupported"
    assert '"id": "d0", "rank": 0, "start": 1, "end": 9' in root[semconv.EVIDENCE]
    assert len(bench.exporter.get_finished_spans()) == 4
    attributes = score_attributes(evaluation, ScoreFormat(explanations=True))
    assert attributes["gen_ai.evaluation.groundedness.explanation"] == "quotes the answer"
    assert not any(key.startswith("evaluations.") for key in attributes)


@pytest.mark.parametrize("is_sampled", [None, False, True])
def test_a_decision_and_an_evaluation_may_come_first(is_sampled: bool | None) -> None:
    """The thread that reads other libraries' spans may be faster than the one that ends the span."""
    bench = Bench()
    span = bench.tracer.start_span("rag", attributes={semconv.SAMPLED: True} if is_sampled is None else {})
    ids = span.get_span_context()
    if is_sampled is None:
        bench.hold(evaluation_of(span))
    else:
        bench.hold.decide((ids.trace_id, ids.span_id), {semconv.SAMPLED: is_sampled, semconv.STATUS: "sampled_out"})
    span.end()
    bench.hold(evaluation_of(span))
    assert bench.statuses() == {"rag": "sampled_out" if is_sampled is False else "scored"}


def test_past_its_time_the_root_leaves_unscored_and_the_scores_late() -> None:
    bench = Bench(HoldLimits(seconds=0.05))
    evaluation = bench.root()
    until(lambda: "root" in bench.out())
    assert bench.statuses() == {"root": "pending_timeout"}
    bench.hold(evaluation)
    assert (bench.late, len(bench.exporter.get_finished_spans())) == ([evaluation], 2)


@pytest.mark.parametrize("limits", [HoldLimits(spans=2), HoldLimits(bytes=6_500)])
def test_a_full_hold_lets_the_oldest_go(limits: HoldLimits) -> None:
    bench = Bench(limits)
    evaluations = [bench.root(f"r{i}", text="x" * 500) for i in range(4)]
    assert bench.statuses() == {"r0": "pending_timeout", "r1": "pending_timeout"}
    for evaluation in evaluations:
        bench.hold(evaluation)
    assert bench.statuses() == {"r0": "pending_timeout", "r1": "pending_timeout", "r2": "scored", "r3": "scored"}
    assert bench.late == evaluations[:2]
    stats = bench.hold.stats()
    assert (stats.parked, stats.released, stats.expired, stats.held, stats.held_bytes) == (4, 2, 2, 0, 0)


@pytest.mark.parametrize(("how", "status"), [("force_flush", "pending_timeout"), ("shutdown", "dropped")])
def test_flush_and_shutdown_drain(how: str, status: str) -> None:
    bench = Bench()
    bench.root("r0")
    getattr(bench.provider, how)()
    assert bench.statuses() == {"r0": status}


def test_a_drop_is_said_on_the_span() -> None:
    bench = Bench()
    evaluation = bench.root()
    bench.hold(Evaluation(evaluation.trace, (), "dropped", reason="queue_full"))
    assert bench.statuses() == {"root": "dropped"}


def test_scores_push_nothing_out_and_dropped_counts_stay() -> None:
    exporter = InMemorySpanExporter()
    hold = HoldProcessor(SimpleSpanProcessor(exporter))
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=10), shutdown_on_exit=False)
    provider.add_span_processor(hold)
    span = provider.get_tracer("t").start_span("full")
    span.set_attributes({f"k{i}": i for i in range(12)} | {semconv.OI_KIND: "CHAIN", semconv.SAMPLED: True})
    span.add_event("e")
    span.end()
    hold(evaluation_of(span))
    (out,) = exporter.get_finished_spans()
    assert out.attributes is not None
    assert (out.attributes[semconv.OI_KIND], out.attributes["gen_ai.evaluation.toxicity.score"]) == ("CHAIN", 0.1)
    assert out.dropped_attributes == span.dropped_attributes == 4  # type: ignore[attr-defined]
    assert [e.name for e in out.events] == ["e"]


@given(st.lists(st.tuples(st.sampled_from(["end", "evaluate", "flush"]), st.integers(0, 9)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_each_span_leaves_exactly_once(steps: list[tuple[str, int]]) -> None:
    bench = Bench(HoldLimits(spans=3, seconds=60))
    spans = [bench.tracer.start_span(f"s{i}") for i in range(10)]
    ended = set()
    for step, i in steps:
        if step == "end" and i not in ended:
            ended.add(i)
            spans[i].set_attribute(semconv.SAMPLED, i % 3 != 0)
            spans[i].end()
        elif step == "evaluate":
            bench.hold(evaluation_of(spans[i]))
        elif step == "flush":
            bench.provider.force_flush()
    bench.provider.shutdown()
    names = [span.name for span in bench.exporter.get_finished_spans()]
    assert sorted(names) == sorted(f"s{i}" for i in ended)


@pytest.mark.process
def test_a_forked_child_counts_its_own_exports() -> None:
    exporter: CountingExporter[Any] = CountingExporter(InMemorySpanExporter(), "spans", SpanExportResult.FAILURE)
    exporter.export([])
    exporter._note("rejected", 3)
    exporter._exported = 5
    in_fork(lambda: exporter.stats().exported == 0 and not exporter.stats().failed)
    assert (exporter.stats().exported, exporter.stats().failed) == (5, {"rejected": 3})


@pytest.mark.process
def test_a_forked_child_leaves_the_parents_spans_to_the_parent() -> None:
    bench = Bench()
    evaluation = bench.root("parents")

    def hold_own() -> bool:
        bench.exporter.clear()
        bench.provider.force_flush()
        bench.hold(bench.root("own"))
        return bench.statuses() == {"own": "scored"}

    in_fork(hold_own)
    bench.hold(evaluation)
    assert bench.statuses() == {"parents": "scored"}


def test_late_scores_are_one_span_with_one_link() -> None:
    bench = Bench()
    evaluation = bench.root()
    EvaluationSpanSink(bench.provider, BOTH)(evaluation)
    (span,) = [s for s in bench.exporter.get_finished_spans() if s.name == "evaluation"]
    assert span.parent is not None
    assert span.parent.span_id == evaluation.trace.span_id
    assert [link.context.span_id for link in span.links] == [evaluation.trace.span_id]
    attributes = dict(span.attributes or {})
    assert attributes[semconv.OI_KIND] == "EVALUATOR"
    expected = score_attributes(evaluation, BOTH)
    assert {name: attributes.get(name) for name in expected} == expected
    assert attributes["evaluations.1.evaluation.name"] == "toxicity"
    assert attributes["gen_ai.evaluation.judge.label"] == "error"


def test_late_scores_of_many_evaluators_are_all_on_their_span() -> None:
    """The SDK's limit of 128 attributes takes no late score away, as it takes none from a root span."""
    bench = Bench()
    scores = tuple(Score(f"e{i}", 0.5, "pass") for i in range(60))
    EvaluationSpanSink(bench.provider, BOTH)(Evaluation(make_trace(), scores))
    (span,) = bench.exporter.get_finished_spans()
    assert len([name for name in span.attributes or {} if name.endswith(".score")]) == 120
    assert span.dropped_attributes == 0


def test_scores_after_the_root_has_left_are_gathered() -> None:
    """Evaluations that come one after the other for a span that has left leave together, in one span for each root."""
    bench = Bench()
    sink = EvaluationSpanSink(bench.provider, BOTH, gather=30.0)
    for name in ("a", "b", "c"):
        sink(Evaluation(make_trace(span_id=1), (Score(name, 0.5),)))
    sink(Evaluation(make_trace(span_id=2), (Score("a", 0.5),)))
    assert bench.out() == {}
    assert sink.flush(60)
    spans = bench.exporter.get_finished_spans()
    names = [[a[f"evaluations.{i}.evaluation.name"] for i in range(3) if f"evaluations.{i}.evaluation.name" in a]
             for a in (dict(span.attributes or {}) for span in spans)]  # fmt: skip
    assert sorted(names) == [["a"], ["a", "b", "c"]]


def test_scores_that_come_after_a_scored_root_are_late() -> None:
    bench = Bench()
    evaluation = bench.root()
    bench.hold(evaluation)
    more = replace(evaluation, scores=(Score("by_hand", 1.0),))
    bench.hold(more)
    bench.hold(more)
    assert (bench.late, bench.hold.stats().late) == ([more, more], 2)


def test_the_holds_time_begins_when_the_models_are_loaded() -> None:
    bench = Bench(HoldLimits(seconds=0.01))
    bench.hold.wait_for_models()
    bench.root("early")
    assert bench.hold._expire() > 50  # type: ignore[operator]
    assert bench.statuses() == {}
    bench.hold.begin()
    bench.root("later")
    until(lambda: not bench.hold.stats().held)
    assert bench.statuses() == {"early": "pending_timeout", "later": "pending_timeout"}


def test_a_provider_that_cannot_be_joined_gets_evaluation_spans() -> None:
    class Foreign:
        def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
            return TracerProvider(shutdown_on_exit=False).get_tracer("x")

    telemetry = attach(Foreign())
    assert telemetry.hold is None
    assert any(isinstance(sink, EvaluationSpanSink) for sink in telemetry.sinks)


class Failing(SpanProcessor):
    def on_end(self, span: Any) -> None:
        raise RuntimeError("broken")


def test_a_shutdown_while_a_root_ends_leaves_no_span_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    attributes_of = ragtrace_otlp.hold.attributes_of

    def in_between(span: Any) -> Any:
        if span.name == "root":
            bench.hold._closed = True
            bench.hold._let_go(0)
        return attributes_of(span)

    monkeypatch.setattr(ragtrace_otlp.hold, "attributes_of", in_between)
    bench.root()
    assert set(bench.out()) == {"child of root", "root"}


def test_a_broken_neighbour_neither_doubles_a_span_nor_ends_the_timer() -> None:
    provider, exporter = recording()
    provider.add_span_processor(Failing())
    assert attach(provider, hold=HoldLimits(seconds=0.02)).hold is not None
    for name in ("first", "second"):
        provider.get_tracer("t").start_span(name, attributes={semconv.SAMPLED: True}).end()
        until(lambda name=name: name in {s.name for s in exporter.get_finished_spans()})  # type: ignore[misc]
    assert [s.name for s in exporter.get_finished_spans()] == ["first", "second"]


def test_lists_and_events_count_as_bytes() -> None:
    bench = Bench()
    span = bench.tracer.start_span("big", attributes={semconv.SAMPLED: True, "list": ["x" * 500_000] * 2})
    span.add_event("e", {"text": "y" * 1_000_000})
    span.end()
    bench.hold._worker.flush()
    assert 2_000_000 < bench.hold.stats().held_bytes < 2_100_000


def test_an_evaluation_that_waits_for_its_span_keeps_no_text() -> None:
    bench = Bench()
    bench.hold(Evaluation(make_trace(trace_id=1, span_id=2, answer="long"), SCORES))
    (waiting,) = bench.hold._early.values()
    assert (waiting.scores, waiting.trace.answer, waiting.trace.documents) == (SCORES, "", ())


def test_nothing_hangs_below_a_span_that_was_not_kept() -> None:
    """Late scores of a request that the application's own sampler left out make no orphans; events say so."""
    provider, exporter = recording(sampler=ParentBased(ALWAYS_ON))
    sink = EvaluationSpanSink(provider)
    sink(Evaluation(make_trace(facts=Facts(unrecorded=True)), SCORES))
    assert not exporter.get_finished_spans()
    sink(Evaluation(make_trace(), SCORES))
    assert len(exporter.get_finished_spans()) == 1


def test_a_line_of_json_is_json(tmp_path: Path) -> None:
    """JSON has no NaN: a reader in another language would stop at the line. A file that was moved begins again."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(JsonLinesSpanExporter(tmp_path / "spans.jsonl")))
    with provider.get_tracer("test").start_as_current_span("root") as span:
        span.set_attributes({"score": float("nan"), "scores": (1.0, float("inf"))})
    (tmp_path / "spans.jsonl").rename(tmp_path / "old.jsonl")  # as logrotate does
    provider.get_tracer("test").start_span("after").end()
    provider.shutdown()

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    (line,) = (tmp_path / "old.jsonl").read_text().splitlines()
    assert (tmp_path / "spans.jsonl").read_text().count("after") == 1
    assert json.loads(line, parse_constant=refuse)["attributes"] == {"score": "nan", "scores": [1.0, "inf"]}


def test_a_finalizer_that_ends_a_span_inside_the_hold_does_not_wait() -> None:
    """A stream may be garbage-collected while its thread has the lock: the same thread takes it once more."""
    bench = Bench()

    def end() -> None:
        with bench.hold._lock:
            bench.hold(bench.root())

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert len(bench.exporter.get_finished_spans()) == 2


def test_the_verdict_of_an_applications_evaluator_is_redacted() -> None:
    """Evidence names a verdict: ours are three words, an application's may quote the answer."""
    evidence = (Evidence(0, 1, "quotes ada@example.org"),)
    evaluation = Evaluation(make_trace(), (Score("own", 0.0, "fail", evidence=evidence),))
    attributes = score_attributes(evaluation, ScoreFormat(sanitizer=Sanitizer(mask_pii)))
    assert "ada@example.org" not in str(attributes)
    assert "[email]" in str(attributes)

"""/metrics: names, bounds, weights, exemplars, and the accounting identity, scraped over HTTP."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ragtrace.errors import SettingError
from ragtrace.evaluation import evaluator
from ragtrace.pipeline import Limits, Pipeline
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Decision, ratio
from ragtrace.testing import make_trace
from ragtrace_prometheus import PrometheusSink
from ragtrace_prometheus.labels import LabelCap


@evaluator(needs={"answer"}, threshold=0.62)
def length(trace: Trace) -> float:
    """Share of 100 characters."""
    return min(1.0, len(trace.answer) / 100)


@evaluator(needs={"reference"})
def breaks(trace: Trace) -> float:
    """Always fails."""
    raise ValueError


class Scraped:
    """The samples of one scrape."""

    def __init__(self, sink: PrometheusSink, accept: str = "text/plain") -> None:
        server = sink.serve(0)
        try:
            request = urllib.request.Request(server.url, headers={"Accept": accept})
            with urllib.request.urlopen(request, timeout=10) as response:
                self.text = response.read().decode()
        finally:
            server.close()
        parse = parse_openmetrics if "openmetrics" in accept else parse_text
        self.families = list(parse(self.text))

    def samples(self, name: str) -> list[Any]:
        return [s for f in self.families for s in f.samples if s.name == name]

    def value(self, name: str, **labels: str) -> float:
        (found,) = [s for s in self.samples(name) if all(s.labels[k] == v for k, v in labels.items())]
        return float(found.value)


@pytest.fixture
def sink() -> PrometheusSink:
    return PrometheusSink(app="shop", env="test", evaluators=[length, breaks])


def evaluated(answer: str = "x" * 50, p: float = 1.0, **fields: Any) -> Evaluation:
    value = min(1.0, len(answer) / 100)
    score = Score("length", value, "pass" if value >= 0.62 else "fail", sampling_probability=p)
    return Evaluation(make_trace(answer=answer, **fields), (score,), cause="unsupported", lag=0.4)


def test_children_are_there_before_the_first_event(sink: PrometheusSink) -> None:
    """Every known series stands at 0 from the start, so that no rate misses its first event."""
    scraped = Scraped(sink)
    for verdict in ("pass", "fail", "error"):
        assert scraped.value("ragtrace_evaluations_total", evaluator="length", verdict=verdict) == 0
    assert scraped.value("ragtrace_failure_causes_total", cause="unsupported") == 0
    assert scraped.value("ragtrace_requests_total", status="error") == 0


def test_application_and_environment_are_on_every_series(sink: PrometheusSink) -> None:
    """app and env label each sample, and no _created series doubles them."""
    sink(evaluated())
    for family in Scraped(sink).families:
        for sample in family.samples:
            assert sample.labels["app"] == "shop"
            assert sample.labels["env"] == "test"
            assert not sample.name.endswith("_created")


def test_verdicts_weights_and_scores(sink: PrometheusSink) -> None:
    """Counters count evaluations; their weighted twins count the requests that these stand for."""
    sink(evaluated("x" * 90, p=0.5))
    sink(evaluated("x" * 30, p=0.1))
    scraped = Scraped(sink)
    of = {"evaluator": "length"}
    assert scraped.value("ragtrace_evaluations_total", verdict="pass", **of) == 1
    assert scraped.value("ragtrace_evaluation_weight_total", verdict="pass", **of) == 2
    assert scraped.value("ragtrace_evaluation_weight_total", verdict="fail", **of) == pytest.approx(10)
    assert scraped.value("ragtrace_evaluation_weight_squared_total", verdict="fail", **of) == pytest.approx(100)
    assert scraped.value("ragtrace_evaluation_weighted_score_total", **of) == pytest.approx(0.9 * 2 + 0.3 * 10)
    assert scraped.value("ragtrace_evaluation_score_count", **of) == 2
    assert scraped.value("ragtrace_failure_causes_total", cause="unsupported") == 2


def test_the_threshold_is_a_bucket_bound(sink: PrometheusSink) -> None:
    """The share beyond a threshold can be read off the histogram exactly."""
    sink(evaluated("x" * 61))
    sink(evaluated("x" * 62))
    sink(evaluated("x" * 70))
    buckets = {s.labels["le"]: s.value for s in Scraped(sink).samples("ragtrace_evaluation_score_bucket")
               if s.labels["evaluator"] == "length"}  # fmt: skip
    assert buckets["0.62"] == 2
    assert {"0.1", "0.5", "1.0", "+Inf"} <= set(buckets)


def test_failures_and_drops_have_reasons(sink: PrometheusSink) -> None:
    """A failed check is an error with its reason and no score; a dropped request is counted with its reason."""
    sink(Evaluation(make_trace(), (Score("length", error="timeout"),), "error"))
    sink(Evaluation(make_trace(), (), "dropped", reason="queue_full"))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_evaluator_errors_total", evaluator="length", reason="timeout") == 1
    assert scraped.value("ragtrace_evaluations_total", evaluator="length", verdict="error") == 1
    assert scraped.value("ragtrace_evaluation_score_count", evaluator="length") == 0
    assert scraped.value("ragtrace_evaluations_dropped_total", reason="queue_full") == 1


def test_exemplars_name_the_trace_to_openmetrics(sink: PrometheusSink) -> None:
    """An OpenMetrics scrape finds the trace behind a failure and a score; the text format stays plain."""
    sink(evaluated("x" * 30, trace_id=0xABC))
    scraped = Scraped(sink, "application/openmetrics-text")
    (fail,) = [s for s in scraped.samples("ragtrace_evaluations_total")
               if s.labels["verdict"] == "fail" and s.labels["evaluator"] == "length"]  # fmt: skip
    assert fail.exemplar.labels == {"trace_id": f"{0xABC:032x}"}
    assert any(s.exemplar for s in scraped.samples("ragtrace_evaluation_score_bucket"))
    assert "trace_id" not in Scraped(sink).text


def test_requests_are_counted_sampled_or_not(sink: PrometheusSink) -> None:
    """Every finished request counts, with its duration, documents and sampling decision."""
    sink.observe_request(make_trace(duration=0.3), Decision(True, 1.0, "ratio"))
    sink.observe_request(make_trace(error="ValueError"), Decision(False, 0.5, "ratio"))
    sink.observe_request(
        make_trace(documents=(), attributes={"retrievals": 1, "cancelled": True}), Decision(True, 1.0, "x")
    )
    scraped = Scraped(sink)
    assert {s.labels["status"]: s.value for s in scraped.samples("ragtrace_requests_total")} == {
        "ok": 1, "error": 1, "cancelled": 1,
    }  # fmt: skip
    assert scraped.value("ragtrace_sampling_decisions_total", decision="sampled_out", reason="ratio") == 1
    assert scraped.value("ragtrace_retrieval_empty_total") == 1
    assert scraped.value("ragtrace_request_duration_seconds_count") == 3


def test_labels_are_bounded() -> None:
    """Beyond the cap a label's values become `other`, and that is counted."""
    cap = LabelCap(3)
    assert [cap(v) for v in "abcdea"] == ["a", "b", "c", "other", "other", "a"]
    assert cap.overflows == 2


def test_odd_names_do_not_break_a_scrape() -> None:
    """Application names and reasons with quotes, newlines and other scripts are escaped."""
    sink = PrometheusSink(app='a"b\\c\nd é', env="", evaluators=[length])
    sink(Evaluation(make_trace(), (Score("length", error='odd "reason"\n'),), "error"))
    assert Scraped(sink).samples("ragtrace_evaluator_errors_total")[0].labels["app"] == 'a"b\\c\nd é'


def test_a_weight_is_cut_and_the_cut_counted(sink: PrometheusSink) -> None:
    """One trace of a millionfold weight does not become the average."""
    sink(evaluated(p=1e-6))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_evaluation_weight_total", evaluator="length", verdict="fail") == 1000
    assert scraped.value("ragtrace_evaluation_weight_clipped_total", evaluator="length") == 1


def test_a_port_that_is_taken_is_named(sink: PrometheusSink) -> None:
    """The error names the setting."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingError, match="prometheus_port"):
            sink.serve(taken.getsockname()[1])


@pytest.fixture
def stopping() -> Iterator[list[Pipeline]]:
    pipelines: list[Pipeline] = []
    yield pipelines
    for pipeline in pipelines:
        pipeline.close(1.0)


def assert_identity(scraped: Scraped) -> None:
    for name in ("length", "breaks"):
        parts = [
            s.value for s in scraped.samples("ragtrace_evaluation_outcomes_total") if s.labels["evaluator"] == name
        ]
        assert len(parts) == 4
        assert scraped.value("ragtrace_evaluation_eligible_total", evaluator=name) == sum(parts)


def test_the_identity_holds_at_every_scrape(stopping: list[Pipeline]) -> None:
    """eligible = sampled_out + scored + failed + dropped, while requests pour in and some are dropped."""
    pipeline = Pipeline([length, breaks], sampler=ratio(0.7), limits=Limits(items=20, batch=4, wait=0.001))
    stopping.append(pipeline)
    sink = PrometheusSink(app="a", env="b", evaluators=pipeline.evaluators)
    sink.watch(pipeline)
    done = threading.Event()

    def pour() -> None:
        for i in range(3_000):
            pipeline.submit(make_trace(trace_id=i * 0x9E3779B97F4A7C15 % 2**128, reference="r" if i % 3 else None))
        done.set()

    threading.Thread(target=pour).start()
    while not done.is_set():
        assert_identity(Scraped(sink))
    assert pipeline.flush(30)
    scraped = Scraped(sink)
    assert_identity(scraped)
    assert scraped.value("ragtrace_evaluation_eligible_total", evaluator="length") == 3_000
    assert scraped.value("ragtrace_evaluation_eligible_total", evaluator="breaks") == 2_000


@given(st.lists(st.tuples(st.integers(1, 2**128 - 1), st.booleans(), st.booleans()), max_size=40), st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_the_identity_for_any_traffic(traffic: list[tuple[int, bool, bool]], p: float) -> None:
    """For any mix of inputs and any ratio the counts add up to what was eligible."""
    pipeline = Pipeline([length, breaks], sampler=ratio(p), limits=Limits(items=10, batch=3, wait=0.0))
    try:
        for trace_id, answered, referenced in traffic:
            pipeline.submit(
                make_trace(trace_id=trace_id, answer="a" if answered else "", reference="r" if referenced else None)
            )
        assert pipeline.flush(20)
        counts = pipeline.counts()
        assert counts["length"].eligible == sum(answered for _, answered, _ in traffic)
        assert counts["breaks"].eligible == sum(referenced for _, _, referenced in traffic)
        for c in counts.values():
            assert c.eligible == c.sampled_out + c.scored + c.failed + c.dropped
    finally:
        pipeline.close(1.0)


def test_a_registry_takes_one_sink() -> None:
    """A second one is refused with words, not with prometheus_client's traceback."""
    first = PrometheusSink(app="shop", env="test", evaluators=[length])
    with pytest.raises(SettingError, match="each PrometheusSink its own"):
        PrometheusSink(app="shop", env="test", evaluators=[length], registry=first.registry)


def test_an_evaluators_time_is_observed_per_trace(sink: PrometheusSink, stopping: list[Pipeline]) -> None:
    """Each trace of a micro-batch counts once, so that the count is that of the evaluations."""
    pipeline = Pipeline([length], [sink], timed=sink.observe_duration)
    stopping.append(pipeline)
    for i in range(5):
        pipeline.submit(make_trace(trace_id=i + 1), Decision(True, 1.0, "all"))
    assert pipeline.flush(10)
    assert Scraped(sink).value("ragtrace_evaluator_duration_seconds_count", evaluator="length") == 5


def test_a_broken_clock_costs_no_score(sink: PrometheusSink, stopping: list[Pipeline]) -> None:
    """What a metric does is not the evaluation's matter."""

    def broken(_name: str, _seconds: float) -> None:
        raise RuntimeError

    pipeline = Pipeline([length], [sink], timed=broken)
    stopping.append(pipeline)
    pipeline.submit(make_trace(), Decision(True, 1.0, "all"))
    assert pipeline.flush(10)
    assert pipeline.counts()["length"].scored == 1
    assert pipeline.stats().internal_errors == 1

"""/metrics: names, bounds, weights, exemplars, and the accounting identity, scraped over HTTP."""

import gc
import math
import re
import signal
import socket
import threading
import time
import urllib.request
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ragtrace.base.model_prices import ModelUsage
from ragtrace.errors import SettingError
from ragtrace.evaluation import evaluator
from ragtrace.live.init import _strata
from ragtrace.live.pipeline import Limits
from ragtrace.records import Document, Evaluation, Facts, Score, Trace
from ragtrace.sampling import Decision, ratio
from ragtrace.settings import Settings
from ragtrace.testing import make_trace
from ragtrace_otlp.provider import TelemetryStats
from ragtrace_prometheus import PrometheusSink, serve
from ragtrace_prometheus.labels import LabelCap, clean
from ragtrace_prometheus.watcher import JudgeLimits
from tests.online.conftest import Make
from tests.prometheus.metrics_page import documented
from tests.prometheus.test_processes import Values, read, scraping, total
from tests.waiting import in_fork, until


@evaluator(needs={"answer"}, threshold=0.62)
def length(trace: Trace) -> float:
    return min(1.0, len(trace.answer) / 100)


@evaluator(needs={"reference"})
def breaks(trace: Trace) -> float:
    raise ValueError


class Scraped:
    """The samples of one scrape, over HTTP or as the same writer of prometheus_client gives them."""

    def __init__(self, sink: PrometheusSink, accept: str = "text/plain", http: bool = False) -> None:
        is_open = "openmetrics" in accept
        write = generate_openmetrics if is_open else generate_latest
        self.text = self._asked(sink, accept) if http else str(write(sink.registry).decode())
        self.families = list((parse_openmetrics if is_open else parse_text)(self.text))

    @staticmethod
    def _asked(sink: PrometheusSink, accept: str) -> str:
        with closing(serve(sink.registry, 0)) as server:
            request = urllib.request.Request(server.url, headers={"Accept": accept})
            with urllib.request.urlopen(request, timeout=60) as response:
                return str(response.read().decode())

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
    score = Score("length", value, "pass" if value >= 0.62 else "fail", sampling_probability=p, cause="unsupported")
    other = Score("other", 0.5)  # of all requests, and of no cause
    return Evaluation(make_trace(answer=answer, **fields), (score, other), cause="unsupported", lag=0.4)


def test_children_are_there_before_the_first_event(sink: PrometheusSink) -> None:
    """Every known series stands at 0 from the start, so that no rate misses its first event."""
    scraped = Scraped(sink)
    for verdict in ("pass", "fail", "error"):
        assert scraped.value("ragtrace_evaluations_total", evaluator="length", verdict=verdict) == 0
    assert scraped.value("ragtrace_failure_causes_total", cause="unsupported") == 0
    assert scraped.value("ragtrace_failure_cause_weight_total", cause="unsupported") == 0
    assert scraped.value("ragtrace_requests_total", status="error") == 0


def test_verdicts_weights_and_scores(sink: PrometheusSink) -> None:
    """Weights count all requests, evaluated or not. A verdict that may follow stands at 0 from the first one on."""
    facts = Facts(model="gpt", prompt_version="v2")
    sink.observe_request(make_trace(facts=facts), Decision(True, 0.5, "ratio"))
    sink(evaluated("x" * 90, p=0.5, facts=facts))
    of = {"evaluator": "length", "model": "gpt", "prompt_version": "v2"}
    assert Scraped(sink).value("ragtrace_evaluations_total", verdict="fail", **of) == 0
    sink(evaluated("x" * 30, p=0.1, facts=facts))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_requests_total", status="ok", model="gpt", prompt_version="v2") == 1
    assert scraped.value("ragtrace_evaluations_total", evaluator="length", verdict="pass", model="") == 0
    assert scraped.value("ragtrace_evaluations_total", verdict="pass", **of) == 1
    assert scraped.value("ragtrace_evaluation_weight_total", verdict="pass", **of) == 2
    assert scraped.value("ragtrace_evaluation_weight_squared_total", verdict="pass", **of) == 4
    assert scraped.value("ragtrace_evaluation_weight_total", verdict="fail", **of) == pytest.approx(10)
    assert scraped.value("ragtrace_evaluation_weight_squared_total", verdict="fail", **of) == pytest.approx(100)
    assert scraped.value("ragtrace_evaluation_weighted_score_total", **of) == pytest.approx(0.9 * 2 + 0.3 * 10)
    assert scraped.value("ragtrace_evaluation_score_count", evaluator="length") == 2
    assert scraped.value("ragtrace_failure_causes_total", cause="unsupported") == 2
    assert scraped.value("ragtrace_failure_cause_weight_total", cause="unsupported", model="gpt") == pytest.approx(12)


def test_the_threshold_is_a_bucket_bound(sink: PrometheusSink) -> None:
    """The share beyond a threshold can be read off the histogram exactly."""
    sink(evaluated("x" * 61))
    sink(evaluated("x" * 62))
    sink(evaluated("x" * 70))
    buckets = {s.labels["le"]: s.value for s in Scraped(sink).samples("ragtrace_evaluation_score_bucket")
               if s.labels["evaluator"] == "length"}  # fmt: skip
    assert buckets["0.62"] == 2
    assert {"0.1", "0.5", "1.0", "+Inf"} <= set(buckets)


def test_failures_drops_and_scores_below_zero(sink: PrometheusSink) -> None:
    """A value below 0 is counted without making the sum fall, which would be a restart to Prometheus."""
    sink(Evaluation(make_trace(), (Score("length", error="timeout"),), "error"))
    sink(Evaluation(make_trace(), (), "dropped", reason="queue_full"))
    for value in (0.5, -3.0):
        sink(Evaluation(make_trace(), (Score("length", value),)))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_evaluator_errors_total", evaluator="length", reason="timeout") == 1
    assert scraped.value("ragtrace_evaluations_total", evaluator="length", verdict="error") == 1
    assert scraped.value("ragtrace_evaluations_dropped_total", reason="queue_full") == 1
    assert scraped.value("ragtrace_evaluation_score_count", evaluator="length") == 2
    assert scraped.value("ragtrace_evaluation_score_sum", evaluator="length") == 0.5


def test_exemplars_name_the_trace_to_openmetrics(sink: PrometheusSink) -> None:
    sink(evaluated("x" * 30, trace_id=0xABC))
    scraped = Scraped(sink, "application/openmetrics-text", http=True)
    (fail,) = [s for s in scraped.samples("ragtrace_evaluations_total")
               if s.labels["verdict"] == "fail" and s.labels["evaluator"] == "length"]  # fmt: skip
    assert fail.exemplar.labels == {"trace_id": f"{0xABC:032x}"}
    assert any(s.exemplar for s in scraped.samples("ragtrace_evaluation_score_bucket"))
    assert "trace_id" not in Scraped(sink, http=True).text


def test_requests_are_counted_sampled_or_not(sink: PrometheusSink) -> None:
    sink.observe_request(make_trace(duration=0.3), Decision(True, 1.0, "ratio"))
    sink.observe_request(make_trace(error="ValueError"), Decision(False, 0.5, "ratio"))
    sink.observe_request(make_trace(documents=(), facts=Facts(retrievals=1, cancelled=True)), Decision(True, 1.0, "x"))
    sink.observe_request(make_trace(documents=(), facts=Facts(retrievals=1, waiting=True)), Decision(False, 1.0, "w"))
    scraped = Scraped(sink)
    statuses = {s.labels["status"]: s.value for s in scraped.samples("ragtrace_requests_total")}
    assert statuses == {"ok": 1, "error": 1, "cancelled": 1, "waiting": 1}
    of = "ragtrace_sampling_decisions_total"
    assert scraped.value(of, decision="sampled_out", stratum="ratio") == 1
    assert scraped.value(of, decision="sampled", stratum="ratio") == 1
    assert scraped.value(of, decision="sampled", stratum="x") == 1
    assert scraped.value("ragtrace_retrieval_empty_total") == 1
    assert scraped.value("ragtrace_request_duration_seconds_count") == 4


def test_labels_are_bounded() -> None:
    cap = LabelCap(3)
    assert [cap(v) for v in "abcdea"] == ["a", "b", "c", "other", "other", "a"]
    assert (cap.overflows, cap(""), LabelCap(3, empty="")("")) == (2, "unknown", "")


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


@given(st.one_of(st.text(alphabet=st.characters(codec=None, categories=None)), st.integers(), st.none()))
@example("a\0b\nc\rd\u2028e\ud800f")
@example("x" * 10_000)
@example(Unspeakable())
def test_any_value_makes_a_label(value: object) -> None:
    """At most 100 characters, all printable and such as UTF-8 can write."""
    label = clean(value)
    assert len(label) <= 100
    assert label.isprintable()
    assert label.encode() or not value


ODD: list[Any] = [
    "a\0b", 'say "no"\n\r\u2028', "\ud800", "\\", "x" * 5_000, "é" * 200, {"a": [1]}, Unspeakable(), 3.5, b"\xff",
]  # fmt: skip


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
def test_odd_values_of_a_request_do_not_break_a_scrape(accept: str) -> None:
    """Models, versions, stages, tokens and reasons that an application made up: every scrape can be read."""
    sink = PrometheusSink(app='\ud800\0a"b\\c\nd é', env="\udfff", evaluators=[length], priced=["\ud800"])
    for odd in ODD:
        stages, usage = {"tool": odd, "else": 1}, {"\ud800": ModelUsage(odd, odd, cost=odd)}
        several = Facts(model=odd, prompt_version=odd, stages=stages, usage=usage)
        single = Facts(model=odd, time_to_first_chunk=odd, input_tokens=odd)
        for facts in (several, single):
            trace = make_trace(facts=facts)
            sink.observe_request(trace, Decision(True, 1.0, "\ud800"))
            sink(Evaluation(trace, (Score("\ud800", 0.5), Score("length", error="\ud800\n"))))
    sink.observe_feedback("\ud800")
    scraped = Scraped(sink, accept, http=True)
    assert scraped.samples("ragtrace_evaluator_errors_total")[0].labels["app"].endswith('a"b\\c\nd é')
    assert sum(s.value for s in scraped.samples("ragtrace_requests_total")) == 2 * len(ODD)
    assert sum(s.value for s in scraped.samples("ragtrace_stage_duration_seconds_count")) == len(ODD)


def test_nothing_falls_and_nothing_is_nan(sink: PrometheusSink) -> None:
    inf, nan = float("inf"), float("nan")
    for bad in (-1.0, -inf, inf, nan):
        facts = Facts(stages={"tool": bad}, time_to_first_chunk=bad, input_tokens=bad, output_tokens=bad)
        trace = make_trace(documents=[Document("d", "c", bad)], duration=bad, facts=facts)
        sink.observe_request(trace, Decision(True, 1.0, "ratio"))
        judged = Score("length", nan, "pass", model="m", cost=bad, input_tokens=-1, sampling_probability=nan)
        sink(Evaluation(trace, (judged,), lag=bad))
        sink.observe_duration("length", bad)
    for family in Scraped(sink).families:
        for sample in family.samples:
            assert 0 <= sample.value < inf, sample
            is_counted = sample.name == "ragtrace_retrieved_documents_sum"
            assert not sample.value or is_counted or not sample.name.endswith(("_sum", "tokens_total", "usd_total"))


@pytest.mark.parametrize("p", [1e-6, 0.0, math.nan])
def test_a_weight_is_cut_and_the_cut_counted(sink: PrometheusSink, p: float) -> None:
    """One trace of a millionfold weight does not become the average; a number that is no probability counts as cut."""
    sink(evaluated(p=p))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_evaluation_weight_total", evaluator="length", verdict="fail") == 1000
    assert scraped.value("ragtrace_evaluation_weight_clipped_total", evaluator="length") == 1


def test_a_port_that_is_taken_is_named(sink: PrometheusSink) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingError, match="prometheus_port"):
            serve(sink.registry, taken.getsockname()[1])


def test_the_identity_holds_at_every_scrape(make: Make) -> None:
    """eligible = sampled_out + scored + failed + dropped, while requests pour in and some are dropped."""
    pipeline = make([length, breaks], sampler=ratio(0.7), limits=Limits(items=20, batch=4, wait=0.001))
    sink = PrometheusSink(app="a", env="b", evaluators=pipeline.evaluators)
    sink.watch(pipeline)

    def scrape() -> Values:
        values = read(Scraped(sink, http=True).text)
        for name in ("length", "breaks"):
            outcomes = total(values, "ragtrace_evaluation_outcomes_total", evaluator=name)
            assert total(values, "ragtrace_evaluation_eligible_total", evaluator=name) == outcomes
        return values

    with scraping(scrape):
        for i in range(3_000):
            pipeline.submit(make_trace(trace_id=i * 0x9E3779B97F4A7C15 % 2**128, reference="r" if i % 3 else None))
    assert pipeline.flush(60)
    values = scrape()
    assert total(values, "ragtrace_evaluation_eligible_total", evaluator="length") == 3_000
    assert total(values, "ragtrace_evaluation_eligible_total", evaluator="breaks") == 2_000


def test_an_evaluators_time_is_observed_per_trace(sink: PrometheusSink, make: Make) -> None:
    """Each trace of a micro-batch counts once; a failure of the metric is counted, and costs no score."""

    def observe(name: str, seconds: float) -> None:
        sink.observe_duration(name, seconds)
        observed.append(name)
        if len(observed) == 5:
            raise RuntimeError

    observed: list[str] = []
    pipeline = make([length], sink, observe_duration=observe)
    for i in range(5):
        pipeline.submit(make_trace(trace_id=i + 1), Decision(True, 1.0, "all"))
    assert pipeline.flush(60)
    assert Scraped(sink).value("ragtrace_evaluator_duration_seconds_count", evaluator="length") == 5
    assert (pipeline.counts()["length"].scored, pipeline.stats().internal_errors) == (5, 1)


def test_a_request_waits_for_nobody(sink: PrometheusSink) -> None:
    """While a scrape or an evaluation holds the locks, requests are noted all the same; the next scrape shows them."""
    with sink._lock, sink._writing:
        for _ in range(200):
            sink.observe_request(make_trace(), Decision(True, 1.0, "ratio"))
            sink.observe_feedback("up")
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_requests_total", status="ok") == 200
    assert scraped.value("ragtrace_feedback_total", value="up") == 200


def test_a_request_is_counted_whole(sink: PrometheusSink) -> None:
    def scrape() -> Values:
        values = read(Scraped(sink).text)
        counted = total(values, "ragtrace_requests_total")
        assert counted == total(values, "ragtrace_request_duration_seconds_count")
        assert counted == total(values, "ragtrace_request_duration_seconds_bucket", le="+Inf")
        assert counted == total(values, "ragtrace_sampling_decisions_total", decision="sampled")
        return values

    with scraping(scrape), ThreadPoolExecutor(3) as pool:
        pool.map(lambda _: sink.observe_request(make_trace(duration=0.3), Decision(True, 1.0, "ratio")), range(3_000))
    assert total(scrape(), "ragtrace_requests_total") == 3_000


def test_requests_that_wait_are_bounded(sink: PrometheusSink, make: Make) -> None:
    sink.watch(make([length]))
    trace = make_trace()
    with sink._lock:  # the thread takes 64, and waits
        for _ in range(64):
            sink.observe_request(trace, Decision(True, 1.0, "ratio"))
        until(lambda: sink._queue.running == 64)
        for _ in range(10_007):
            sink.observe_request(trace, Decision(True, 1.0, "ratio"))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_requests_total", status="ok") == 10_064
    assert scraped.value("ragtrace_internal_errors_total") == 7
    sink.observe_request(make_trace(), Decision(True, 1.0, "ratio"))
    assert Scraped(sink).value("ragtrace_requests_total", status="ok") == 10_065


def test_the_thread_outlives_a_failure(sink: PrometheusSink, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = sink._own.requests.count, threading.Event()

    def fails_once(request: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError
        real(request)

    monkeypatch.setattr(sink._own.requests, "count", fails_once)
    for _ in range(200):
        sink.observe_request(make_trace(), Decision(True, 1.0, "ratio"))
    until(lambda: sink._queue.waiting == 0)
    assert failed.is_set()
    assert Scraped(sink).value("ragtrace_requests_total", status="ok") == 199


class Text(str):
    """A text that can be seen to be gone."""


def test_texts_do_not_wait(sink: PrometheusSink) -> None:
    """What waits holds numbers and names: the bound on requests is one on memory."""
    answer, passage = Text("an answer"), Text("a passage")
    gone = [weakref.ref(answer), weakref.ref(passage)]
    facts, metadata = Facts(model="m", steps=(passage,)), {"constraints": answer}
    trace = make_trace(answer=answer, documents=[Document("d", passage, 0.5)], facts=facts, attributes=metadata)
    sink.observe_request(trace, Decision(True, 1.0, "ratio"))
    del trace, facts, metadata, answer, passage
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert Scraped(sink).value("ragtrace_requests_total", status="ok", model="m") == 1


def test_a_trace_that_cannot_be_read_harms_nobody(sink: PrometheusSink, make: Make) -> None:
    """Neither in the request's thread nor, later, in ours: it is counted as an internal error."""
    sink.watch(make([length]))
    nothing: Any = None
    sink.observe_request(nothing, Decision(True, 1.0, "ratio"))
    odd: Any = [Document("d", "c", 0.5), Document("d", "c", "high")]
    sink.observe_request(make_trace(documents=odd), Decision(True, 1.0, "ratio"))
    sink.observe_request(make_trace(), Decision(True, 1.0, "ratio"))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_internal_errors_total") == 2
    assert scraped.value("ragtrace_request_duration_seconds_count") == 2


def test_a_forked_child_begins_at_nothing(sink: PrometheusSink) -> None:
    """What was counted and what waits is the parent's, and no lock that was held at the fork is held in the child."""
    sink(evaluated())
    for _ in range(10):
        sink.observe_request(make_trace(), Decision(True, 1.0, "ratio"))
    sink.share(0)
    server = sink._server
    assert server is not None

    def count() -> None:
        for _ in range(100):
            sink.observe_request(asked(), Decision(True, 1.0, "ratio"))
        scraped = Scraped(sink)
        assert sum(s.value for s in scraped.samples("ragtrace_requests_total")) == 100
        assert sum(s.value for s in scraped.samples("ragtrace_evaluations_total")) == 0
        assert not scraped.samples("ragtrace_last_evaluation_timestamp_seconds")
        signal.alarm(30)
        server.close()  # does not wait for the parent's thread, which is not here
        sink.close()

    with sink._lock, sink._writing, sink._queue.lock:
        in_fork(count)
    server.close()
    assert Scraped(sink).value("ragtrace_requests_total", status="ok") == 10


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
def test_a_clock_that_jumps(sink: PrometheusSink, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back by a year, to the epoch, far ahead: every scrape can be read, and nothing that is counted falls."""
    counted: dict[Any, float] = {}
    for now in (1.8e9, 1.8e9 - 3e7, 0.0, 4e9, 1.8e9):
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda now=now: now)
            sink.observe_request(make_trace(duration=now - 1.8e9), Decision(True, 1.0, "ratio"))
            sink(evaluated("x" * 30))
        scraped = Scraped(sink, accept)
        found = {(s.name, *sorted(s.labels.items())): s.value for f in scraped.families for s in f.samples}
        for key, value in counted.items():
            assert found[key] >= value or key[0] == "ragtrace_last_evaluation_timestamp_seconds"
        counted = found
    assert scraped.value("ragtrace_requests_total", status="ok") == 5
    assert scraped.value("ragtrace_last_evaluation_timestamp_seconds") == 1.8e9


def test_two_evaluators_that_are_other(make: Make) -> None:
    """Beyond a hundred evaluators those left share a label, and one series: a scrape with a series twice is refused."""
    checks = [replace(length, name=f"check_{i:03}") for i in range(103)]
    sink = PrometheusSink(app="a", env="b", evaluators=checks)
    sink.watch(pipeline := make(checks))
    pipeline.submit(make_trace(), Decision(False, 0.5, "ratio"))
    for accept in ("text/plain", "application/openmetrics-text"):
        scraped = Scraped(sink, accept)
        lines = [line.rsplit(" ", 1)[0] for line in scraped.text.splitlines() if line[0] != "#"]
        assert len(lines) == len(set(lines))
        assert scraped.value("ragtrace_evaluation_eligible_total", evaluator="other") == 3


def asked(**facts: Any) -> Trace:
    return make_trace(facts=Facts(**{"model": "gpt", "prompt_version": "v2", **facts}))


def test_evaluations_by_tenant(sink: PrometheusSink) -> None:
    score = Score("length", 0.9, "pass", sampling_probability=0.5)
    sink(Evaluation(asked(), (score,)))
    for i in range(25):
        sink(Evaluation(asked(tenant=f"t{i}"), (score,)))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_tenant_evaluation_weight_total", verdict="pass", tenant="t0") == 2
    assert scraped.value("ragtrace_tenant_evaluation_weight_squared_total", verdict="pass", tenant="t0") == 4
    assert scraped.value("ragtrace_tenant_evaluation_weight_total", verdict="fail", tenant="t0") == 0
    assert scraped.value("ragtrace_tenant_evaluation_weight_total", verdict="pass", tenant="other") == 10
    tenants = {s.labels["tenant"] for s in scraped.samples("ragtrace_tenant_evaluation_weight_total")}
    assert tenants == {"other", *(f"t{i}" for i in range(20))}


def test_models_and_prompts_are_bounded(sink: PrometheusSink, make: Make) -> None:
    sink.watch(make([length]))
    for i in range(30):
        sink.observe_request(asked(model=f"m{i}", prompt_version=f"v{i}"), Decision(True, 1.0, "ratio"))
    scraped = Scraped(sink)
    samples = scraped.samples("ragtrace_requests_total")
    assert {s.labels["model"] for s in samples} == {"", "other", *(f"m{i}" for i in range(20))}
    assert {s.labels["prompt_version"] for s in samples} == {"", "other", *(f"v{i}" for i in range(20))}
    assert scraped.value("ragtrace_requests_total", status="ok", model="other") == 10
    assert scraped.value("ragtrace_label_overflow_total") == 20
    for i in range(30):
        sink(evaluated(facts=Facts(app=f"a{i}", env="prod")))
    counted = {s.labels["app"]: s.value for s in Scraped(sink).samples("ragtrace_evaluation_lag_seconds_count")}
    assert counted == {"shop": 11, **{f"a{i}": 1 for i in range(19)}}
    assert {s.labels["app"] for s in Scraped(sink).samples("ragtrace_evaluator_info")} == set(counted)


def test_stages_and_first_chunks(sink: PrometheusSink) -> None:
    sink.observe_request(asked(stages={"retrieval": 0.2, "generation": 1.2}), Decision(True, 1.0, "ratio"))
    sink.observe_request(asked(time_to_first_chunk=0.4), Decision(True, 1.0, "ratio"))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_stage_duration_seconds_sum", stage="retrieval") == 0.2
    assert scraped.value("ragtrace_stage_duration_seconds_sum", stage="generation") == 1.2
    assert scraped.value("ragtrace_time_to_first_chunk_seconds_count") == 1


def test_the_retrievers_best_score(sink: PrometheusSink) -> None:
    scored = [Document("a", "x", 0.3), Document("b", "y", 0.75), Document("c", "z")]
    for documents in (scored, [Document("d", "w")], []):
        sink.observe_request(make_trace(documents=documents, facts=Facts(retrievals=1)), Decision(True, 1.0, "r"))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_retrieval_top_score_count") == 1
    assert scraped.value("ragtrace_retrieval_top_score_sum") == 0.75
    assert scraped.value("ragtrace_retrieval_empty_total") == 1


def test_tokens_and_what_they_cost() -> None:
    sink = PrometheusSink(app="a", env="b", evaluators=[length])
    usage = {"small": ModelUsage(1_000_000, cost=1.0), "large": ModelUsage(0, 500_000, cost=10.0)}
    for each in (usage, {"small": ModelUsage(0, 1_000_000, cost=2.0)}, {"own": ModelUsage(7, 3)}):
        sink.observe_request(asked(usage=each), Decision(True, 1.0, "r"))
    sink(Evaluation(asked(), (Score("length", 1.0, "pass", model="judge-1", input_tokens=9, cost=0.25),)))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_tokens_total", direction="input", model="small") == 1_000_000
    assert scraped.value("ragtrace_tokens_total", direction="output", model="own") == 3
    cost = {(s.labels["component"], s.labels["model"]): s.value for s in scraped.samples("ragtrace_cost_usd_total")}
    assert cost == {("generation", "small"): 3.0, ("generation", "large"): 10.0, ("judge", "judge-1"): 0.25}


def test_feedback(sink: PrometheusSink) -> None:
    for value in ("up", "up", "down", "meh", ""):
        sink.observe_feedback(value)
    values = {s.labels["value"]: s.value for s in Scraped(sink).samples("ragtrace_feedback_total")}
    assert values == {"up": 2, "down": 1, "other": 2}


def test_requests_have_exemplars_where_their_spans_are_kept(sink: PrometheusSink) -> None:
    """A trace that the application's own sampler drops is named by none: nobody could open it."""
    sink.observe_request(make_trace(trace_id=0xABC, duration=0.2), Decision(True, 1.0, "ratio"))
    gone = make_trace(trace_id=0xDEF, duration=20.0, facts=Facts(unrecorded=True))
    sink.observe_request(gone, Decision(True, 1.0, "ratio"))
    scraped = Scraped(sink, "application/openmetrics-text")
    named = [s.exemplar for s in scraped.samples("ragtrace_request_duration_seconds_bucket") if s.exemplar]
    assert [exemplar.labels["trace_id"] for exemplar in named] == [f"{0xABC:032x}"]


def test_the_strata_of_the_settings_stand_at_0() -> None:
    strata = _strata(Settings(sample=0.5, sample_slower_than=9.0))
    sink = PrometheusSink(app="a", env="b", evaluators=[], strata=strata)
    samples = Scraped(sink).samples("ragtrace_sampling_decisions_total")
    found = {(s.labels["stratum"], s.labels["decision"]) for s in samples}
    assert found == {(s, d) for s in ("ratio", "rate_limit", "error", "slow") for d in ("sampled", "sampled_out")}
    assert _strata(Settings()) == ["rate_limit", "error"]
    assert _strata(Settings(sample_per_second=0.0)) == ["ratio", "error"]


def busy(sink: PrometheusSink, rounds: int = 3) -> None:
    """Traffic that touches every metric."""
    for i in range(rounds):
        known = {
            "stages": {"retrieval": 0.1, "tool": 0.2}, "time_to_first_chunk": 0.3, "input_tokens": 5,
            "output_tokens": 6, "retrievals": 1, "cancelled": i == 2, "prompt_version": f'v"\\\n{i}',
            "tenant": f"t{i}",
        }  # fmt: skip
        documents = [Document("d", "text", 0.5 + i / 10)] if i else []
        facts = asked(**known).facts
        trace = make_trace(trace_id=i + 1, documents=documents, duration=1.5e7 * i, facts=facts)
        sink.observe_request(trace, Decision(i != 1, 0.5, "ratio"))
        sink.observe_duration("length", 0.02)
        sink.observe_feedback("up", 4.0, "helpful")
        judged = {"failures": ("retrieval",), "model": "judge", "cost": 0.1}
        failed = Score("length", 0.1, "fail", sampling_probability=1e-9, **judged)
        sink(Evaluation(trace, (Score("length", 0.7, "pass"), failed, Score("length", error="timeout")), cause="none"))
        sink(Evaluation(make_trace(), (), "dropped", reason="queue_full"))


def test_some_metrics_may_be_asked_for(sink: PrometheusSink) -> None:
    (family,) = sink.registry.restricted_registry(["ragtrace_requests_total"]).collect()
    assert {sample.name for sample in family.samples} == {"ragtrace_requests_total"}


def test_the_judge_that_is_shown_is_that_of_the_sink(make: Make) -> None:
    """Model and budget are the values that the sink was given, whatever settings are in force in the process."""
    judged = replace(breaks, asks_judge=True)
    limits = JudgeLimits(model="judge-7", hour=0.5, day=4.0)
    sink = PrometheusSink(app="a", env="b", evaluators=[judged], judge=limits)
    sink.watch(make([judged]))
    scraped = Scraped(sink)
    assert scraped.value("ragtrace_evaluator_info", judge_model="judge-7") == 1
    assert scraped.value("ragtrace_cost_usd_total", component="judge", model="judge-7") == 0
    windows = {s.labels["window"]: s.value for s in scraped.samples("ragtrace_judge_budget_usd")}
    assert windows == {"hour": 0.5, "day": 4.0}


def test_an_answer_is_whole_or_no_answer(sink: PrometheusSink) -> None:
    """An empty answer of a process that ends would look complete, and every counter would seem to be gone."""
    server = serve(sink.registry, 0)
    address = server.url.removeprefix("http://").removesuffix("/metrics").split(":")
    try:
        with socket.create_connection((address[0], int(address[1])), timeout=10) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            first = client.recv(65_536)
    finally:
        server.close()
    assert re.search(rb"\r\nContent-Length: \d+\r\n(.+\r\n)*\r\n", first)


def test_a_part_that_fails_costs_no_scrape(sink: PrometheusSink, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make([length])
    monkeypatch.setattr(pipeline, "counts", None)
    sink.watch(pipeline)
    scraped = Scraped(sink, http=True)
    assert not scraped.samples("ragtrace_evaluation_eligible_total")
    assert (scraped.value("ragtrace_internal_errors_total"), scraped.value("ragtrace_build_info")) == (1, 1)


def sent() -> Any:
    export: Any = SimpleNamespace(exported=3, failed={"unavailable": 1})
    hold: Any = SimpleNamespace(held=1, expired=2)
    stats = TelemetryStats(export, export, 1, 0, hold, export, 1)
    lost = {"traces": 1, "bytes": 0, "open_spans": 0, "expired": 2, "failed": 0}
    traces = SimpleNamespace(open_traces=3, lost=lost)
    return SimpleNamespace(stats=lambda: stats, source=SimpleNamespace(stats=lambda: traces))


def test_the_catalogue_tells_what_is_served(make: Make) -> None:
    """docs/metrics.md and a scrape agree in names, types and labels, both ways; no _created series doubles them."""
    judged = replace(breaks, method="judge", asks_judge=True)
    sink = PrometheusSink(app="a", env="b", evaluators=[length, judged], priced=["gpt"])
    backend = SimpleNamespace(name="phoenix", stats=lambda: SimpleNamespace(delivered=1, lost={}, waiting=2))
    sink.watch(make([length, judged]), sent(), {"timeout": 1}, [backend])
    busy(sink)
    served = {}
    for family in Scraped(sink, http=True).families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.samples, f"{name} was never counted"
        assert {(sample.labels.pop("app"), sample.labels.pop("env")) for sample in family.samples} == {("a", "b")}
        assert not any(sample.name.endswith("_created") for sample in family.samples)
        labels, *others = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert not others, name
        served[name] = (family.type, labels)
    assert served == documented()

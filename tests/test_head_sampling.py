"""Behind a head sampler the probabilities are right: OpenTelemetry's own samplers, in the process and on the wire."""

import functools
import random
from dataclasses import replace
from typing import Any

import pytest

from ragtrace.capture.recorder import Recorder
from ragtrace.capture.spans.span_record import SpanRecord, record_of
from ragtrace.records import Facts, Trace
from ragtrace.sampling import Decision, Sampler, any_of, behind_head, errors, rate_limit, ratio
from ragtrace.testing import Clock, make_trace
from tests.conftest import Gathering
from tests.row_files import rows

trace_sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
from opentelemetry import trace as trace_api  # noqa: E402
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: E402

experimental = pytest.importorskip("opentelemetry.sdk.trace._sampling_experimental")
REQUESTS = 10_000


def consistent(share: float) -> Any:
    return experimental.composite_sampler(experimental.composable_traceid_ratio_based(share))


@functools.cache
def arriving(kind: str, share: float, count: int, seed: int = 3) -> list[SpanRecord]:
    """Records of the root spans that a head sampler keeps, of `count` requests."""
    head = consistent(share) if kind == "th" else TraceIdRatioBased(share)
    chance = random.Random(seed)
    records = []
    for _ in range(count):
        trace_id = chance.getrandbits(128)
        result = head.should_sample(None, trace_id, "request")
        if result.decision.is_sampled():
            flags = trace_api.TraceFlags(trace_api.TraceFlags.SAMPLED)
            context = trace_api.SpanContext(trace_id, 1, False, flags, result.trace_state)
            records.append(record_of(trace_sdk.ReadableSpan("request", context)))
    return records


def trace_of(record: SpanRecord) -> Trace:
    return make_trace(trace_id=record.trace_id, facts=Facts(trace_state=record.trace_state, from_spans=True))


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("head", [0.1, 0.4])
@pytest.mark.parametrize("kind", ["th", "legacy"])
def test_the_weights_add_up_to_all_requests(kind: str, head: float, p: float) -> None:
    """Behind a consistent head sampler the probability is the smaller rate, behind TraceIdRatioBased the product."""
    sampler = behind_head(ratio(p), 1.0 if kind == "th" else head)
    records = arriving(kind, head, REQUESTS)
    decisions = [sampler(trace_of(record)) for record in records]
    kept = [decision for decision in decisions if decision.keep]
    final = min(head, p) if kind == "th" else head * p
    assert [decision.probability for decision in decisions] == pytest.approx([final] * len(records), rel=1e-3)
    error = (REQUESTS * (1 - final) / final) ** 0.5
    assert abs(sum(1 / d.probability for d in kept) - REQUESTS) < 4 * error


@pytest.mark.parametrize("kind", ["th", "legacy"])
def test_small_rates_of_the_head(kind: str) -> None:
    """One below 1/256 fixes the bits of R that `TraceIdRatioBased` compares; the weights add up all the same."""
    head, count = 0.002, 100_000
    chance = random.Random(5)
    low = [chance.getrandbits(128) for _ in range(count)]
    if kind == "legacy":
        kept = [i for i in low if i & (2**64 - 1) < TraceIdRatioBased.get_bound_for_rate(head)]
        traces = [make_trace(trace_id=i, facts=Facts(from_spans=True)) for i in kept]
        sampler, final = behind_head(ratio(0.5), head), head * 0.5
    else:
        threshold = round((1 - head) * 2**56)
        kept = [i for i in low if i & (2**56 - 1) >= threshold]
        state = f"th:{threshold:014x}".rstrip("0")
        traces = [make_trace(trace_id=i, facts=Facts(from_spans=True, trace_state=state)) for i in kept]
        sampler, final = behind_head(ratio(0.5)), head
    weights = [1 / d.probability for d in map(sampler, traces) if d.keep]
    assert abs(sum(weights) - count) < 4 * (count * (1 - final) / final) ** 0.5


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (any_of(errors(), ratio(0.02)), {True: 0.1, False: 0.02}),
        (any_of(errors(), rate_limit(1000, 1000, clock=Clock())), {True: 0.1, False: 0.1}),
        (any_of(ratio(0.5), rate_limit(1000, 1000, clock=Clock())), {True: 0.1, False: 0.1}),
    ],
)
def test_strata_behind_the_head(own: Sampler, expected: dict[bool, float]) -> None:
    """What is always evaluated has the head's probability, and a rate limit multiplies."""
    sampler = behind_head(own)
    for record in arriving("th", 0.1, 300):
        for error in ("ValueError", None):
            trace = replace(trace_of(record), error=error)
            assert sampler(trace).probability == pytest.approx(expected[error is not None], rel=1e-3)


def test_own_requests_are_behind_no_sampler() -> None:
    trace = make_trace(facts=Facts(trace_state="th:e"))
    assert behind_head(ratio(0.3), 0.1)(trace).probability == 0.3


def test_published_requests_are_behind_it() -> None:
    """A process that publishes its requests publishes those that the head sampler keeps."""
    sampler = behind_head(ratio(0.3), 0.5, publishes=True)
    stated = make_trace(trace_id=2**56 - 1, facts=Facts(trace_state="th:e"))
    assert sampler(stated).probability == pytest.approx(0.125)
    assert sampler(make_trace()).probability == pytest.approx(0.15)


@pytest.mark.parametrize("state", rows(__file__, "what_is_no_threshold_is_none"))
def test_what_is_no_threshold_is_none(state: str) -> None:
    """A member of another form says nothing: the trace id is R, and no head sampler is known."""
    trace = make_trace(trace_id=0x9ABCDEF0123456, facts=Facts(trace_state=state, from_spans=True))
    plain = make_trace(trace_id=0x9ABCDEF0123456, facts=Facts(from_spans=True))
    for p in (0.1, 0.5, 0.9):
        assert behind_head(ratio(p))(trace) == behind_head(ratio(p))(plain)


def test_a_threshold_that_r_does_not_reach() -> None:
    """Where R is below the stated threshold, the sampler did not compare this R: the share of the setting applies."""
    trace = make_trace(trace_id=1, facts=Facts(trace_state="th:8", from_spans=True))
    assert behind_head(ratio(1.0), 0.25)(trace) == Decision(True, 0.25, "ratio", False, 1.0)


def test_services_that_share_a_randomness_agree() -> None:
    chance = random.Random(4)
    for _ in range(200):
        state = f"rv:{chance.getrandbits(56):014x}"
        same = [make_trace(trace_id=chance.getrandbits(128), facts=Facts(trace_state=state)) for _ in range(3)]
        assert len({ratio(0.3)(trace).keep for trace in same}) == 1


def test_a_request_below_a_remote_parent_has_its_randomness() -> None:
    consumer = Gathering()
    provider = trace_sdk.TracerProvider()
    recorder = Recorder(provider, consumer=consumer)
    state = trace_api.TraceState([("vendor", "x"), ("ot", "rv:0123456789abcd")])
    flags = trace_api.TraceFlags(trace_api.TraceFlags.SAMPLED)
    remote = trace_api.NonRecordingSpan(trace_api.SpanContext(7, 8, True, flags, state))
    with trace_api.use_span(remote):
        recorder.start("key", None, "invoke_workflow", "rag")
        recorder.end("key")
    (trace,) = consumer.traces
    assert (trace.trace_id, trace.facts.trace_state, trace.facts.from_spans) == (7, "rv:0123456789abcd", False)


@pytest.mark.parametrize("wire", ["ot=th:e;rv:0123456789abcd,vendor=x", "vendor=x, ot=th:e;rv:0123456789abcd"])
def test_a_span_on_the_wire_has_it_too(wire: str) -> None:
    """The worker reads OpenTelemetry's member of the tracestate, and the trace of the request has it."""
    pb = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    from ragtrace.capture.spans.conversion import record_from

    span = pb.Span(trace_id=b"\1" * 16, span_id=b"\2" * 8, name="x", trace_state=wire)
    assert record_from(span, "scope", "service").trace_state == "th:e;rv:0123456789abcd"

"""A rate for each evaluator: who sees which requests, and whether what is published can be weighted back to all."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace import semconv
from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.live.counts import Counts
from ragtrace.live.journal import Journal, read
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.live.suite import make_suite
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Sampler, all_of, any_of, errors, rate_limit, ratio, slow
from ragtrace.settings import load
from ragtrace.testing import Capture, Clock, make_trace
from ragtrace_otlp.events import event_attributes
from ragtrace_otlp.scores import ScoreFormat, score_attributes
from ragtrace_prometheus import PrometheusSink

REQUESTS = 10_000
SHARES = {"often": 1.0, "seldom": 0.2, "rare": 0.05}


def checks() -> list[Evaluator]:
    def fails_a_third(trace: Trace) -> bool:
        return int(trace.answer) % 3 != 0

    items = [{"name": evaluator(needs={"answer"}, name=name)(fails_a_third), "sample": SHARES[name]} for name in SHARES]
    return make_suite(load({"evaluators": items}, environ={}))


def requests() -> Iterator[Trace]:
    drawn = random.Random(11)
    for i in range(REQUESTS):
        yield make_trace(
            trace_id=drawn.getrandbits(128), span_id=drawn.getrandbits(64), answer=str(i),
            error="ValueError" if i % 20 == 0 else None, duration=9.0 if i % 25 == 1 else 0.5,
        )  # fmt: skip


def limited() -> Sampler:
    """The default: errors and slow requests always, others by a rate and a limit; 20 requests a second arrive."""
    clock = Clock()
    limit = rate_limit(8.0, 100, clock=clock)

    def tick(trace: Trace) -> Any:
        clock.tick(0.05)
        return limit(trace)

    return any_of(errors(), slow(5.0), all_of(ratio(0.5), tick))


SAMPLERS = {"all": ratio(1.0), "by id": any_of(errors(), slow(5.0), ratio(0.5)), "limited": limited()}


@pytest.mark.parametrize("name", SAMPLERS)
def test_ten_thousand_requests_are_weighted_back(name: str, tmp_path: Path) -> None:
    """Within four standard errors; metrics and the journal have the same weights, and a lower share sees a subset."""
    suite, capture = checks(), Capture()
    metrics = PrometheusSink(app="a", env="e", evaluators=suite)
    journal = Journal(tmp_path / "journal.jsonl", evaluators=suite)
    sinks = (capture, metrics, journal)
    pipeline = Pipeline(suite, sinks, sampler=SAMPLERS[name], limits=Limits(items=REQUESTS, batch=1_000, wait=0.01))
    for trace in requests():
        pipeline.submit(trace)
    assert pipeline.flush(60)
    assert pipeline.close()
    journal.close()
    seen: defaultdict[str, dict[int, Score]] = defaultdict(dict)
    for evaluation in capture.evaluations:
        for score in evaluation.scores:
            seen[score.name][int(evaluation.trace.answer)] = score
            expected = SHARES[score.name] * evaluation.trace.sampling_probability
            assert score.sampling_probability == pytest.approx(expected)
    assert seen["rare"].keys() < seen["seldom"].keys() < seen["often"].keys()
    for check in suite:
        scores = seen[check.name]
        _check_weights({i: 1.0 / score.sampling_probability for i, score in scores.items()})
        counts = pipeline.counts()[check.name]
        assert counts == Counts(REQUESTS, REQUESTS - len(scores), len(scores), 0, 0)
        total = sum(1.0 / score.sampling_probability for score in scores.values())
        assert _weight_of(metrics, check.name) == pytest.approx(total)
    written = [score for entry in read(tmp_path / "journal.jsonl") for score in entry.scores]
    assert sorted(score.sampling_probability for score in written) == pytest.approx(
        sorted(score.sampling_probability for scores in seen.values() for score in scores.values())
    )


def _check_weights(weights: dict[int, float]) -> None:
    """Horvitz and Thompson's estimates of all requests, and of those that fail, of errors and of slow requests."""
    for chosen, truth in (
        (lambda i: True, REQUESTS),
        (lambda i: i % 3 == 0, sum(i % 3 == 0 for i in range(REQUESTS))),
        (lambda i: i % 20 == 0, REQUESTS / 20),
        (lambda i: i % 25 == 1, REQUESTS / 25),
    ):
        some = [weight for i, weight in weights.items() if chosen(i)]
        deviation = sum(weight * (weight - 1.0) for weight in some) ** 0.5
        assert abs(sum(some) - truth) <= 4 * deviation + 1e-6


def _weight_of(metrics: PrometheusSink, name: str) -> float:
    (family,) = [each for each in metrics.collect() if each.name == "ragtrace_evaluation_weight"]
    return sum(sample.value for sample in family.samples if sample.labels["evaluator"] == name)


def test_a_request_that_no_evaluator_sees_says_so() -> None:
    capture = Capture()

    @evaluator(needs={"answer"})
    def never(trace: Trace) -> bool:
        return True

    suite = make_suite(load({"evaluators": [{"name": never, "sample": 1e-9}]}, environ={}))
    pipeline = Pipeline(suite, [capture], limits=Limits(wait=0.01))
    pipeline.submit(make_trace())
    (evaluation,) = capture.wait(1)
    pipeline.close()
    assert (evaluation.status, evaluation.scores) == ("sampled_out", ())
    assert pipeline.counts()["never"] == Counts(1, 1, 0, 0, 0)


def test_the_probability_is_on_each_score() -> None:
    """One that is not that of its request is on the root span, in both dialects, and on the score's event."""
    scores = (Score("often", 1.0, sampling_probability=0.5), Score("rare", 1.0, sampling_probability=0.005))
    evaluation = Evaluation(make_trace(sampling_probability=0.5), scores)
    attributes = score_attributes(evaluation, ScoreFormat(openinference=True))
    assert "gen_ai.evaluation.often.sampling_probability" not in attributes
    assert attributes["gen_ai.evaluation.rare.sampling_probability"] == 0.005
    assert json.loads(attributes["evaluations.1.evaluation.metadata"]) == {"sampling_probability": 0.005}
    events = [event_attributes(evaluation, score, ScoreFormat())[semconv.PROBABILITY] for score in scores]
    assert events == [0.5, 0.005]


@pytest.mark.parametrize("item", [3, None, {"sample": 0.5}])
def test_what_is_no_evaluator_is_an_error(item: object) -> None:
    with pytest.raises(SettingError, match="evaluators has"):
        make_suite(load({"evaluators": [item]}, environ={}))

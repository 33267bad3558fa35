"""A judge that misbehaves: nothing is raised, nothing is invented, and the next one is asked as if nothing was."""

import resource
from collections.abc import Callable
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.evaluate.judge import Judge
from ragtrace.evaluation import run
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.testing import Capture, make_trace
from tests.judge import server as s
from tests.row_files import table

GOOD = '{"answer_fails": false, "context_fails": false, "reason": "fine"}'
FAULTS: dict[str, tuple[s.Behaviour, str]] = {
    fault: (getattr(s, name) if arguments is None else getattr(s, name)(*arguments, **options), reason)
    for fault, (name, arguments, options, reason) in table(__file__, "faults").items()
}
"""Behaviours of the server, and the reason in the score's `error`."""


@pytest.fixture(scope="module", autouse=True)
def _gigabyte() -> None:
    """To pack it takes longer than the judge waits."""
    s.packed_gigabyte()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_error_and_never_a_score(fault: str, judging: Callable[..., Judge]) -> None:
    """Each kind of misbehaviour gives a score with its reason and neither value nor label."""
    behaviour, reason = FAULTS[fault]
    with s.serving(behaviour) as served:
        judging(served.url)
        ((score,),) = run(plugins.load("sexism"), [make_trace()])
    assert (score.error, score.value, score.label) == (reason, None, None), score.explanation
    assert len(served.requests) <= 6  # two tries, each in three forms where the first was never seen to work


@pytest.mark.parametrize("fault", ["a body without an end", "a gigabyte in a megabyte"])
def test_an_endless_answer_takes_no_memory(fault: str, judging: Callable[..., Judge]) -> None:
    """The judge's process does not grow by what a server sends, also after it has given the answer up."""
    with s.serving(s.says(GOOD), FAULTS[fault][0]) as served:
        judging(served.url, retries=0)
        run(plugins.load("sexism"), [make_trace()])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ((score,),) = run(plugins.load("sexism"), [make_trace(answer="Another one.")])
    assert score.error == "judge_unavailable"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


@pytest.mark.parametrize("fault", ["rate limit", "server error", "half a body", "connection reset", "prose"])
def test_what_passes_is_tried_again(fault: str, judging: Callable[..., Judge]) -> None:
    """After one failure of a kind that may pass, the answer of the second try counts."""
    with s.serving(FAULTS[fault][0], s.says(GOOD)) as served:
        judging(served.url)
        ((score,),) = run(plugins.load("sexism"), [make_trace()])
    assert (score.value, score.error) == (1.0, None)
    assert len(served.requests) == 2


def test_the_pipeline_goes_on(judging: Callable[..., Judge]) -> None:
    """One trace per fault through the pipeline: each comes out, failed or scored, and all are accounted for."""
    quick = [b for name, (b, _) in FAULTS.items() if name not in ("no answer", "a byte now and then")]
    with s.serving(*quick, s.says(GOOD)) as served:
        judging(served.url, retries=0, judge_concurrency=1)
        capture = Capture()
        checks = [plugins.load("sexism"), plugins.load("looping_unique_sentences")]
        pipeline = Pipeline(checks, [capture], limits=Limits(batch=1, wait=0.0))
        for i in range(len(quick)):
            assert pipeline.submit(make_trace(query=f"Question {i}?"))
        assert pipeline.flush(60.0)
        pipeline.close(5.0)
        counts: Any = pipeline.counts()["sexism"]
    assert counts.eligible == counts.scored + counts.failed + counts.dropped == len(quick)
    for evaluation in capture.evaluations:
        by_name = {score.name: score for score in evaluation.scores}
        assert by_name["looping_unique_sentences"].value == 1.0
        assert (by_name["sexism"].value is None) == (by_name["sexism"].error is not None)

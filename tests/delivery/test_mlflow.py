"""Scores as assessments in MLflow, against a server that follows its API and fails by script."""

from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from ragtrace_backends.mlflow import MlflowAssessments, make_client, read_labels
from ragtrace_backends.person_labels import StoredRequest
from ragtrace_backends.score_delivery import ScoreDelivery
from tests.delivery.mlflow_api import MlflowApi
from tests.delivery.servers import RESET, Running, serving
from tests.delivery.test_score_delivery import QUICK, adds_up, annotation, delivering_to, put


def delivering(server: Running, missing: float = 300.0) -> AbstractContextManager[ScoreDelivery]:
    return delivering_to(MlflowAssessments(server.url), replace(QUICK, missing=missing))


def test_scores_become_assessments() -> None:
    """A score is feedback with its value, a person's verdict with its label; the rest says who gave it and why."""
    api = MlflowApi()
    with serving(api) as server, delivering(server) as delivery:
        delivery.put(annotation(1, explanation="because", created=1e9, metadata={"source": "ragtrace", "p": 0.5}))
        delivery.put(annotation(1, name="judge", kind="LLM", label=None))
        delivery.put(annotation(1, version="reviewer-2", kind="HUMAN"))
        assert delivery.flush(60)
    score, judge, person = api.rows.values()
    assert score == {
        "assessment_id": score["assessment_id"], "assessment_name": "faithfulness", "trace_id": f"tr-{1:032x}",
        "source": {"source_type": "CODE", "source_id": "ragtrace/faithfulness@3"},
        "create_time": "2001-09-09T01:46:40.000Z", "last_update_time": "2001-09-09T01:46:40.000Z",
        "feedback": {"value": 0.5}, "rationale": "because",
        "metadata": {"source": "ragtrace", "p": "0.5", "span_id": f"{1:016x}", "label": "pass"},
    }  # fmt: skip
    assert (judge["source"]["source_type"], "rationale" in judge) == ("LLM_JUDGE", False)
    assert (person["source"]["source_type"], person["feedback"]["value"]) == ("HUMAN", "pass")


def test_second_score_changes_the_first() -> None:
    api = MlflowApi()
    with serving(api) as server, delivering(server) as delivery:
        for value in (0.1, 0.9):
            delivery.put(annotation(1, value=value, label="pass" if value > 0.5 else "fail"))
            assert delivery.flush(60)
    (row,) = api.rows.values()
    assert (row["feedback"]["value"], row["metadata"]["label"]) == (0.9, "pass")


def test_failures_are_tried_again() -> None:
    api = MlflowApi()
    with serving(api, RESET, (429, 0.01), 500, None, None, RESET, 503) as server, delivering(server) as delivery:
        put(delivery, 20)
        assert delivery.flush(60)
        assert len(api.rows) == delivery.stats().delivered == 20
        assert adds_up(delivery)


def test_trace_that_arrives_after_its_scores() -> None:
    """They are sent again until it is there, others at once; those whose trace never comes are `span_missing`."""
    api = MlflowApi(known={f"{1:032x}"})
    with serving(api) as server, delivering(server, missing=1.0) as delivery:
        for number in (1, 2, 3):
            for name in ("a", "b", "unloved" if number == 1 else "c"):
                delivery.put(annotation(number, name=name))
        while len(api.rows) < 2:
            delivery.flush(0.02)
        assert api.known is not None
        api.known.add(f"{2:032x}")
        assert delivery.flush(60)
        assert delivery.stats().lost == {"refused": 1, "span_missing": 3}
    assert len(api.rows) == 5


def test_wrong_address_is_no_missing_trace() -> None:
    """A server that has no such API loses the scores at once, counted, instead of waiting for a trace."""
    with serving(MlflowApi(), *[404] * 4) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"refused": 1}


@pytest.mark.parametrize(
    ("variables", "authorization"),
    [({"TOKEN": "abc"}, "Bearer abc"), ({"USERNAME": "ada", "PASSWORD": "pw", "TOKEN": "abc"}, "Basic YWRhOnB3")],
)
def test_credentials(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], authorization: str) -> None:
    """The credentials are those that MLflow's own client reads, a user before a token."""
    for name, value in variables.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    api = MlflowApi()
    api.authorization = authorization
    with serving(api) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        assert delivery.flush(60)
    assert len(api.rows) == 1


def test_labels_of_people_are_read() -> None:
    api = MlflowApi(known={f"{1:032x}"})
    with serving(api) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        delivery.put(annotation(1, kind="HUMAN", version="reviewer-1", metadata={"source": "ragtrace"}))
        assert delivery.flush(60)
        source = {"source_type": "HUMAN", "source_id": "ada"}
        said = {"assessment_name": "faithfulness", "feedback": {"value": False}, "rationale": "no"}
        api.rows["a-x"] = {"trace_id": f"tr-{1:032x}", "source": source, **said}
        requests = [StoredRequest(f"{number:032x}", f"{number:016x}") for number in (1, 2)]
        (label,) = read_labels(make_client(server.url), requests)
    assert (label.trace_id, label.name, label.value) == (f"{1:032x}", "faithfulness", False)
    assert (label.reviewer, label.comment) == ("mlflow:ada", "no")

"""Scores in Langfuse, against a server that checks each request with Langfuse's OpenAPI description."""

from contextlib import AbstractContextManager
from typing import Any

import pytest

from ragtrace.errors import SettingError
from ragtrace_backends.annotations import Annotation
from ragtrace_backends.langfuse import LangfuseScores, make_client, read_labels
from ragtrace_backends.person_labels import StoredRequest
from ragtrace_backends.rest_client import RestClient
from ragtrace_backends.score_delivery import ScoreDelivery
from tests.delivery.langfuse_api import LangfuseApi, langfuse_keys, score  # noqa: F401 a fixture
from tests.delivery.servers import RESET, Running, serving
from tests.delivery.test_score_delivery import adds_up, annotation, delivering_to
from tests.row_files import rows

INGESTION = "/api/public/ingestion"
pytestmark = pytest.mark.usefixtures("langfuse_keys")


def delivering(server: Running) -> AbstractContextManager[ScoreDelivery]:
    return delivering_to(LangfuseScores(server.url))


def config(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    base = {"id": f"c-{name}", "name": name, "createdAt": moment, "updatedAt": moment, "projectId": "p"}
    return {**base, "dataType": kind, "isArchived": False, **fields}


def sent(api: LangfuseApi, *annotations: Annotation) -> list[dict[str, Any]]:
    """What the server has after these were delivered."""
    with serving(api) as server, delivering(server) as delivery:
        for one in annotations:
            delivery.put(one)
        assert delivery.flush(60)
        assert delivery.stats().lost == {}
    return list(api.rows.values())


def test_scores_have_their_types() -> None:
    """A value is numeric, a label without one and a person's verdict categorical; the explanation is the comment."""
    number, label, person = sent(
        LangfuseApi(), annotation(1, explanation="because", metadata={"source": "ragtrace"}),
        annotation(1, name="tone", value=None, label="friendly"),
        annotation(1, version="reviewer-2", kind="HUMAN", value=1.0),
    )  # fmt: skip
    metadata = {"evaluator": "faithfulness@3", "annotator_kind": "CODE", "span_id": f"{1:016x}", "label": "pass"}
    assert number == {
        "id": number["id"], "traceId": f"{1:032x}", "name": "faithfulness", "value": 0.5, "dataType": "NUMERIC",
        "comment": "because", "metadata": {"source": "ragtrace", **metadata},
    }  # fmt: skip
    assert (label["value"], label["dataType"]) == ("friendly", "CATEGORICAL")
    assert (person["value"], person["dataType"]) == ("pass", "CATEGORICAL")


def test_scores_follow_their_configs() -> None:
    """A score whose name has a config in the project names it and has its type, where it complies with it."""
    cases = rows(__file__, "scores_follow_their_configs")
    api = LangfuseApi()
    api.configs = [config(name, kind, **fields) for name, kind, fields, _, _ in cases]
    stored = sent(api, *(annotation(1, name=name, label=label) for name, _, _, label, _ in cases))
    values = [[row["value"], row["dataType"], row.get("configId")] for row in stored]
    assert [row["name"] for row in stored] == [name for name, *_ in cases]
    assert values == [expected for *_, expected in cases]


def test_part_of_a_batch_fails() -> None:
    """Of an answer 207, what was busy is sent again; what was refused or fails each time is lost, counted."""
    api = LangfuseApi()
    api.errors = {"busy": [429], "broken": [500, 500], "refused": [400], "foreign": [401], "bad": [500] * 99}
    with serving(api) as server, delivering(server) as delivery:
        for name in ("bad", "fine", "busy", "broken", "refused", "foreign"):
            delivery.put(annotation(1, name=name))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"refused": 1, "unauthorized": 1, "server_error": 1}
        assert adds_up(delivery)
    assert sorted(row["name"] for row in api.rows.values()) == ["broken", "busy", "fine"]


def test_failures_are_tried_again() -> None:
    api = LangfuseApi()
    with serving(api, None, RESET, (429, 0.01), 500, RESET) as server, delivering(server) as delivery:
        for number in range(1, 31):
            delivery.put(annotation(number))
            assert delivery.flush(60)
        assert (delivery.stats().delivered, delivery.stats().lost) == (30, {})
    assert len(api.rows) == len(api.events) == 30


def test_an_answer_of_another_shape_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a proxy that is JSON says nothing of the scores; one in place of the configs costs none."""
    api, ask = LangfuseApi(), RestClient.ask
    odd: list[Any] = [{"data": [{"name": "x"}]}, None, {}]

    def answer(self: RestClient, *args: Any, **kwargs: Any) -> Any:
        return odd.pop(0) if odd else ask(self, *args, **kwargs)

    monkeypatch.setattr(RestClient, "ask", answer)
    assert [row["value"] for row in sent(api, annotation(1, value=0.5))] == [0.5]


def test_second_score_changes_the_first() -> None:
    """A newer score has the id of the first and another event, so that Langfuse does not take it for a repetition."""
    api = LangfuseApi()
    sent(api, annotation(1, value=0.1, created=1.0))
    (row,) = sent(api, annotation(1, value=0.9, created=2.0))
    assert row["value"] == 0.9


def test_server_without_batches() -> None:
    """Where the endpoint for batches is gone, as in Langfuse's cloud, each score is sent by itself."""
    api = LangfuseApi()
    api.gone = {INGESTION}
    with serving(api, None, None, None, RESET, 503) as server, delivering(server) as delivery:
        for number in range(1, 31):
            delivery.put(annotation(number, name="unloved" if number == 7 else "faithfulness"))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"refused": 1}
        assert sum(asked.path == INGESTION for asked in server.requests) <= 2
    assert len(api.rows) == 29


def test_keys_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-wrong")
    with serving(LangfuseApi()) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"unauthorized": 1}
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    with pytest.raises(SettingError, match="LANGFUSE_SECRET_KEY"):
        LangfuseScores("http://localhost:3000")


@pytest.mark.parametrize("gone", [set(), {"/api/public/v3/scores"}])
def test_labels_of_people_are_read(gone: set[str]) -> None:
    api = LangfuseApi()
    api.gone = gone
    api.people = [score(number) for number in (1, 2, 3, 4)]
    api.people[1]["metadata"] = {"source": "ragtrace"}
    with serving(api) as server:
        requests = [StoredRequest(f"{number:032x}", "") for number in (1, 2, 3)]
        labels = list(read_labels(make_client(server.url), requests))
    assert [label.trace_id for label in labels] == [f"{1:032x}", f"{3:032x}"]
    assert str(labels[0].value) == "False"
    assert (labels[0].reviewer, labels[0].comment) == ("langfuse:ada", "wrong year")

"""Scores that ragtrace writes beside the traces of real servers, read back through their APIs."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ragtrace_backends import mlflow as trace_assessments
from ragtrace_backends import phoenix as span_annotations
from ragtrace_backends.annotations import Annotation
from ragtrace_backends.mlflow import MlflowAssessments
from ragtrace_backends.person_labels import PersonLabel, StoredRequest
from ragtrace_backends.phoenix import PhoenixAnnotations
from ragtrace_backends.score_delivery import Backend, ScoreDelivery
from tests.backends import mlflow, phoenix
from tests.backends.conftest import APP, Pages
from tests.backends.conversation import QUESTIONS
from tests.backends.servers import Server

pytestmark = pytest.mark.timeout(600)
SCORED = set(QUESTIONS) - {"failure"}
"""Questions whose requests have an answer, which the assistant's evaluator needs."""
SCORES = int(os.environ.get("RAGTRACE_SCORES", "1000"))
"""Scores for a server that is restarted. The promise for Phoenix is ten thousand: RAGTRACE_SCORES=10000."""
EVALUATORS = 50


def send_spans(server: Server, project: str, count: int) -> list[tuple[str, str]]:
    """Send spans of one request each to a server; their trace ids and span ids."""
    provider = TracerProvider(resource=Resource.create({"openinference.project.name": project}))
    exporter = OTLPSpanExporter(f"{server.url}/v1/traces", headers=server.headers, timeout=60)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    contexts = []
    for number in range(count):
        with provider.get_tracer("tests").start_as_current_span(f"request {number}") as span:
            contexts.append(span.get_span_context())
    provider.shutdown()
    return [(f"{each.trace_id:032x}", f"{each.span_id:016x}") for each in contexts]


def deliver(backend: Backend, spans: list[tuple[str, str]], evaluators: int, server: Server) -> ScoreDelivery:
    """Deliver so many scores of each span, and restart the server in the middle."""
    delivery = ScoreDelivery(backend)
    for number in range(evaluators):
        for trace, span in spans:
            assert delivery.put(Annotation(trace, span, f"check_{number}", "1", "CODE", number / evaluators, "pass"))
    half = len(spans) * evaluators // 2
    while delivery.stats().delivered < half:
        time.sleep(0.01)
    operator = threading.Thread(target=server.restart)
    operator.start()
    assert delivery.flush(400)
    operator.join()
    assert delivery.close()
    return delivery


def deliver_all(backend: Backend, trace: str, span: str) -> None:
    """Deliver a score, and twice the verdict of a person."""
    delivery = ScoreDelivery(backend)
    for kind, version, value in (("CODE", "1", 0.5), ("HUMAN", "reviewer-1", 0.0), ("HUMAN", "reviewer-1", 1.0)):
        label = "pass" if value else "fail"
        delivery.put(Annotation(trace, span, "faithfulness", version, kind, value, label, None, {"source": "ragtrace"}))
        assert delivery.flush(100)
    assert delivery.close()


def test_scores_are_annotations_in_phoenix(phoenix_server: Server, phoenix_pages: Pages) -> None:
    """Phoenix has each score as an annotation of its request's root span, with label, score and kind of annotator."""
    roots = {trace.root.id: name for name, trace in phoenix_pages.traces.items()}
    rows = phoenix.annotations(phoenix_server, APP, list(roots))
    assert {roots[row["span_id"]] for row in rows} == SCORED
    for row in rows:
        assert (row["name"], row["annotator_kind"]) == ("names_its_years", "CODE")
        assert row["result"]["label"] == ("pass" if row["result"]["score"] == 1.0 else "fail")
    assert len(rows) == len(SCORED)


def test_scores_are_assessments_in_mlflow(mlflow_server: Server, mlflow_pages: Pages) -> None:
    """MLflow has each score as an assessment of its request's trace, with value, source and label."""
    for name, trace in mlflow_pages.traces.items():
        rows = mlflow.assessments(mlflow_server, trace.id)
        assert len(rows) == (name in SCORED)
        for row in rows:
            assert (row["assessment_name"], row["source"]["source_type"]) == ("names_its_years", "CODE")
            assert row["metadata"]["label"] == ("pass" if row["feedback"]["value"] == 1.0 else "fail")
            assert row["metadata"]["span_id"] == trace.root.id


def test_mlflow_restart_loses_and_doubles_no_score(mlflow_server: Server) -> None:
    """Scores for an MLflow server that is restarted in the middle: all are there, each once."""
    spans = send_spans(mlflow_server, "restart", SCORES // EVALUATORS)
    stats = deliver(MlflowAssessments(mlflow_server.url), spans, EVALUATORS, mlflow_server).stats()
    assert (stats.delivered, stats.lost) == (SCORES, {})
    assert stats.failures
    for trace, _ in spans:
        names = [row["assessment_name"] for row in mlflow.assessments(mlflow_server, trace)]
        assert sorted(names) == sorted(f"check_{number}" for number in range(EVALUATORS))


def test_phoenix_restart_loses_and_doubles_no_score(phoenix_server: Server) -> None:
    """Scores for a Phoenix server that is restarted in the middle: all are there, each once."""
    spans = send_spans(phoenix_server, "restart", SCORES // EVALUATORS)
    stats = deliver(PhoenixAnnotations(phoenix_server.url), spans, EVALUATORS, phoenix_server).stats()
    assert (stats.delivered, stats.lost) == (SCORES, {})
    assert stats.failures
    counts: Counter[tuple[str, str]] = Counter()
    for i in range(0, len(spans), 20):
        rows = phoenix.annotations(phoenix_server, "restart", [span for _, span in spans[i : i + 20]])
        counts.update((row["span_id"], row["name"]) for row in rows)
    assert len(counts) == SCORES
    assert set(counts.values()) == {1}


def test_labels_of_people_in_phoenix_are_read(phoenix_server: Server) -> None:
    """What a person says of a span is read with label and comment; scores and verdicts of ragtrace's own are not."""
    ((trace, span),) = send_spans(phoenix_server, "labels", 1)
    deliver_all(PhoenixAnnotations(phoenix_server.url), trace, span)
    verdict = {"label": "fail", "explanation": "The year is wrong."}
    row = {"span_id": span, "name": "faithfulness", "annotator_kind": "HUMAN", "identifier": "ada", "result": verdict}
    phoenix_server.post("/v1/span_annotations?sync=true", {"data": [row]})
    client = span_annotations.make_client(phoenix_server.url)
    requests = [StoredRequest("0" * 31 + "1", "0" * 15 + "1"), StoredRequest(trace, span)]
    (label,) = span_annotations.read_labels(client, requests)
    assert label == PersonLabel(trace, "faithfulness", "fail", "phoenix:ada", "The year is wrong.")


def test_labels_of_people_in_mlflow_are_read(mlflow_server: Server) -> None:
    """What a person says of a trace is read with value and comment; scores and verdicts of ragtrace's own are not."""
    ((trace, span),) = send_spans(mlflow_server, "labels", 1)
    deliver_all(MlflowAssessments(mlflow_server.url), trace, span)
    moment = "2026-01-01T00:00:00.000Z"
    row = {
        "assessment_name": "faithfulness", "source": {"source_type": "HUMAN", "source_id": "ada"},
        "create_time": moment, "last_update_time": moment, "feedback": {"value": False},
        "rationale": "The year is wrong.",
    }  # fmt: skip
    mlflow_server.post(f"/api/3.0/mlflow/traces/tr-{trace}/assessments", {"assessment": row})
    client = trace_assessments.make_client(mlflow_server.url)
    requests = [StoredRequest("0" * 31 + "1", "0" * 15 + "1"), StoredRequest(trace, span)]
    (label,) = trace_assessments.read_labels(client, requests)
    assert label == PersonLabel(trace, "faithfulness", False, "mlflow:ada", "The year is wrong.")

"""Scores that ragtrace writes beside the traces of real servers, read back through their APIs."""

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
from tests.waiting import until
from tests.worker.running import request_of, running, wait_for

pytestmark = pytest.mark.timeout(600)
SCORED = set(QUESTIONS) - {"failure"}
"""Questions whose requests have an answer, which the assistant's evaluator needs."""
SCORES = int(os.environ.get("RAGTRACE_SCORES", "1000"))
"""Scores for a server that is restarted. The promise for Phoenix is ten thousand: RAGTRACE_SCORES=10000."""
EVALUATORS = 50
TOOLS: dict[str, tuple[Callable[[str], Backend], Any]] = {
    "phoenix": (PhoenixAnnotations, span_annotations), "mlflow": (MlflowAssessments, trace_assessments),
}  # fmt: skip
"""How each backend is written and read."""


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


def scores(name: str, server: Server, project: str, spans: Iterable[tuple[str, str]]) -> list[tuple[Any, ...]]:
    """Span, name, value, label and kind of each score that a backend has of these traces and spans."""
    if name == "phoenix":
        rows = [row | row["result"] for _, span in spans for row in phoenix.annotations(server, project, [span])]
        return sorted((r["span_id"], r["name"], r["score"], r.get("label"), r["annotator_kind"]) for r in rows)
    rows = [row["metadata"] | row for trace, _ in spans for row in mlflow.assessments(server, trace)]
    return sorted(
        (r["span_id"], r["assessment_name"], r["feedback"]["value"], r.get("label"), r["source"]["source_type"])
        for r in rows
    )


def test_scores_are_beside_their_requests(name: str, server: Server, pages: Pages) -> None:
    roots = {trace.root.id: question for question, trace in pages.traces.items()}
    rows = scores(name, server, APP, [(trace.id, trace.root.id) for trace in pages.traces.values()])
    assert sorted(roots[span] for span, *_ in rows) == sorted(SCORED)
    for _, check, value, label, kind in rows:
        assert (check, label, kind) == ("names_its_years", "pass" if value == 1.0 else "fail", "CODE")


def test_a_restart_loses_and_doubles_no_score(name: str, server: Server) -> None:
    """Scores for a server that is restarted in the middle: all are there, each once."""
    spans = send_spans(server, "restart", SCORES // EVALUATORS)
    delivery = ScoreDelivery(TOOLS[name][0](server.url))
    checks = [(f"check_{number}", number / EVALUATORS) for number in range(EVALUATORS)]
    for check, value in checks:
        for trace, span in spans:
            assert delivery.put(Annotation(trace, span, check, "1", "CODE", value, "pass"))
    until(lambda: delivery.stats().delivered >= SCORES // 2, 400)
    operator = threading.Thread(target=server.restart)
    operator.start()
    assert delivery.flush(400)
    operator.join()
    assert delivery.close()
    stats = delivery.stats()
    assert (stats.delivered, stats.lost, stats.failures > 0) == (SCORES, {}, True)
    assert scores(name, server, "restart", spans) == sorted(
        (span, *check, "pass", "CODE") for _, span in spans for check in checks
    )


def test_labels_of_people_are_read(name: str, server: Server) -> None:
    """What a person says is read with its value and comment; scores and verdicts of ragtrace's own are not."""
    ((trace, span),) = send_spans(server, "labels", 1)
    delivery = ScoreDelivery(TOOLS[name][0](server.url))
    for kind, version, score in (("CODE", "1", 0.5), ("HUMAN", "reviewer-1", 0.0), ("HUMAN", "reviewer-1", 1.0)):
        label, own = "pass" if score else "fail", {"source": "ragtrace"}
        delivery.put(Annotation(trace, span, "faithfulness", version, kind, score, label, None, own))
        assert delivery.flush(100)
    assert delivery.close()
    value: Any = "fail"
    if name == "phoenix":
        verdict = {"label": value, "explanation": "The year is wrong."}
        person = {"name": "faithfulness", "annotator_kind": "HUMAN", "identifier": "ada"}
        server.post("/v1/span_annotations?sync=true", {"data": [{"span_id": span, "result": verdict, **person}]})
    else:
        value, moment = False, "2026-01-01T00:00:00.000Z"
        row = {
            "assessment_name": "faithfulness", "source": {"source_type": "HUMAN", "source_id": "ada"},
            "create_time": moment, "last_update_time": moment, "feedback": {"value": value},
            "rationale": "The year is wrong.",
        }  # fmt: skip
        server.post(f"/api/3.0/mlflow/traces/tr-{trace}/assessments", {"assessment": row})
    requests = [StoredRequest("0" * 31 + "1", "0" * 15 + "1"), StoredRequest(trace, span)]
    tool = TOOLS[name][1]
    (label,) = tool.read_labels(tool.make_client(server.url), requests)
    assert label == PersonLabel(trace, "faithfulness", value, f"{name}:ada", "The year is wrong.")


def test_worker_scores_come_once(name: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of requests that passed a worker are there once, although the worker after a crash delivers them again."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", ",".join("=".join(header) for header in server.headers.items()))
    first = secrets.randbits(48)
    traces = range(first, first + 20)
    (tmp_path / "first").mkdir()
    for folder in ("first", "second"):
        own = {"buffer": str(tmp_path / folder / "buffer.db")}
        with running(own, behind=server.url, **{f"{name}_url": server.url}) as run:
            if folder == "first":
                assert run.post(request_of(*traces).SerializeToString())[0] == 200
                run.wait(lambda stats: stats.sent == 40)
                shutil.copytree(tmp_path / "first", tmp_path / "second")
            runtime = run.worker.runtime
            wait_for(lambda runtime=runtime: runtime.deliveries[name].delivered, lambda count: count == 20, 120.0)
    spans = [(f"{trace:032x}", f"{10 * trace + 1:016x}") for trace in traces]
    assert scores(name, server, "default", spans) == sorted((span, "kept", 1.0, None, "CODE") for _, span in spans)

"""Scores of a worker beside the traces of real servers, read back through their APIs."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.backends import mlflow, phoenix
from tests.backends.servers import Server
from tests.worker.running import Running, request_of, running, wait_for

pytestmark = pytest.mark.timeout(600)
TRACES = 20


def _settings(server: Server, backend: str, folder: Path) -> dict[str, Any]:
    own = {"buffer": str(folder / "buffer.db")}
    return {"own": own, "behind": server.url, f"{backend}_url": server.url}


def _traces() -> dict[str, str]:
    """Ids of new traces, and of their root spans, as `request_of` makes them."""
    first = secrets.randbits(48)
    return {f"{trace:032x}": f"{10 * trace + 1:016x}" for trace in range(first, first + TRACES)}


def _deliver_twice(server: Server, backend: str, traces: dict[str, str], folder: Path) -> None:
    """Send requests through a worker; a second one with the buffer of a crash delivers the scores once more."""
    (folder / "first").mkdir()
    with running(**_settings(server, backend, folder / "first")) as run:
        status, _, _ = run.post(request_of(*(int(trace, 16) for trace in traces)).SerializeToString())
        assert status == 200
        run.wait(lambda stats: stats.sent == 2 * TRACES)
        shutil.copytree(folder / "first", folder / "second")
        _wait_until_delivered(run, backend)
    with running(**_settings(server, backend, folder / "second")) as run:
        _wait_until_delivered(run, backend)


def _wait_until_delivered(run: Running, backend: str) -> None:
    wait_for(lambda: run.worker.runtime.deliveries[backend].delivered, lambda count: count == TRACES, 120.0)


def test_scores_of_a_worker_are_annotations_in_phoenix(phoenix_server: Server, tmp_path: Path) -> None:
    """Phoenix has one annotation of each root span that passed through a worker, although it was delivered twice."""
    traces = _traces()
    _deliver_twice(phoenix_server, "phoenix", traces, tmp_path)
    rows = phoenix.annotations(phoenix_server, "default", list(traces.values()))
    assert sorted(row["span_id"] for row in rows) == sorted(traces.values())
    assert {(row["name"], row["annotator_kind"], row["result"]["score"]) for row in rows} == {("kept", "CODE", 1.0)}


def test_scores_of_a_worker_are_assessments_in_mlflow(
    mlflow_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow has one assessment of each root span that passed through a worker, although it was delivered twice."""
    headers = ",".join(f"{name}={value}" for name, value in mlflow_server.headers.items())
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
    traces = _traces()
    _deliver_twice(mlflow_server, "mlflow", traces, tmp_path)
    for trace, span in traces.items():
        (row,) = mlflow.assessments(mlflow_server, trace)
        assert (row["assessment_name"], row["feedback"]["value"], row["metadata"]["span_id"]) == ("kept", 1.0, span)

"""Scores of a worker in Phoenix, MLflow and Langfuse."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.evaluation import Evaluator
from ragtrace.records import Trace
from ragtrace.worker.buffer import DiskBuffer, TraceOutcome
from ragtrace.worker.score_outbox import ScoreOutbox
from ragtrace_backends.annotations import encode
from ragtrace_backends.phoenix import PhoenixAnnotations
from ragtrace_backends.score_delivery import DeliveryLimits, ScoreDelivery
from tests.delivery.langfuse_api import LangfuseApi, langfuse_keys  # noqa: F401 a fixture
from tests.delivery.mlflow_api import MlflowApi
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import serving
from tests.delivery.test_score_delivery import QUICK, annotation
from tests.otlp.receivers import http_server
from tests.worker.running import Running, count_rows, post, request_of, running, scope, span, wait_for

pytestmark = pytest.mark.usefixtures("langfuse_keys")


def _delivered(run: Running, count: int) -> None:
    wait_for(lambda: [each.delivered for each in run.worker.runtime.deliveries.values()], lambda c: set(c) == {count})


@pytest.mark.parametrize("with_buffer", [False, True])
def test_scores_reach_every_backend(with_buffer: bool, tmp_path: Path) -> None:
    phoenix, mlflow, langfuse = PhoenixApi(), MlflowApi(), LangfuseApi()
    with serving(phoenix) as first, serving(mlflow) as second, serving(langfuse) as third:
        own = {"buffer": str(tmp_path / "buffer.db")} if with_buffer else {}
        urls = {"phoenix_url": first.url, "mlflow_url": second.url, "langfuse_url": third.url}
        with running(own, prometheus_port=0, **urls) as run:
            run.post(request_of(1, 2).SerializeToString())
            _delivered(run, 2)
            metrics = post(run.worker.runtime.metrics_url or "")[1].decode()
    roots = {f"{trace:032x}": f"{10 * trace + 1:016x}" for trace in (1, 2)}
    assert {(span, name) for span, name, _ in phoenix.rows} == {(span, "kept") for span in roots.values()}
    assessed = {row["trace_id"]: row["metadata"]["span_id"] for row in mlflow.rows.values()}
    assert assessed == {f"tr-{trace}": span for trace, span in roots.items()}
    assert {row["traceId"]: row["metadata"]["span_id"] for row in langfuse.rows.values()} == roots
    assert 'sink="langfuse"} 2.0' in metrics
    assert 'ragtrace_evaluations_total{app="shop",env="prod",evaluator="kept",' in metrics
    if with_buffer:
        assert count_rows(tmp_path / "buffer.db", "outcomes") == 0


def test_scores_follow_their_spans() -> None:
    """No backend is asked to take a score before the endpoint has its span."""
    statuses = {"traces": 503}
    with (
        http_server(statuses) as (url, received),
        serving(PhoenixApi()) as phoenix,
        running(behind=url, phoenix_url=phoenix.url) as run,
    ):
        run.post(request_of(1).SerializeToString())
        wait_for(lambda: len(received.requests), lambda count: count >= 2)
        assert run.worker.runtime.deliveries["phoenix"].accepted == 0
        statuses.clear()
        _delivered(run, 1)


def test_a_worker_that_stops_delivers_its_scores() -> None:
    """Scores that wait are delivered, also without a buffer; a backend that is away costs the others no time."""
    phoenix = PhoenixApi()
    with serving(phoenix) as first, serving(LangfuseApi()) as second:
        second.stop()
        with running(phoenix_url=first.url, langfuse_url=second.url) as run:
            run.post(request_of(1, 2).SerializeToString())
            run.wait(lambda s: s.sent == 4)
            run.worker.stop(8.0)
            deliveries = run.worker.runtime.deliveries
            assert (deliveries["phoenix"].delivered, deliveries["langfuse"].lost) == (2, {"shutdown": 2})
    assert len(phoenix.rows) == 2


@contextmanager
def _outbox(buffer: DiskBuffer, limits: DeliveryLimits, url: str) -> Iterator[tuple[ScoreOutbox, ScoreDelivery]]:
    outbox, delivery = ScoreOutbox(buffer), ScoreDelivery(PhoenixAnnotations(url), limits=limits)
    outbox.connect((delivery,))
    try:
        yield outbox, delivery
    finally:
        outbox.close(0.1)


def _trace(buffer: DiskBuffer, number: int, count: int) -> dict[bytes, bytes]:
    """A trace that was sent, with so many scores."""
    trace_id = number.to_bytes(16, "big")
    content = encode([annotation(number, name=f"check_{i}") for i in range(count)])
    buffer.save([(trace_id, TraceOutcome(b"marks", b"events", content))])
    buffer.finish([], [trace_id])
    return {trace_id: content}


def test_scores_that_are_lost_leave_the_buffer(tmp_path: Path) -> None:
    """Lost scores are counted, and a trace stays in the buffer only while one of its scores waits."""
    buffer = DiskBuffer(tmp_path / "buffer.db")
    with serving(PhoenixApi()) as server:
        server.stop()
        with _outbox(buffer, DeliveryLimits(items=4, pauses=(0.01, 0.02)), server.url) as (outbox, delivery):
            for number in (1, 2, 3):
                outbox.deliver(_trace(buffer, number, 3))
            assert delivery.stats().lost == {"queue_full": 5}
        assert delivery.stats().lost == {"queue_full": 5, "shutdown": 4}
        buffer.close()
        assert count_rows(tmp_path / "buffer.db", "outcomes") == 2
        server.start()
        buffer = DiskBuffer(tmp_path / "buffer.db")
        with _outbox(buffer, QUICK, server.url) as (outbox, delivery):
            for trace_id, outcome in buffer.outcomes().items():
                outbox.deliver({trace_id: outcome.annotations})
            assert delivery.flush(60)
            assert delivery.stats().delivered == 6
        buffer.close()
        assert count_rows(tmp_path / "buffer.db", "outcomes") == 0


def test_scores_for_a_backend_that_is_no_longer_set_leave_the_buffer(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path / "buffer.db")
    ScoreOutbox(buffer).deliver(_trace(buffer, 1, 2))
    buffer.close()
    assert count_rows(tmp_path / "buffer.db", "outcomes") == 0


def test_late_spans_end_no_trace(tmp_path: Path) -> None:
    """Late spans that were sent leave their trace open: the worker after a crash evaluates it."""
    go, folder = threading.Event(), tmp_path / "copy"

    def slow(trace: Trace) -> float:
        go.wait(30)
        return 1.0

    with running({"buffer": str(tmp_path / "buffer.db")}, evaluators=(Evaluator("slow", slow),)) as run:
        run.post(request_of(1).SerializeToString())
        run.wait(lambda s: s.traces == {"request": 1})
        late = ExportTraceServiceRequest()
        span(scope(late), 99, 1, 11)
        run.post(late.SerializeToString())
        run.wait(lambda s: s.sent == 1)
        shutil.copytree(tmp_path, folder)
        go.set()
    with running({"buffer": str(folder / "buffer.db")}) as run:
        run.wait(lambda s: s.sent == 2)
        assert len(run.evaluated) == 1


def test_a_full_disk_is_no_end(tmp_path: Path) -> None:
    """A worker opens its buffer without writing to it, and gives up its reserve so that what was sent can go."""
    file, reserve = tmp_path / "buffer.db", tmp_path / "buffer.db-reserve"
    DiskBuffer(file).close()
    before = file.read_bytes()
    buffer = DiskBuffer(file)
    assert (list(buffer.pieces()), file.read_bytes()) == ([], before)
    assert reserve.stat().st_size == 4 * 1024 * 1024
    (pages,) = buffer._connection.execute("PRAGMA page_count").fetchone()
    buffer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match="full"):
        buffer.save([(b"a" * 16, TraceOutcome(b"m" * 10_000, b"", b""))])
    assert not reserve.exists()
    buffer.close()

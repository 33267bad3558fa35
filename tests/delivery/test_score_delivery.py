"""What becomes of scores on their way, whatever the backend does; with Phoenix's API as the backend, and by `init`."""

import logging
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from requests.exceptions import ContentDecodingError

import ragtrace
from ragtrace.errors import SettingError
from ragtrace.evaluation import evaluator
from ragtrace.records import Evaluation, Facts, Score, Trace
from ragtrace.text.redaction import mask_pii
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_backends.annotations import Annotation, AnnotationForm
from ragtrace_backends.http_session import BoundedSession
from ragtrace_backends.phoenix import PhoenixAnnotations
from ragtrace_backends.score_delivery import Backend, DeliveryLimits, ScoreDelivery
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import RESET, Running, serving
from tests.waiting import in_fork

QUICK = DeliveryLimits(wait=0.01, pauses=(0.01, 0.1))


def annotation(number: int, **changes: Any) -> Annotation:
    one = Annotation(f"{number:032x}", f"{number:016x}", "faithfulness", "3", "CODE", 0.5, "pass")
    return replace(one, **changes)


@contextmanager
def delivering_to(
    backend: Backend, limits: DeliveryLimits = QUICK, form: AnnotationForm | None = None
) -> Iterator[ScoreDelivery]:
    delivery = ScoreDelivery(backend, form, limits)
    try:
        yield delivery
    finally:
        delivery.close(0.1)


def delivering(
    server: Running, limits: DeliveryLimits = QUICK, form: AnnotationForm | None = None
) -> AbstractContextManager[ScoreDelivery]:
    return delivering_to(PhoenixAnnotations(server.url), limits, form)


def put(delivery: ScoreDelivery, count: int) -> None:
    for number in range(1, count + 1):
        assert delivery.put(annotation(number))


def adds_up(delivery: ScoreDelivery) -> bool:
    stats = delivery.stats()
    return stats.accepted == stats.delivered + stats.replaced + stats.waiting + sum(stats.lost.values())


def test_scores_become_annotations() -> None:
    api = PhoenixApi()
    scores = (
        Score("faithfulness", 0.25, "fail", "because", version="3+c2", sampling_probability=0.5),
        Score("g_eval", 0.75, method="judge", model="gpt"), Score("thumbs", label="pass", method="human"),
        Score("broken", error="timeout"), Score("idle", label="not_applicable"), Score("odd", float("nan")),
    )  # fmt: skip
    with serving(api) as server, delivering(server, form=AnnotationForm(explanations=True)) as delivery:
        delivery(Evaluation(Trace(1, 2, "", (), ""), scores))
        delivery(Evaluation(Trace(7, 0, "", (), ""), (Score("late", 1.0),), is_late=True))  # of another process
        delivery(Evaluation(Trace(1, 2, "", (), "", facts=Facts(unrecorded=True)), (Score("unrecorded", 0.5),)))
        assert delivery.flush(60)
        assert (delivery.stats().unrecorded, delivery.stats().accepted) == (1, 4)
    rows = {row["name"]: row for row in api.rows.values()}
    assert (set(rows), rows["late"]["trace_id"]) == ({"faithfulness", "g_eval", "thumbs", "late"}, f"{7:032x}")
    assert rows["faithfulness"] == {
        "span_id": f"{2:016x}", "name": "faithfulness", "annotator_kind": "CODE", "identifier": "faithfulness@3+c2",
        "result": {"score": 0.25, "label": "fail", "explanation": "because"},
        "metadata": {"source": "ragtrace", "version": "3+c2", "sampling_probability": 0.5},
    }  # fmt: skip
    assert (rows["g_eval"]["annotator_kind"], rows["g_eval"]["metadata"]["model"]) == ("LLM", "gpt")
    assert (rows["thumbs"]["annotator_kind"], rows["thumbs"]["result"]) == ("HUMAN", {"label": "pass"})


def test_texts_are_redacted_and_explanations_stay_by_default() -> None:
    score = Score("a", 0.5, "ask ada@example.org", "Her address is ada@example.org.")
    for explanations in (False, True):
        api = PhoenixApi()
        with serving(api) as server:
            with delivering(server, form=AnnotationForm(Sanitizer(mask_pii), explanations)) as delivery:
                delivery(Evaluation(Trace(1, 2, "", (), ""), (score,)))
                assert delivery.flush(60)
            bodies = str([asked.body for asked in server.requests])
        assert "ada@example.org" not in bodies
        assert ("Her address" in bodies) is explanations


def test_failures_are_tried_again() -> None:
    api = PhoenixApi()
    with serving(api, (429, 0.05), 500, RESET, 503, RESET) as server, delivering(server) as delivery:
        put(delivery, 30)
        assert delivery.flush(60)
        assert len(api.rows) == delivery.stats().delivered == 30
        assert delivery.stats().failures == 5
        server.stop()
        for number in range(31, 1_001):
            delivery.put(annotation(number))
        assert not delivery.flush(0.1)
        server.start()
        assert delivery.flush(60)
        assert len(api.rows) == delivery.stats().delivered == 1_000
        assert adds_up(delivery)


def test_retry_after_is_obeyed() -> None:
    """Nothing is sent until the Retry-After of a backend is over; flush returns False meanwhile."""
    with serving(PhoenixApi(), (429, 300)) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        assert not delivery.flush(0.5)
        assert len(server.requests) == 1
        assert delivery.stats().waiting == 1
    assert delivery.stats().lost in ({}, {"shutdown": 1})
    assert adds_up(delivery)


def test_span_that_arrives_after_its_score() -> None:
    api = PhoenixApi(known={f"{number:016x}" for number in range(1, 10)})
    with serving(api) as server, delivering(server) as delivery:
        put(delivery, 11)
        while len(api.rows) < 9:
            assert not delivery.flush(0.05)
        assert delivery.stats().waiting == 2
        assert api.known is not None
        api.known.update({f"{number:016x}" for number in (10, 11)})
        assert delivery.flush(60)
    assert len(api.rows) == delivery.stats().delivered == 11


def test_refused_score_is_lost_alone() -> None:
    api = PhoenixApi()
    with serving(api) as server, delivering(server) as delivery:
        for number in range(1, 51):
            delivery.put(annotation(number, name="unloved" if number == 33 else "faithfulness"))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"refused": 1}
    assert len(api.rows) == 49


def test_score_that_breaks_the_server_is_lost_alone() -> None:
    """A batch that gets status 500 again and again is sent in parts; the server's failure ends with the bad part."""
    api = PhoenixApi()
    limits = replace(QUICK, server_errors=2)
    with serving(api, *[500] * 2) as server, delivering(server, limits) as delivery:
        put(delivery, 20)
        assert delivery.flush(60)
    assert len(api.rows) == 20
    with serving(api, *[500] * 9) as server, delivering(server, limits) as delivery:
        delivery.put(annotation(1))
        assert delivery.flush(60)
        assert delivery.stats().lost == {"server_error": 1}


def test_newer_score_wins() -> None:
    api = PhoenixApi(known=set())
    with serving(api) as server, delivering(server) as delivery:
        delivery.put(annotation(1, value=0.1))
        while not server.requests:
            delivery.flush(0.01)
        delivery.put(annotation(1, value=0.9))
        api.known = None
        assert delivery.flush(60)
        assert adds_up(delivery)
    (row,) = api.rows.values()
    assert row["result"]["score"] == 0.9


def test_keys_are_in_headers_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It comes from the variables of Phoenix's clients; a wrong one loses scores, counted; no URL or log has a key."""
    api = PhoenixApi()
    api.key = "right-key"
    caplog.set_level(logging.DEBUG)
    for variable, value, lost in (
        ("PHOENIX_API_KEY", "right-key", {}),
        ("PHOENIX_CLIENT_HEADERS", "authorization=Bearer%20right-key,x-other=1", {}),
        ("PHOENIX_API_KEY", "wrong-key", {"unauthorized": 2}),
    ):
        with monkeypatch.context() as patch, serving(api) as server:
            patch.setenv(variable, value)
            with delivering(server) as delivery:
                put(delivery, 2)
                assert delivery.flush(60)
                assert delivery.stats().lost == lost
            assert "key" not in str([(asked.path, asked.params) for asked in server.requests])
    assert "-key" not in caplog.text
    assert caplog.text.count("further losses") <= 1


@pytest.mark.parametrize("url", ["localhost:1", "http://", "http://a b", "http://me:s3cret@host", "http://host/?key=1"])
def test_invalid_url_is_an_error_at_start(url: str) -> None:
    for start in (PhoenixAnnotations, lambda url: ragtrace.init(phoenix_url=url)):
        with pytest.raises(SettingError, match="phoenix_url") as caught:
            start(url)
        assert "s3cret" not in str(caught.value)


def test_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`env` stands for the address that Phoenix's own clients use; without one it is an error."""
    monkeypatch.delenv("PHOENIX_COLLECTOR_ENDPOINT", raising=False)
    with pytest.raises(SettingError, match="PHOENIX_COLLECTOR_ENDPOINT is not set"):
        PhoenixAnnotations("env")
    api = PhoenixApi()
    with serving(api) as server:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", f"{server.url}/v1/traces")
        delivery = ScoreDelivery(PhoenixAnnotations("env"), limits=QUICK)
        delivery.put(annotation(1))
        assert delivery.close(20)
    assert len(api.rows) == 1


def test_queue_is_bounded() -> None:
    with serving(PhoenixApi()) as server:
        server.stop()
        with delivering(server, replace(QUICK, items=50)) as delivery:
            assert [delivery.put(annotation(number)) for number in range(1, 101)] == [True] * 50 + [False] * 50
            assert delivery.stats().lost == {"queue_full": 50}
            assert not delivery.flush(0.1)
    assert delivery.stats().lost == {"queue_full": 50, "shutdown": 50}
    assert adds_up(delivery)
    assert not delivery.put(annotation(200))


def test_close_delivers_what_waits() -> None:
    api = PhoenixApi(known=set())
    with serving(api) as server:
        delivery = ScoreDelivery(PhoenixAnnotations(server.url), limits=DeliveryLimits(wait=60, pauses=(0.5, 60)))
        put(delivery, 3)
        assert not delivery.flush(0.5)
        api.known = None
        assert delivery.close(10)
        assert delivery.close(10)
    assert len(api.rows) == delivery.stats().delivered == 3


def test_forked_child_delivers_its_own() -> None:
    """It counts from 0, and delivers its own scores over its own connections; its parent's stay with the parent."""
    api = PhoenixApi()
    with serving(api) as server, delivering(server) as delivery:
        delivery.put(annotation(1))
        assert delivery.flush(60)
        delivery.put(annotation(2))

        def deliver() -> bool:
            delivery.put(annotation(3))
            return delivery.flush(20) and delivery.stats().accepted == delivery.stats().delivered == 1

        in_fork(deliver)
        assert delivery.flush(60)
        assert delivery.stats().delivered == 2
    assert len(api.rows) == 3


def test_a_redaction_that_failed_once_is_tried_again() -> None:
    """The name of an evaluator is redacted once; a failure is not remembered, or all scores would have one name."""
    calls: list[str] = []

    def redact(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise TimeoutError
        return text

    form = AnnotationForm(Sanitizer(redact))
    assert [form.word("faithfulness") for _ in range(3)] == ["[redaction failed]", "faithfulness", "faithfulness"]
    assert len(calls) == 2


def test_an_annotation_that_is_lost_replaces_none() -> None:
    """A newer one that finds no room leaves the older one with the same key to be delivered."""
    api = PhoenixApi()
    limits = replace(QUICK, items=2)
    with serving(api) as server, delivering(server, limits) as delivery:
        with delivery._queue.lock:  # nothing is sent meanwhile
            assert delivery.put(annotation(1, value=1.0))
            assert delivery.put(annotation(2))
            assert not delivery.put(annotation(1, value=0.0))
        assert delivery.flush(60)
        stats = delivery.stats()
    assert (stats.delivered, stats.replaced, stats.lost) == (2, 0, {"queue_full": 1})


def test_an_answer_without_an_end_is_an_error() -> None:
    """The body of an answer is read up to 32 MB: a server cannot fill the application's memory."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(bytes(1_000_000))

    with socket.create_server(("127.0.0.1", 0)) as server, BoundedSession() as session:
        Thread(target=answer, daemon=True).start()
        with pytest.raises(ContentDecodingError, match="more than 33554432 bytes"):
            session.get(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=60)


@evaluator(needs={"answer"}, threshold=0.5)
def half(trace: Trace) -> float:
    return 0.25


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    yield
    ragtrace.shutdown(timeout=1)


def ask() -> str:
    with ragtrace.request("How long?") as request:
        request.answered("Two years.")
    return request.trace_id


def test_scores_and_late_scores_arrive() -> None:
    api = PhoenixApi()
    with serving(api) as server:
        runtime = ragtrace.init(app="shop", evaluators=[half], phoenix_url=server.url, prometheus_port=0)
        trace_id = ask()
        assert ragtrace.flush(timeout=60)
        ragtrace.score(trace_id, "solved", True)
        assert ragtrace.flush(timeout=60)
        metrics = urllib.request.urlopen(str(runtime.metrics_url)).read().decode()
        stats = runtime.deliveries["phoenix"]
    assert sorted(name for _, name, _ in api.rows) == ["half", "solved"]
    assert len({span for span, _, _ in api.rows}) == 1
    assert stats.accepted == stats.delivered == 2
    assert 'ragtrace_export_items_total{app="shop",env="dev",sink="phoenix"} 2.0' in metrics
    assert 'ragtrace_export_failures_total{app="shop",env="dev",reason="queue_full",sink="phoenix"} 0.0' in metrics


def test_flush_says_that_scores_are_lost() -> None:
    api = PhoenixApi()
    api.key = "another"
    with serving(api) as server:
        runtime = ragtrace.init(app="shop", evaluators=[half], phoenix_url=server.url, prometheus_port=0)
        ask()
        assert not ragtrace.flush(timeout=30)
        assert ragtrace.flush(timeout=60)
        metrics = urllib.request.urlopen(str(runtime.metrics_url)).read().decode()
    assert 'reason="unauthorized",sink="phoenix"} 1.0' in metrics

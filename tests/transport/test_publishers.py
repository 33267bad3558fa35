"""Applications and receivers that publish, and workers that evaluate what they have published."""

import gc
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import ragtrace
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import open_store
from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.live.doctor import Finding, examine
from ragtrace.settings import load
from ragtrace.text.redaction import KeyedHash
from ragtrace.worker.service import Worker
from ragtrace.worker.worker_settings import load_worker
from ragtrace_brokers.address import parse_address
from ragtrace_brokers.broker_adapters import open_transport
from ragtrace_brokers.message import HEADER_PROBABILITY, HEADER_TENANT
from tests.otlp.receivers import http_server, plain
from tests.ports import free_port
from tests.transport.brokers import NATS, REDIS, Broker, stream_name
from tests.transport.workers import fetching, message, messages, wait_scored
from tests.worker.running import post, request_of, scores, wait_for


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(NATS, tmp_path_factory.mktemp(NATS)) as broker:
        yield broker


def test_a_receiver_publishes_what_workers_evaluate(broker: Broker) -> None:
    """With `--to nats://` a worker only publishes; the worker behind the broker makes the scores."""
    url = broker.url(stream_name())
    receiver = Worker(load_worker({"http": "127.0.0.1:0", "quiet_seconds": 0.2}), load({"otlp_endpoint": url}))
    receiver.start()
    with http_server() as (endpoint, received), fetching(url, endpoint) as worker:
        address = f"http://127.0.0.1:{receiver.http_port}/v1/traces"
        assert post(address, request_of(1, 2, 3).SerializeToString())[0] == 200
        wait_scored(received, {1, 2, 3})
        assert len(worker.evaluated) == 3
        stats = wait_for(receiver.stats, lambda stats: stats.open == 0)
    receiver.stop(2.0)
    assert (stats.sent, dict(stats.traces)) == (6, {"relayed": 3})


@pytest.mark.parametrize("privacy", ["inline", "sealed"])
def test_an_application_publishes(
    broker: Broker, privacy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages have the probability, are sealed where asked for, and the tenant only as a hash in the header."""
    stream = stream_name()
    assert main(["transport-keys", str(tmp_path / "keys")]) == 0
    monkeypatch.setenv("RAGTRACE_TRANSPORT_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("HASH_KEY", "k" * 16)
    own = {"transport_privacy": privacy, "redact_key": "HASH_KEY" if privacy == "sealed" else ""}
    runtime = ragtrace.init(
        transport=broker.url(stream), capture_content=True, openinference=False, prometheus_port=-1, **own
    )
    with ragtrace.request("the pump", metadata={"tenant": "acme"}) as request:
        request.answered("I do not know about it.")
    assert runtime.flush(60)
    runtime.close()
    with closing(broker.transport(stream, group="look")) as reader:
        [letter] = reader.fetch(10, 5.0)
    assert letter.headers[HEADER_PROBABILITY] == "1.0"
    assert (b"the pump" in letter.payload) == (privacy == "inline")
    assert b"acme" not in letter.payload
    hashed = KeyedHash(b"k" * 16).identifier("acme")
    assert letter.headers.get(HEADER_TENANT) == (hashed if privacy == "sealed" else None)
    with http_server() as (endpoint, received), fetching(broker.url(stream), endpoint) as worker:
        wait_scored(received, {int(letter.key, 16)})
        assert [trace.query for trace in worker.evaluated] == ["the pump"]


def test_texts_in_a_store_are_not_in_a_broker(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `claim_check` has ids alone; texts and scores are in the store, and messages wait while it is away."""
    stream, file = stream_name(), tmp_path / "logs.db"
    monkeypatch.setenv("RAGTRACE_STORE", str(file))
    address = broker.url(stream)
    runtime = ragtrace.init(
        transport=address, transport_privacy="claim_check", capture_content=True, redact="pii", prometheus_port=-1
    )
    with ragtrace.request("the pump") as request:
        request.answered("Write to ada@pump-works.de about it.")
    assert runtime.flush(60)
    reader = broker.transport(stream, group="look")
    [letter] = reader.fetch(10, 5.0)
    assert len(letter.payload) == 8
    with http_server() as (endpoint, received), fetching(address, endpoint) as worker:
        [record] = wait_for(received.records, bool)
        assert (record.trace_id.hex(), record.span_id) == (letter.key, letter.payload)
        assert plain(received.logs.resource_logs[0].resource.attributes) == {"service.name": "rag"}
        assert [trace.answer for trace in worker.evaluated] == ["Write to ada@pump-works.de about it."]
        assert received.spans() == {}
        with closing(open_store(str(file))) as store:
            stored = store.get(letter.key)
        assert stored is not None
        assert [score.name for score in stored.evaluation.scores] == ["kept"]
        reader.publish([replace(letter, payload=b"\1" * 8)])
        wait_for(lambda: dict(worker.counts.dead), lambda dead: dead == {"content_missing": 1})
        file.rename(tmp_path / "elsewhere")
        file.mkdir()
        reader.publish([replace(letter, headers={**letter.headers, "x": "y"}, payload=b"\2" * 8)])
        wait_for(worker.worker.unready_reason, lambda reason: "the store with the texts" in reason)
        assert dict(worker.counts.dead) == {"content_missing": 1}
        file.rmdir()
        (tmp_path / "elsewhere").rename(file)
        wait_for(lambda: dict(worker.counts.dead), lambda dead: dead == {"content_missing": 2})
        wait_for(worker.worker.unready_reason, lambda reason: not reason)
    runtime.close()
    reader.close()


def test_a_second_group_sends_its_scores_alone(broker: Broker) -> None:
    """With `spans = false` a group sends only events: each span arrives once, and the scores of both groups do."""
    url = broker.url(stream_name())
    with closing(broker.transport(url.rpartition("/")[2])) as publisher:
        publisher.publish(messages(1, 3))
    judge = Evaluator("judge", lambda trace: 0.5)
    with (
        http_server() as (endpoint, received),
        fetching(url, endpoint, group="cheap"),
        fetching(url, endpoint, judge, group="judge", spans=False) as second,
    ):
        second.wait_acknowledged(3)
        wait_scored(received, {1, 2, 3})
        wait_for(lambda: len(received.records()), lambda count: count >= 6)
        assert dict(second.worker.stats().dropped) == {"spans_off": 6}
    names = [plain(record.attributes)["gen_ai.evaluation.name"] for record in received.records()]
    assert sorted(names) == ["judge"] * 3 + ["kept"] * 3
    assert len([s for r in received.traces.resource_spans for sc in r.scope_spans for s in sc.spans]) == 6


@pytest.mark.parametrize(("kind", "options"), [(NATS, "?max_bytes=40000"), (REDIS, "?max_length=20")])
def test_a_full_stream_refuses_publishers(kind: str, options: str, tmp_path: Path) -> None:
    stream = stream_name()
    with Broker(kind, tmp_path) as broker, closing(broker.transport(stream, options)) as publisher:
        results = publisher.publish(messages(1, 100))
        kept = {trace for trace, result in enumerate(results, 1) if not result}
        assert set(results) == {"", "full"}
        with http_server() as (endpoint, received), fetching(broker.url(stream), endpoint):
            wait_scored(received, kept)
            assert set(scores(received)) == kept


def test_doctor_shows_dead_letters(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_name()
    monkeypatch.setenv("RAGTRACE_TRANSPORT", broker.url(stream))
    assert _broker_finding().state == "ok"
    with closing(broker.transport(stream)) as publisher:
        publisher.publish([message(1)])
        [fetched] = publisher.fetch(1, 5.0)
        publisher.dead_letter(fetched, "undecodable: the payload is no TracesData in protobuf")
    finding = _broker_finding()
    assert (finding.state, "1 dead letters (undecodable)" in finding.detail) == ("wrong", True)
    monkeypatch.setenv("RAGTRACE_TRANSPORT", f"redis://127.0.0.1:{free_port()}/{stream}")
    assert "start the broker" in _broker_finding().detail


def _broker_finding() -> Finding:
    return next(each for each in examine() if each.what == "broker")


@pytest.mark.parametrize("kind", [NATS, REDIS])
def test_a_stream_that_is_deleted_is_made_again(kind: str, tmp_path: Path) -> None:
    stream = stream_name()
    with (
        Broker(kind, tmp_path) as broker,
        closing(broker.transport(stream)) as publisher,
        http_server() as (endpoint, received),
        fetching(broker.url(stream), endpoint) as worker,
    ):
        publisher.publish(messages(1, 10))
        wait_scored(received, set(range(1, 11)))
        wait_for(lambda: worker.counts.in_flight, lambda count: count == 0)
        broker.delete(stream)
        wait_for(lambda: worker.counts.errors, bool)
        wait_for(lambda: publisher.publish(messages(11, 20)), lambda results: not any(results))
        wait_scored(received, set(range(11, 21)))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # nats-py leaves refused connections open
@pytest.mark.parametrize("kind", [NATS, REDIS])
def test_a_password_that_changes_holds_nothing_up(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal is quoted without the password and tried again; the worker goes on once it is let in."""
    stream = stream_name()
    with (
        Broker(kind, tmp_path, password="the-old-one") as broker,
        closing(broker.transport(stream)) as publisher,
        http_server() as (endpoint, received),
        fetching(broker.url(stream), endpoint) as worker,
    ):
        monkeypatch.setenv("RAGTRACE_TRANSPORT", broker.url(stream))
        assert publisher.publish(messages(1, 2)) == ["", ""]
        worker.wait_acknowledged(2)
        broker.kill()
        broker.password = "the-new-one"
        broker.start()
        refusal = {NATS: "authorization", REDIS: "authentication"}[kind]
        wait_for(worker.worker.unready_reason, lambda reason: refusal in reason.lower())
        assert worker.counts.errors > 0
        assert publisher.publish(messages(3, 3)) == ["unreachable"]
        # NATS may close the connection before its refusal is read.
        finding = wait_for(_broker_finding, lambda each: refusal in each.detail.lower())
        assert finding.state == "wrong"
        broker.kill()
        broker.password = "the-old-one"
        broker.start()
        wait_for(lambda: publisher.publish(messages(3, 3)), lambda results: results == [""])
        wait_scored(received, {3})
        wait_for(worker.worker.unready_reason, lambda reason: not reason)
    assert "the-old-one" not in caplog.text + finding.detail
    gc.collect()  # while the warnings of connections that are open still are ignored


def test_a_wrong_address_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for source, words in (
        ("amqp://localhost", "nats://localhost:4222/ragtrace"),
        ("nats://[::1/stream", "no address of a server"),
        ("nats:///stream", "needs a host"),
    ):
        with pytest.raises(SettingError, match=words):
            load_worker({"source": source})
    broker = load({"otlp_endpoint": "nats://127.0.0.1:9/two"})
    with pytest.raises(SettingError, match="set spans = false of"):
        Worker(load_worker({"spans": False, "http": "127.0.0.1:0"}), broker)
    with pytest.raises(SettingError, match="give an OTLP endpoint"):
        Worker(load_worker({"source": "nats://127.0.0.1:9/one"}), broker)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1:4318")
    with pytest.raises(SettingError, match="OTEL_EXPORTER_OTLP_ENDPOINT is no address"):
        Worker(load_worker({"http": "127.0.0.1:0"}), load({}))


@pytest.mark.parametrize("scheme", ["nats", "redis", "kafka"])
def test_an_unreachable_broker_is_one_line(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`ragtrace dead-letters` says in one line which broker does not answer, and publishing says that it does not."""
    url = f"{scheme}://127.0.0.1:{free_port()}/traces"
    assert main(["dead-letters", url]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert url.rpartition("/")[0].partition("//")[2] in error
    with closing(open_transport(parse_address(url))) as transport:
        assert transport.publish([message(1)]) == ["unreachable"]


def test_a_connection_that_stays_silent_is_closed() -> None:
    """Something accepts NATS's connections and says nothing: no connection stays open behind the transport."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = open_transport(parse_address(f"nats://127.0.0.1:{server.getsockname()[1]}/traces"))
        assert transport.publish([message(1)]) == ["unreachable"]
        transport.close()
    gc.collect()  # asyncio warns of what is open when it is collected

"""Workers behind each broker: what is killed, refused, repeated or unreadable loses no trace and wedges no worker."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace.cli import main
from ragtrace.evaluation import Evaluator
from ragtrace.records import Trace
from ragtrace.worker import message_source
from ragtrace_brokers.message import HEADER_REASON, Publisher, TraceMessage, Transport
from ragtrace_brokers.seal import SealedPublisher, TransportKeys
from tests.otlp.receivers import http_server
from tests.transport.brokers import BROKERS, KAFKA, SURVIVING, Broker, stream_name
from tests.transport.workers import fetching, message, messages, wait_scored, worker_process, write_keys
from tests.worker.running import scores, wait_for


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(request.param, tmp_path_factory.mktemp(request.param)) as broker:
        yield broker


@pytest.fixture
def stream() -> str:
    return stream_name()


@pytest.fixture
def publisher(broker: Broker, stream: str) -> Iterator[Transport]:
    with closing(broker.transport(stream)) as transport:
        yield transport


def _publish(publisher: Publisher, batch: list[TraceMessage]) -> None:
    assert set(publisher.publish(batch)) == {""}


def _fetch(transport: Transport, count: int) -> dict[str, TraceMessage]:
    """So many messages, by key."""
    fetched: dict[str, TraceMessage] = {}
    while len(fetched) < count:
        fetched.update({each.key: each for each in transport.fetch(count - len(fetched), 0.2)})
    return fetched


def _reasons(publisher: Transport) -> list[str]:
    return [each.headers[HEADER_REASON].partition(":")[0] for each in publisher.dead_letters(100)]


class TestBroker:
    """The same promises for each broker."""

    def test_messages_are_delivered_until_they_are_acknowledged(self, publisher: Transport) -> None:
        """Refused messages come again with their starts, dead letters once put back, acknowledged ones never."""
        batch = messages(1, 4)
        assert publisher.publish(batch) == [""] * 4
        first = _fetch(publisher, 4)
        for each in batch:
            assert (first[each.key].payload, dict(first[each.key].headers)) == (each.payload, dict(each.headers))
        one, two, three, four = (first[each.key] for each in batch)
        publisher.ack([one])
        publisher.dead_letter(two, "undecodable: for the test")
        publisher.extend([three])
        assert publisher.starts([four]) == [0]
        publisher.count_starts([four])
        publisher.nack([four], 0.1)
        again = _fetch(publisher, 1)[four.key]
        assert (again.is_redelivered, publisher.starts([again])) == (True, [1])
        publisher.ack([again, three])
        [letter] = publisher.dead_letters(10)
        assert (letter.key, letter.headers[HEADER_REASON]) == (two.key, "undecodable: for the test")
        assert publisher.put_back([letter]) == 1
        assert publisher.dead_letters(10) == []
        back = _fetch(publisher, 1)
        assert HEADER_REASON not in back[two.key].headers
        publisher.ack(list(back.values()))
        assert publisher.fetch(10, 2.5) == []

    def test_a_killed_worker_loses_nothing(self, broker: Broker, stream: str, publisher: Transport) -> None:
        _publish(publisher, messages(1, 200))
        log = broker.folder / "workers"
        with http_server() as (endpoint, received):
            url = broker.url(stream)
            with worker_process(url, endpoint, log) as first, worker_process(url, endpoint, log):
                wait_for(lambda: len(scores(received)), lambda count: count >= 20)
                os.kill(first.pid, signal.SIGKILL)
                wait_scored(received, set(range(1, 201)))
        assert {len(values) for values in scores(received).values()} == {1}
        assert publisher.dead_letters(10) == []

    def test_a_killed_broker_loses_nothing_that_it_acknowledged(self, tmp_path: Path, broker: Broker) -> None:
        """What was acknowledged before or after the broker's kill is scored by the same worker."""
        stream, acknowledged = stream_name(), set[int]()
        with (
            Broker(broker.kind, tmp_path) as own,
            closing(own.transport(stream)) as publisher,
            http_server() as (endpoint, received),
            fetching(own.url(stream), endpoint),
        ):
            for start in range(1, 400, 20):
                if start == 201:
                    own.kill()
                    assert set(publisher.publish(messages(start, start + 19))) == {"unreachable"}
                    own.start()
                    wait_for(lambda: publisher.publish(messages(1_000, 1_000)), lambda results: results == [""])
                batch = messages(start, start + 19)
                acknowledged |= {int(m.key, 16) for m, r in zip(batch, publisher.publish(batch), strict=True) if not r}
            kept = acknowledged if own.kind in SURVIVING else {trace for trace in acknowledged if trace > 200}
            assert len(kept) >= 200
            wait_scored(received, kept)

    def test_poison_takes_no_innocent_with_it(
        self, broker: Broker, stream: str, publisher: Transport, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What ends its process is a dead letter after its starts and can be put back; all others are scored."""
        batch = messages(1, 20)
        batch[7:7] = [message(101, "RAISE"), message(666, "END THE PROCESS")]
        _publish(publisher, batch)
        innocents = {*range(1, 21), 101}
        deaths, log = 0, broker.folder / "workers"
        with http_server() as (endpoint, received):

            def is_done() -> bool:
                return not innocents - set(scores(received)) and bool(publisher.dead_letters(10))

            while not is_done():
                assert deaths < 8, (innocents - set(scores(received)), log.read_text())
                with worker_process(broker.url(stream), endpoint, log) as process:
                    wait_for(lambda process=process: process.poll() is not None or is_done(), bool)
                    deaths += process.poll() is not None
        assert deaths == (3 if broker.kind == KAFKA else 4)  # there a first delivery may be a further one
        assert _reasons(publisher) == ["starts"]
        assert main(["dead-letters", broker.url(stream), "--put-back"]) == 0
        assert f"{666:032x}\t" in (text := capsys.readouterr().out)
        assert "1 of 1 are in the stream again" in text
        assert publisher.dead_letters(10) == []

    def test_unreadable_messages_are_dead_letters(
        self, broker: Broker, stream: str, publisher: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(message_source, "BODY_BYTES", 4_000)
        good = message(1)
        late = good.payload.replace((1_700_000_000_000_000_011).to_bytes(8, "little"), (1 << 62).to_bytes(8, "little"))
        assert late != good.payload
        bad = [
            replace(good, payload=b"\xff" * 40), replace(good, headers={"ragtrace-schema": "99"}),
            replace(message(2), key=f"{3:032x}"),
            replace(good, payload=message(4, "A long question. " * 500).payload, key=f"{4:032x}"),
            replace(good, payload=b"", key="none"),
        ]  # fmt: skip
        _publish(publisher, [*bad, replace(good, payload=late)])
        with http_server() as (endpoint, _), fetching(broker.url(stream), endpoint) as worker:
            worker.wait_acknowledged(1)
            wait_for(lambda: sum(worker.counts.dead.values()), lambda count: count >= 5)
            assert len(worker.evaluated) == 1
        assert sorted(_reasons(publisher)) == ["empty", "key", "schema", "too_large", "undecodable"]

    def test_sealed_messages_wait_for_their_key(
        self, broker: Broker, stream: str, publisher: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the right key they are dead letters without text; put back, they are evaluated with the key."""
        keys = tmp_path / "keys"
        write_keys(keys, "2026-01-01", "2026-01-02")
        right = keys.read_text().splitlines()
        sealed = [message(1, "the secret"), message(2, "the secret")]
        _publish(SealedPublisher(publisher, TransportKeys(str(keys))), sealed[1:])
        keys.write_text(right[0])
        _publish(SealedPublisher(publisher, TransportKeys(str(keys))), sealed[:1])
        write_keys(keys, "2026-01-02")
        monkeypatch.setenv("RAGTRACE_TRANSPORT_KEYS", str(keys))
        with http_server() as (endpoint, received), fetching(broker.url(stream), endpoint) as worker:
            wait_for(lambda: sum(worker.counts.dead.values()), lambda count: count >= 2)
            letters = publisher.dead_letters(10)
            reasons = {each.key[-1]: each.headers[HEADER_REASON].partition(":")[0] for each in letters}
            assert reasons == {"1": "key_unknown", "2": "cannot_unseal"}
            assert not any(b"the secret" in each.payload for each in letters)
            keys.write_text("\n".join(right))
            assert main(["dead-letters", broker.url(stream), "--put-back"]) == 0
            wait_scored(received, {1, 2})
            assert worker.counts.errors == 0

    def test_a_slow_evaluation_is_not_repeated(self, broker: Broker, stream: str, publisher: Transport) -> None:
        started: list[Trace] = []

        def slow(trace: Trace) -> float:
            started.append(trace)
            time.sleep(2.5 * 2.0)
            return 1.0

        _publish(publisher, [message(1)])
        url, check = broker.url(stream), Evaluator("slow", slow)
        with http_server() as (endpoint, received), fetching(url, endpoint, check), fetching(url, endpoint, check):
            wait_scored(received, {1})
        assert len(started) == 1

    def test_each_group_evaluates_each_message_once(self, broker: Broker, stream: str, publisher: Transport) -> None:
        _publish(publisher, messages(1, 20))
        _publish(publisher, messages(1, 20))
        with http_server() as (endpoint, received):
            for group in ("first", "second"):
                with fetching(broker.url(stream), endpoint, group=group) as worker:
                    wait_scored(received, set(range(1, 21)))
                    wait_for(lambda: worker.counts, lambda counts: counts.in_flight == 0 and counts.acknowledged >= 20)
                    assert len(worker.evaluated) == 20

    def test_workers_join_and_leave_under_load(self, broker: Broker, stream: str, publisher: Transport) -> None:
        def publish() -> None:
            for start in range(1, 300, 10):
                _publish(publisher, messages(start, start + 9))
                time.sleep(0.1)

        thread = threading.Thread(target=publish)
        thread.start()
        url = broker.url(stream)
        with http_server() as (endpoint, received), fetching(url, endpoint) as last:
            with fetching(url, endpoint) as second, fetching(url, endpoint) as third:
                wait_for(lambda: (second.counts.fetched, third.counts.fetched), all, 30.0)
            thread.join()
            wait_scored(received, set(range(1, 301)))
            wait_for(lambda: last.counts.in_flight, lambda count: count == 0)
        assert publisher.dead_letters(10) == []

    def test_what_comes_back_to_a_worker_is_read(self, broker: Broker, stream: str, publisher: Transport) -> None:
        """A full worker, which takes nothing, gives a part to another one and gets it back: it reads that again."""
        _publish(publisher, messages(1, 60))
        first, second = broker.transport(stream), broker.transport(stream)
        [message, *_] = first.fetch(1, 20.0)
        taken: list[TraceMessage] = []
        stop = threading.Event()

        def take() -> None:
            while not stop.is_set() and not taken:
                taken.extend(second.fetch(1, 0.2))
            second.close()

        thread = threading.Thread(target=take)
        thread.start()
        until = time.monotonic() + 20.0
        while thread.is_alive() and time.monotonic() < until:
            first.extend([message])
            first.fetch(0, 0.0)
            time.sleep(0.02)
        stop.set()
        thread.join()
        rest = {each.key for each in messages(1, 60)}
        until = time.monotonic() + 60.0
        while rest and time.monotonic() < until:
            fetched = first.fetch(10, 0.2)
            first.ack(fetched)
            rest -= {each.key for each in (*fetched, message)}
        first.close()
        assert rest == set()

"""Workers behind a broker: what kills cost, and how fast they take traces.

`--kills 5 --traces 5000` publishes so many traces, lets two workers evaluate them, and kills one of them with SIGKILL
again and again; another takes its place. It counts traces without a score, scores in the store that are there twice,
dead letters, and the seconds from the last kill to the last score, and to the rate of before. `--visibility 30` sets
the workers' `visibility_seconds`.

`--take` lets a worker with `sample=0` take so many traces of two spans (a request and its retrieval) and send them on,
and prints the traces for each second of its processor time: fetch, decode, assemble, read, sample, encode, send,
acknowledge.

`--workers 1 2 10` lets so many workers evaluate, with an evaluator that waits 0.1 s for each trace, and prints the
traces that they score in a second of wall time."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.usage import processor_seconds
from ragtrace.records import Trace
from ragtrace_brokers.message import Transport
from tests.otlp.receivers import Received, http_server
from tests.transport.brokers import BROKERS, VISIBILITY, Broker, stream_name
from tests.transport.workers import message, scores, worker_process

_BATCH = 256
_WARM = 200
"""Traces that a worker takes before it is measured."""
_BYTES = 20_900


def main() -> None:
    """Run one of the two for one broker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=BROKERS)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--traces", type=int, default=5_000)
    parser.add_argument("--visibility", type=float, default=VISIBILITY)
    parser.add_argument("--take", action="store_true")
    parser.add_argument("--workers", type=int, nargs="+", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(options.broker, Path(folder))
        broker.start()
        try:
            if options.take:
                _take(broker, options.traces)
            elif options.workers:
                _compare_workers(broker, options.workers)
            else:
                _kill(broker, options.traces, options.kills, options.visibility)
        finally:
            broker.kill()


# --- kills -------------------------------------------------------------------------------------------------------


def _kill(broker: Broker, traces: int, kills: int, visibility: float) -> None:
    drawn, stream = random.Random(29), stream_name()
    publisher = broker.transport(stream)
    for start in range(1, traces + 1, 500):
        batch = [message(trace) for trace in range(start, min(start + 500, traces + 1))]
        assert not any(publisher.publish(batch))
    log, store = broker.folder / "workers", broker.folder / "logs.db"
    with http_server() as (endpoint, received), ExitStack() as stack:
        own = {
            "store": str(store),
            "store_days": "0",  # the traces have a date of long ago
            "worker_visibility_seconds": str(visibility),
        }

        def start() -> Any:
            return stack.enter_context(worker_process(broker.url(stream), endpoint, log, **own))

        counts: list[tuple[float, int]] = []
        """Traces with a score, and when there were so many."""
        ends: list[float] = []
        """When a worker was killed."""

        def note() -> int:
            counts.append((time.monotonic(), len(scores(received))))
            return counts[-1][1]

        workers = [start(), start()]
        for number in range(1, kills + 1):
            while note() < number * traces / (kills + 2):
                time.sleep(0.2)
            os.kill(workers.pop(drawn.randrange(2)).pid, signal.SIGKILL)
            ends.append(time.monotonic())
            workers.append(start())
        killed, until = time.monotonic(), time.monotonic() + 300
        while note() < traces and time.monotonic() < until:
            time.sleep(0.2)
        seconds = time.monotonic() - killed
        values = scores(received)
        spill = store.with_name(f"{store.name}.spill")
        waiting = spill.read_bytes().count(b"\n") if spill.exists() else 0
        while (left := _stored(store)[0] < traces) and time.monotonic() < until:
            time.sleep(0.5)
        rows, keys = _stored(store)
        late = "" if left else f", all {time.monotonic() - killed:.1f} s after the last kill"
        print(
            f"{broker.kind}: {traces} traces, {kills} kills: lost {traces - len(values)}, "
            f"scores in the store {rows}{late} ({waiting} were in its spill file), of these twice {rows - keys}, "
            f"traces with two different scores {sum(len(each) > 1 for each in values.values())}, "
            f"dead letters {len(publisher.dead_letters(100))}, last score {seconds:.1f} s after the last kill, "
            f"{_recovery(counts, ends[0], ends[-1])}"
        )
    publisher.close()


def _recovery(counts: Sequence[tuple[float, int]], first: float, last: float) -> str:
    """When, after the last kill, as many traces were scored in a second as before the first one, less a fifth."""
    begin = next(moment for moment, count in counts if count)
    before = [(moment, count) for moment, count in counts if begin <= moment <= first]
    rate = (before[-1][1] - before[0][1]) / max(0.1, before[-1][0] - before[0][0])
    after = [(moment, count) for moment, count in counts if moment >= last]
    for moment, count in after:
        later = next(((end, number) for end, number in after if end >= moment + 1.0), None)
        if later is not None and (later[1] - count) / (later[0] - moment) >= 0.8 * rate:
            return f"rate before the kills {rate:.0f} a second, and again {moment - last:.1f} s after the last one"
    return f"rate before the kills {rate:.0f} a second, not reached again"


def _stored(store: Path) -> tuple[int, int]:
    """The number of scores in the store, and of different ones."""
    with closing(sqlite3.connect(store)) as connection:
        [[rows, keys]] = connection.execute(
            "SELECT count(*), count(DISTINCT trace_id || span_id || evaluator || version) "
            "FROM scores JOIN traces ON traces.id = scores.trace"
        )
    return rows, keys


# --- one worker, and several -------------------------------------------------------------------------------------


def _take(broker: Broker, traces: int) -> None:
    stream = stream_name()
    publisher = broker.transport(stream)
    with ExitStack() as stack:
        endpoint, received = stack.enter_context(http_server())
        log = broker.folder / "worker"
        worker = stack.enter_context(worker_process(broker.url(stream), endpoint, log, sample="0"))
        _publish(publisher, 1, _WARM)
        _wait(lambda: _spans(received) >= 2 * _WARM, log)
        before, began = processor_seconds(worker.pid), time.monotonic()
        _publish(publisher, _WARM + 1, _WARM + traces)
        _wait(lambda: _spans(received) >= 2 * (_WARM + traces), log)
        seconds = processor_seconds(worker.pid) - before
        wall = time.monotonic() - began
    publisher.close()
    print(f"{broker.kind}: {traces:,} traces of two spans took {seconds:.2f} s of one core ({wall:.1f} s passed)")
    print(f"{broker.kind}: {traces / seconds:,.0f} traces a second for each core")


def _compare_workers(broker: Broker, counts: Sequence[int]) -> None:
    rates: list[float] = []
    for count in counts:
        rates.append(_score_rate(broker, count))
        print(f"{broker.kind}: {count} workers score {rates[-1]:.1f} traces a second, {rates[-1] / rates[0]:.2f} x")


def _score_rate(broker: Broker, workers: int) -> float:
    """Traces a second."""
    stream, first, traces = stream_name(), 20 * workers, 60 * workers
    publisher = broker.transport(stream)
    with ExitStack() as stack:
        endpoint, received = stack.enter_context(http_server())
        log = broker.folder / f"workers-{workers}"
        own = {"evaluators": "benchmarks.transport:waiting", "worker_in_flight": "4", "batch_size": "1"}
        for _ in range(workers):
            stack.enter_context(worker_process(broker.url(stream), endpoint, log, **own))
        _publish(publisher, 1, first)  # until all have started
        _wait(lambda: _spans(received) >= 2 * first, log)
        began = time.monotonic()
        _publish(publisher, first + 1, first + traces)
        _wait(lambda: _spans(received) >= 2 * (first + traces), log)
        assert len(scores(received)) == first + traces
        seconds = time.monotonic() - began
    publisher.close()
    return traces / seconds


def waiting(trace: Trace) -> float:
    """Waits, as an evaluator that asks a server does."""
    time.sleep(0.1)
    return 1.0


def _publish(publisher: Transport, first: int, last: int) -> None:
    for start in range(first, last + 1, 500):
        assert not any(publisher.publish([message(trace) for trace in range(start, min(start + 500, last + 1))]))


def _wait(is_done: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + 300
    while not is_done():
        if time.monotonic() > until:
            raise SystemExit(f"not done after 300 s: {log.read_text()[-2_000:]}")
        time.sleep(0.1)


def _spans(received: Received) -> int:
    return sum(len(s.spans) for of_resource in received.traces.resource_spans for s in of_resource.scope_spans)


if __name__ == "__main__":
    main()

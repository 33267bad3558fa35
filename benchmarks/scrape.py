"""A scrape of many applications with many evaluators each: how long it takes, and how large it is. And what a request
pays for being counted.

    python benchmarks/scrape.py [--apps 20] [--evaluators 30] [--rounds 15] [--processes 4]

Each application is a sink of its own, as in a process of its own; all are scraped one after the other, which stands for
a process that serves them together. Between two scrapes every evaluator scores ten requests, so that no scrape finds
things as the last one left them. Prints the median and the least processor time, for machines that have other things to
do.
Then one application in several processes that share a directory, and `observe_request` in the request's thread: called
in a row, and after 3 ms of sleep each, as requests come, when other work has filled the processor's caches.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from ragtrace.evaluation import Evaluator
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Document, Evaluation, Facts, Score, Trace
from ragtrace.sampling import Decision
from ragtrace_prometheus import PrometheusSink


def passes(_trace: Trace) -> float:
    return 1.0


def request(chance: random.Random) -> Trace:
    facts = Facts(
        model="large-1", prompt_version="v7", stages={"retrieval": 0.02, "generation": 1.3},
        time_to_first_chunk=0.4, input_tokens=900, output_tokens=120,
    )  # fmt: skip
    documents = tuple(Document(str(i), "text", chance.random()) for i in range(5))
    return Trace(chance.getrandbits(128), 1, "q", documents, "a", duration=chance.expovariate(1.0), facts=facts)


def traffic(sinks: Sequence[PrometheusSink], checks: Sequence[Evaluator], chance: random.Random, count: int) -> None:
    """Requests through each sink, all evaluated, a tenth of the verdicts failing."""
    for sink in sinks:
        for _ in range(count):
            trace = request(chance)
            sink.observe_request(trace, Decision(True, 0.5, "ratio"))
            values = [chance.random() ** 0.2 for _ in checks]
            verdicts = ["pass" if value >= 0.63 else "fail" for value in values]
            scores = (
                Score(check.name, value, verdict, sampling_probability=0.5)
                for check, value, verdict in zip(checks, values, verdicts, strict=True)
            )
            sink(Evaluation(trace, tuple(scores), lag=chance.expovariate(1.0)))
            for check in checks:
                sink.observe_duration(check.name, chance.expovariate(50.0))


def measure(work: Callable[[], object], before: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median and least milliseconds of processor time; `before` runs untimed before each round."""
    took = []
    for _ in range(rounds):
        before()
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return statistics.median(took) * 1000, min(took) * 1000


def note(sink: PrometheusSink, chance: random.Random) -> None:
    """What the request's thread pays, in microseconds."""
    traces, decision = [request(chance) for _ in range(500)], Decision(True, 0.5, "ratio")
    for name, pause in (("a request's note, in a row", 0.0), ("a request's note, every 3 ms", 0.003)):
        walls = []
        for trace in traces:
            time.sleep(pause)
            started = time.perf_counter()
            sink.observe_request(trace, decision)
            walls.append((time.perf_counter() - started) * 1e6)
        walls.sort()
        print(f"{name:46}{walls[250]:10.1f} us median,{walls[495]:9.1f} us for 99 of 100")


def several(checks: Sequence[Evaluator], processes: int, rounds: int, chance: random.Random) -> None:
    """One application in several processes: the file of each, and the scrape of one of them."""
    with tempfile.TemporaryDirectory() as folder:
        sinks = [PrometheusSink(app="app", env="prod", evaluators=checks, directory=folder) for _ in range(processes)]
        for sink in sinks:
            sink.watch(Pipeline(checks))
            traffic([sink], checks, chance, 20)
            sink._write()
        (size, *_) = sorted(path.stat().st_size for path in Path(folder).glob("*.json"))

        def more() -> None:
            traffic(sinks[:1], checks, chance, 10)

        for name, work in (
            (f"one of {processes} processes writes its file", sinks[0]._write),
            (f"a scrape of {processes} processes", lambda: generate_openmetrics(sinks[0].registry)),
        ):
            median, least = measure(work, more, rounds)
            print(f"{name:46}{median:10.1f}{least:9.1f}{size:12,}")
        for sink in sinks:
            sink.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=20)
    parser.add_argument("--evaluators", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    chance = random.Random(1)
    checks = [Evaluator(f"evaluator_{i:02}", passes, threshold=0.63) for i in range(options.evaluators)]
    sinks = [PrometheusSink(app=f"application-{i:02}", env="prod", evaluators=checks) for i in range(options.apps)]
    registries = [sink.registry for sink in sinks]
    for sink in sinks:
        sink.watch(Pipeline(checks))
    traffic(sinks, checks, chance, 20)

    def texts(openmetrics: bool, count: int) -> list[bytes]:
        return [generate_openmetrics(r) if openmetrics else generate_latest(r) for r in registries[:count]]

    def more() -> None:
        traffic(sinks, checks, chance, 10)

    print(f"{options.apps} applications x {options.evaluators} evaluators, {options.rounds} scrapes")
    print(f"{'':46}{'median ms':>10}{'least ms':>9}{'bytes':>12}{'series':>9}")
    for name, count in (("one application", 1), ("all applications", options.apps)):
        median, least = measure(lambda c=count: texts(True, c), more, options.rounds)
        body = b"".join(texts(True, count))
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        print(f"{name:46}{median:10.1f}{least:9.1f}{len(body):12,}{series:9,}")
    several(checks, options.processes, options.rounds, chance)
    note(sinks[0], chance)


if __name__ == "__main__":
    main()

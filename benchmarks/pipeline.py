"""The pipeline under ten times what its evaluators can take: what the application feels, and what becomes of it all.

    python benchmarks/pipeline.py [--traces 100000] [--rate 2000] [--threads]

Pieces of work at a steady rate stand for the application's requests; their 99th percentile is measured alone, and again
while each of them offers a trace to the default evaluators. Prints the cost of `submit`, both percentiles, the queue's
greatest size, the growth of memory, and whether received = evaluated + dropped.
"""

import argparse
import random
import resource
import time
from collections.abc import Callable

from ragtrace import plugins
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.plugins import DEFAULT_SUITE
from ragtrace.records import Document, Trace

CHUNK = "The nursery guarantees its trees for eighteen months from delivery. " * 12


def work() -> int:
    """A piece of the application's own work, some hundred microseconds."""
    return sum(i * i % 7 for i in range(3_000))


def made(chance: random.Random) -> Trace:
    documents = tuple(Document(str(i), f"{i} {CHUNK}") for i in range(5))
    return Trace(chance.getrandbits(128), chance.getrandbits(64), "How long?", documents, "Eighteen months.")


def percentiles(run: Callable[[int], object], count: int, rate: float) -> tuple[float, float]:
    """Median and 99th percentile of the calls' durations, in microseconds; the waiting between them is not counted."""
    walls = []
    start = time.perf_counter()
    for i in range(count):
        time.sleep(max(0.0, start + i / rate - time.perf_counter()))
        started = time.perf_counter_ns()
        run(i)
        walls.append(time.perf_counter_ns() - started)
    walls.sort()
    return walls[count // 2] / 1000, walls[int(count * 0.99)] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=2000.0, help="requests a second of the application")
    parser.add_argument("--threads", action="store_true", help="evaluate in threads, for comparison")
    options = parser.parse_args()
    count = options.traces
    chance = random.Random(1)
    traces = [made(chance) for _ in range(1_000)]
    checks = [plugins.load(name) for name in DEFAULT_SUITE]
    isolated = [] if options.threads else DEFAULT_SUITE
    pipeline = Pipeline(checks, limits=Limits(items=2_000, bytes=16 << 20), isolated_names=isolated)
    pipeline.submit(traces[0])  # the models are loaded before anything is measured
    pipeline.flush(120.0)
    percentiles(lambda _i: work(), 2_000, options.rate)
    alone = percentiles(lambda _i: work(), count // 4, options.rate)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    submits: list[int] = []
    most = 0

    def offered(i: int) -> None:
        nonlocal most
        work()
        started = time.perf_counter_ns()
        pipeline.submit(traces[i % 1_000])
        submits.append(time.perf_counter_ns() - started)
        if i % 1_000 == 0:
            most = max(most, pipeline.stats().queued_bytes)

    loaded = percentiles(offered, count, options.rate)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    pipeline.close(60.0)
    stats = pipeline.stats()
    submits.sort()
    dropped = sum(stats.dropped.values())
    half, most_of = submits[len(submits) // 2] / 1000, submits[int(len(submits) * 0.99)] / 1000
    print(f"submit: median {half:.1f} us, p99 {most_of:.1f} us")
    print(f"application p50 alone {alone[0]:.0f} us, with {loaded[0]:.0f} us (ratio {loaded[0] / alone[0]:.3f})")
    print(f"application p99 alone {alone[1]:.0f} us, with {loaded[1]:.0f} us (ratio {loaded[1] / alone[1]:.3f})")
    print(f"queue at most {most / 2**20:.1f} MiB of 16; resident memory grew by {growth:.1f} MiB")
    whole = stats.received == stats.delivered + dropped
    print(f"received {stats.received} = evaluated {stats.delivered} + dropped {dropped} {dict(stats.dropped)}: {whole}")


if __name__ == "__main__":
    main()

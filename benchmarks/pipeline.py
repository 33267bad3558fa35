"""The pipeline under ten times what its evaluators can take: what the application feels, and what becomes of it all.

    python benchmarks/pipeline.py [--traces 100000]

A loop of small pieces of work stands for the application; its 99th percentile is measured alone, and again while it
offers a trace with each piece. Prints the cost of `submit`, both percentiles, the queue's greatest size, the growth of
memory, and whether offered = evaluated + dropped.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable

from ragtrace.evaluation import evaluator
from ragtrace.pipeline import Limits, Pipeline
from ragtrace.records import Document, Trace

CHUNK = "The nursery guarantees its trees for eighteen months from delivery. " * 12


@evaluator(needs={"answer", "documents"}, threshold=0.5)
def words_in_context(trace: Trace) -> float:
    """Share of the answer's words that the chunks hold: a check that keeps the interpreter busy."""
    known = {word for document in trace.documents for word in document.content.lower().split()}
    words = trace.answer.lower().split()
    time.sleep(0.002)  # a model that runs without the interpreter's lock
    return sum(word in known for word in words) / len(words)


def work() -> int:
    """A piece of the application's own work, some hundred microseconds."""
    return sum(i * i % 7 for i in range(2_000))


def made(chance: random.Random) -> Trace:
    documents = tuple(Document(str(i), f"{i} {CHUNK}") for i in range(5))
    return Trace(chance.getrandbits(128), chance.getrandbits(64), "How long?", documents, "Eighteen months.")


def percentiles(run: Callable[[int], object], count: int) -> tuple[float, float]:
    walls = []
    for i in range(count):
        started = time.perf_counter_ns()
        run(i)
        walls.append(time.perf_counter_ns() - started)
    walls.sort()
    return walls[count // 2] / 1000, walls[int(count * 0.99)] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    count = parser.parse_args().traces
    chance = random.Random(1)
    traces = [made(chance) for _ in range(1_000)]
    pipeline = Pipeline([words_in_context], limits=Limits(items=2_000, bytes=16 << 20))
    pipeline.start()
    percentiles(lambda _i: work(), 2_000)
    alone = percentiles(lambda _i: work(), count // 4)
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

    loaded = percentiles(offered, count)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    pipeline.close(60.0)
    stats = pipeline.stats()
    submits.sort()
    dropped = sum(stats.dropped.values())
    print(
        f"submit: median {submits[len(submits) // 2] / 1000:.1f} us, p99 {submits[int(len(submits) * 0.99)] / 1000:.1f} us"
    )
    print(f"application p50 alone {alone[0]:.0f} us, with {loaded[0]:.0f} us (ratio {loaded[0] / alone[0]:.3f})")
    print(f"application p99 alone {alone[1]:.0f} us, with {loaded[1]:.0f} us (ratio {loaded[1] / alone[1]:.3f})")
    print(f"queue at most {most / 2**20:.1f} MiB of 16; resident memory grew by {growth:.1f} MiB")
    whole = stats.offered == stats.settled + dropped
    print(f"offered {stats.offered} = evaluated {stats.settled} + dropped {dropped} {dict(stats.dropped)}: {whole}")


if __name__ == "__main__":
    main()

"""How fast reviewers get their next log, and how long filling the queue takes, in a store that is there already.

    python benchmarks/store.py --traces 1000000 --url STORE   # makes one
    python benchmarks/review.py --url STORE [--reviewers 50] [--reviews 20]

It writes into the store: a queue, users, reviews. `think` is how long each reviewer looks at a log.
"""

import argparse
import statistics
import threading
import time

from sqlalchemy import func, select

from ragtrace.console.chatlogs.schema import traces, users
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.queue import fill, next_task, submit


def people(store: Store, count: int) -> list[int]:
    """Users for the reviewers."""
    names = [f"bench-{i}-{time.time_ns()}" for i in range(count)]
    with store.writing() as connection:
        connection.execute(users.insert(), [{"name": n, "role": "reviewer", "created": time.time()} for n in names])
        return list(connection.scalars(select(users.c.id).where(users.c.name.in_(names))))


def told(name: str, seconds: list[float]) -> None:
    """Median, 99th percentile and worst, in milliseconds."""
    ordered = sorted(1_000 * s for s in seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{name:28} {statistics.median(ordered):8.1f} {p99:8.1f} {ordered[-1]:8.1f}   n={len(ordered)}")


class Reviewing:
    """Reviewers at a store, and what they waited for."""

    def __init__(self, store: Store, now: float) -> None:
        self.store = store
        self.now = now
        self.takes: list[float] = []
        self.submits: list[float] = []
        self.errors: list[BaseException] = []

    def one(self, user: int) -> bool:
        """One log; False where nothing waits."""
        start = time.perf_counter()
        task = next_task(self.store, user, self.now)
        self.takes.append(time.perf_counter() - start)
        if task is None:
            return False
        review = Review(task.trace_id, (Verdict("faithfulness", "fail"),), "a comment")
        start = time.perf_counter()
        submit(self.store, task, review, user, self.now)
        self.submits.append(time.perf_counter() - start)
        return True

    def many(self, user: int, count: int, think: float) -> None:
        """As many, with a pause after each."""
        try:
            while count and self.one(user):
                count -= 1
                time.sleep(think)
        except BaseException as error:  # noqa: BLE001 told at the end
            self.errors.append(error)


def filled(store: Store, target: int) -> float:
    """Fill the queue, say how long it took; the time that it is in the store."""
    with store.reading() as connection:
        count = connection.scalar(select(func.count()).select_from(traces))
        newest = connection.scalar(select(func.max(traces.c.stored))) or time.time()
    print(f"{count} traces")
    now = newest + 60
    start = time.perf_counter()
    new = fill(store, Policy(quota=target, shares={"random": 0.4, "worst": 0.4, "threshold": 0.2}), now)
    print(f"fill: {new} logs in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    fill(store, Policy(quota=target, shares={"random": 0.4}), now)
    print(f"fill with nothing to do: {1_000 * (time.perf_counter() - start):.0f} ms")
    return now


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--reviewers", type=int, default=50)
    parser.add_argument("--reviews", type=int, default=10, help="of each reviewer")
    parser.add_argument("--think", type=float, default=2.0, help="seconds between two logs of a reviewer")
    options = parser.parse_args()
    store = open_store(options.url)
    run = Reviewing(store, filled(store, options.reviewers * options.reviews * 3))
    (alone,) = people(store, 1)
    for _ in range(20):
        run.one(alone)
    print(f"\n{'milliseconds':28} {'median':>8} {'p99':>8} {'worst':>8}")
    told("next log, one reviewer", run.takes)
    told("submit, one reviewer", run.submits)
    run.takes, run.submits = [], []
    threads = [
        threading.Thread(target=run.many, args=(user, options.reviews, options.think))
        for user in people(store, options.reviewers)
    ]
    for i, thread in enumerate(threads):
        thread.start()
        time.sleep(options.think / len(threads) if i < len(threads) - 1 else 0)
    for thread in threads:
        thread.join()
    told(f"next log, {options.reviewers} reviewers", run.takes)
    told(f"submit, {options.reviewers} reviewers", run.submits)
    print(f"errors: {len(run.errors)} {sorted({type(e).__name__ for e in run.errors})}")
    store.close()


if __name__ == "__main__":
    main()

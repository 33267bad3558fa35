"""How fast the store is: ingestion in batches, then every kind of page, search and filter.

    python benchmarks/store.py [--traces 1000000] [--url sqlite:///FILE or postgresql://…] [--keep]

Texts are made here, with a fixed seed. Without --url the store is a file in a temporary folder. Nothing is asserted.
"""

import argparse
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import text

from ragtrace.console.chatlogs.search import choices, find
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.records import Document, Evaluation, Facts, Score, Trace

DAYS = 30
SCORES = 10
BATCH = 1_000
NOW = 1_800_000_000.0


def made(count: int) -> Iterator[Evaluation]:
    """As many evaluations, over 30 days, oldest first."""
    rng = random.Random(7)
    vocabulary = _vocabulary(rng)
    weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(vocabulary))))
    phrases = [" ".join(rng.choices(vocabulary, cum_weights=weights, k=8)) for _ in range(60_000)]
    for i in range(count):
        started = NOW - DAYS * 86_400 * (1 - i / count) + rng.random()
        words = rng.choices(phrases, k=10)
        failed = rng.random() < 0.02
        trace = Trace(
            trace_id=rng.getrandbits(128), span_id=rng.getrandbits(64), query=f"{words[0]} case{i}",
            documents=tuple(Document(f"d{j}", words[j], rng.random()) for j in (1, 2, 3)), answer=" ".join(words[4:8]),
            started=started, duration=rng.lognormvariate(0.5, 0.6), error="TimeoutError" if failed else None,
            sampling_probability=0.1,
            facts=Facts(
                app=f"app{min(int(rng.expovariate(1)), 5)}",
                env="prod" if rng.random() < 0.95 else "staging",
                model=rng.choice(("alpha-large", "alpha-small", "beta")) if i > count // 100 else "gamma",
                prompt_version=f"v{i * 8 // count}",
                user_id=f"user{rng.randrange(50_000)}",
                session_id=f"session{i // 5}",
            ),
        )  # fmt: skip
        yield Evaluation(trace, tuple(_score(rng, k) for k in range(SCORES)), cause=_cause(rng), lag=0.4)


def _score(rng: random.Random, k: int) -> Score:
    if rng.random() < 0.003:
        return Score(f"check_{k}", error="timeout", sampling_probability=0.1)
    # Some are all the same, some are spread, some are skewed.
    value = 1.0 if k < 2 and rng.random() < 0.97 else rng.betavariate(8 - k / 2, 1 + k / 3)
    label = "not_applicable" if rng.random() < 0.01 else "pass" if value >= 0.5 else "fail"
    return Score(f"check_{k}", value, label, sampling_probability=0.1)


def _cause(rng: random.Random) -> str | None:
    return rng.choice(("retrieval", "hallucination")) if rng.random() < 0.05 else None


DAY = 86_400.0
PAGES: dict[str, Callable[[Store, random.Random], object]] = {
    "newest": lambda s, r: find(s, Filter()),
    "100 pages in": lambda s, r: _deep(s, 100),
    "one trace": lambda s, r: s.get(_some(s, r)),
    "choices": lambda s, r: choices(s),
    "app": lambda s, r: find(s, Filter(app=f"app{r.randrange(5)}")),
    "rare model, long ago": lambda s, r: find(s, Filter(model="gamma")),
    "prompt version": lambda s, r: find(s, Filter(prompt_version=f"v{r.randrange(8)}")),
    "user": lambda s, r: find(s, Filter(user_id=f"user{r.randrange(50_000)}")),
    "nobody": lambda s, r: find(s, Filter(user_id="nobody")),
    "session": lambda s, r: find(s, Filter(session_id=f"session{r.randrange(1000)}")),
    "errors": lambda s, r: find(s, Filter(errors=True)),
    "cause": lambda s, r: find(s, Filter(cause="retrieval")),
    "an hour": lambda s, r: find(s, _hours(r, 1)),
    "a day, app and model": lambda s, r: find(s, _hours(r, 24, app="app1", model="beta")),
    "label": lambda s, r: find(s, Filter(evaluator=f"check_{r.randrange(SCORES)}", label="fail")),
    "label: error": lambda s, r: find(s, Filter(evaluator=f"check_{r.randrange(SCORES)}", label="error")),
    "label, app, model": lambda s, r: find(s, Filter(evaluator="check_5", label="fail", app="app4", model="beta")),
    "label in a day, app": lambda s, r: find(s, _hours(r, 24, evaluator="check_7", label="fail", app="app2")),
    "values, wide": lambda s, r: find(s, Filter(evaluator=f"check_{r.randrange(SCORES)}", low=0.1, high=0.9)),
    "values, narrow": lambda s, r: find(s, Filter(evaluator="check_6", low=(v := r.random()), high=v + 0.0001)),
    "values, rare, and app": lambda s, r: find(s, Filter(evaluator="check_3", high=0.3, app="app1")),
    "values, few of many": lambda s, r: find(s, Filter(evaluator="check_1", low=0.999, high=0.9999)),
    "worst": lambda s, r: find(s, Filter(evaluator=f"check_{r.randrange(SCORES)}"), order="worst"),
    "worst in a day, app": lambda s, r: find(s, _hours(r, 24, evaluator="check_4", app="app3"), order="worst"),
    "no such combination": lambda s, r: find(s, Filter(model="gamma", prompt_version="v5")),
    "both common, never both": lambda s, r: find(s, Filter(prompt_version="v0", model="beta", evaluator="check_0",
                                                           label="fail", cause="retrieval", errors=True)),
    "a common word": lambda s, r: find(s, Filter(text=_word(r, 0, 5))),
    "a word": lambda s, r: find(s, Filter(text=_word(r, 50, 500))),
    "a rare word": lambda s, r: find(s, Filter(text=_word(r, 5_000, 20_000))),
    "one text": lambda s, r: find(s, Filter(text=f"case{r.randrange(1_000)}")),
    "two words": lambda s, r: find(s, Filter(text=f"{_word(r, 0, 50)} {_word(r, 0, 500)}")),
    "a phrase": lambda s, r: find(s, Filter(text=f'"{_word(r, 0, 50)} {_word(r, 0, 50)}"')),
    "word, app, day": lambda s, r: find(s, _hours(r, 24, text=_word(r, 0, 200), app="app1")),
    "word, label": lambda s, r: find(s, Filter(text=_word(r, 0, 200), evaluator="check_8", label="fail")),
    "not a word": lambda s, r: find(s, Filter(text="nowhere")),
}  # fmt: skip


def _vocabulary(rng: random.Random) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(20_000)]


_VOCABULARY = _vocabulary(random.Random(7))


def _word(rng: random.Random, first: int, last: int) -> str:
    return _VOCABULARY[rng.randrange(first, last)]


def _hours(rng: random.Random, hours: float, **more: object) -> Filter:
    since = NOW - rng.random() * (DAYS - 1) * DAY - hours * 3_600
    return Filter(since=since, until=since + hours * 3_600, **more)  # type: ignore[arg-type]


def _deep(store: Store, pages: int) -> object:
    # A permalink into the middle: what keyset pages make as cheap as the first one.
    first = find(store, Filter(), limit=1)
    return find(store, Filter(), after=str(first.rows[0].id - pages * (10 << 22)))


def _some(store: Store, rng: random.Random) -> int:
    page = find(store, _hours(rng, 2), limit=1)
    return page.rows[0].id if page.rows else 0


def ingest(store: Store, count: int) -> None:
    """Fill the store, and say how fast."""
    spent, done, slowest = 0.0, 0, 0.0
    everything = made(count)
    while batch := list(itertools.islice(everything, BATCH)):
        start = time.perf_counter()
        store.write(batch)
        took = time.perf_counter() - start
        spent, done, slowest = spent + took, done + len(batch), max(slowest, took)
        if done % 100_000 == 0:
            print(f"  {done:>9,}  {done / spent:8,.0f} traces/s so far", file=sys.stderr, flush=True)
    rate = done / spent
    print(f"ingestion: {done:,} traces with {SCORES} scores each in {spent:,.0f} s, {rate:,.0f} traces a second "
          f"in batches of {BATCH}; slowest batch {slowest:.2f} s")  # fmt: skip


def pages(store: Store, repeats: int, only: str) -> None:
    """Median and p99 of each kind of page."""
    print(f"{'page':28} {'median ms':>10} {'p99 ms':>10} {'rows':>6}")
    everything: list[float] = []
    for name, page in PAGES.items():
        if only and only not in name:
            continue
        rng, took, rows = random.Random(11), [], 0
        for _ in range(repeats):
            start = time.perf_counter()
            rows_found = page(store, rng)
            took.append((time.perf_counter() - start) * 1000)
            rows += len(getattr(rows_found, "rows", ()))
        everything += took
        print(f"{name:28} {statistics.median(took):10.1f} {_p99(took):10.1f} {rows / repeats:6.1f}", flush=True)
    print(f"{'all':28} {statistics.median(everything):10.1f} {_p99(everything):10.1f}")


def _p99(took: list[float]) -> float:
    return sorted(took)[min(len(took) - 1, int(0.99 * len(took)))]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--url", help="the store; default: a file in a temporary folder")
    parser.add_argument("--repeats", type=int, default=100, help="of each kind of page")
    parser.add_argument("--only", default="", help="pages with this in their names, in a store that is full already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or str(Path(folder, "benchmark.db"))
        store = open_store(url)
        if not find(store, Filter(), limit=1).rows:
            ingest(store, options.traces)
            if not store.sqlite:
                with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.execute(text("VACUUM ANALYZE"))
        if store.sqlite:
            size = sum(Path(f"{store.engine.url.database}{end}").stat().st_size for end in ("", "-wal")
                       if Path(f"{store.engine.url.database}{end}").exists())  # fmt: skip
            print(f"file: {size / 2**20:,.0f} MiB; {os.cpu_count()} cores")
        pages(store, options.repeats, options.only)
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

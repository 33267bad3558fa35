"""What the tests of review share: stores with traces, scores and people."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import insert, select

from ragtrace.console.chatlogs.schema import items, traces, users
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, ScoredVerdict, Verdict
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Evaluation, Facts, Score
from ragtrace.testing import make_trace

NOW = 1_760_000_000.0
"""A moment at noon or so."""
DAY = 86_400.0


@evaluator(needs={"answer"}, threshold=0.5, version="2")
def good(_trace: Any) -> float:
    """A check whose scores the tests make up."""
    return 1.0


@evaluator(needs={"answer"}, threshold=0.5, direction="lower")
def bad(_trace: Any) -> float:
    """Another one, where lower is better."""
    return 0.0


def people(store: Store, *names: str) -> list[int]:
    """Users by their ids."""
    store.execute(insert(users).values([{"name": name, "role": "reviewer", "created": NOW} for name in names]))
    ids = {name: int(own) for name, own in store.rows(select(users.c.name, users.c.id))}
    return [ids[name] for name in names]


def label_of(check: Evaluator, value: float) -> str:
    return "pass" if (value >= check.threshold) == (check.direction == "higher") or value == check.threshold else "fail"


def scored(check: Evaluator, value: float, **more: Any) -> Score:
    return Score(check.name, value, label_of(check, value), version=check.version, method="model", **more)


def evaluation(number: int, *scores: Score, seed: int = 0, **fields: Any) -> Evaluation:
    """A trace of its own with these scores."""
    fields.setdefault("query", f"question {number}")
    fields.setdefault("started", NOW - 1_000 + number / 1_000)
    fields.setdefault("facts", Facts(app="shop", model="m"))
    trace_id = random.Random(f"{seed}.{number}").getrandbits(128)
    return Evaluation(make_trace(trace_id=trace_id, span_id=number + 1, **fields), scores)


def fill_store(
    store: Store, values: Sequence[float], *, stored: float = NOW - 60, seed: int = 0, **fields: Any
) -> dict[str, float]:
    """Traces with one score of `good` each; values by trace id."""
    made = [evaluation(i, scored(good, value), seed=seed, **fields) for i, value in enumerate(values)]
    store.write(made, [good, bad], now=stored)
    return {f"{e.trace.trace_id:032x}": v for e, v in zip(made, values, strict=True)}


def ids(store: Store) -> dict[str, int]:
    """Stored ids by trace id."""
    return {trace_id: int(own) for trace_id, own in store.rows(select(traces.c.trace_id, traces.c.id))}


def queued(store: Store) -> list[Any]:
    """All items, by priority."""
    query = select(items, traces.c.trace_id).join(traces, traces.c.id == items.c.trace)
    return list(store.rows(query.order_by(items.c.priority.desc(), items.c.id.desc())))


def review(trace_id: str, label: str = "fail", check: Evaluator = good, **more: Any) -> Review:
    return Review(trace_id, (Verdict(check.name, label),), **more)


def judge_all(
    store: Store, user: int, truth: Callable[[str], str], now: float = NOW, most: int = 100_000, *, queue: str = ""
) -> list[str]:
    """One reviewer goes through the queue; the trace ids in their order."""
    from ragtrace.console.review.queue import next_task, submit

    done: list[str] = []
    while len(done) < most and (task := next_task(store, user, now, queue=queue)) is not None:
        submit(store, task, review(task.trace_id, truth(task.trace_id)), user, now)
        done.append(task.trace_id)
    return done


def verdict(  # noqa: PLR0917 a row of a table
    trace: int, value: float, label: str, said: str, weight: float = 1.0, reviewer: str = "a"
) -> ScoredVerdict:
    """One row, without a store."""
    return ScoredVerdict(trace, good.name, good.version, value, label, said, reviewer, weight, float(trace))

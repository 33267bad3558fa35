"""Scores rows batch by batch, in this process or in several."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from ragtrace import plugins
from ragtrace.errors import DataError
from ragtrace.evaluation import Evaluator, run
from ragtrace.offline.rows import Item, Row
from ragtrace.records import Score
from ragtrace.settings import Settings

BATCH = 16
"""Rows of a batch."""
_AHEAD = 3
"""Batches per process that wait for their turn or their results: memory does not grow with the file."""


Scores = tuple[list[dict[str, Score]], dict[str, float]]
"""The scores of each row of a batch, by evaluator, and the seconds that each evaluator took for it."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row with its scores."""

    row: Row
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Rows with their scores, in order; unusable lines keep their place."""

    lines: Sequence[ScoredRow | DataError]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """That each evaluator took for these rows."""


class Workers:
    """Evaluates batches: in this process, or in a pool of processes that ends with the ExitStack."""

    def __init__(self, names: Sequence[str], settings: Settings, processes: int, stack: ExitStack) -> None:
        """`processes` is 0 to evaluate in this process."""
        self._names, self._settings = tuple(names), settings
        self._checks = _load(self._names, settings)
        self.ahead = _AHEAD * processes
        """Batches that may wait for their turn or their results."""
        self._pool: ProcessPoolExecutor | None = None
        if processes:
            self._pool = ProcessPoolExecutor(processes, get_context("spawn"))
            # After an error nobody waits for batches that have not started.
            stack.callback(self._pool.shutdown, wait=True, cancel_futures=True)

    def submit(self, batch: Sequence[Item]) -> Future[Scores]:
        """Start the evaluation of a batch; without processes it is finished when this returns."""
        if self._pool is not None:
            return self._pool.submit(_score_by_name, self._names, self._settings, batch)
        result: Future[Scores] = Future()
        result.set_result(_score(self._checks, batch))
        return result


def score_batches(items: Iterator[Item], workers: Workers) -> Iterator[ScoredBatch]:
    """The rows with their scores, in order and in batches of at most 16; unusable lines keep their place."""
    waiting: deque[tuple[list[Item], Future[Scores]]] = deque()
    while batch := list(islice(items, BATCH)):
        waiting.append((batch, workers.submit(batch)))
        if len(waiting) > workers.ahead:
            yield _scored(*waiting.popleft())
    while waiting:
        yield _scored(*waiting.popleft())


def _scored(batch: Sequence[Item], result: Future[Scores]) -> ScoredBatch:
    rows, seconds = result.result()
    scores = iter(rows)
    return ScoredBatch([ScoredRow(item, next(scores)) if isinstance(item, Row) else item for item in batch], seconds)


def _load(names: Sequence[str], settings: Settings) -> list[Evaluator]:
    return plugins.load_all(names, settings)


def _score_by_name(names: Sequence[str], settings: Settings, batch: Sequence[Item]) -> Scores:
    return _score(_load(names, settings), batch)


def _score(checks: Sequence[Evaluator], batch: Sequence[Item]) -> Scores:
    """Evaluate a batch. Nobody waits for them, so a question to the judge may wait for
    room in the budget as long as other questions are open."""
    from ragtrace.judge import deadline

    with deadline(math.inf):
        return _scores(checks, batch)


def _scores(checks: Sequence[Evaluator], batch: Sequence[Item]) -> Scores:
    traces = [item.trace for item in batch if isinstance(item, Row)]
    rows: list[dict[str, Score]] = [{} for _ in traces]
    seconds = {}
    for check in checks:
        start = time.monotonic()
        for scores, row in zip(run(check, traces), rows, strict=True):
            row.update((score.name, score) for score in scores)
        seconds[check.name] = time.monotonic() - start
    return rows, seconds

"""Scores rows batch by batch, in this process or in several."""

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import connection, get_context, parent_process

from ragtrace import plugins
from ragtrace.base.rows import Item, Row
from ragtrace.errors import DataError
from ragtrace.evaluation import Evaluator, run, under
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


def relabelled(line: ScoredRow, calibrated: Mapping[str, Evaluator]) -> ScoredRow:
    """The row with its scores under the calibrated thresholds, and with the probability with which the evaluators saw a
    request like this one: that of its log."""
    probability = line.row.trace.sampling_probability
    scores = {
        name: replace(under(calibrated[name], score) if name in calibrated else score, sampling_probability=probability)
        for name, score in line.scores.items()
    }
    return ScoredRow(line.row, scores)


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
        self.checks = plugins.load_all(self._names, settings)
        self.ahead = _AHEAD * processes
        """Batches that may wait for their turn or their results."""
        self._pool: ProcessPoolExecutor | None = None
        if processes:
            self._pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_end_with_parent)
            # After an error nobody waits for batches that have not started.
            stack.callback(self._pool.shutdown, wait=True, cancel_futures=True)

    def submit(self, batch: Sequence[Item]) -> Future[Scores]:
        """Start the evaluation of a batch; without processes it is finished when this returns."""
        if self._pool is not None:
            return self._pool.submit(_score_by_name, self._names, self._settings, batch)
        result: Future[Scores] = Future()
        result.set_result(_score_items(self.checks, batch))
        return result


def score_batches(
    items: Iterator[Item], workers: Workers, size: int = BATCH, *, in_order: bool = True
) -> Iterator[ScoredBatch]:
    """The rows with their scores in batches of at most `size`; unusable lines keep their place in their batch. The
    batches are in the order of the rows, or else each comes as soon as it is done."""
    waiting: dict[Future[Scores], list[Item]] = {}

    def take() -> ScoredBatch:
        first = next(iter(waiting))
        if not in_order:
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            first = next(future for future in waiting if future in done)
        try:
            rows, seconds = first.result()
        except BrokenProcessPool:
            raise DataError("an evaluating process has ended: by an evaluator, or for want of memory") from None
        scores = iter(rows)
        lines = [ScoredRow(item, next(scores)) if isinstance(item, Row) else item for item in waiting.pop(first)]
        return ScoredBatch(lines, seconds)

    while batch := list(islice(items, size)):
        waiting[workers.submit(batch)] = batch
        if len(waiting) > workers.ahead:
            yield take()
    while waiting:
        yield take()


def _end_with_parent() -> None:
    """Ends this process with its parent: after a kill of the parent nothing tells the pool that it is over."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, name="ragtrace-parent", daemon=True).start()


def _score_by_name(names: Sequence[str], settings: Settings, batch: Sequence[Item]) -> Scores:
    return _score_items(plugins.load_all(names, settings), batch)


def _score_items(checks: Sequence[Evaluator], batch: Sequence[Item]) -> Scores:
    """Evaluate a batch in this process. Nobody waits for them, so a question to the judge may wait for
    room in the budget as long as other questions are open."""
    from ragtrace.evaluate.judge import deadline

    items = [item for item in batch if isinstance(item, Row)]
    rows: list[dict[str, Score]] = [{} for _ in items]
    seconds = {}
    for check in checks:
        start = time.monotonic()
        indexes = [i for i, item in enumerate(items) if item.evaluators is None or check.name in item.evaluators]
        with deadline(math.inf):
            results = run(check, [items[i].trace for i in indexes])
        for i, scores in zip(indexes, results, strict=True):
            rows[i].update((score.name, score) for score in scores)
        seconds[check.name] = time.monotonic() - start
    return rows, seconds

"""Evaluates logs with a suite of evaluators, batch by batch, and hands the scores on as soon as they are there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragtrace import calibrations, plugins
from ragtrace.base.rows import Item
from ragtrace.batch.batches import BATCH, ScoredBatch, ScoredRow, Workers, relabelled, score_batches
from ragtrace.batch.checkpoint import Checkpoint
from ragtrace.batch.rescore.ray_cluster import RayCluster, RaySource, evaluate_on_ray, task_size
from ragtrace.batch.run import prepare_judge, resumed_batches
from ragtrace.batch.selection import parse_names
from ragtrace.batch.table import RunFigures
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.live import requirements
from ragtrace.settings import Settings

_LONG = 256
"""Logs from which several processes are worth that each of them loads the models."""
_LOST = 0.01
"""Share of the logs that may be under way at any moment: what a kill costs."""


@dataclass(frozen=True, slots=True)
class RescoreSuite:
    """The evaluators of a run."""

    names: tuple[str, ...]
    """As they are loaded."""
    checks: tuple[Evaluator, ...]
    """With the thresholds and versions of the calibration file."""
    own: tuple[Evaluator, ...]
    """Without these."""
    settings: Settings

    @property
    def asks_judge(self) -> bool:
        """Whether one of the evaluators asks the judge."""
        return any(check.asks_judge for check in self.checks)

    def subset(self, names: Collection[str]) -> RescoreSuite:
        """The same with the evaluators of these names alone."""
        indexes = [i for i, check in enumerate(self.checks) if check.name in names]
        return RescoreSuite(
            tuple(self.names[i] for i in indexes), tuple(self.checks[i] for i in indexes),
            tuple(self.own[i] for i in indexes), self.settings,
        )  # fmt: skip


def load_suite(names: str, settings: Settings) -> RescoreSuite:
    """The evaluators of a comma-separated list, with the thresholds of the setting `calibration_file`. Raises
    SettingError for one that does not exist or has no models here, and DataError for a damaged calibration file."""
    parsed = tuple(parse_names(names))
    own = tuple(plugins.load_all(parsed))
    if absent := requirements.missing(own, settings):
        raise SettingError(requirements.explain(absent))
    checks = own if not settings.calibration_file else calibrations.File(settings.calibration_file)(own)
    return RescoreSuite(parsed, checks, own, settings)


@dataclass(slots=True)
class RescoreOutcome:
    """The result of a run."""

    figures: RunFigures
    done: int = 0
    """Logs that were evaluated."""
    failed: int = 0
    """Evaluations that failed."""
    errors: list[DataError] = field(default_factory=list)
    """One for each log that could not be read."""
    seconds: float = 0.0


def process_count(jobs: int, logs: int) -> int:
    """The number of processes for so many logs; 0 to evaluate in this one."""
    count = jobs or (os.cpu_count() or 1)
    return count if count > 1 and (logs >= _LONG or jobs > 1) else 0


Batches = Callable[[Settings, ExitStack], Iterator[ScoredBatch]]
"""Evaluates with these settings; what it opens is closed with the stack."""


def local_batches(
    suite: RescoreSuite, items: Iterator[Item], logs: int, processes: int, checkpoint: Checkpoint | None = None
) -> Batches:
    """Evaluates `logs` items in so many processes (0: in this one): each batch as soon as it is there, or with a
    `checkpoint` in the order of the items, those that it has already first. Batches are so small that a kill costs
    about a hundredth of the run."""

    def batches(settings: Settings, stack: ExitStack) -> Iterator[ScoredBatch]:
        workers = Workers(suite.names, settings, processes, stack)
        under_way = 1 + (processes if checkpoint is None else workers.ahead)
        size = max(1, min(BATCH, int(_LOST * logs / under_way)))
        in_order = checkpoint is not None
        return resumed_batches(items, checkpoint, lambda rest: score_batches(rest, workers, size, in_order=in_order))

    return batches


def ray_batches(
    suite: RescoreSuite, cluster: RayCluster, logs: int, source: RaySource, checkpoint: Checkpoint | None = None
) -> Batches:
    """The same on a cluster of Ray."""

    def batches(settings: Settings, _: ExitStack) -> Iterator[ScoredBatch]:
        size = task_size(logs, cluster.workers, _LOST)

        def evaluate(items: Iterator[Any]) -> Iterator[ScoredBatch]:
            rest, in_order = replace(source, items=items), checkpoint is not None
            return evaluate_on_ray(cluster, rest, (suite.names, settings), size, in_order=in_order)

        return resumed_batches(source.items, checkpoint, evaluate)

    return batches


def run_suite(
    suite: RescoreSuite,
    evaluate: Batches,
    write: Callable[[Sequence[ScoredRow]], None],
    progress: Callable[[int], None] | None = None,
    *,
    parallel: bool,
    target: Path | None = None,
) -> RescoreOutcome:
    """Calls `write` with the scores of each batch that `evaluate` gives, in `parallel` or in this process. The judge's
    replies are kept beside the file `target` until the end.

    Raises SettingError for a judge that is not usable."""
    outcome = RescoreOutcome(RunFigures(check.name for check in suite.checks))
    started = time.monotonic()
    settings = suite.settings
    calibrated = {one.name: other for one, other in zip(suite.own, suite.checks, strict=True) if one is not other}
    with ExitStack() as stack:
        if suite.asks_judge:
            settings = prepare_judge(settings, target, parallel, stack)
        for batch in evaluate(settings, stack):
            rows = [relabelled(line, calibrated) for line in batch.lines if isinstance(line, ScoredRow)]
            write(rows)
            outcome.figures.add_time(batch.seconds)
            for row in rows:
                outcome.figures.add(row.scores)
                outcome.failed += sum(score.error is not None for score in row.scores.values())
            outcome.errors += [line for line in batch.lines if isinstance(line, DataError)]
            outcome.done += len(rows)
            if progress is not None:
                progress(len(batch.lines))
    outcome.seconds = time.monotonic() - started
    return outcome

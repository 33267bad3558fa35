"""Rows through evaluators: in order, on all cores, stoppable and resumable."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from ragtrace import plugins, settings
from ragtrace._version import __version__
from ragtrace.errors import DataError
from ragtrace.evaluation import Evaluator, run
from ragtrace.offline.progress import Part, identity
from ragtrace.offline.rows import Item, Row, read
from ragtrace.offline.selection import chosen_for, needs_judge
from ragtrace.records import Score
from ragtrace.reporting.perturb import perturbed
from ragtrace.reporting.results import Info, Metric, Result, Run

_BATCH = 16
_WORTH_PROCESSES = 256
"""Rows from which on loading the models once more for each process pays."""
_LOOKED_AT = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """What to evaluate, and how."""

    path: Path
    names: tuple[str, ...] = ()
    """Evaluators; empty to choose by what the data has."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Where fields have other names: field to column."""
    perturb: tuple[str, ...] = ()
    """Perturbations under which every row is evaluated once more."""
    jobs: int = 0
    """Processes; 0 for one for each core where the file is long enough."""
    strict: bool = False
    """Stop at the first line that cannot be used."""
    fresh: bool = False
    """Begin anew although a part of this run is there."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its scores."""

    row: Row
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan."""

    lines: tuple[Line, ...]
    """All rows, where they were asked to be kept."""
    checks: tuple[Evaluator, ...]
    done: int
    resumed: int
    """Rows of `done` that an earlier run had evaluated."""
    errors: tuple[DataError, ...]
    seconds: float


def evaluate(
    plan: Plan,
    out: Path | IO[str],
    *,
    keep: bool = False,
    errors: IO[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Write one line `{"id", "scores": {name: {value, label, explanation, error}}}` for each usable row, in order.

    With a path, rows that are done lie beside it in `OUT.part` until all are, so that the same call after a kill goes
    on where it was, and the judge's answers in `OUT.judge`, so that none is paid twice. Lines that cannot be used are
    named on `errors`, standard error by default; with `plan.strict` the first one raises DataError. `keep` returns all
    rows with their scores. `progress` is told how many more rows are done.

    Raises SettingError for an unknown evaluator, or a judge that cannot be asked, before anything is evaluated.
    """
    begun = time.monotonic()
    checks = tuple(plugins.load(name) for name in plan.names)
    items = _with_perturbed(read(plan.path, plan.columns), plan.perturb)
    head = list(islice(items, _LOOKED_AT))
    names = plan.names
    if not names:
        names = tuple(chosen_for([item for item in head if isinstance(item, Row)]))
        checks = tuple(plugins.load(name) for name in names)
    target = out if isinstance(out, Path) else None
    with ExitStack() as stack:
        long = len(head) == _LOOKED_AT
        if needs_judge(checks):
            _ready_to_judge(target, _in_processes(plan, long), stack)
        part = _part(plan, names, target) if target is not None else None
        stream = stack.enter_context(_open(out)) if isinstance(out, Path) else out
        lines: list[Line] = []
        bad: list[DataError] = []
        done = 0
        pool = _pool(plan, stack) if _in_processes(plan, long) else None
        work = _Work(names, checks, pool, 3 * _workers(plan))
        for batch in _results(chain(head, items), part, work):
            for item in batch:
                if isinstance(item, DataError):
                    if plan.strict:
                        raise item
                    bad.append(item)
                    print(f"ragtrace eval: {item}", file=errors or sys.stderr)
                    continue
                done += 1
                scores = {name: as_dict(score) for name, score in item.scores.items()}
                stream.write(json.dumps({"id": item.row.id, "scores": scores}, ensure_ascii=False) + "\n")
                if keep:
                    lines.append(item)
            if progress is not None:
                progress(len(batch))
    if target is not None and part is not None:
        _scores_of(target).replace(target)
        part.close(remove=True)
        _answers_of(target).unlink(missing_ok=True)
    resumed = part.done if part is not None else 0
    return Outcome(tuple(lines), checks, done, resumed, tuple(bad), time.monotonic() - begun)


def _with_perturbed(items: Iterator[Item], kinds: Sequence[str]) -> Iterator[Item]:
    """The rows, and where kinds are named each of them under each kind, after all rows as they are."""
    if not kinds:
        yield from items
        return
    rows: dict[int, Row] = {}
    for item in items:
        if isinstance(item, Row):
            rows[item.trace.trace_id] = item
        yield item
    for trace, kind in perturbed([row.trace for row in rows.values()], kinds):
        own = rows[trace.trace_id]
        yield replace(own, id=f"{own.id}~{kind}", trace=trace, perturbation=kind, original=own.id)


def _scores_of(target: Path) -> Path:
    """Written beside the output and moved: a run that is stopped leaves no half file that looks like a whole one."""
    return target.with_name(target.name + ".new")


def _answers_of(target: Path) -> Path:
    return target.with_name(target.name + ".judge")


def _open(target: Path) -> IO[str]:
    try:
        return _scores_of(target).open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error}") from error


def _part(plan: Plan, names: Sequence[str], target: Path) -> Part:
    asked = settings.in_force()
    more = (names, sorted(plan.columns.items()), plan.perturb, settings.for_evaluators(asked), __version__)
    try:
        belongs = identity(plan.path, more)
    except OSError as error:
        raise DataError(f"{plan.path} cannot be read: {error}") from error
    return Part(target.with_name(target.name + ".part"), belongs, fresh=plan.fresh)


def _ready_to_judge(target: Path | None, many: bool, stack: ExitStack) -> None:
    """Make the judge, so that what is missing is said before a row is touched. Its answers and its spending lie in a
    file, for all processes of this run and for the next one after a kill; without an output file, only what the
    processes spend does."""
    from ragtrace.judge import get_judge, use_judge

    used = settings.in_force()
    if not used.judge_store and target is not None:
        used = replace(used, judge_store=str(_answers_of(target)))
    elif many and not used.judge_store and not used.judge_budget_file:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ragtrace-"))
        used = replace(used, judge_budget_file=str(Path(folder) / "spending"))
    if used != settings.in_force():
        stack.enter_context(settings.using(used))
        use_judge(None)
        stack.callback(use_judge, None)
        stack.callback(get_judge().store.close)
    get_judge()


def _workers(plan: Plan) -> int:
    return plan.jobs or (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class _Work:
    """How batches are evaluated."""

    names: Sequence[str]
    checks: Sequence[Evaluator]
    pool: ProcessPoolExecutor | None
    ahead: int
    """Batches that are given to the processes before the first is taken back: memory stays flat."""


def _in_processes(plan: Plan, long: bool) -> bool:
    return _workers(plan) > 1 and (long or plan.jobs > 1)


def _pool(plan: Plan, stack: ExitStack) -> ProcessPoolExecutor:
    used = settings.in_force()
    context = get_context("spawn")
    pool = ProcessPoolExecutor(_workers(plan), mp_context=context, initializer=settings.use, initargs=(used,))
    # What is queued is not waited for when something goes wrong.
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    return pool


def _results(items: Iterable[Item], part: Part | None, work: _Work) -> Iterator[list[Line | DataError]]:
    """Batches with their scores, in order; what the part has is not evaluated again."""
    waiting = iter(items)
    if part is not None and part.done:
        saved = part.rows()
        left = part.done
        while left:
            batch: list[Line | DataError] = []
            for item in islice(waiting, _BATCH):
                if isinstance(item, Row) and left:
                    own, scores = next(saved)
                    if own != item.id:
                        raise DataError(f"{part.path} has the id {own!r} where the input has {item.id!r}; remove it")
                    batch.append(Line(item, scores))
                    left -= 1
                elif isinstance(item, Row):
                    waiting = chain([item], waiting)
                    break
                else:
                    batch.append(item)
            if not batch:
                break
            yield batch
    for fresh, found in _evaluated(_batches(waiting), work):
        scored = iter(found)
        batch = [Line(item, next(scored)) if isinstance(item, Row) else item for item in fresh]
        if part is not None:
            part.add((line.row.id, line.scores) for line in batch if isinstance(line, Line))
        yield batch


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    while batch := list(islice(items, _BATCH)):
        yield batch


_Scores = list[dict[str, Score]]


def _evaluated(batches: Iterator[list[Item]], work: _Work) -> Iterator[tuple[list[Item], _Scores]]:
    if work.pool is None:
        for batch in batches:
            yield batch, _score(work.checks, batch)
        return
    ahead: list[tuple[list[Item], Future[_Scores]]] = []
    for batch in batches:
        ahead.append((batch, work.pool.submit(_score_by_name, tuple(work.names), batch)))
        if len(ahead) > work.ahead:
            first, future = ahead.pop(0)
            yield first, future.result()
    for batch, future in ahead:
        yield batch, future.result()


def _score_by_name(names: Sequence[str], batch: Sequence[Item]) -> _Scores:
    return _score([plugins.load(name) for name in names], batch)


def _score(checks: Sequence[Evaluator], batch: Sequence[Item]) -> _Scores:
    traces = [item.trace for item in batch if isinstance(item, Row)]
    found: _Scores = [{} for _ in traces]
    for check in checks:
        for scores, of_row in zip(run(check, traces), found, strict=True):
            of_row.update((score.name, score) for score in scores)
    return found


def as_dict(score: Score) -> dict[str, Any]:
    """A score as it stands in the output file."""
    return {
        "value": score.value,
        "label": score.label,
        "explanation": score.explanation,
        "error": score.error,
    }


def to_run(plan: Plan, outcome: Outcome, started: float) -> Run:
    """The kept rows of an outcome for a report. `started` is Unix time in seconds."""
    metrics = {
        check.name: Metric(check.name, check.direction, check.threshold, check.range, check.method, check.version)
        for check in outcome.checks
    }
    info = Info(
        file=str(plan.path),
        started=started,
        duration=outcome.seconds,
        version=__version__,
        unusable=tuple(str(error) for error in outcome.errors),
        settings={"evaluators": ", ".join(metrics), "perturbations": ", ".join(plan.perturb) or "none"},
    )
    return Run(tuple(_result(line) for line in outcome.lines), metrics, info)


def _result(line: Line) -> Result:
    row, trace = line.row, line.row.trace
    return Result(
        id=str(row.id),
        query=trace.query,
        answer=trace.answer,
        contexts=tuple(d.content for d in trace.documents),
        reference=trace.reference,
        model=row.model,
        perturbation=row.perturbation,
        original=None if row.original is None else str(row.original),
        duration=row.duration,
        cost=row.cost,
        scores=line.scores,
    )

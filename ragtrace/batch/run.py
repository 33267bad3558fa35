"""Runs evaluators on the rows of a data set: in order, on all cores. A stopped run can continue."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from ragtrace import calibrations, plugins
from ragtrace._version import __version__
from ragtrace.base.rows import Item, Row, read
from ragtrace.batch.batches import BATCH, ScoredBatch, ScoredRow, Workers, relabelled, score_batches
from ragtrace.batch.checkpoint import Checkpoint, run_id
from ragtrace.batch.columns import notes
from ragtrace.batch.reporting.files import check_target, replacing
from ragtrace.batch.reporting.perturb import perturbed
from ragtrace.batch.reporting.results import EvaluationRun, Info, Result, metric_of
from ragtrace.batch.selection import suitable
from ragtrace.batch.table import RunFigures
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Score
from ragtrace.settings import Settings, for_evaluators, load

_HEAD = 256
"""Rows that are read first: the evaluators are selected by them, and only longer files are worth several processes,
because each process loads the models again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to evaluate, and how."""

    path: Path
    names: tuple[str, ...] = ()
    """Evaluators; empty to select those that suit the data."""
    required: tuple[str, ...] = ()
    """Evaluators that run beside those that are selected."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field to column name, for fields with other names in the file."""
    perturb: tuple[str, ...] = ()
    """Perturbations; every row is evaluated once more under each."""
    jobs: int = 0
    """Number of processes; 0 for one per core if the file is long enough."""
    strict: bool = False
    """Stop at the first line that cannot be used."""
    fresh: bool = False
    """Start again even if a part of this run is saved."""
    settings: Settings | None = None
    """What the evaluators use; None for the settings of the environment and of ragtrace.toml."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a plan."""

    lines: tuple[ScoredRow, ...]
    """All rows with their scores if `keep` was set."""
    checks: tuple[Evaluator, ...]
    done: int
    """Number of rows with scores."""
    resumed: int
    """Number of rows of `done` that an earlier run evaluated."""
    errors: tuple[DataError, ...]
    figures: RunFigures
    """Of the rows as they are in the file, not of perturbed ones."""
    seconds: float


def evaluate(
    plan: Plan,
    out: Path | IO[str],
    *,
    keep: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Write one line `{"id", "scores": {name: {value, label, explanation, error}}}` for each usable row, in order.

    If `out` is a path, finished rows are saved next to it in `OUT.part` until all are done: the same call after a kill
    continues there. The judge's replies are saved in `OUT.judge`, so that none is paid twice. Columns that are not
    used, evaluators that do not run for lack of an input, and errors of unusable lines are printed to standard
    error; with `plan.strict` the first unusable line raises DataError. `keep` returns all rows with their scores.
    `progress` is called with the number of rows of each finished batch.

    Raises SettingError for an unknown evaluator or a judge that is not usable, and DataError for a file without rows,
    before any row is evaluated."""
    start = time.monotonic()
    settings = plan.settings or load()
    names = plan.names
    checks = tuple(plugins.load_all(names))
    unused: dict[str, Any] = {}
    items = _with_perturbed(read(plan.path, plan.columns, unused=unused), plan.perturb)
    head = list(islice(items, _HEAD))
    if not head:
        raise DataError(f"{plan.path} has no rows: expected at least one line with query, contexts or answer")
    rows = [item for item in head if isinstance(item, Row)]
    for note in notes(names, rows, unused):
        print(f"ragtrace eval: {note}", file=sys.stderr)
    if not names:
        names = tuple(dict.fromkeys((*suitable(rows), *plan.required)))
        checks = tuple(plugins.load_all(names))
    count = plan.jobs or (os.cpu_count() or 1)
    parallel = count > 1 and (len(head) == _HEAD or plan.jobs > 1)
    target = out if isinstance(out, Path) else None
    if target is not None:
        check_target(target)  # before other files are written beside it
    with ExitStack() as stack:
        if any(check.asks_judge for check in checks):
            settings = prepare_judge(settings, target, parallel, stack)
        if settings.calibration_file:
            checks = calibrations.File(settings.calibration_file)(checks)
        by_name = dict(zip(names, checks, strict=True))
        checkpoint = None if target is None else _checkpoint(plan, by_name, settings, target)
        stream = stack.enter_context(open_output(out)) if isinstance(out, Path) else out
        writer = _Writer(stream, checks, strict=plan.strict, keep=keep)
        workers = Workers(names, settings, count if parallel else 0, stack)
        for batch in resumed_batches(chain(head, items), checkpoint, lambda rest: score_batches(rest, workers)):
            writer.write(batch)
            if progress is not None:
                progress(len(batch.lines))
    if target is not None and checkpoint is not None:
        checkpoint.close(remove=True)
        judge_store_of(target).unlink(missing_ok=True)
    resumed = 0 if checkpoint is None else checkpoint.done
    seconds = time.monotonic() - start
    return Outcome(tuple(writer.lines), checks, writer.done, resumed, tuple(writer.errors), writer.figures, seconds)


class _Writer:
    """Writes the scores of each row, and prints the errors of unusable lines."""

    def __init__(self, out: IO[str], checks: Sequence[Evaluator], *, strict: bool, keep: bool) -> None:
        self._out, self._strict, self._keep = out, strict, keep
        self._calibrated = {c.name: c for c in checks if c.version != calibrations.own_version(c.version)}
        self.figures = RunFigures(check.name for check in checks)
        self.lines: list[ScoredRow] = []
        self.errors: list[DataError] = []
        self.done = 0

    def write(self, batch: ScoredBatch) -> None:
        self.figures.add_time(batch.seconds)
        for item in batch.lines:
            if isinstance(item, DataError):
                if self._strict:
                    raise item
                self.errors.append(item)
                print(f"ragtrace eval: {item}", file=sys.stderr)
                continue
            self.done += 1
            line = relabelled(item, self._calibrated)
            if line.row.perturbation is None:
                self.figures.add(line.scores)
            scores = {name: as_dict(score) for name, score in line.scores.items()}
            self._out.write(json.dumps({"id": line.row.id, "scores": scores}, ensure_ascii=False) + "\n")
            if self._keep:
                self.lines.append(line)


def _with_perturbed(items: Iterator[Item], kinds: Sequence[str]) -> Iterator[Item]:
    """All rows, then each of them under each kind of perturbation."""
    if not kinds:
        yield from items
        return
    rows: dict[int, Row] = {}
    for item in items:
        if isinstance(item, Row):
            rows[item.trace.trace_id] = item
        yield item
    for trace, kind in perturbed([row.trace for row in rows.values()], kinds):
        original = rows[trace.trace_id]
        yield replace(original, id=f"{original.id}~{kind}", trace=trace, perturbation=kind, original=original.id)


def judge_store_of(target: Path) -> Path:
    return target.with_name(target.name + ".judge")


def check_files(*files: str | Path | None) -> None:
    """Raises SettingError where a command would write to a file twice, or over what it reads."""
    paths = [Path(file).resolve() for file in files if file not in (None, "", "-")]
    for path in paths:
        if paths.count(path) > 1 and (path.is_file() or not path.exists()):
            raise SettingError(f"{path} would be overwritten: it is given twice; write to another file")


@contextmanager
def open_output(target: Path) -> Iterator[IO[str]]:
    """A text file that takes the place of `target` when it is complete: a stopped run leaves no incomplete output.
    Raises as `replacing`."""
    with replacing(target) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        yield stream


def _checkpoint(plan: Plan, checks: Mapping[str, Evaluator], settings: Settings, target: Path) -> Checkpoint:
    versions = [(name, check.version, check.threshold) for name, check in checks.items()]
    parts = (versions, sorted(plan.columns.items()), plan.perturb, for_evaluators(settings), __version__)
    run = run_id(plan.path, parts)
    return Checkpoint(target.with_name(target.name + ".part"), run, fresh=plan.fresh)


def prepare_judge(settings: Settings, target: Path | None, parallel: bool, stack: ExitStack) -> Settings:
    """Open the judge, so that a missing setting is reported before any row is evaluated. Its replies and its spending
    are in a file that all processes of this run share, and the next run after a kill. Without an output file, only the
    spending is shared. Returns the settings with these files."""
    from ragtrace.evaluate.judge import close_judge, get_judge

    if not settings.judge_store and target is not None:
        settings = replace(settings, judge_store=str(judge_store_of(target)))
    elif parallel and not (settings.judge_store or settings.judge_ledger):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ragtrace-"))
        settings = replace(settings, judge_ledger=str(Path(folder) / "spending"))
    stack.callback(close_judge, settings)
    get_judge(settings)
    return settings


def resumed_batches(
    items: Iterator[Item], checkpoint: Checkpoint | None, evaluate: Callable[[Iterator[Item]], Iterator[ScoredBatch]]
) -> Iterator[ScoredBatch]:
    """Rows with their scores, in order. `evaluate` gets those that are not in the checkpoint, and keeps their order;
    they are added to it."""
    if checkpoint is not None:
        saved = checkpoint.rows()
        left = checkpoint.done
        while left:
            batch: list[ScoredRow | DataError] = []
            for item in islice(items, min(BATCH, left)):
                batch.append(item if isinstance(item, DataError) else _saved_line(item, next(saved), checkpoint.path))
            if not batch:
                break
            left -= sum(isinstance(item, ScoredRow) for item in batch)
            yield ScoredBatch(batch)
    for scored in evaluate(items):
        if checkpoint is not None:
            checkpoint.add((line.row.id, line.scores) for line in scored.lines if isinstance(line, ScoredRow))
        yield scored


def _saved_line(row: Row, saved: tuple[Any, Mapping[str, Score]], path: Path) -> ScoredRow:
    id, scores = saved
    if id != row.id:
        raise DataError(f"{path} has the id {id!r} where the input has {row.id!r}; remove the file and start again")
    return ScoredRow(row, scores)


def as_dict(score: Score) -> dict[str, Any]:
    """A score as the output file contains it."""
    return {"value": score.value, "label": score.label, "explanation": score.explanation, "error": score.error}


def to_run(plan: Plan, outcome: Outcome, started: float) -> EvaluationRun:
    """The kept rows of an outcome for a report. `started` is Unix time in seconds."""
    metrics = {check.name: metric_of(check) for check in outcome.checks}
    info = Info(
        file=str(plan.path), started=started, duration=outcome.seconds, version=__version__,
        unusable=tuple(str(error) for error in outcome.errors),
        settings={"evaluators": ", ".join(metrics), "perturbations": ", ".join(plan.perturb) or "none"},
    )  # fmt: skip
    return EvaluationRun(tuple(_result(line) for line in outcome.lines), metrics, info)


def _result(line: ScoredRow) -> Result:
    row, trace = line.row, line.row.trace
    return Result(
        id=str(row.id), query=trace.query, answer=trace.answer, contexts=tuple(d.content for d in trace.documents),
        reference=trace.reference, model=row.model, perturbation=row.perturbation,
        original=None if row.original is None else str(row.original), duration=row.duration, cost=row.cost,
        scores=line.scores,
    )  # fmt: skip

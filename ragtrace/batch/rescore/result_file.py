"""The scores of a file's requests as JSON lines or Parquet."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrace._version import __version__
from ragtrace.base.rows import Row
from ragtrace.batch.batches import ScoredRow
from ragtrace.batch.checkpoint import Checkpoint, run_id
from ragtrace.batch.reporting.files import sparse
from ragtrace.batch.rescore.job import RescoreSuite
from ragtrace.batch.rescore.score_table import is_parquet, line_writer, score_lines
from ragtrace.batch.run import as_dict, judge_store_of
from ragtrace.settings import for_evaluators


@dataclass(frozen=True, slots=True)
class ResultFile:
    """Takes the scores of requests, in the order of the requests."""

    checkpoint: Checkpoint | None
    """The requests that are done; None for standard output."""
    write: Callable[[Sequence[ScoredRow]], None]


@contextmanager
def open_results(target: Path | None, source: Path, suite: RescoreSuite, rows: Sequence[Row]) -> Iterator[ResultFile]:
    """Writes one line for each request, or as Parquet one for each score; to standard output where `target` is None.

    With a file as target the lines that are done are in `TARGET.part`, where the same call after a kill goes on, and
    the target appears when all are there. Raises DataError for a target that cannot be written."""
    lines_of = score_lines if target is not None and is_parquet(target) else _request_line
    checkpoint = None
    with ExitStack() as stack:
        write = stack.enter_context(line_writer(target))
        if target is not None:
            versions = [(check.name, check.version) for check in suite.checks]
            ids = hashlib.sha256("\n".join(row.id for row in rows).encode()).hexdigest()
            run = run_id(source, (suite.names, versions, ids, for_evaluators(suite.settings), __version__))
            checkpoint = Checkpoint(target.with_name(f"{target.name}.part"), run)
            stack.callback(checkpoint.close, remove=False)
        yield ResultFile(checkpoint, lambda scored: write(line for row in scored for line in lines_of(row)))
    if target is not None and checkpoint is not None:  # the target is complete
        checkpoint.close(remove=True)
        judge_store_of(target).unlink(missing_ok=True)


def _request_line(row: ScoredRow) -> Iterator[dict[str, Any]]:
    trace, facts = row.row.trace, row.row.trace.facts
    scores = {
        name: {**as_dict(score), "version": score.version, "method": score.method, **sparse(score)}
        for name, score in row.scores.items()
    }
    yield {
        "id": row.row.id, "trace_id": f"{trace.trace_id:032x}", "span_id": f"{trace.span_id:016x}",
        "started": trace.started, "app": facts.app, "model": facts.model, "scores": scores,
    }  # fmt: skip

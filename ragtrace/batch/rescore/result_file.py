"""The scores of a file's requests as JSON lines or Parquet."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO, Any

from ragtrace._version import __version__
from ragtrace.base.rows import Row
from ragtrace.batch.batches import ScoredRow
from ragtrace.batch.checkpoint import Checkpoint, run_id
from ragtrace.batch.reporting.files import sparse
from ragtrace.batch.rescore.job import RescoreSuite
from ragtrace.batch.rescore.score_table import ScoreTable, is_parquet, score_lines
from ragtrace.batch.run import as_dict, judge_store_of, open_output, unfinished
from ragtrace.settings import for_evaluators


class ResultFile(AbstractContextManager["ResultFile"]):
    """Writes one line for each request, or as Parquet one for each score, in their order; a context manager.

    With a file as target the lines that are done are in `TARGET.part`, where the same call after a kill goes on, and
    the target appears when all are there.
    """

    def __init__(self, target: Path | None, source: Path, suite: RescoreSuite, rows: Sequence[Row]) -> None:
        """`target` is None for standard output. Raises DataError for a target that cannot be written."""
        self._target = target
        self.checkpoint: Checkpoint | None = None
        self._stack = ExitStack()
        self._stream: IO[str] = sys.stdout
        self._table: ScoreTable | None = None
        if target is None:
            return
        versions = [(check.name, check.version) for check in suite.checks]
        ids = hashlib.sha256("\n".join(row.id for row in rows).encode()).hexdigest()
        run = run_id(source, (suite.names, versions, ids, for_evaluators(suite.settings), __version__))
        if is_parquet(target):
            self._table = self._stack.enter_context(ScoreTable(target))
        else:
            self._stream = self._stack.enter_context(open_output(target))
        self.checkpoint = Checkpoint(target.with_name(f"{target.name}.part"), run)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self.checkpoint is not None:
            self.checkpoint.close(remove=False)

    def write(self, rows: Sequence[ScoredRow]) -> None:
        """Writes the lines of these requests."""
        for row in rows:
            if self._table is not None:
                self._table.write(score_lines(row))
                continue
            self._stream.write(json.dumps(_line(row), ensure_ascii=False) + "\n")

    def complete(self) -> None:
        """Gives the target its name, and removes what was kept to go on after a kill."""
        self._stream.flush()
        if self._target is not None and self.checkpoint is not None:
            if self._table is not None:
                self._table.complete()
            else:
                unfinished(self._target).replace(self._target)
            self.checkpoint.close(remove=True)
            judge_store_of(self._target).unlink(missing_ok=True)


def _line(row: ScoredRow) -> dict[str, Any]:
    trace, facts = row.row.trace, row.row.trace.facts
    scores = {
        name: {**as_dict(score), "version": score.version, "method": score.method, **sparse(score)}
        for name, score in row.scores.items()
    }
    return {
        "id": row.row.id, "trace_id": f"{trace.trace_id:032x}", "span_id": f"{trace.span_id:016x}",
        "started": trace.started, "app": facts.app, "model": facts.model, "scores": scores,
    }  # fmt: skip

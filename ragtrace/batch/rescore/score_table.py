"""Scores as a table for DuckDB, Spark or pandas: one line for each score, without texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from ragtrace.base.private_file import create_private
from ragtrace.batch.batches import ScoredRow
from ragtrace.batch.rescore.stored_logs import LogSelection, is_present
from ragtrace.batch.run import open_output, unfinished
from ragtrace.console.chatlogs.schema import in_period, scores, traces
from ragtrace.errors import DataError, package
from ragtrace.evaluation import Evaluator

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_GROUP = 10_000
"""Lines of a row group of Parquet."""
COLUMNS: Mapping[str, str] = {
    "trace_id": "string", "span_id": "string", "started": "float64", "app": "string", "model": "string",
    "evaluator": "string", "version": "string", "value": "float64", "label": "string", "error": "string",
    "method": "string", "cause": "string", "failures": "string", "sampling_probability": "float64", "judge": "string",
    "input_tokens": "int64", "output_tokens": "int64", "cost": "float64",
}  # fmt: skip
"""The columns and their types in Arrow's words. `started` is Unix time in seconds, `failures` a list with commas, and
`cost` is in US dollars."""


def is_parquet(path: Path) -> bool:
    """Whether a file is to be Parquet, by its name. Raises MissingExtraError where pyarrow is not installed."""
    if path.suffix.lower() != ".parquet":
        return False
    package("pyarrow.parquet", "eval", f"Writing {path}")
    return True


class ScoreTable(AbstractContextManager["ScoreTable"]):
    """Writes lines to a file of Parquet, which has its name when all are written; a context manager."""

    def __init__(self, target: Path) -> None:
        """Raises DataError for a file that cannot be written."""
        import pyarrow
        import pyarrow.parquet

        self._target = target
        self._schema = pyarrow.schema(
            [(name, getattr(pyarrow, kind)()) for name, kind in COLUMNS.items()], metadata={"format": "ragtrace-scores"}
        )
        try:
            create_private(unfinished(target))
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error}") from error
        self._writer = pyarrow.parquet.ParquetWriter(unfinished(target), self._schema, compression="zstd")
        self._lines: list[Mapping[str, Any]] = []

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Adds lines with the fields of COLUMNS."""
        self._lines += lines
        if len(self._lines) >= _GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow

        if self._lines:
            self._writer.write_table(pyarrow.Table.from_pylist(self._lines, schema=self._schema))
            self._lines = []

    def complete(self) -> None:
        """Writes what is left, and gives the file its name."""
        self._write_group()
        self._writer.close()
        unfinished(self._target).replace(self._target)


def score_lines(row: ScoredRow) -> Iterator[dict[str, Any]]:
    """The lines of one request."""
    trace, facts = row.row.trace, row.row.trace.facts
    for score in row.scores.values():
        yield {
            "trace_id": f"{trace.trace_id:032x}",
            "span_id": f"{trace.span_id:016x}",
            "started": trace.started,
            "app": facts.app,
            "model": facts.model,
            "evaluator": score.name,
            "judge": score.model,
            "failures": ",".join(score.failures) or None,
            **{name: getattr(score, name) for name in _SCORE_FIELDS},
        }


_SCORE_FIELDS = (
    "version", "value", "label", "error", "method", "cause", "sampling_probability", "input_tokens", "output_tokens",
    "cost",
)  # fmt: skip


def export_scores(store: Store, checks: Sequence[Evaluator], selection: LogSelection, target: Path) -> int:
    """Writes all stored scores of these evaluators in their versions, as Parquet or as JSON lines by the file's name
    (`-` is standard output), the newest log first; returns how many. Memory does not grow with them.

    Raises DataError for a file that cannot be written, StoreError as the store does, MissingExtraError.
    """
    lines = _stored_lines(store, checks, selection)
    count = 0
    if is_parquet(target):
        with ScoreTable(target) as table:
            for line in lines:
                table.write([line])
                count += 1
            table.complete()
        return count
    to_stdout = str(target) == "-"
    with nullcontext(sys.stdout) if to_stdout else open_output(target) as stream:
        for line in lines:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    if not to_stdout:
        unfinished(target).replace(target)
    return count


def _stored_lines(store: Store, checks: Sequence[Evaluator], selection: LogSelection) -> Iterator[dict[str, Any]]:
    score_names = {"sampling_probability": "probability", "judge": "model"}
    columns: list[Any] = [traces.c[name] for name in ("trace_id", "span_id", "started", "app", "model")]
    columns += [scores.c[score_names.get(name, name)].label(name) for name in list(COLUMNS)[5:]]
    where = [*in_period(selection.since, selection.until, selection.app), is_present(checks)]
    query = select(*columns).join(scores, scores.c.trace == traces.c.id).where(*where)
    with store.reading() as connection:
        rows = connection.execution_options(stream_results=True, yield_per=1_000).execute(
            query.order_by(traces.c.id.desc(), scores.c.id)
        )
        for row in rows.mappings():
            yield dict(row)

"""Scores as a table for DuckDB, Spark or pandas: one line for each score, without texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from ragtrace.batch.batches import ScoredRow
from ragtrace.batch.reporting.files import replacing
from ragtrace.batch.rescore.stored_logs import LogSelection, is_present
from ragtrace.batch.run import open_output
from ragtrace.console.chatlogs.schema import in_period, scores, traces
from ragtrace.errors import package
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


WriteLines = Callable[[Iterable[Mapping[str, Any]]], None]


@contextmanager
def line_writer(target: Path | None) -> Iterator[WriteLines]:
    """Writes lines to a file that has its name when all are written, or to standard output. Parquet, by the file's
    name, takes lines with the fields of COLUMNS; JSON lines are of any fields. Raises DataError for a file that cannot
    be written."""
    if target is not None and is_parquet(target):
        with replacing(target) as part, _parquet_writer(part) as write_table:
            yield write_table
        return
    with nullcontext(sys.stdout) if target is None else open_output(target) as stream:

        def write(lines: Iterable[Mapping[str, Any]]) -> None:
            for line in lines:
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")

        yield write
        stream.flush()


@contextmanager
def _parquet_writer(path: Path) -> Iterator[WriteLines]:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema(
        [(name, getattr(pyarrow, kind)()) for name, kind in COLUMNS.items()], metadata={"format": "ragtrace-scores"}
    )
    group: list[Mapping[str, Any]] = []
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:

        def write_group() -> None:
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            group.clear()

        def write(lines: Iterable[Mapping[str, Any]]) -> None:
            group.extend(lines)
            if len(group) >= _GROUP:
                write_group()

        yield write
        if group:
            write_group()


def score_lines(row: ScoredRow) -> Iterator[dict[str, Any]]:
    """The lines of one request."""
    trace, facts = row.row.trace, row.row.trace.facts
    for score in row.scores.values():
        yield {
            "trace_id": f"{trace.trace_id:032x}", "span_id": f"{trace.span_id:016x}", "started": trace.started,
            "app": facts.app, "model": facts.model, "evaluator": score.name, "judge": score.model,
            "failures": ",".join(score.failures) or None, **{name: getattr(score, name) for name in _SCORE_FIELDS},
        }  # fmt: skip


_SCORE_FIELDS = (
    "version", "value", "label", "error", "method", "cause", "sampling_probability", "input_tokens", "output_tokens",
    "cost",
)  # fmt: skip


def export_scores(store: Store, checks: Sequence[Evaluator], selection: LogSelection, target: Path) -> int:
    """Writes all stored scores of these evaluators in their versions, as Parquet or as JSON lines by the file's name
    (`-` is standard output), the newest log first; returns how many. Memory does not grow with them.

    Raises DataError for a file that cannot be written, StoreError as the store does, MissingExtraError."""
    count = 0
    with line_writer(None if str(target) == "-" else target) as write:
        for line in _stored_lines(store, checks, selection):
            write([line])
            count += 1
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

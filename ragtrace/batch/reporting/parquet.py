"""Writes the scores of a run as one long table."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from ragtrace.batch.reporting.results import EvaluationRun
from ragtrace.errors import package

_GROUP = 20_000
"""Lines per row group."""
_ROW_TEXTS = ("id", "model", "perturbation", "original", "query", "answer", "reference")
_SCORE_COLUMNS = (
    "value", "label", "cause", "error", "version", "method", "input_tokens", "output_tokens", "cost"
)  # fmt: skip
"""Columns with the names of `Score`'s fields."""


def write_parquet(run: EvaluationRun, path: Path) -> None:
    """Write one line for each row and evaluator; rows include perturbed ones. Raises MissingExtraError without
    pyarrow."""
    pyarrow, parquet = (package(name, "eval", "Writing a run") for name in ("pyarrow", "pyarrow.parquet"))
    schema = _schema(pyarrow)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        lines = _lines(run)
        while group := list(islice(lines, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def _schema(pa: Any) -> Any:
    text, word, number = pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.float64()
    place = pa.int32()
    evidence = {
        "start": place, "end": place, "verdict": text, "probability": number, "document_id": text,
        "document_rank": place, "document_start": place, "document_end": place,
    }  # fmt: skip
    columns = {
        "id": text, "model": word, "perturbation": word, "original": text,
        "query": text, "answer": text, "reference": text, "duration": number, "row_cost": number,
        "evaluator": word, "value": number, "label": word, "explanation": text, "cause": word, "error": word,
        "failures": pa.list_(text), "version": word, "method": word, "judge": word,
        "input_tokens": pa.int64(), "output_tokens": pa.int64(), "cost": number,
        "evidence": pa.list_(pa.struct(list(evidence.items()))),
    }  # fmt: skip
    return pa.schema(list(columns.items()), metadata={"format": "ragtrace-run"})


def _lines(run: EvaluationRun) -> Iterator[dict[str, Any]]:
    for row in run.results:
        of_row = {name: _utf8(getattr(row, name)) for name in _ROW_TEXTS}
        for name, s in row.scores.items():
            yield {
                **of_row,
                "duration": row.duration,
                "row_cost": row.cost,
                **{column: getattr(s, column) for column in _SCORE_COLUMNS},
                "evaluator": name,
                "explanation": _utf8(s.explanation),
                "failures": list(s.failures),
                "judge": s.model,
                "evidence": [{**asdict(e), "document_id": _utf8(e.document_id)} for e in s.evidence],
            }


def _utf8(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode()

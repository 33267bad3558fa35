"""A run as a folder: `results.json` contains everything, `results.parquet` the scores for other tools."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Any

from ragtrace.base.private_file import create_private
from ragtrace.batch.reporting.analysis import Analysis, analyse
from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric, Result
from ragtrace.errors import DataError, package
from ragtrace.records import Evidence, Score
from ragtrace.text.sanitizer import finite

REPORT_NAMES = JSON_NAME, PARQUET_NAME, PAGE_NAME = "results.json", "results.parquet", "report.html"
_FORMAT = "ragtrace-run"
_VERSION = 1


def write_run(run: EvaluationRun, folder: str | os.PathLike[str], analysis: Analysis | None = None) -> None:
    """Write a run into a folder. The folder is created if it is missing; a run that it contains is replaced.

    Each file is written under another name and renamed when it is complete. The JSON file is the last one and contains
    the digest of the other one: this reveals a folder that was not completely written. Without `analysis` the run is
    analysed first. Raises MissingExtraError without pyarrow, and DataError or OSError if a file cannot be written."""
    analysis = analysis or analyse(run)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / PARQUET_NAME) as part:
        write_parquet(run, part)
    digest = _digest(path / PARQUET_NAME)
    # UTF-8 cannot encode a lone surrogate; its replacement is the escape that JSON uses for it.
    text = json.dumps(_document(analysis, digest), ensure_ascii=False, allow_nan=False, indent=1)
    with replacing(path / JSON_NAME) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def read_run(folder: str | os.PathLike[str]) -> EvaluationRun:
    """Read a run from a folder. Needs no package. Raises DataError if the folder contains no run, or a run that is
    incomplete or was changed."""
    parquet, path = Path(folder) / PARQUET_NAME, Path(folder) / JSON_NAME
    if not path.is_file():
        partial = parquet.exists() or any(Path(folder).glob(".*.part")) if Path(folder).is_dir() else False
        reason = "its writing was not finished" if partial else f"there is no {JSON_NAME}"
        raise DataError(f"{folder} is not a run: {reason}")
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise DataError(f"{path} was not written by ragtrace")
        if document.get("format_version") != _VERSION:
            version = document.get("format_version")
            raise DataError(f"{path} has format version {version}, this ragtrace reads {_VERSION}")
        metrics = [metric_from_dict(values) for values in document["metrics"]]
        info = Info(**{**document["info"], "unusable": tuple(document["info"]["unusable"])})
        results = tuple(result_from_dict(row) for row in document["results"])
        run = EvaluationRun(results, {metric.name: metric for metric in metrics}, info)
        digest = document["parquet"]["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not parquet.is_file() or _digest(parquet) != digest:
        raise DataError(f"{folder} is half written or altered: {PARQUET_NAME} does not belong to {JSON_NAME}")
    return run


def check_target(path: Path) -> None:
    """Raise DataError for the path of a device, a pipe or a folder: an output file is renamed to this path when it is
    complete, and would take the place of the device."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is no file; give the name of a file, or leave the option out")


def prepare_target(path: Path) -> None:
    """Create the folder of an output file. Raise DataError as `check_target`, and where the folder cannot be there."""
    check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path.parent} cannot be a folder: {error.strerror}; give another one") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file next to `path` that only its owner can read. It takes the place of `path` at the end of the block, and
    is removed if an error ends the block. Raises DataError as `check_target`, and where it cannot be created."""
    check_target(path)
    part = path.with_name(f".{path.name}.part")
    try:
        create_private(part)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _document(analysis: Analysis, digest: str) -> dict[str, Any]:
    run = analysis.run
    document: dict[str, Any] = {
        "format": _FORMAT, "format_version": _VERSION, "info": asdict(run.info),
        "primary": analysis.primary.name if analysis.primary else None,
        "metrics": [metric_as_dict(metric) for metric in run.metrics.values()],
        "summary": [asdict(summary) for summary in analysis.summaries],
        "models": [asdict(model) for model in analysis.models],
        "classification": [asdict(classification) for classification in analysis.classifications],
        "problems": [asdict(problem) for problem in analysis.problems],
        "insights": [asdict(insight) for insight in analysis.insights],
        "flips": [asdict(flips) for flips in analysis.flips], "parquet": {"file": PARQUET_NAME, "sha256": digest},
        "results": [result_as_dict(row) for row in run.results],
    }  # fmt: skip
    value: dict[str, Any] = finite(document)
    return value


def result_as_dict(row: Result) -> dict[str, Any]:
    """A row as JSON can hold it; `result_from_dict` reads it."""
    values = {f.name: getattr(row, f.name) for f in fields(Result)}
    result: dict[str, Any] = finite({**values, "scores": {name: sparse(score) for name, score in row.scores.items()}})
    return result


def result_from_dict(row: Mapping[str, Any]) -> Result:
    """The row that `result_as_dict` wrote."""
    scores = {name: score_of(name, score) for name, score in row["scores"].items()}
    return Result(**{**row, "contexts": tuple(row["contexts"]), "scores": scores})


def metric_as_dict(metric: Metric) -> dict[str, Any]:
    """A metric as JSON can hold it; `metric_from_dict` reads it."""
    values: dict[str, Any] = finite(asdict(metric))
    return values


def metric_from_dict(values: Mapping[str, Any]) -> Metric:
    """The metric that `metric_as_dict` wrote."""
    low, high = values["range"]
    return Metric(**{**values, "range": (float(low), float(high)), "threshold": _number(values["threshold"])})


_DEFAULTS: Mapping[str, Any] = {f.name: getattr(Score("x"), f.name) for f in fields(Score) if f.name != "name"}


def sparse(score: Score) -> dict[str, Any]:
    """The fields of a score that differ from their defaults: most fields of most scores do not."""
    values = {name: value for name, default in _DEFAULTS.items() if (value := getattr(score, name)) != default}
    return {**values, **({"evidence": [asdict(e) for e in score.evidence]} if score.evidence else {})}


def score_of(name: str, fields: Mapping[str, Any]) -> Score:
    """The score of the evaluator `name` from the fields that `sparse` returned."""
    evidence = tuple(Evidence(**item) for item in fields.get("evidence", ()))
    return Score(
        **{
            **fields,
            "name": name,
            "value": _number(fields.get("value")),
            "evidence": evidence,
            "failures": tuple(fields.get("failures", ())),
        }
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


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
                **of_row, "duration": row.duration, "row_cost": row.cost,
                **{column: getattr(s, column) for column in _SCORE_COLUMNS}, "evaluator": name,
                "explanation": _utf8(s.explanation), "failures": list(s.failures), "judge": s.model,
                "evidence": [{**asdict(e), "document_id": _utf8(e.document_id)} for e in s.evidence],
            }  # fmt: skip


def _utf8(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode()

"""A run as a folder: `results.parquet` to look into with other tools, `results.json` with everything."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ragtrace.errors import DataError
from ragtrace.records import Evidence, Score
from ragtrace.reporting.analysis import Analysis, analyse
from ragtrace.reporting.parquet import write_parquet
from ragtrace.reporting.results import Info, Metric, Result, Run

JSON_NAME, PARQUET_NAME = "results.json", "results.parquet"
_FORMAT = "ragtrace-run"
_VERSION = 1


def write_run(run: Run, folder: str | os.PathLike[str], analysis: Analysis | None = None) -> None:
    """Write a run into a folder, which is made where it is missing; a run that lies there is replaced.

    Each file is written under another name and renamed when it is whole; the JSON file comes last and holds the other
    one's digest, so that a folder half written is recognised as one. Without `analysis` the run is analysed first.
    Raises MissingExtraError without pyarrow, and OSError as the disk does.
    """
    analysis = analysis or analyse(run)
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    replace_file(where / PARQUET_NAME, lambda path: write_parquet(run, path))
    digest = _digest(where / PARQUET_NAME)
    # A lone surrogate has no UTF-8; what replaces it happens to be JSON's own escape for it.
    text = json.dumps(_document(analysis, digest), ensure_ascii=False, allow_nan=False, indent=1)
    replace_file(where / JSON_NAME, lambda path: path.write_bytes(text.encode("utf-8", "backslashreplace")))


def read_run(folder: str | os.PathLike[str]) -> Run:
    """The run that lies in a folder. Needs no package. Raises DataError if it is no run, half written or altered."""
    where = Path(folder)
    path = where / JSON_NAME
    if not path.is_file():
        left = (where / PARQUET_NAME).exists() or list(where.glob(".*.part")) if where.is_dir() else False
        why = "its writing was not finished" if left else f"there is no {JSON_NAME}"
        raise DataError(f"{where} is not a run: {why}")
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise DataError(f"{path} was not written by ragtrace")
        if document.get("format_version") != _VERSION:
            raise DataError(
                f"{path} has format version {document.get('format_version')}, this ragtrace reads {_VERSION}"
            )
        run = _run(document)
        wanted = document["parquet"]["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not (where / PARQUET_NAME).is_file() or _digest(where / PARQUET_NAME) != wanted:
        raise DataError(f"{where} is half written or altered: {PARQUET_NAME} does not belong to {JSON_NAME}")
    return run


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let a file be written under another name beside `path`, and rename it when it is whole."""
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _document(analysis: Analysis, digest: str) -> dict[str, Any]:
    run = analysis.run
    document: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "info": asdict(run.info),
        "primary": analysis.primary.name if analysis.primary else None,
        "metrics": [asdict(metric) for metric in run.metrics.values()],
        "summary": [asdict(summary) for summary in analysis.summaries],
        "models": [asdict(model) for model in analysis.models],
        "classification": [asdict(found) for found in analysis.classifications],
        "problems": [asdict(problem) for problem in analysis.problems],
        "insights": [asdict(insight) for insight in analysis.insights],
        "flips": [asdict(flips) for flips in analysis.flips],
        "parquet": {"file": PARQUET_NAME, "sha256": digest},
        "results": [_row(row) for row in run.results],
    }
    found: dict[str, Any] = _plain(document)
    return found


def _row(row: Result) -> dict[str, Any]:
    plain = {f.name: getattr(row, f.name) for f in fields(Result)}
    return {**plain, "scores": {name: sparse(score) for name, score in row.scores.items()}}


_DEFAULTS: Mapping[str, Any] = {f.name: getattr(Score("x"), f.name) for f in fields(Score) if f.name != "name"}


def sparse(score: Score) -> dict[str, Any]:
    """A score's fields but those that have their default: most of them do, in most of many scores."""
    kept = {name: value for name, default in _DEFAULTS.items() if (value := getattr(score, name)) != default}
    return {**kept, **({"evidence": [asdict(e) for e in score.evidence]} if score.evidence else {})}


def _plain(value: Any) -> Any:
    """JSON has no infinite numbers; `float` reads their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _run(document: Mapping[str, Any]) -> Run:
    metrics = [
        Metric(
            **{
                **given,
                "range": (float(given["range"][0]), float(given["range"][1])),
                "threshold": _number(given["threshold"]),
            }
        )
        for given in document["metrics"]
    ]
    info = Info(**{**document["info"], "unusable": tuple(document["info"]["unusable"])})
    results = tuple(
        Result(
            **{
                **given,
                "contexts": tuple(given["contexts"]),
                "scores": {name: score_of(name, score) for name, score in given["scores"].items()},
            }
        )
        for given in document["results"]
    )
    return Run(results, {metric.name: metric for metric in metrics}, info)


def score_of(name: str, given: Mapping[str, Any]) -> Score:
    evidence = tuple(Evidence(**item) for item in given.get("evidence", ()))
    return Score(
        **{
            **given,
            "name": name,
            "value": _number(given.get("value")),
            "evidence": evidence,
            "failures": tuple(given.get("failures", ())),
        }
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)

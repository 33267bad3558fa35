"""Reviewed logs as a data set, and labels from elsewhere into the store.

A row has what `ragtrace eval` reads (`id`, `query`, `contexts`, `answer`, `reference`, `model`, `duration`) and what
people said: `verdicts` by evaluator, `labels` of each reviewer, `weight` (requests that the row stands for, see
`weighing`; null where that is not known), `consent`, `license`. A corrected answer is the row's `reference`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from ragtrace.chatlogs.records import StoredTrace
from ragtrace.chatlogs.schema import reviews, traces, verdicts
from ragtrace.errors import DataError, MissingExtraError
from ragtrace.review.weights import load_verdicts

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_YES = frozenset({"true", "yes", "granted", "given", "1", "y"})


@dataclass(frozen=True, slots=True)
class Options:
    """What goes out, and under what terms."""

    license: str = ""
    """An SPDX identifier, e.g. `CC-BY-4.0`; in every row and on the card."""
    consent: str = ""
    """On what ground rows go out that say nothing of consent, e.g. `terms of service, 2026-01`."""
    require_consent: bool = False
    """Leave out rows whose own trace has no consent."""
    redact: Callable[[str], str] | None = None
    """Applied to every text."""
    since: float | None = None
    """Of the review, inclusive."""
    until: float | None = None
    """Exclusive."""
    title: str = "Reviewed chat logs"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What became of the reviewed logs."""

    rows: int
    refused: int
    """Left out: their consent was refused or withdrawn."""
    without: int
    """Left out by `require_consent`."""
    path: Path


def consent_of(attributes: Mapping[str, object]) -> bool | None:
    """What a trace says of consent: `consent` among its attributes, or in its `metadata` or `tags`; None where it says
    nothing. True, yes, granted and false, no, refused, withdrawn are understood; any other word is no consent."""
    for place in (attributes, attributes.get("metadata"), attributes.get("tags")):
        if isinstance(place, Mapping) and place.get("consent") is not None:
            return str(place["consent"]).strip().lower() in _YES
        if isinstance(place, (list, tuple)):
            words = [str(tag).strip().lower().replace("=", ":") for tag in place]
            said = [word.removeprefix("consent:") for word in words if word.startswith("consent:")]
            if said:
                return said[-1] in _YES
    return None


def export(store: Store, path: str | os.PathLike[str], options: Options | None = None) -> ExportResult:
    """Write the reviewed logs: `.jsonl` (or `.jsonl.gz`), `.parquet`, or else a folder in the layout of Hugging Face,
    with a card. What is there under that name is replaced once all is written.

    Raises DataError if it cannot be written, MissingExtraError for Parquet without pyarrow, StoreError as the store
    does.
    """
    options, path = options or Options(), Path(path)
    counts: Counter[str] = Counter()
    rows = _rows(store, options, counts)
    try:
        folder = Path(tempfile.mkdtemp(dir=path.parent or ".", prefix=f".{path.name}."))
        try:
            made = folder / "made"
            _write(made, path.name, rows, options, counts)
            if path.is_dir():
                path.rename(folder / "old")
            made.replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    return ExportResult(counts["rows"], counts["refused"], counts["without"], path)


def _write(made: Path, name: str, rows: Iterator[dict[str, Any]], options: Options, counts: Counter[str]) -> None:
    if name.endswith((".jsonl", ".json", ".jsonl.gz", ".json.gz")):
        _lines(made, rows, packed=name.endswith(".gz"))
    elif name.endswith(".parquet"):
        _parquet(made, rows)
    else:
        (made / "data").mkdir(parents=True)
        _parquet(made / "data" / "train-00000-of-00001.parquet", rows)
        (made / "README.md").write_text(card(options, counts), encoding="utf-8")


def _rows(store: Store, options: Options, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    weights = {row.trace: row.weight for row in load_verdicts(store) if row.weight > 0}
    seen: set[str] = set()
    for trace in _reviewed(store, options):
        stored = store.get(trace)
        if stored is None:  # deleted since
            continue
        consent = consent_of({**stored.trace.attributes, "tags": stored.trace.facts.tags})
        if consent is False:
            counts["refused"] += 1
        elif consent is None and options.require_consent:
            counts["without"] += 1
        else:
            row = _row(store, stored, options, consent, weights.get(trace))
            if row["id"] in seen:  # another span of the same trace
                row["id"] += f"-{stored.trace.span_id:016x}"
            seen.add(row["id"])
            counts["rows"] += 1
            yield row


def _reviewed(store: Store, options: Options) -> list[int]:
    query = select(reviews.c.trace).distinct().order_by(reviews.c.trace)
    if options.since is not None:
        query = query.where(reviews.c.created >= options.since)
    if options.until is not None:
        query = query.where(reviews.c.created < options.until)
    with store.reading() as connection:
        return list(connection.scalars(query))


def _row(
    store: Store, stored: StoredTrace, options: Options, consent: bool | None, weight: float | None
) -> dict[str, Any]:
    redact = options.redact or (lambda text: text)

    def clean(text: str) -> str:
        return redact(text).encode("utf-8", "replace").decode()

    trace = stored.trace
    labels, corrected = _said(store, stored.id)
    reference = corrected or trace.reference
    return {
        "id": f"{trace.trace_id:032x}",
        "query": clean(trace.query),
        "contexts": [
            {"id": clean(d.id), "content": clean(d.content), "score": d.score} for d in trace.documents
        ],
        "answer": clean(trace.answer),
        "reference": None if reference is None else clean(reference),
        "corrected": corrected is not None,
        "model": trace.facts.model,
        "duration": trace.duration,
        "verdicts": [{"evaluator": name, "label": label} for name, label in sorted(_majority(labels).items())],
        "labels": [{**label, "comment": clean(label["comment"]) if label["comment"] else None} for label in labels],
        "scores": [
            {"evaluator": s.name, "version": s.version, "value": s.value, "label": s.label}
            for s in stored.evaluation.scores
            if s.error is None
        ],
        "weight": weight,
        "thumbs": stored.thumbs,
        "started": trace.started,
        "consent": "yes" if consent else options.consent or None,
        "license": options.license or None,
    }  # fmt: skip


def _said(store: Store, trace: int) -> tuple[list[dict[str, Any]], str | None]:
    """Each reviewer's verdicts, under names that are none of people, and the newest corrected answer."""
    query = (
        select(reviews, verdicts.c.evaluator, verdicts.c.label, traces.c.trace_id)
        .join(traces, traces.c.id == reviews.c.trace)
        .outerjoin(verdicts, verdicts.c.review == reviews.c.id)
        .where(reviews.c.trace == trace)
        .order_by(reviews.c.created, reviews.c.id, verdicts.c.evaluator)
    )
    labels, corrected = [], None
    with store.reading() as connection:
        for row in connection.execute(query).mappings():
            texts = store.unseal(row["trace_id"], row, ("comment", "corrected"))
            corrected = texts["corrected"] or corrected
            if row["evaluator"] is not None:
                who = f"reviewer-{row['user']}" if row["user"] is not None else row["source"]
                own = {"reviewer": who, "evaluator": row["evaluator"], "label": row["label"]}
                labels.append({**own, "comment": texts["comment"]})
    return labels, corrected


def _majority(labels: list[dict[str, Any]]) -> dict[str, str]:
    """What most said, without `unsure`; nothing where people are divided."""
    found = {}
    for name in {label["evaluator"] for label in labels}:
        counted = Counter(
            label["label"] for label in labels if label["evaluator"] == name and label["label"] != "unsure"
        )
        first = counted.most_common(2)
        if first and (len(first) == 1 or first[0][1] > first[1][1]):
            found[name] = first[0][0]
    return found


# --- files ------------------------------------------------------------------------------------------------------------


def _lines(path: Path, rows: Iterator[dict[str, Any]], *, packed: bool) -> None:
    with gzip.open(path, "wb") if packed else path.open("wb") as file:
        for row in rows:
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def _parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "eval", "A data set in Parquet") from error
    schema = _schema(pyarrow)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        group: list[dict[str, Any]] = []
        for row in rows:
            group.append(row)
            if len(group) == 1_000:
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                group = []
        writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def _schema(pa: Any) -> Any:
    text, number = pa.string(), pa.float64()
    label = {"evaluator": text, "label": text}
    columns = {
        "id": text, "query": text,
        "contexts": pa.list_(pa.struct(list({"id": text, "content": text, "score": number}.items()))),
        "answer": text, "reference": text, "corrected": pa.bool_(), "model": text, "duration": number,
        "verdicts": pa.list_(pa.struct(list(label.items()))),
        "labels": pa.list_(pa.struct(list({"reviewer": text, **label, "comment": text}.items()))),
        "scores": pa.list_(
            pa.struct(list({"evaluator": text, "version": text, "value": number, "label": text}.items()))
        ),
        "weight": number, "thumbs": pa.int8(), "started": number, "consent": text, "license": text,
    }  # fmt: skip
    return pa.schema(list(columns.items()))


def card(options: Options, counts: Mapping[str, int]) -> str:
    """The README.md of a data set, as Hugging Face reads it."""
    size = next(
        (f"n<{top}" for top in ("1K",) if counts["rows"] < 1_000), "1K<n<10K" if counts["rows"] < 10_000 else "n>10K"
    )
    head = [
        "---",
        f"license: {options.license.lower() or 'unknown'}",
        "task_categories:", "- question-answering",
        "tags:", "- rag", "- ragtrace", "- human-feedback",
        "size_categories:", f"- {size}",
        "configs:", "- config_name: default", "  data_files:", "  - split: train", "    path: data/train-*.parquet",
        "---",
    ]  # fmt: skip
    ground = options.consent or "none was given for rows whose trace says nothing of consent"
    body = f"""
# {options.title}

{counts["rows"]} logs of a retrieval-augmented assistant, reviewed by people and exported by ragtrace.
License: {options.license or "not given"}. Consent: as each row says; else: {ground}.
{counts["refused"]} logs were left out because consent was refused, {counts["without"]} because none was given.

| column | what |
|---|---|
| `query`, `contexts`, `answer` | the request: question, retrieved chunks in rank order, answer |
| `reference` | the answer as it should be; `corrected` says whether a reviewer wrote it |
| `verdicts` | what most reviewers said, by evaluator; `labels` has each of them |
| `scores` | what the evaluators said |
| `weight` | requests of the whole traffic that the row stands for; null where it was picked by a rule |
| `consent`, `license` | the terms of the row |

`ragtrace eval` reads this folder.
"""
    return "\n".join(head) + "\n" + body


__all__ = ["ExportResult", "Options", "card", "consent_of", "export"]

"""Exports the reviewed logs as a data set.

A row has the fields that `ragtrace eval` reads (`id`, `query`, `contexts`, `answer`, `reference`, `model`, `duration`),
and those of the reviews: `verdicts` by evaluator, `labels`, `answers` (to questions of one's own) and `evidence` (the
parts of the answer that are wrong) of each reviewer, `weight` (requests that the row represents
for, see `ragtrace.console.review.weights`; null if unknown), `consent`, `license`. A corrected answer is the row's
`reference`."""

import gzip
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import select

from ragtrace.base.private_file import create_private
from ragtrace.console.chatlogs.schema import reviews, trace_is, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import StoredTrace
from ragtrace.console.review.verdicts import read_reviews
from ragtrace.console.review.weights import load_verdicts
from ragtrace.errors import DataError, package
from ragtrace.records import Evidence
from ragtrace.text.redaction import mask_pii, mask_pii_at

_YES = frozenset({"true", "yes", "granted", "given", "1", "y"})


@dataclass(frozen=True, slots=True)
class Options:
    """Which rows are exported, and under which terms."""

    license: str = ""
    """An SPDX identifier, e.g. `CC-BY-4.0`, for every row and the card."""
    consent: str = ""
    """The ground on which rows without a consent of their own are exported, e.g. `terms of service, 2026-01`."""
    require_consent: bool = False
    """Leave out rows whose trace has no consent."""
    redact: Callable[[str], str] | None = None
    """Applied to every text."""
    since: float | None = None
    """Earliest time of review (Unix seconds), inclusive."""
    until: float | None = None
    """Latest time of review, exclusive."""
    traces: tuple[str, ...] = ()
    """Only these logs, 32 hexadecimal digits each, reviewed or not; empty for all that were reviewed."""
    title: str = "Reviewed chat logs"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The counts of an export."""

    rows: int
    refused: int
    """Logs left out because consent was refused or withdrawn."""
    without: int
    """Logs left out by `require_consent`."""
    path: Path


def consent_of(attributes: Mapping[str, object]) -> bool | None:
    """Reads the consent of a trace: `consent` among its attributes, or in their `metadata` or `tags`. None if there is
    no entry. The words true, yes, granted, given, 1 and y are consent; any other word is refusal."""
    for place in (attributes, attributes.get("metadata"), attributes.get("tags")):
        if isinstance(place, Mapping) and place.get("consent") is not None:
            return str(place["consent"]).strip().lower() in _YES
        if isinstance(place, (list, tuple)):
            words = [str(tag).strip().lower().replace("=", ":") for tag in place]
            answers = [word.removeprefix("consent:").strip() for word in words if word.startswith("consent:")]
            if answers:
                return answers[-1] in _YES
    return None


def export(store: Store, path: str | os.PathLike[str], options: Options | None = None) -> ExportResult:
    """Writes the reviewed logs to a `.jsonl`, `.jsonl.gz` or `.parquet` file; any other path becomes a folder in
    Hugging Face's layout, with a card. An existing file or folder is replaced after everything is written.

    Raises DataError if the file cannot be written, MissingExtraError for Parquet without pyarrow, StoreError as the
    store does."""
    options, path = options or Options(), Path(path)
    counts: Counter[str] = Counter()
    rows = reviewed_rows(store, options, counts)
    try:
        folder = Path(tempfile.mkdtemp(dir=path.parent or ".", prefix=f".{path.name}."))
        try:
            new = folder / "new"
            _write(new, path.name, rows, options, counts)
            if path.is_dir():
                path.rename(folder / "old")
            new.replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    return ExportResult(counts["rows"], counts["refused"], counts["without"], path)


def _write(new: Path, name: str, rows: Iterator[dict[str, Any]], options: Options, counts: Counter[str]) -> None:
    if name.endswith((".jsonl", ".json", ".jsonl.gz", ".json.gz")):
        _write_lines(new, rows, is_gzip=name.endswith(".gz"))
    elif name.endswith(".parquet"):
        _write_parquet(new, rows)
    elif name.endswith((".csv", ".tsv", ".xlsx", ".txt", ".gz", ".zip")):
        raise DataError(f"{name} has a form that is not written; give a .jsonl or .parquet file, or a folder")
    else:
        (new / "data").mkdir(parents=True)
        _write_parquet(new / "data" / "train-00000-of-00001.parquet", rows)
        (new / "README.md").write_text(card(options, counts), encoding="utf-8")


def reviewed_rows(store: Store, options: Options, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """The rows of the reviewed or chosen logs, in the order in which they were stored. `counts` gets the number of
    `rows`, and of logs that are left out: `refused` consent, and `without` consent where it is required."""
    weights: dict[int, float] = {}  # the least: an evaluator with a share of its own has more
    for verdict in (each for each in load_verdicts(store) if each.weight > 0):
        weights[verdict.trace] = min(verdict.weight, weights.get(verdict.trace, verdict.weight))
    ids: set[str] = set()
    for trace in _traces_with_review(store, options):
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
            if row["id"] in ids:  # another span of the same trace
                row["id"] += f"-{stored.trace.span_id:016x}"
            ids.add(row["id"])
            counts["rows"] += 1
            yield row


def _traces_with_review(store: Store, options: Options) -> list[int]:
    query = select(reviews.c.trace).distinct().order_by(reviews.c.trace)
    if options.traces:
        query = select(traces.c.id).where(trace_is(*options.traces)).order_by(traces.c.id)
    if options.since is not None:
        query = query.where(reviews.c.created >= options.since)
    if options.until is not None:
        query = query.where(reviews.c.created < options.until)
    return [trace for (trace,) in store.rows(query)]


def _row(
    store: Store, stored: StoredTrace, options: Options, consent: bool | None, weight: float | None
) -> dict[str, Any]:
    redact = options.redact or (lambda text: text)

    def clean(text: str) -> str:
        return redact(text).encode("utf-8", "replace").decode()

    trace = stored.trace
    labels: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    marks: list[tuple[str, Evidence]] = []
    corrected = None
    for user, review in read_reviews(store, stored):
        name = review.source if user is None else f"reviewer-{user}"
        comment = clean(review.comment) if review.comment else None
        for evaluator, label in sorted((one.evaluator, one.label) for one in review.verdicts):
            labels.append({"reviewer": name, "evaluator": evaluator, "label": label, "comment": comment})
        for question, value in sorted(review.answers.items()):
            text, number = (clean(value), None) if isinstance(value, str) else (None, value)
            answers.append({"reviewer": name, "question": question, "text": text, "number": number})
        marks += [(name, one) for one in review.evidence]
        corrected = review.corrected or corrected
    reference = corrected or trace.reference
    return {
        "id": f"{trace.trace_id:032x}",
        "query": clean(trace.query),
        "contexts": [
            {"id": clean(d.id), "content": clean(d.content), "score": d.score, "source": d.source}
            for d in trace.documents
        ],
        "answer": clean(trace.answer),
        "reference": None if reference is None else clean(reference),
        "corrected": corrected is not None,
        "model": trace.facts.model,
        "duration": trace.duration,
        "verdicts": [{"evaluator": name, "label": label} for name, label in sorted(_majority(labels).items())],
        "labels": labels,
        "answers": answers,
        "evidence": _evidence(marks, trace.answer, redact),
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


def _evidence(marks: Sequence[tuple[str, Evidence]], answer: str, redact: Callable[[str], str]) -> list[dict[str, Any]]:
    """The marks as parts of the answer that is exported."""
    redacted, moved = redact(answer), {}
    if redact is mask_pii:
        moved = mask_pii_at(answer, [at for _, one in marks for at in (one.start, one.end)])[1]
    rows = []
    for reviewer, one in marks:
        start, end = moved.get(one.start, one.start), moved.get(one.end, one.end)
        if redacted != answer and redact is not mask_pii:
            # The function does not tell what it moved: a mark keeps its place only if its words are in the result once.
            words = answer[one.start : one.end]
            start = redacted.find(words) if redacted.count(words) == 1 else -1
            end = start + len(words)
        if 0 <= start < end <= len(redacted):
            text = redacted[start:end].encode("utf-8", "replace").decode()
            rows.append({"reviewer": reviewer, "start": start, "end": end, "text": text, "verdict": one.verdict})
    return rows


def _majority(labels: list[dict[str, Any]]) -> dict[str, str]:
    """The most frequent label by evaluator, without `unsure`; no entry for a tie."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label in labels:
        if label["label"] != "unsure":
            counts[label["evaluator"]][label["label"]] += 1
    ranked = {name: count.most_common(2) for name, count in counts.items()}
    return {name: top[0][0] for name, top in ranked.items() if len(top) == 1 or top[0][1] > top[1][1]}


# --- files ------------------------------------------------------------------------------------------------------------


def _write_lines(path: Path, rows: Iterator[dict[str, Any]], *, is_gzip: bool) -> None:
    create_private(path)
    with gzip.open(path, "wb") if is_gzip else path.open("wb") as file:
        for row in rows:
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    arrow = package("pyarrow", "eval", "A data set in Parquet")
    parquet = package("pyarrow.parquet", "eval", "A data set in Parquet")
    schema = _schema(arrow)
    create_private(path)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(rows, 1_000)):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _schema(pa: Any) -> Any:
    text, number, place = pa.string(), pa.float64(), pa.int64()

    def rows(**columns: Any) -> Any:
        return pa.list_(pa.struct(list(columns.items())))

    columns = {
        "id": text, "query": text,
        "contexts": rows(id=text, content=text, score=number, source=text),
        "answer": text, "reference": text, "corrected": pa.bool_(), "model": text, "duration": number,
        "verdicts": rows(evaluator=text, label=text),
        "labels": rows(reviewer=text, evaluator=text, label=text, comment=text),
        "answers": rows(reviewer=text, question=text, text=text, number=number),
        "evidence": rows(reviewer=text, start=place, end=place, text=text, verdict=text),
        "scores": rows(evaluator=text, version=text, value=number, label=text),
        "weight": number, "thumbs": pa.int8(), "started": number, "consent": text, "license": text,
    }  # fmt: skip
    return pa.schema(list(columns.items()))


def card(options: Options, counts: Mapping[str, int]) -> str:
    """Returns the README.md of a data set in Hugging Face's format."""
    rows = counts["rows"]
    size = "n<1K" if rows < 1_000 else "1K<n<10K" if rows < 10_000 else "n>10K"
    head = [
        "---",
        f"license: {options.license.lower() or 'unknown'}",
        "task_categories:", "- question-answering",
        "tags:", "- rag", "- ragtrace", "- human-feedback",
        "size_categories:", f"- {size}",
        "configs:", "- config_name: default", "  data_files:", "  - split: train", "    path: data/train-*.parquet",
        "---",
    ]  # fmt: skip
    ground = options.consent or "no ground is stated for rows without a consent of their own"
    body = f"""
# {options.title}

{rows} logs of a retrieval-augmented assistant, reviewed by people and exported by ragtrace.
License: {options.license or "not stated"}. Consent: see each row; otherwise: {ground}.
{counts["refused"]} logs were left out because consent was refused, {counts["without"]} because none was given.

| column | meaning |
|---|---|
| `query`, `contexts`, `answer` | the request: question, chunks in rank order and results of tools (`source`), answer |
| `reference` | the expected answer; `corrected` is true if a reviewer wrote it |
| `verdicts` | the most frequent label of the reviewers, by evaluator; `labels` holds each one |
| `answers` | the answers to questions of one's own, a text or a number each |
| `evidence` | the parts of the answer that a reviewer marked as wrong: characters `start` to `end`, end exclusive |
| `scores` | the scores of the evaluators |
| `weight` | requests of the whole traffic that the row stands for; null if a rule picked it |
| `consent`, `license` | the terms of the row |

`ragtrace eval` reads this folder.
"""
    return "\n".join(head) + "\n" + body

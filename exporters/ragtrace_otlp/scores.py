"""An evaluation as span attributes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Score
from ragtrace.tracing.content import sendable

_EVIDENCE = 40
_KINDS = {"judge": "LLM", "human": "HUMAN"}


@dataclass(frozen=True, slots=True)
class ScoreFormat:
    """How scores stand on a span."""

    prefix: str = semconv.SCORE_PREFIX
    openinference: bool = True
    explanations: bool = False
    """Explanations may quote the answer; they go out only where content may."""


def score_attributes(evaluation: Evaluation, form: ScoreFormat) -> dict[str, Any]:
    """The attributes that an evaluation adds to its request's root span."""
    attributes: dict[str, Any] = {semconv.STATUS: evaluation.status}
    if evaluation.cause is not None:
        attributes[semconv.FAILURE_CAUSE] = evaluation.cause
    n = 0
    for score in evaluation.scores:
        if score.label == NOT_APPLICABLE:
            continue
        attributes.update(_own(score, form))
        if form.openinference and score.error is None:
            attributes.update(_openinference(score, form, n))
            n += 1
    evidence = _evidence(evaluation)
    if evidence:
        attributes[semconv.EVIDENCE] = json.dumps(evidence)
    return attributes


def _own(score: Score, form: ScoreFormat) -> dict[str, Any]:
    base = f"{form.prefix}.{score.name}"
    attributes: dict[str, Any] = {}
    if score.error is not None:
        attributes[f"{base}.label"] = "error"
        return attributes
    if score.value is not None:
        attributes[f"{base}.score"] = float(score.value)
    if score.label is not None:
        attributes[f"{base}.label"] = score.label
    if form.explanations and score.explanation:
        attributes[f"{base}.explanation"] = sendable(score.explanation, 1_000)
    return attributes


def _openinference(score: Score, form: ScoreFormat, n: int) -> dict[str, Any]:
    base = f"{semconv.OI_EVALUATIONS}.{n}.evaluation"
    attributes: dict[str, Any] = {
        f"{base}.name": score.name,
        f"{base}.annotator_kind": _KINDS.get(score.method, "CODE"),
        f"{base}.identifier": f"{score.name}@{score.version}",
    }
    if score.value is not None:
        attributes[f"{base}.score"] = float(score.value)
    if score.label is not None:
        attributes[f"{base}.label"] = score.label
    if form.explanations and score.explanation:
        attributes[f"{base}.explanation"] = sendable(score.explanation, 1_000)
    if score.sampling_probability != 1.0:
        attributes[f"{base}.metadata"] = json.dumps({"sampling_probability": score.sampling_probability})
    return attributes


def _evidence(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Offsets and ids only: what was said stays in the content attributes, or in the process."""
    items: list[dict[str, Any]] = []
    for score in evaluation.scores:
        for e in score.evidence[: _EVIDENCE - len(items)]:
            item: dict[str, Any] = {"evaluator": score.name, "start": e.start, "end": e.end, "verdict": e.verdict}
            if e.probability is not None:
                item["probability"] = round(e.probability, 4)
            if e.document_id is not None:
                item["document"] = {
                    "id": sendable(e.document_id, 256),
                    "rank": e.document_rank,
                    "start": e.document_start,
                    "end": e.document_end,
                }
            items.append(item)
    return items

"""An evaluation as span attributes."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Score
from ragtrace.text.sanitizer import Sanitizer

_EVIDENCE = 40


@dataclass(frozen=True, slots=True)
class ScoreFormat:
    """How scores are written on spans and events."""

    openinference: bool = False
    explanations: bool = False
    """Explanations may quote the answer, so they leave only where content may leave."""
    sanitizer: Sanitizer = field(default_factory=Sanitizer)
    """Prepares every text that leaves the process."""

    def explanation(self, score: Score) -> str | None:
        """The score's explanation as it leaves the process; None where it stays."""
        return self.sanitizer.text(score.explanation, 1_000) if self.explanations and score.explanation else None

    def label(self, score: Score) -> str | None:
        """The score's label; an evaluator of the application's may put anything there."""
        return None if score.label is None else self.sanitizer.text(score.label, 256)


def score_attributes(evaluation: Evaluation, form: ScoreFormat) -> dict[str, Any]:
    """The attributes that an evaluation adds to its request's root span."""
    attributes: dict[str, Any] = {semconv.STATUS: evaluation.status}
    if evaluation.cause is not None:
        attributes[semconv.FAILURE_CAUSE] = evaluation.cause
    n = 0
    for score in evaluation.scores:
        if score.label == NOT_APPLICABLE:
            continue
        base = f"{semconv.SCORE_PREFIX}.{score.name}"
        attributes.update(_result(score, form, base) if score.error is None else {f"{base}.label": "error"})
        if score.sampling_probability != evaluation.trace.sampling_probability:
            attributes[f"{base}.sampling_probability"] = score.sampling_probability
        if form.openinference and score.error is None:
            attributes.update(_openinference(score, form, n))
            n += 1
    evidence = _evidence(evaluation, form.sanitizer)
    if evidence:
        attributes[semconv.EVIDENCE] = json.dumps(evidence)
    return attributes


def without_content(evaluation: Evaluation) -> Evaluation:
    """The evaluation without the request's texts, to wait for its span: scores are small, texts are not."""
    return replace(evaluation, trace=replace(evaluation.trace, query="", documents=(), answer="", reference=None))


def _openinference(score: Score, form: ScoreFormat, n: int) -> dict[str, Any]:
    base = f"{semconv.OI_EVALUATIONS}.{n}.evaluation"
    attributes: dict[str, Any] = {
        f"{base}.name": score.name, f"{base}.annotator_kind": semconv.ANNOTATOR_KINDS.get(score.method, "CODE"),
        f"{base}.identifier": f"{score.name}@{score.version}", **_result(score, form, base),
    }  # fmt: skip
    if score.sampling_probability != 1.0:
        attributes[f"{base}.metadata"] = json.dumps({"sampling_probability": score.sampling_probability})
    return attributes


def _result(score: Score, form: ScoreFormat, base: str) -> dict[str, Any]:
    """Value, label and explanation, those that the score has."""
    value = None if score.value is None else float(score.value)
    parts = {"score": value, "label": form.label(score), "explanation": form.explanation(score)}
    return {f"{base}.{name}": part for name, part in parts.items() if part is not None}


def _evidence(evaluation: Evaluation, sanitizer: Sanitizer) -> list[dict[str, Any]]:
    """Offsets and ids only: the texts are in the content attributes, or stay in the process."""
    items: list[dict[str, Any]] = []
    for score in evaluation.scores:
        for e in score.evidence[: _EVIDENCE - len(items)]:
            item: dict[str, Any] = {"evaluator": score.name, "start": e.start, "end": e.end}
            item["verdict"] = sanitizer.text(e.verdict, 256)  # an application's evaluator may say anything
            if e.probability is not None:
                item["probability"] = round(e.probability, 4)
            if e.document_id is not None:
                item["document"] = {
                    "id": sanitizer.text(e.document_id, 256), "rank": e.document_rank, "start": e.document_start,
                    "end": e.document_end,
                }  # fmt: skip
            items.append(item)
    return items

"""A score, or a person's verdict, in the form in which it goes to the tools that show traces."""

import json
import math
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Score
from ragtrace.text.sanitizer import REDACTION_FAILED, Sanitizer

OWN = "ragtrace"
"""Value of the metadata `source`: what ragtrace has written is not read back as a label of a person."""
Key = tuple[str, str, str, str]
"""Trace id, span id, evaluator and version: a second annotation with the same key replaces the first."""
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://pypi.org/project/ragtrace-otel/")
_NAME, _EXPLANATION = 100, 1_000
"""Characters of a name or label, and of an explanation."""
_WORDS = 1_000
"""Names and labels that are remembered with what is sent for them."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one evaluator, or one person, says of one request. All texts went through the sanitizer."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits of the request's root span; empty where another process has answered the request."""
    name: str
    """The evaluator."""
    version: str
    """The evaluator's version; of a person's verdict `reviewer-` and the person's number."""
    kind: str
    """`CODE`, `LLM` or `HUMAN`."""
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0
    """Unix time in seconds."""

    @property
    def key(self) -> Key:
        """What identifies it."""
        return self.trace_id, self.span_id, self.name, self.version

    @property
    def id(self) -> uuid.UUID:
        """The same for the same key, in every process."""
        return uuid.uuid5(_NAMESPACE, "/".join(self.key))

    @property
    def identifier(self) -> str:
        """Evaluator and version: who says it."""
        return f"{self.name}@{self.version}"

    @property
    def moment(self) -> str:
        """The time at which it was made: ISO 8601, UTC, with milliseconds."""
        return datetime.fromtimestamp(self.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 1_000 + 4 * len(self.explanation or "")


class AnnotationForm:
    """How texts leave the process in annotations."""

    def __init__(self, sanitizer: Sanitizer | None = None, explanations: bool = False) -> None:
        """`sanitizer` prepares every text. Explanations may quote the answer: they leave with `explanations` alone."""
        text = (sanitizer or Sanitizer()).text
        self._text = text
        self._words: dict[str, str] = {}
        self._explanation = (lambda long: text(long, _EXPLANATION)) if explanations else None

    def word(self, word: str) -> str:
        """A name or a label as it leaves. It is remembered: there are few, and redaction takes long. A redaction that
        failed is not, because it works again with the next word."""
        prepared = self._words.get(word)
        if prepared is None:
            prepared = self._text(word, _NAME)
            if prepared != REDACTION_FAILED:
                if len(self._words) >= _WORDS:
                    self._words.clear()
                self._words[word] = prepared
        return prepared

    def explanation(self, text: str | None) -> str | None:
        """The explanation as it leaves; None where it stays."""
        return self._explanation(text) if text and self._explanation is not None else None


def from_evaluation(evaluation: Evaluation, form: AnnotationForm) -> Iterator[Annotation]:
    """The scores of an evaluation; those that failed or do not apply are left out."""
    trace = evaluation.trace
    for score in evaluation.scores:
        value = score.value if score.value is not None and math.isfinite(score.value) else None
        if score.error is not None or score.label == NOT_APPLICABLE or (value is None and score.label is None):
            continue
        yield Annotation(
            f"{trace.trace_id:032x}", f"{trace.span_id:016x}" if trace.span_id else "", form.word(score.name),
            form.word(score.version), semconv.ANNOTATOR_KINDS.get(score.method, "CODE"),
            None if value is None else float(value), None if score.label is None else form.word(score.label),
            form.explanation(score.explanation), _metadata(score, evaluation.cause, form), time.time(),
        )  # fmt: skip


def encode(annotations: Sequence[Annotation]) -> bytes:
    """Annotations as JSON, for a file; empty for none."""
    return json.dumps([asdict(one) for one in annotations]).encode() if annotations else b""


def decode(content: bytes) -> list[Annotation]:
    """The annotations that `encode` wrote."""
    return [Annotation(**fields) for fields in json.loads(content or b"[]")]


def _metadata(score: Score, cause: str | None, form: AnnotationForm) -> dict[str, Any]:
    metadata: dict[str, Any] = {"source": OWN, "version": form.word(score.version)}
    if score.sampling_probability != 1.0:
        metadata["sampling_probability"] = score.sampling_probability
    if score.model is not None:
        metadata["model"] = form.word(score.model)
    if cause is not None and score.cause == cause:
        metadata["failure_cause"] = cause
    return metadata


def from_verdict(  # noqa: PLR0917 the parts of a verdict
    trace_id: str,
    span_id: str,
    reviewer: int | None,
    evaluator: str,
    label: str,
    comment: str | None,
    form: AnnotationForm,
) -> Annotation:
    """A verdict that a person gave in the console. The person is a number, as no name leaves."""
    return Annotation(
        trace_id, span_id, form.word(evaluator), "reviewer" if reviewer is None else f"reviewer-{reviewer}", "HUMAN",
        {"pass": 1.0, "fail": 0.0}.get(label), form.word(label), form.explanation(comment), {"source": OWN},
        time.time(),
    )  # fmt: skip

"""Sums up a demo run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragtrace.base import terminal
from ragtrace.batch.reporting.formats import clip
from ragtrace.batch.table import RunFigures
from ragtrace.records import Evaluation, Evidence, Trace

if TYPE_CHECKING:
    from ragtrace.batch.demo.traffic import Labels
    from ragtrace.live.runtime import Runtime

_WORST = 3
_LABELLED = {
    "groundedness": ("supported", "unsupported"), "faithfulness": ("supported", "unsupported"),
    "answer_relevance": ("relevant", "irrelevant"), "refusal": ("answers", "refusals"),
}  # fmt: skip
"""The evaluators whose verdicts the labels are compared with: what good and bad answers are called."""


@dataclass(frozen=True, slots=True)
class UngroundedAnswer:
    """An answer with its least grounded sentence."""

    trace: Trace
    value: float
    evidence: Evidence
    cause: str | None

    @property
    def sentence(self) -> str:
        """The least grounded sentence."""
        return self.trace.answer[self.evidence.start : self.evidence.end]


@dataclass(slots=True)
class DemoBoard:
    """A sink that sums up evaluations. Thread-safe."""

    requests: int = 0
    """Number of requests so far."""
    failures: int = 0
    """Number of requests that ended in an error."""
    evaluated: int = 0
    figures: RunFigures = field(default_factory=lambda: RunFigures(()))
    causes: Counter[str] = field(default_factory=Counter)
    labels: Mapping[tuple[str, str], Labels] = field(default_factory=dict)
    """Labels of recorded answers, by question and answer."""
    verdicts: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)
    """Verdicts on labelled answers, by evaluator, whether the label is good, and whether the verdict is."""
    values: dict[tuple[str, bool], list[float]] = field(default_factory=dict)
    """Values of labelled answers, by evaluator and whether the label is good; higher is better."""
    _worst: dict[str, UngroundedAnswer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, evaluation: Evaluation) -> None:
        """Add one evaluation."""
        with self._lock:
            if evaluation.status == "dropped":
                return
            self.evaluated += 1
            if evaluation.cause:
                self.causes[evaluation.cause] += 1
            labels = self.labels.get((evaluation.trace.query, evaluation.trace.answer))
            self.figures.add({score.name: score for score in evaluation.scores})
            for score in evaluation.scores:
                good = _is_good(labels, score.name) if labels else None
                if good is not None and score.label in ("pass", "fail"):
                    self.verdicts[score.name, good, score.label == "pass"] += 1
                    if score.value is not None:
                        sign = -1 if score.name == "refusal" else 1
                        self.values.setdefault((score.name, good), []).append(sign * score.value)
                if score.name == "groundedness" and score.evidence and score.value is not None:
                    self._keep(evaluation, score.value, score.evidence)

    def _keep(self, evaluation: Evaluation, value: float, evidence: tuple[Evidence, ...]) -> None:
        least = min(evidence, key=lambda e: e.probability or 0.0)
        question = evaluation.trace.query
        previous = self._worst.get(question)
        if previous is None or value < previous.value:
            self._worst[question] = UngroundedAnswer(evaluation.trace, value, least, evaluation.cause)
        if len(self._worst) > _WORST:
            del self._worst[max(self._worst, key=lambda q: self._worst[q].value)]

    def worst(self) -> list[UngroundedAnswer]:
        """The least grounded answers, the worst first, at most one per question."""
        with self._lock:
            return sorted(self._worst.values(), key=lambda w: w.value)


def _is_good(labels: Labels, evaluator: str) -> bool | None:
    """Whether an answer with these labels should pass; None where they do not say."""
    if evaluator in ("groundedness", "faithfulness"):
        return labels.supported
    if evaluator == "answer_relevance":
        return labels.relevant
    return not labels.refusal if evaluator == "refusal" else None


def agreement_lines(board: DemoBoard) -> list[str]:
    """How often the verdicts agree with the labels, a line for each evaluator that has both."""
    lines = []
    for name, (good, bad) in _LABELLED.items():
        counts = {
            (label, verdict): board.verdicts[name, label, verdict]
            for label in (True, False)
            for verdict in (True, False)
        }
        total = sum(counts.values())
        if total:
            right = counts[True, True] + counts[False, False]
            lines.append(
                f"   {name:20} {right} of {total} ({right / total:.0%}): passed {counts[True, True]} of "
                f"{counts[True, True] + counts[True, False]} {good}, failed {counts[False, False]} of "
                f"{counts[False, False] + counts[False, True]} {bad}"
                + _ranking(board.values.get((name, True), []), board.values.get((name, False), []))
            )
    return ["", "verdicts that agree with the labels, which were made by reading the answers:", *lines] if lines else []


def _ranking(good: Sequence[float], bad: Sequence[float]) -> str:
    """The area under the ROC curve: how often a good answer has the higher value; ties count half."""
    if not good or not bad:
        return ""
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return f"; AUROC {wins / (len(good) * len(bad)):.2f}"


def summary(board: DemoBoard, runtime: Runtime, spans_to: str, sample_line: str | None) -> list[str]:
    """The summary of a run as lines of text."""
    stats = runtime.pipeline.stats()
    counts: Mapping[str, Any] = runtime.counts()
    complete = all(c.eligible == c.sampled_out + c.scored + c.failed + c.dropped for c in counts.values())
    lines = [
        "", f"requests {stats.received} = sampled out {stats.sampled_out} + evaluated {board.evaluated} "
        f"+ dropped {sum(stats.dropped.values())}",
        f"every evaluator accounts for its requests (eligible = sampled out + scored + failed + dropped): "
        f"{'yes' if complete else 'NO'}", "", *board.figures.lines(terminal.width()),
    ]  # fmt: skip
    lines += ["", "causes: " + ", ".join(f"{cause} {n}" for cause, n in board.causes.most_common()), ""]
    for i, worst in enumerate(board.worst(), 1):
        lines.append(f"least grounded {i}: {worst.value:.2f}  cause {worst.cause}  {clip(worst.trace.query, 70)}")
        lines.append(f"   “{clip(worst.sentence, 150)}”")
        if worst.evidence.document_id is not None:
            lines.append(f"   closest passage: {worst.evidence.document_id} (rank {worst.evidence.document_rank})")
    lines += ["", f"spans, with scores on their roots: {spans_to}"]
    if runtime.metrics_url:
        lines.append(f"metrics: {runtime.metrics_url}" + (f"   e.g. {sample_line}" if sample_line else ""))
    return lines

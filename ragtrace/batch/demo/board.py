"""Displays a demo run: a live table, and a summary at the end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragtrace.batch.reporting.formats import clip
from ragtrace.errors import MissingExtraError
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Evidence, Trace
from ragtrace.statistics.tally import ScoreTally

if TYPE_CHECKING:
    from ragtrace.batch.demo.traffic import Labels
    from ragtrace.live.runtime import Runtime

_WORST = 3
_LABELLED = {
    "groundedness": ("supported", "unsupported"),
    "faithfulness": ("supported", "unsupported"),
    "answer_relevance": ("relevant", "irrelevant"),
    "refusal": ("answers", "refusals"),
}
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
    """A sink that sums up evaluations for display. Thread-safe."""

    planned: int
    """Number of requests of the run."""
    requests: int = 0
    """Number of requests so far."""
    failures: int = 0
    """Number of requests that ended in an error."""
    evaluated: int = 0
    dropped: int = 0
    tallies: dict[str, ScoreTally] = field(default_factory=dict)
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
                self.dropped += 1
                return
            self.evaluated += 1
            if evaluation.cause:
                self.causes[evaluation.cause] += 1
            labels = self.labels.get((evaluation.trace.query, evaluation.trace.answer))
            for score in evaluation.scores:
                if score.label == NOT_APPLICABLE:
                    continue
                self.tallies.setdefault(score.name, ScoreTally()).add(score)
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

    def table(self) -> list[tuple[str, ScoreTally]]:
        """The tallies by name."""
        with self._lock:
            return sorted(self.tallies.items())


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


def _figures(tally: ScoreTally) -> tuple[int, int, str, float | None, str]:
    """Number of scores and of errors, mean as text, pass rate as number and as text; weighted by 1/p."""
    errors = tally.verdicts["error"]
    mean, passes = tally.values.mean(), tally.passes.rate()
    rate = passes.value if passes else None
    return (
        tally.evaluated - errors,
        errors,
        "-" if mean is None else f"{mean.value:.2f}",
        rate,
        "-" if rate is None else f"{rate:.0%}",
    )


def progress_line(board: DemoBoard) -> str:
    """The progress of the run in one line."""
    failed = f" · failed {board.failures}" if board.failures else ""
    done = f"evaluated {board.evaluated} · dropped {board.dropped}{failed}"
    return f"requests {board.requests}/{max(board.planned, board.requests)} · {done}"


def live_view(board: DemoBoard, url: str | None) -> Any:
    """The live table."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(expand=True, box=None, header_style="bold")
    table.add_column("evaluator")
    for title in ("scored", "mean", "pass", "errors"):
        table.add_column(title, justify="right")
    for name, tally in board.table():
        count, errors, mean, rate, passes = _figures(tally)
        style = "" if rate is None else "green" if rate >= 0.9 else "yellow" if rate >= 0.5 else "red"
        table.add_row(name, str(count), mean, Text(passes, style), str(errors or ""))
    parts: list[Any] = [ProgressBar(total=max(1, board.planned), completed=board.requests), table]
    worst = board.worst()
    if worst:
        parts.append(_panel(worst[0]))
    title = progress_line(board) + (f" · {url}" if url else "")
    return Panel(Group(*parts), title=title, title_align="left", subtitle="means and rates weighted by 1/p")


def draw(board: DemoBoard, path: str) -> None:
    """Write the current table as an SVG picture."""
    from io import StringIO

    try:
        from rich.console import Console
    except ModuleNotFoundError as error:
        raise MissingExtraError("rich", "eval", "--picture") from error

    console = Console(record=True, width=110, file=StringIO())
    console.print(live_view(board, None))
    console.save_svg(path, title="ragtrace demo")


def _panel(worst: UngroundedAnswer) -> Any:
    from rich.panel import Panel
    from rich.text import Text

    answer = Text(clip(worst.trace.answer[: worst.evidence.start][-160:], 160) + " ")
    answer.append(clip(worst.sentence, 240), style="bold red")
    answer.append(" " + clip(worst.trace.answer[worst.evidence.end :], 100))
    question = clip(worst.trace.query, 90)
    return Panel(answer, title=f"least grounded ({worst.value:.2f}): {question}", title_align="left")


def table_lines(board: DemoBoard) -> list[str]:
    """The table as lines of text."""
    lines = [f"{'evaluator':30} {'scored':>6} {'failed':>6} {'mean':>6} {'pass':>6}   (weighted by 1/p)"]
    for name, tally in board.table():
        count, errors, mean, _, passes = _figures(tally)
        lines.append(f"{name:30} {count:6} {errors:6} {mean:>6} {passes:>6}")
    return lines


def summary(board: DemoBoard, runtime: Runtime, spans_to: str, sample_line: str | None) -> list[str]:
    """The summary of a run as lines of text."""
    stats = runtime.pipeline.stats()
    counts: Mapping[str, Any] = runtime.counts()
    complete = all(c.eligible == c.sampled_out + c.scored + c.failed + c.dropped for c in counts.values())
    lines = [
        "",
        f"requests {stats.received} = sampled out {stats.sampled_out} + evaluated {board.evaluated} "
        f"+ dropped {sum(stats.dropped.values())}",
        f"every evaluator accounts for its requests (eligible = sampled out + scored + failed + dropped): "
        f"{'yes' if complete else 'NO'}",
        "",
        *table_lines(board),
    ]
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

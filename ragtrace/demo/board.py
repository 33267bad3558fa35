"""What a demo run shows: a table that moves with the run, and a summary at its end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragtrace.errors import MissingExtraError
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Evidence, Trace

if TYPE_CHECKING:
    from ragtrace.startup.runtime import Runtime

_WORST = 3


@dataclass(slots=True)
class Tally:
    """One evaluator's results, each weighted by 1/p so that the figures stand for all requests."""

    weight: float = 0.0
    weighted: float = 0.0
    judged: float = 0.0
    passed: float = 0.0
    scored: int = 0
    errors: int = 0

    @property
    def mean(self) -> float | None:
        """Weighted mean score."""
        return self.weighted / self.weight if self.weight else None

    @property
    def pass_rate(self) -> float | None:
        """Weighted share of passes among what has a threshold."""
        return self.passed / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class Worst:
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
class Board:
    """A sink that adds up what passes. Thread-safe."""

    planned: int
    asked: int = 0
    failed: int = 0
    """Requests that ended in an error."""
    evaluated: int = 0
    dropped: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    _worst: dict[str, Worst] = field(default_factory=dict)
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
            for score in evaluation.scores:
                if score.label == NOT_APPLICABLE:
                    continue
                tally = self.tallies.setdefault(score.name, Tally())
                if score.error is not None:
                    tally.errors += 1
                    continue
                weight = 1.0 / score.sampling_probability
                tally.scored += 1
                if score.value is not None:
                    tally.weight += weight
                    tally.weighted += weight * score.value
                if score.label is not None:
                    tally.judged += weight
                    tally.passed += weight * (score.label == "pass")
                if score.name == "groundedness" and score.evidence and score.value is not None:
                    self._keep(evaluation, score.value, score.evidence)

    def _keep(self, evaluation: Evaluation, value: float, evidence: tuple[Evidence, ...]) -> None:
        least = min(evidence, key=lambda e: e.probability or 0.0)
        question = evaluation.trace.query
        known = self._worst.get(question)
        if known is None or value < known.value:
            self._worst[question] = Worst(evaluation.trace, value, least, evaluation.cause)
        if len(self._worst) > _WORST:
            del self._worst[max(self._worst, key=lambda q: self._worst[q].value)]

    def worst(self) -> list[Worst]:
        """The least grounded answers, the very least first, one for each question."""
        with self._lock:
            return sorted(self._worst.values(), key=lambda w: w.value)

    def table(self) -> list[tuple[str, Tally]]:
        """The tallies by name."""
        with self._lock:
            return sorted(self.tallies.items())


def number(value: float | None, form: str = ".2f") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else format(value, form)


def clip(text: str, width: int) -> str:
    """One line of text of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def progress_line(board: Board) -> str:
    """Where the run is, in one line."""
    failed = f" · failed {board.failed}" if board.failed else ""
    done = f"evaluated {board.evaluated} · dropped {board.dropped}{failed}"
    return f"requests {board.asked}/{max(board.planned, board.asked)} · {done}"


def live_view(board: Board, url: str | None) -> Any:
    """The moving table."""
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
        rate = tally.pass_rate
        style = "" if rate is None else "green" if rate >= 0.9 else "yellow" if rate >= 0.5 else "red"
        table.add_row(
            name, str(tally.scored), number(tally.mean), Text(number(rate, ".0%"), style), str(tally.errors or "")
        )
    parts: list[Any] = [ProgressBar(total=max(1, board.planned), completed=board.asked), table]
    worst = board.worst()
    if worst:
        parts.append(_panel(worst[0]))
    title = progress_line(board) + (f" · {url}" if url else "")
    return Panel(Group(*parts), title=title, title_align="left", subtitle="means and rates weighted by 1/p")


def draw(board: Board, path: str) -> None:
    """The table as it stands, as an SVG picture."""
    from io import StringIO

    try:
        from rich.console import Console
    except ModuleNotFoundError as error:
        raise MissingExtraError("rich", "console", "--picture") from error

    console = Console(record=True, width=110, file=StringIO())
    console.print(live_view(board, None))
    console.save_svg(path, title="ragtrace demo")


def _panel(worst: Worst) -> Any:
    from rich.panel import Panel
    from rich.text import Text

    answer = Text(clip(worst.trace.answer[: worst.evidence.start][-160:], 160) + " ")
    answer.append(clip(worst.sentence, 240), style="bold red")
    answer.append(" " + clip(worst.trace.answer[worst.evidence.end :], 100))
    question = clip(worst.trace.query, 90)
    return Panel(answer, title=f"least grounded ({worst.value:.2f}): {question}", title_align="left")


def summary(board: Board, runtime: Runtime, spans_to: str, sample_line: str | None) -> list[str]:
    """The end of a run, in plain lines."""
    stats = runtime.pipeline.stats()
    counts: Mapping[str, Any] = runtime.counts()
    whole = all(c.eligible == c.sampled_out + c.scored + c.failed + c.dropped for c in counts.values())
    lines = [
        "",
        f"requests {stats.offered} = sampled out {stats.sampled_out} + evaluated {board.evaluated} "
        f"+ dropped {sum(stats.dropped.values())}",
        f"every evaluator accounts for its requests (eligible = sampled out + scored + failed + dropped): "
        f"{'yes' if whole else 'NO'}",
        "",
        f"{'evaluator':30} {'scored':>6} {'failed':>6} {'mean':>6} {'pass':>6}   (weighted by 1/p)",
    ]
    for name, tally in board.table():
        lines.append(
            f"{name:30} {tally.scored:6} {tally.errors:6} {number(tally.mean):>6} {number(tally.pass_rate, '.0%'):>6}"
        )
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

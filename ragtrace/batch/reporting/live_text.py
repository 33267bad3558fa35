"""A live report as text for a terminal, and as JSON."""

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from ragtrace.base.terminal import fitted
from ragtrace.batch.reporting.formats import NONE, moment, rate, table
from ragtrace.batch.reporting.live import LEAST, LEAST_NOW, AppReport, EvaluatorRow, LiveReport
from ragtrace.statistics import Estimate
from ragtrace.text.sanitizer import finite

_HEAD = (
    "evaluator", "evaluated", "effective", "coverage", "pass rate (95 %)", "before", "score (95 %)", "score before"
)  # fmt: skip


def as_text(report: LiveReport, columns: int | None = None) -> str:
    """The report as lines of text, for a terminal with so many columns (None: as many as needed)."""
    lines = [verdict(report), f"{moment(report.since)} to {moment(report.until)}", *notes(report)]
    for app in report.apps:
        lines += ["", *_app(app, columns)]
    return "\n".join(fitted([clean(line) for line in lines], columns))


def verdict(report: LiveReport) -> str:
    """What a reader must know first: which figures became worse, or that none did, and how much that is based on."""
    every = [row for app in report.apps for row in app.rows]
    rows = [row for row in every if row.now.passes is not None]
    silent = [r for r in every if r.now.passes is None and r.before.passes and r.before.passes.effective >= LEAST_NOW]
    worse = [f"{row.app}: {row.evaluator}, {change(row)}" for row in rows if row.change == "rise"]
    worse += [f"{row.app}: {row.evaluator} gives no verdict, before {rate(row.before.passes)} passed" for row in silent]
    if worse:
        more = f", and {len(worse) - 3} more" if len(worse) > 3 else ""
        return f"WORSE: {'; '.join(worse[:3])}{more}"
    based = f"{sum(app.evaluated for app in report.apps):,} requests evaluated"
    young = [row.evaluator for row in rows if row.change == "learning"]
    if not rows:
        return f"No verdict: no evaluator passes or fails answers ({based})"
    if len(young) == len(rows):
        few = f"fewer than {LEAST} effective evaluations of this version before, or fewer than {LEAST_NOW} now"
        return f"No verdict yet: {few} ({based}). {_lowest(rows)}"
    return (
        f"Not worse: no rise of failures in {len(rows) - len(young)} of {len(rows)} evaluators ({based})"
        + (f"; too few to compare for {', '.join(sorted(set(young))[:5])}" if young else "")
        + f". {_lowest(rows)}"
    )


def _lowest(rows: Sequence[EvaluatorRow]) -> str:
    row = min(rows, key=lambda row: row.now.passes.value if row.now.passes is not None else math.inf)
    return f"Lowest pass rate: {row.app}: {row.evaluator} {rate(row.now.passes)}"


def as_json(report: LiveReport) -> str:
    """The report as a JSON object."""
    return json.dumps(finite(asdict(report)), indent=1, allow_nan=False)


def notes(report: LiveReport) -> list[str]:
    """What people say of the answers, and what the reader must know about the data."""
    sentences = [*report.people]
    if not report.complete:
        sentences.append("The journal starts after the previous period did: the column `before` is incomplete.")
    if report.damaged:
        sentences.append(f"{report.damaged} lines of the journal could not be read and were left out.")
    if report.not_numbers:
        sentences.append(f"{report.not_numbers} values were no finite numbers; they count as errors.")
    return sentences


def mean(estimate: Estimate | None) -> str:
    """A score with its interval."""
    if estimate is None:
        return NONE
    if estimate.interval is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} ({estimate.interval[0]:.3g} to {estimate.interval[1]:.3g})"


def effective(row: EvaluatorRow) -> str:
    """Kish's effective number of evaluations behind the figures of a row."""
    estimate = row.now.passes or row.now.score
    return NONE if estimate is None else f"{estimate.effective:.0f}"


def share(value: float | None) -> str:
    """A share in percent."""
    return NONE if value is None else f"{100 * value:.0f} %"


def change(row: EvaluatorRow) -> str:
    """How the share of failures differs from that of the period before."""
    if row.now.passes is None:
        return NONE
    if row.shares is None or row.change == "learning":
        return "not enough data before"
    before, now = row.shares
    rise = "" if row.change == "rise" else "no rise: "
    return f"{rise}failures {100 * before.value:.1f} % to {100 * now.value:.1f} % (n = {now.count:,})"


def counts(numbers: Mapping[str, int]) -> str:
    """VerdictCounts by name."""
    return ", ".join(f"{name} {count}" for name, count in numbers.items()) or NONE


def value(score: float | None) -> str:
    """The value of a score; a check without a value failed."""
    return "failed" if score is None else f"{score:.3g}"


def summary(app: AppReport) -> str:
    """How many requests of an application were evaluated, and of which origin they are."""
    parts = [f"{app.evaluated} requests evaluated, of about {app.requests:.0f}"]
    if app.dropped:
        parts.append(f"dropped: {counts(app.dropped)}")
    for name, values in (("env", app.envs), ("model", app.models), ("prompt version", app.prompt_versions)):
        if values:
            parts.append(f"{name} {', '.join(values[:5])}{' …' if len(values) > 5 else ''}")
    return " · ".join(parts)


def clean(line: str) -> str:
    """The line without the characters by which a name could move the cursor or colour the terminal."""
    return "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else "\N{REPLACEMENT CHARACTER}"
        for c in line
    )


def _app(app: AppReport, columns: int | None) -> Iterator[str]:
    yield f"{app.name}: {summary(app)}"
    rows = [_HEAD, *(_cells(row) for row in app.rows)]
    yield from (f"  {line}" for line in table(rows, columns=None if columns is None else columns - 2))
    for row in app.rows:
        yield from _details(row)
    if app.causes:
        yield f"  causes: {counts(app.causes)}"
    if app.worst:
        yield "  worst answers:"
    for answer in app.worst:
        scores = ", ".join(f"{s.name} {value(s.value)}" for s in answer.scores)
        yield f"    {answer.trace_id}  {moment(answer.time)}  {scores}"


def _cells(row: EvaluatorRow) -> tuple[str, ...]:
    return (
        row.evaluator, str(row.now.evaluated), effective(row), share(row.coverage), rate(row.now.passes),
        rate(row.before.passes), mean(row.now.score), mean(row.before.score),
    )  # fmt: skip


def _details(row: EvaluatorRow) -> Iterator[str]:
    if row.change == "rise":
        yield f"  {row.evaluator}: {change(row)}"
    if row.now.failures:
        yield f"  {row.evaluator}: failures by kind: {counts(row.now.failures)}"
    if row.now.errors:
        yield f"  {row.evaluator}: errors: {counts(row.now.errors)}"

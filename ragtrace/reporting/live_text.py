"""A live report as text for a terminal, and as JSON."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ragtrace.reporting.live import App, Live, Row, moment
from ragtrace.statistics import Estimate

NONE = "\N{EN DASH}"


def text(report: Live) -> str:
    """The report as lines of text."""
    lines = [f"{moment(report.since)} to {moment(report.until)}"]
    lines += notes(report)
    for app in report.apps:
        lines += ["", *_app(app)]
    return "\n".join(clean(line) for line in lines)


def as_json(report: Live) -> str:
    """The report as a JSON object."""
    return json.dumps(_finite(asdict(report)), indent=1, allow_nan=False)


def notes(report: Live) -> list[str]:
    """What a reader must know of the data."""
    found = []
    if not report.complete:
        found.append("The journal does not reach back to the begin of the time before: that column has less than all.")
    if report.damaged:
        found.append(f"{report.damaged} lines of the journal could not be read and were left out.")
    if report.not_numbers:
        found.append(f"{report.not_numbers} values were no finite numbers; they count as errors.")
    return found


def rate(estimate: Estimate | None) -> str:
    """A share with its interval."""
    if estimate is None:
        return NONE
    low, high = estimate.interval or (estimate.value, estimate.value)
    return f"{100 * estimate.value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def mean(estimate: Estimate | None) -> str:
    """A score with its interval."""
    if estimate is None:
        return NONE
    if estimate.interval is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} ({estimate.interval[0]:.3g} to {estimate.interval[1]:.3g})"


def effective(row: Row) -> str:
    """Kish's effective number of evaluations behind the figures of a row."""
    found = row.now.passes or row.now.score
    return NONE if found is None else f"{found.effective:.0f}"


def share(value: float | None) -> str:
    """A share as a percentage."""
    return NONE if value is None else f"{100 * value:.0f} %"


def verdict(row: Row) -> str:
    """What the change test says."""
    if row.now.passes is None:
        return NONE
    if row.alarm is not None:
        a = row.alarm
        return (
            f"MORE FAILURES since {moment(a.since)}: {100 * a.before:.1f} % to {100 * a.after:.1f} %, "
            f"found {moment(a.time)}"
        )
    if row.change == "learning":
        return f"too little to compare with ({row.learnt:.0f} effective evaluations of 300)"
    return "no rise found"


def brief(row: Row) -> str:
    """The same in a word or two."""
    if row.now.passes is None:
        return NONE
    return {"rise": "more than before", "learning": "too little to tell", "steady": "no rise found"}[row.change]


def counted(counts: Mapping[str, int]) -> str:
    """Counts by name."""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or NONE


def clean(line: str) -> str:
    """Without the characters by which a name could move the cursor or colour the terminal."""
    return "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else "\N{REPLACEMENT CHARACTER}"
        for c in line
    )


def _app(app: App) -> Iterator[str]:
    yield f"{app.name}: {summary(app)}"
    rows = [
        ("evaluator", "evaluated", "effective", "coverage", "pass rate (95 %)", "before", "score (95 %)", "before"),
        *(
            (
                row.evaluator,
                str(row.now.evaluated),
                effective(row),
                share(row.coverage),
                rate(row.now.passes),
                rate(row.before.passes),
                mean(row.now.score),
                mean(row.before.score),
            )
            for row in app.rows
        ),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for found in app.rows:
        yield from _more(found)
    if app.causes:
        yield f"  causes: {counted(app.causes)}"
    if app.worst:
        yield "  worst answers:"
    for answer in app.worst:
        scores = ", ".join(f"{s.name} {mark(s.value)}" for s in answer.scores)
        yield f"    {answer.trace_id}  {moment(answer.time)}  {scores}"


def _more(row: Row) -> Iterator[str]:
    if row.alarm is not None:
        yield f"  {row.evaluator}: {verdict(row)}"
    if row.now.failures:
        yield f"  {row.evaluator}: failures by kind: {counted(row.now.failures)}"
    if row.now.errors:
        yield f"  {row.evaluator}: errors: {counted(row.now.errors)}"


def mark(value: float | None) -> str:
    """A score's value; a check without one has failed."""
    return "failed" if value is None else f"{value:.3g}"


def summary(app: App) -> str:
    """How much of an application was looked at."""
    parts = [f"{app.evaluated} requests evaluated, of about {app.requests:.0f}"]
    if app.dropped:
        parts.append(f"dropped: {counted(app.dropped)}")
    for name, values in (("env", app.envs), ("model", app.models), ("prompt version", app.prompt_versions)):
        if values:
            parts.append(f"{name} {', '.join(values[:5])}{' …' if len(values) > 5 else ''}")
    return " · ".join(parts)


def _finite(value: Any) -> Any:
    """JSON has no infinite numbers."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value

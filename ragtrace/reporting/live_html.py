"""A live report as one page that needs nothing else. No script, no request, and no name is ever markup."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ragtrace import svg
from ragtrace.reporting import live_text
from ragtrace.reporting.files import replace_file
from ragtrace.reporting.html import environment, style
from ragtrace.reporting.live import Live, Row, moment
from ragtrace.statistics import Estimate

_FRAME = svg.Frame(360, 150, 38, 6, 8, 20)


def write_live(report: Live, path: str | os.PathLike[str]) -> Path:
    """Write the page; it appears whole or not at all. Raises MissingExtraError without jinja2, OSError as the disk."""
    page = live_page(report)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, lambda part: part.write_text(page, encoding="utf-8"))
    return target


def live_page(report: Live) -> str:
    """The page as text. Raises MissingExtraError without jinja2."""
    made = environment()
    from markupsafe import Markup

    made.filters |= {
        "moment": moment,
        "rate": live_text.rate,
        "mean": live_text.mean,
        "effective": live_text.effective,
        "share": live_text.share,
        "verdict": live_text.verdict,
        "brief": live_text.brief,
        "halves": lambda told: told.rstrip(")").partition(" (")[::2],
        "counted": live_text.counted,
        "mark": live_text.mark,
        "summary": live_text.summary,
        "timeline": lambda row: Markup(timeline(row)),
    }
    css, digest = style()
    template = made.get_template("live.html.j2")
    return str(template.render(r=report, notes=live_text.notes(report), css=Markup(css), css_hash=Markup(digest)))


def timeline(row: Row) -> str:
    """The pass rate over time with its 95 % interval as SVG text. Empty if the evaluator never passes or fails."""
    passes = [step.passes for step in row.line if step.passes is not None]
    if not passes:
        return ""
    lows = [(estimate.interval or (estimate.value,))[0] for estimate in passes]
    # The axis begins at the tenth below the lowest interval.
    low = min(0.9, int(min(lows) * 10) / 10)
    scale = svg.Axis(low, 1.0, (low, (1.0 + low) / 2, 1.0), "%")
    times = svg.ends(_FRAME, moment(row.line[0].start)[5:16], moment(row.line[-1].start)[5:16])
    bars = [_bar(i, step.start, step.passes, scale, len(row.line)) for i, step in enumerate(row.line) if step.passes]
    spots = [
        (_FRAME.x((i + 0.5) / len(row.line)), _FRAME.y(scale.share(step.passes.value))) if step.passes else None
        for i, step in enumerate(row.line)
    ]
    shapes = [svg.grid(_FRAME, scale), times, *bars, svg.trend(spots), _onset(row)]
    return svg.picture(_label(row, [estimate.value for estimate in passes]), _FRAME.width, _FRAME.height, shapes)


def _bar(i: int, start: float, passes: Estimate, scale: svg.Axis, count: int) -> str:
    low, high = passes.interval or (passes.value, passes.value)
    y, foot = _FRAME.y(scale.share(high)), _FRAME.y(scale.share(low))
    title = f"{moment(start)}: {live_text.rate(passes)}, {passes.effective:.0f} effective"
    width = max(0.5, _FRAME.inner / count - 1)
    return svg.rect("band", _FRAME.x(i / count) + 0.5, y, width, max(1.0, foot - y), title=title)


def _onset(row: Row) -> str:
    """A dashed line at the time since which failures are more frequent."""
    if row.alarm is None or len(row.line) < 2:
        return ""
    steps = (row.alarm.since - row.line[0].start) / (row.line[1].start - row.line[0].start)
    x = _FRAME.x(min(1.0, max(0.0, steps / len(row.line))))
    return svg.line("limit", x, _FRAME.top, x, _FRAME.floor)


def _label(row: Row, rates: Sequence[float]) -> str:
    rise = f"; {live_text.verdict(row)}" if row.alarm is not None else ""
    name = live_text.clean(row.evaluator)
    return f"Pass rate of {name}: {len(rates)} points, from {100 * min(rates):.0f} to {100 * max(rates):.0f} %{rise}"

"""A live report as one page that needs nothing else. No script, no request, and no name is ever markup."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from ragtrace.reporting import live_text
from ragtrace.reporting.files import replace_file
from ragtrace.reporting.html import environment, style
from ragtrace.reporting.live import Live, Row, Step, moment

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 150, 38, 6, 8, 20


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
    """The pass rate over time with its 95 % interval as SVG text; colours by class. Empty where nothing passes or
    fails."""
    known = [step for step in row.line if step.passes is not None]
    if not known:
        return ""
    width = (_WIDTH - _LEFT - _RIGHT) / len(row.line)
    low = _floor(known)
    bars, points = [], []
    for i, step in enumerate(row.line):
        if step.passes is None:
            points.append("")
            continue
        bottom, top = step.passes.interval or (step.passes.value, step.passes.value)
        x, y = _LEFT + i * width, _y(top, low)
        told = f"{moment(step.start)}: {live_text.rate(step.passes)}, {step.passes.effective:.0f} effective"
        bars.append(
            f'<rect class="band" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(0.5, width - 1):.1f}" '
            f'height="{max(1.0, _y(bottom, low) - y):.1f}"><title>{escape(told)}</title></rect>'
        )
        points.append(f"{x + width / 2:.1f},{_y(step.passes.value, low):.1f}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(_told(row, known))}">'
        f"{_axes(row.line, low)}{''.join(bars)}{_lines(points)}{_onset(row, width, low)}</svg>"
    )


def _floor(known: list[Step]) -> float:
    """Where the axis begins: at a tenth below the lowest interval."""
    lowest = min((s.passes.interval or (s.passes.value,))[0] for s in known if s.passes is not None)
    return min(0.9, int(lowest * 10) / 10)


def _y(value: float, low: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - (value - low) / (1.0 - low))


def _axes(line: tuple[Step, ...], low: float) -> str:
    found = []
    for value in (low, (1.0 + low) / 2, 1.0):
        y = _y(value, low)
        found.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text x="{_LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{100 * value:.0f} %</text>')
    start, end = moment(line[0].start)[5:16], moment(line[-1].start)[5:16]
    found.append(f'<text x="{_LEFT}" y="{_HEIGHT - 4}">{start}</text>')
    found.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">{end}</text>')
    return "".join(found)


def _lines(points: list[str]) -> str:
    """A line through neighbours; a gap where an hour has nothing; a dot for one without neighbours."""
    runs = [run.split() for run in " ".join(point or "|" for point in points).split("|")]
    found = []
    for run in runs:
        if len(run) == 1:
            x, _, y = run[0].partition(",")
            found.append(f'<circle class="dot" cx="{x}" cy="{y}" r="2.5"/>')
        elif run:
            found.append(f'<polyline class="trend" points="{" ".join(run)}"/>')
    return "".join(found)


def _onset(row: Row, width: float, low: float) -> str:
    if row.alarm is None or len(row.line) < 2:
        return ""
    step = row.line[1].start - row.line[0].start
    x = _LEFT + width * min(len(row.line), max(0.0, (row.alarm.since - row.line[0].start) / step))
    return f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_y(low, low):.1f}"/>'


def _told(row: Row, known: list[Step]) -> str:
    rates = [step.passes.value for step in known if step.passes is not None]
    rise = f"; {live_text.verdict(row)}" if row.alarm is not None else ""
    name = live_text.clean(row.evaluator)
    return f"Pass rate of {name}: {len(rates)} points, from {100 * min(rates):.0f} to {100 * max(rates):.0f} %{rise}"

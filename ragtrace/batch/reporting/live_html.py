"""A live report as one page that needs no other file."""

from collections.abc import Callable, Sequence
from typing import Any

from ragtrace.base import svg
from ragtrace.batch.reporting import live_text, page
from ragtrace.batch.reporting.formats import moment, rate
from ragtrace.batch.reporting.live import EvaluatorRow, LiveReport
from ragtrace.statistics import Estimate

_FRAME = svg.Frame(360, 150, 38, 6, 8, 20)


def live_page(report: LiveReport) -> str:
    """The page as text. Raises MissingExtraError without jinja2."""
    formats = rate, live_text.mean, live_text.effective, live_text.share, live_text.change
    filters: dict[str, Callable[..., Any]] = {
        form.__name__: form for form in (*formats, live_text.counts, live_text.value, live_text.summary, moment)
    }
    filters["timeline"] = timeline
    return page.render("live.html.j2", filters, {"r": report, "notes": live_text.notes(report)})


def timeline(row: EvaluatorRow) -> str:
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
    shapes = [svg.grid(_FRAME, scale), times, *bars, svg.trend(spots)]
    return svg.picture(_label(row, [estimate.value for estimate in passes]), _FRAME.width, _FRAME.height, shapes)


def _bar(i: int, start: float, passes: Estimate, scale: svg.Axis, count: int) -> str:
    low, high = passes.interval or (passes.value, passes.value)
    y, foot = _FRAME.y(scale.share(high)), _FRAME.y(scale.share(low))
    title = f"{moment(start)}: {rate(passes)}, {passes.effective:.0f} effective"
    width = max(0.5, _FRAME.inner / count - 1)
    return svg.rect("band", _FRAME.x(i / count) + 0.5, y, width, max(1.0, foot - y), title=title)


def _label(row: EvaluatorRow, rates: Sequence[float]) -> str:
    rise = f"; {live_text.change(row)}" if row.change == "rise" else ""
    name = live_text.clean(row.evaluator)
    return f"Pass rate of {name}: {len(rates)} points, from {100 * min(rates):.0f} to {100 * max(rates):.0f} %{rise}"

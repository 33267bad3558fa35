"""The report: one page that needs nothing else. No script, no request, and no text of a row is ever markup."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from ragtrace.errors import MissingExtraError
from ragtrace.reporting import report_charts, views
from ragtrace.reporting.analysis import Analysis
from ragtrace.reporting.classification import Classification
from ragtrace.reporting.files import replace_file
from ragtrace.reporting.results import Metric, clip, shown

NAME = "report.html"
_FLIPS = 50
# Control characters have no place in HTML; a lone surrogate has none in UTF-8.
_UNPRINTABLE = dict.fromkeys((*range(9), 11, *range(14, 32), *range(127, 160), *range(55296, 57344)), "�")


def write_report(analysis: Analysis, folder: str | os.PathLike[str]) -> Path:
    """Write `report.html` into a folder, which is made where it is missing, and say where it lies. The file appears
    whole or not at all. Raises MissingExtraError without jinja2, and OSError as the disk does."""
    page = report(analysis)
    path = Path(folder) / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda part: part.write_text(page, encoding="utf-8"))
    return path


def report(analysis: Analysis) -> str:
    """The page as text. Raises MissingExtraError without jinja2."""
    made = environment()
    from markupsafe import Markup

    made.filters |= {"shown": shown, "rule": rule, "date": _date, "number": views.number, "confused": _confused}
    css, digest = style()
    svgs = [(metric, Markup(svg), count) for metric, svg, count in _charts(analysis)]
    template = made.get_template("report.html.j2")
    return str(template.render(**_content(analysis), css=Markup(css), css_hash=Markup(digest), charts=svgs))


def environment() -> Any:
    """jinja2 as all pages use it: what is not markup of ours is escaped, what is not there is an error. Raises
    MissingExtraError without jinja2."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingExtraError("jinja2", "eval", "The report") from error

    def finalize(value: Any) -> Any:
        return value.translate(_UNPRINTABLE) if type(value) is str else value

    made = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    made.filters["clip"] = clip
    return made


def style() -> tuple[str, str]:
    """The style sheet of all pages, and the digest by which their policy admits this very one and nothing else, so that
    markup that slipped in could not even colour itself."""
    css = _read("report.css")
    return css, f"sha256-{base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()}"


def _content(analysis: Analysis) -> dict[str, Any]:
    run = analysis.run
    models, board = views.leaderboard(analysis)
    total, heat = views.heat_map(analysis, models)
    flips = [problem for problem in analysis.problems if problem.kind == "flip"]
    of_model = {m.model: m for m in analysis.models}
    rows = sum(1 for _ in run.originals())
    return {
        "a": analysis,
        "run": run,
        "rows": rows,
        "changed": len(run.results) - rows,
        "models": models,
        "ordered": [of_model[model] for model in models],
        "timed": any(m.duration is not None for m in analysis.models),
        "priced": any(m.cost is not None for m in analysis.models),
        "board": board,
        "heat": heat,
        "total": total,
        "flips": flips,
        "shown_flips": flips[:_FLIPS],
        "listed": [p for p in analysis.problems if p.kind != "flip"] + flips[:_FLIPS],
        "judged": views.judged(analysis),
        "cases": views.worst_cases(analysis),
        "answer_limit": views.ANSWER,
        "errors": views.errors(analysis),
        "judge_cost": sum(score.cost for row in run.results for score in row.scores.values()),
    }


def _charts(analysis: Analysis) -> list[tuple[Metric, str, int]]:
    found = []
    for metric in analysis.run.metrics.values():
        values = views.values_of(analysis, metric.name)
        if values:
            found.append((metric, report_charts.histogram(metric, values), len(values)))
    return found


def rule(metric: Metric) -> str:
    """When a value passes, for people: `≥ 0.75`, or which way is better where there is no threshold."""
    if metric.threshold is None:
        return f"{metric.direction} is better"
    return f"{'≥' if metric.direction == 'higher' else '≤'} {metric.threshold:g}".replace("inf", "∞")


def _confused(found: Classification, expected: str, predicted: str) -> int:
    return Counter({(one, other): n for one, other, n in found.confusion})[expected, predicted]


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _read(name: str) -> str:
    return resources.files(__package__ or "ragtrace.reporting").joinpath(name).read_text(encoding="utf-8")

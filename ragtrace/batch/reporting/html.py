"""The report of a run as one page that needs no other file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragtrace.batch.reporting import page, report_charts, views
from ragtrace.batch.reporting.analysis import Analysis
from ragtrace.batch.reporting.files import PAGE_NAME
from ragtrace.batch.reporting.formats import model_name, moment, number
from ragtrace.batch.reporting.results import values_of

_FLIPS = 50


def write_report(analysis: Analysis, folder: str | os.PathLike[str]) -> Path:
    """Write `report.html` into a folder, which is created if it is missing, and return its path. The file appears
    complete or not at all. Raises MissingExtraError without jinja2, and OSError if it cannot be written."""
    return page.write(report(analysis), Path(folder) / PAGE_NAME)


def report(analysis: Analysis) -> str:
    """The page as text. Raises MissingExtraError without jinja2."""
    filters: dict[str, Callable[..., Any]] = {
        "model_name": model_name, "moment": moment, "number": number,
        "confusion": lambda table, *pair: next((n for *labels, n in table.confusion if labels == [*pair]), 0),
    }  # fmt: skip
    return page.render("report.html.j2", filters, _content(analysis))


def _content(analysis: Analysis) -> dict[str, Any]:
    run = analysis.run
    models, leaderboard = views.leaderboard(analysis)
    question_count, heat = views.heat_map(analysis, models)
    flips = [problem for problem in analysis.problems if problem.kind == "flip"]
    of_model = {m.model: m for m in analysis.models}
    rows = sum(1 for _ in run.originals())
    return {
        "a": analysis, "run": run, "rows": rows, "perturbed_rows": len(run.results) - rows, "models": models,
        "model_summaries": [of_model[model] for model in models],
        "has_durations": any(m.duration is not None for m in analysis.models),
        "has_costs": any(m.cost is not None for m in analysis.models), "leaderboard": leaderboard, "heat": heat,
        "question_count": question_count, "flips": flips, "first_flips": flips[:_FLIPS],
        "problems": [p for p in analysis.problems if p.kind != "flip"] + flips[:_FLIPS],
        "has_verdicts": views.has_verdicts(analysis), "cases": views.worst_cases(analysis),
        "answer_limit": views.ANSWER, "errors": views.errors(analysis),
        "judge_cost": sum(score.cost for row in run.results for score in row.scores.values()),
        "charts": [
            (metric, report_charts.histogram(metric, values), len(values))
            for metric in run.metrics.values() if (values := values_of(run.originals(), metric.name))
        ],
    }  # fmt: skip

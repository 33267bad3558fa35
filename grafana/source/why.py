"""Why does an alert on quality fire, or why not? The figures and conditions that decide."""

from __future__ import annotations

from panels import APP, EVALUATIONS, RED, SIGMA, Page, T, link, runbook

FAIL = "app_evaluator:ragtrace_evaluation_fail"
DOCS = "https://github.com/ragtrace/ragtrace/blob/main/docs/alerts.md"
AT, LEAST, SAMPLES = 3.7, 0.06, 30
"""What an hour needs for a page: standard errors, difference of the shares, effective evaluations."""


def why(page: Page) -> None:
    """Adds a row for each chosen evaluator."""
    page.row("Why (not)? $evaluator", repeat="evaluator")
    page.lines(
        "Is it worse by what matters?",
        f"Failing share of an hour less that of the day before, in points. Above the line, at {100 * LEAST:g} points, it matters. "
        f"Metric: `{FAIL}:ratio_ipw_rate1h`",
        [(f"{FAIL}:ratio_ipw_rate1h{{{T}}} - {FAIL}:ratio_ipw_rate1d{{{T}}} offset 1h", APP)],
        "percentunit",
        ((None, "transparent"), (LEAST, RED)),
        w=8,
        low=None,
        line=True,
        links=[link("How a fall is told from chance", DOCS), runbook("RagtraceQualityDrop")],
    )
    page.lines(
        "Is it more than chance?",
        "Failing share of an hour beside the day before, or the same hours of seven days where that is less, in standard "
        f"errors. Above the line, at {AT}, chance does not explain it. Metric: `{FAIL}:zscore1h`",
        [(f"{FAIL}:zscore1h{{{T}}}", APP)],
        SIGMA,
        ((None, "transparent"), (AT, RED)),
        w=8,
        low=None,
        line=True,
        links=[runbook("RagtraceQualityDrop")],
    )
    page.lines(
        "Are there enough evaluations?",
        f"Effective evaluations in the hour before. Below the line, at {SAMPLES}, nothing is said. Metric: "
        "`app_evaluator:ragtrace_evaluation_effective_samples:increase1h`",
        [(f"app_evaluator:ragtrace_evaluation_effective_samples:increase1h{{{T}}}", APP)],
        EVALUATIONS,
        ((None, RED), (SAMPLES, "transparent")),
        w=8,
        line=True,
        links=[runbook("RagtraceQualityUnknown")],
    )

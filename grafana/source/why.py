"""Why does an alert on quality fire, or why not? The figures and the recorded conditions that decide."""

from __future__ import annotations

from conditions import BEYOND, CHANGED, RHYTHM, WINDOWS, WORSE, ZSCORE
from failure_rates import APPS
from incidents import INCIDENT
from panels import APP, EVALUATIONS, RED, SIGMA, WINDOWS_UNIT, Page, T, link, runbook
from rule import LEAST, RATIO, SAMPLES

DOCS = "https://github.com/ragtrace/ragtrace/blob/main/docs/alerts.md"
HOUR = next(window for window in WINDOWS if window.length == "1h")
LINKS = [link("How a fall is distinguished from chance", DOCS), runbook("RagtraceQualityDrop")]


def why(page: Page) -> None:
    """Adds a row for each chosen evaluator."""
    page.row("Why (not)? $evaluator", repeat="evaluator")
    _conditions(page)
    _figures(page)


def _conditions(page: Page) -> None:
    """The conditions: an incident begins where a window is worse and beyond chance, and nothing holds it back."""
    worse, beyond = APPS.fact(WORSE), APPS.fact(BEYOND)
    windows = ", ".join(window.length for window in WINDOWS)
    both = f"{worse}{{{T}}} * on (app, env, evaluator, window) {beyond}{{{T}}}"
    zero = f"0 * max by (app, env) ({worse}{{{T}}})"
    for title, text, metric, expr in (
        ("1. Worse?", "Windows in which the failing share is above the past by what matters.", worse, f"sum by (app, env) ({worse}{{{T}}})"),
        ("2. Beyond chance?", "Windows in which chance does not explain the difference.", beyond, f"sum by (app, env) ({beyond}{{{T}}})"),
        ("Both in one window?", "Windows in which 1 and 2 hold. An incident needs one.", beyond, f"sum by (app, env) ({both})"),
        ("3. A known rhythm?", "Windows that were as bad at these hours in the last weeks: they begin no incident.", RHYTHM,
         f"count by (app, env) ({RHYTHM}{{{T}}}) or {zero}"),
        ("4. Evaluator changed?", "1 in the two hours after the evaluator changed: no fall is seen then.", CHANGED,
         f"max by (app, env) ({CHANGED}{{{T}}}) or {zero}"),
        ("Incident?", "1 while an incident is open; its alert fires.", INCIDENT, f"max by (app, env) ({INCIDENT}{{{T}}} > bool 0) or {zero}"),
    ):  # fmt: skip
        page.lines(
            title,
            f"{text} The windows are {windows}. Metric: `{metric}`",
            [(expr, APP)],
            WINDOWS_UNIT if "indows" in text else "none",
            w=4,
            h=6,
            axis_limit=1,
            links=LINKS,
        )


def _figures(page: Page) -> None:
    """What the conditions of the hour compare, with their limits."""
    page.lines(
        "Difference to the past, 1 hour",
        f"Failing share of an hour less the one that it is compared with. Above the line, at {100 * HOUR.least:g} points, it "
        f"matters. Metric: `{RATIO}1h`",
        [(f"{RATIO}1h{{{T}}} - {APPS.fact('ratio_before_1h')}{{{T}}}", APP)],
        "percentunit",
        ((None, "transparent"), (HOUR.least, RED)),
        w=8,
        low=None,
        line=True,
        links=LINKS,
    )
    page.lines(
        "Difference to the past in standard errors, 1 hour",
        "Beside the day before, or the same hours of seven days where that is less. Above the line, at "
        f"{HOUR.z}, chance does not explain it. Metric: `{ZSCORE}1h`",
        [(f"{ZSCORE}1h{{{T}}}", APP)],
        SIGMA,
        ((None, "transparent"), (HOUR.z, RED)),
        w=8,
        low=None,
        line=True,
        links=LINKS,
    )
    page.lines(
        "Effective evaluations, 1 hour",
        f"Below the line, at {LEAST}, there are too few for a verdict. Metric: `{SAMPLES}1h`",
        [(f"{SAMPLES}1h{{{T}}}", APP)],
        EVALUATIONS,
        ((None, RED), (LEAST, "transparent")),
        w=8,
        line=True,
        links=[runbook("RagtraceQualityUnknown")],
    )

"""Why does an alert on quality fire, or why not? The figures that decide."""

from panels import APP, EVALUATIONS, RED, Page, T, link, runbook
from rule import EXCESS, EXPECTED, INCIDENT, LEAST, evaluations, fails

DOCS = "https://github.com/ragtrace/ragtrace/blob/main/docs/alerts.md"
LINKS = [link("How a fall is distinguished from chance", DOCS), runbook("RagtraceQualityDrop")]
THRESHOLD = 6.5
ALL = f'{T},group=""'


def why(page: Page) -> None:
    """Adds a folded row: rate beside what is expected, the excess beside its threshold, groups, evaluations."""
    page.row("Why (not)? $evaluator", repeat="evaluator")
    page.lines(
        "Failing share, and what is expected", "Of the last hour; dashed, what is usual at this hour. Metric: `ragtrace:fails1h`",
        [(fails("1h", ALL), APP), (f"{EXPECTED}{{{ALL}}}", f"{APP} at most")], "percentunit", bounds=" at most$", axis_limit=0.2,
        links=LINKS, w=6,
    )  # fmt: skip
    page.lines(
        "Excess of failures",
        f"The largest, of all requests or of a group. Above {THRESHOLD} (groups: 8.5) an incident begins; at 0 it is over. Metric: `{EXCESS}`",
        [(f"max by (app, env) ({EXCESS}{{{T}}})", APP)], "none", ((None, "transparent"), (THRESHOLD, RED)), line=True, links=LINKS,
        w=6,
    )  # fmt: skip
    page.lines(
        "Incident open", f"1 from the fall until the excess is gone. Metric: `{INCIDENT}`",
        [(f"max by (app, env) ({INCIDENT}{{{T}}} > bool 0) or 0 * max by (app, env) ({EXPECTED}{{{T}}})", APP)], "none", low=0,
        high=1, links=LINKS, w=6,
    )  # fmt: skip
    page.lines(
        "Effective evaluations, one hour", f"Below the line, at {LEAST}, a rate says little. Metric: `ragtrace:evaluations1h`",
        [(evaluations("1h", ALL), APP)], EVALUATIONS, ((None, "transparent"), (LEAST, RED)), line=True, links=LINKS, w=6,
    )  # fmt: skip

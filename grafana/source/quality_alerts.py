"""The alerts on quality: a fall, a slow decay, a burnt budget, an evaluator that changed, too few evaluations."""

from __future__ import annotations

from conditions import BLIND_SECONDS, CHANGED, CHANGED_LAST, since_change
from failure_rates import GROUPS, LOWER, PAGES
from incidents import GROUP_INCIDENT, INCIDENT, INCIDENT_FROM, INCIDENT_SAMPLES, INCIDENT_TO
from rule import BY, LEAST, PLACE, RATIO, SAMPLES, Rule, alert, difference, recorded, seconds

ALLOWED = "app_evaluator:ragtrace_evaluation_fail:allowed"
PAGING = {"faithfulness": 1}
"""The evaluators whose falls page, as shipped."""
PERIOD_HOURS = 7 * 24
"""The period of the error budget: one week."""
TIERS = (
    # long and short window, share of the week's budget that is gone when it fires, severity, and a window some time ago
    # that shows that the long one is filled
    ("1h", "5m", 0.05, "page", "15m", "45m"),
    ("6h", "30m", 0.10, "page", "1h", "5h"),
    ("1d", "2h", 0.25, "ticket", "6h", "18h"),
    ("3d", "6h", 0.50, "ticket", "1d", "2d"),
)
MOST = 0.9
"""The largest share of failures that a tier waits for; with a low objective it could otherwise never fire."""
CREEP = "app_evaluator:ragtrace_evaluation_fail:zscore1d_vs_7d"
_LABELS = "$labels.app $labels.env $labels.evaluator"


def factor(share: float, window: str) -> float:
    """Returns how many times faster than allowed the budget burns when `share` of it is used in one window."""
    return share * PERIOD_HOURS * 3_600 / seconds(window)


def objectives() -> list[Rule]:
    """Returns the rule for the share of failures that each application's objective allows."""
    own = '(1 - max by (app, evaluator) (ragtrace_objective{app!=""}))'
    default = '(1 - max by (evaluator) (ragtrace_objective{app=""}))'
    there = f"(group by ({BY}) ({RATIO}3d))"
    return [
        recorded(
            ALLOWED,
            f"{there} * on (app, evaluator) group_left () {own}\n"
            f"or on ({BY}) ({there} * on (evaluator) group_left () {default})",
            "The share of answers that may fail by the objective in objectives.yml. Without an objective there is no value, "
            "and no alert on the budget.",
        )
    ]


def quality() -> list[Rule]:
    """Returns the alerts."""
    return [*_drops(), *_creep(), *_burns(), *_changed(), *_unknown()]


# --- falls ---------------------------------------------------------------------------------------


def _value(name: str, form: str, times: int = 1) -> str:
    """Returns a template that prints a recorded value of the alert's application and evaluator."""
    matchers = "app=%q,env=%q,evaluator=%q"
    query = f"{times} * {name}{{{matchers}}}" if times > 1 else f"{name}{{{matchers}}}"
    return f"{{{{ with printf `{query}` {_LABELS} | query }}}}{{{{ . | first | value | {form} }}}}{{{{ end }}}}"


def incident_text() -> str:
    """Returns the template of a fall's text: from what to what, since when, n, which group, and the likely cause."""
    percent = 'printf "%.0f %%"'
    clock = '{{ ($value | toTime).UTC.Format "15:04" }}'
    groups = GROUP_INCIDENT + "{app=%q,env=%q,evaluator=%q}"
    worst = f"topk(1, {GROUPS.ratio('1h')} and {groups})"
    causes = (
        "topk(1, sum by (cause) (increase(ragtrace_failure_causes_total{{{m}}}[1h])) - sum by (cause) "
        "(increase(ragtrace_failure_causes_total{{{m}}}[1d] offset 1h)) / 24 > 0)"
    ).format(m='app=%q,env=%q,cause!~"none|right_refusal"')
    return (
        f"{PLACE}: {{{{ $labels.evaluator }}}} failures {_value(INCIDENT_FROM, percent, 100)} → "
        f"{_value(INCIDENT_TO, percent, 100)} since {clock} UTC (n = {_value(INCIDENT_SAMPLES, 'printf `%.0f`')})"
        f"{{{{ with printf `{worst}` {_LABELS} | query }}}}"
        ", {{ . | first | label `dimension` }} {{ . | first | label `group` }}"
        " at {{ . | first | value | humanizePercentage }}"
        "{{ end }}"
        f"{{{{ with printf `{causes}` $labels.app $labels.env $labels.app $labels.env | query }}}}"
        ", mostly `{{ . | first | label `cause` }}`"
        "{{ end }}"
    )


def _drops() -> list[Rule]:
    """One alert for each incident, whatever window found it."""
    rules = []
    for severity, operator, who in (
        ("page", "and", "objectives.yml names the evaluators that wake people."),
        ("ticket", "unless", "Of thirty evaluators one is at its worst at any time, so nobody is woken by the others."),
    ):
        rule = alert(
            "RagtraceQualityDrop",
            f"{INCIDENT}\n{operator} on ({BY}) {PAGES}",
            severity,
            incident_text(),
            f"Answers became worse, beyond chance and beyond what these hours are known for, and are not as good as "
            f"before yet. {who}",
            keep="15m",
            slo="quality",
        )
        begin = f"{{{{ with printf `1000 * ({INCIDENT}{{app=%q,env=%q,evaluator=%q}} - 3600)` {_LABELS} | query }}}}"
        begin += "{{ . | first | value | printf `%.0f` }}{{ end }}"
        notes = rule["annotations"]
        notes["dashboard_url"] = notes["dashboard_url"].replace("from=now-6h", f"from={begin}")
        moment = '{{ ($value | toTime).UTC.Format "2006-01-02T15:04" }}'
        notes["logs_url"] = notes["logs_url"].replace("range=24h", f"since={moment}")
        rules.append(rule)
    return rules


def _creep() -> list[Rule]:
    """A decay that no window of a day shows."""
    rate, n = f"{RATIO}1d", f"{SAMPLES}1d"
    before, samples = f"{RATIO}7d offset 1d", f"{SAMPLES}7d offset 1d"
    return [
        recorded(
            CREEP,
            difference(rate, n, before, samples),
            "How far a day's failure rate is above that of the week before it, in standard errors of Cohen's h. A slow "
            "decay shows here first.",
        ),
        alert(
            "RagtraceQualityCreep",
            f"({rate} - {before} > 0.02)\nand {CREEP} > 4\nand {samples} >= {20 * LEAST}\n"
            f"unless {rate} - {rate} offset 7d < 0.02\n"
            f"unless on ({BY}) max_over_time({INCIDENT}[1d])\n"
            f"unless on ({BY}) {since_change(8 * 86_400)}",
            "ticket",
            f"{PLACE}: {{{{ $labels.evaluator }}}} fails {{{{ $value | humanizePercentage }}}} of all answers more often in "
            "the last day than in the week before",
            "A day is worse than the week before it and than the same day a week ago, without a sudden fall. It finds a "
            "decay over days, and is silent on weekends that are always so.",
            wait="1h",
            keep="1h",
            slo="quality",
        ),
    ]


# --- budget --------------------------------------------------------------------------------------


def _burns() -> list[Rule]:
    """One alert by severity for a budget that burns too fast, whatever window shows it."""
    rules = []
    for severity in ("page", "ticket"):
        tiers = [_burning(tier) for tier in TIERS if tier[3] == severity]
        other = f"\nunless on ({BY}) {INCIDENT}" if severity == "page" else ""
        spent = "5 % of a week's budget in an hour or 10 % in six" if severity == "page" else (
            "a quarter of a week's budget in a day or half of it in three"
        )  # fmt: skip
        rules.append(
            alert(
                "RagtraceQualityBudgetBurn",
                f"max by ({BY}) (\n  " + "\n  or\n  ".join(tiers) + f"\n){other}",
                severity,
                f"{PLACE}: {{{{ $labels.evaluator }}}} fails {{{{ $value | humanizePercentage }}}} of the answers, which "
                f"burns {spent}",
                "The objective's error budget burns too fast: surely (lower 95 % bound) in a window that is filled, and "
                "still now. It needs an objective, and leaves falls to RagtraceQualityDrop.",
                wait="5m",
                keep="15m",
                slo="quality",
            )
        )
    return rules


def _burning(tier: tuple[str, str, float, str, str, str]) -> str:
    """Returns the condition of one tier."""
    long, short, share, _, first, ago = tier
    limit = f"clamp_max({factor(share, long):.4g} * {ALLOWED}, {MOST})"
    expr = (
        f"({RATIO}{long} > {limit} and {RATIO}{short} > {limit} and {LOWER}{long} > {limit}"
        f" and {SAMPLES}{long} >= {LEAST} and {SAMPLES}{first} offset {ago} > 0"
        f" unless on ({BY}) {since_change(seconds(long))})"
    )
    return f'label_replace({expr}, "window", "{long}", "", "")'


# --- what is not seen ----------------------------------------------------------------------------


def _changed() -> list[Rule]:
    """An evaluator that measures otherwise."""
    until = f"{{{{ with printf `{CHANGED_LAST}{{app=%q,env=%q,evaluator=%q}} + {BLIND_SECONDS}` {_LABELS} | query }}}}"
    until += '{{ (. | first | value | toTime).UTC.Format "15:04" }}{{ end }}'
    return [
        alert(
            "RagtraceEvaluatorChanged",
            f"{CHANGED} == 1",
            "info",
            f"{PLACE}: {{{{ $labels.evaluator }}}} changed (version, threshold or judge): blind until {until} UTC, when it "
            "has a past of its own to be compared with",
            "The evaluator changed, so its rates cannot be compared with those before. Falls are seen again after two hours "
            "of its own.",
            slo="quality",
        )
    ]


def _unknown() -> list[Rule]:
    """Too few evaluations to compute any of these rates."""
    return [
        alert(
            "RagtraceQualityUnknown",
            "sum by (app, env) (increase(ragtrace_requests_total[1d])) > 0\n"
            f"unless on (app, env) ({SAMPLES}1d >= {LEAST} and on ({BY}) {PAGES})",
            "info",
            f"{PLACE}: too few evaluations in a day to say whether its answers became worse",
            "Requests come in, and a day has fewer than 30 effective evaluations of each evaluator that pages. Silence of "
            "the other alerts then means nothing.",
            wait="1h",
            slo="quality",
        )
    ]

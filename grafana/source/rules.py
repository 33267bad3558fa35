"""The recording rules and alerts, written by one program: python grafana/source/rules.py [--check]

Quality is a failure rate: evaluations that fail / evaluations that pass or fail, each weighted by 1/p, so that it stands
for all requests whatever was sampled. Its precision is that of the effective sample size (Kish), n = (Σw)² / Σw². An
alert compares with the application's own past, and speaks only where the difference is larger than chance explains.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml
from writing import write

RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"

Rule = dict[str, Any]

WINDOWS = ("5m", "15m", "30m", "1h", "2h", "3h", "6h", "12h", "1d", "3d", "7d")
BY = "app, env, evaluator"
RATIO = "app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate"
SAMPLES = "app_evaluator:ragtrace_evaluation_effective_samples:increase"
ZSCORE = "app_evaluator:ragtrace_evaluation_fail:zscore"
LOWER = "app_evaluator:ragtrace_evaluation_fail:wilson_lower"
UPPER = "app_evaluator:ragtrace_evaluation_fail:wilson_upper"
ALLOWED = "app_evaluator:ragtrace_evaluation_fail:allowed"
SAME_HOURS = "app_evaluator:ragtrace_evaluation_fail:zscore_last_week"
DECIDED = 'verdict=~"pass|fail"'

OBJECTIVES = {"faithfulness": 0.90}
"""Share of answers that shall pass, by evaluator. One application's own: a series of `ragtrace_objective` with its
`app`, see objectives.yml."""
PERIOD_HOURS = 7 * 24
"""The error budget is that of a week."""
TIERS = (
    # long and short window, share of the week's budget that is gone when it fires, severity, how long it must hold
    ("1h", "5m", 0.05, "page", "2m"),
    ("6h", "30m", 0.10, "page", "5m"),
    ("1d", "2h", 0.25, "ticket", "15m"),
    ("3d", "6h", 0.50, "ticket", "30m"),
)
DROPS = (
    # window, z, least difference, severity
    ("15m", 4.0, 0.10, "page"),
    ("1h", 4.0, 0.06, "page"),
    ("2h", 3.6, 0.06, "page"),
    ("6h", 3.8, 0.04, "page"),
    ("12h", 3.5, 0.04, "page"),
    ("6h", 3.0, 0.03, "ticket"),
)
"""Chance is held down by z alone, and the more so the oftener a window is a new one: to wait until a drop has held for
some minutes costs more delay than it spares false pages (benchmarks/alerts)."""
AS_LAST_WEEK = 2.5
"""Standard errors above last week's same hours below which they were as bad."""
LEAST = 30
"""Effective samples below which nothing is said of a rate."""
_HOURS = {"5m": 1 / 12, "15m": 0.25, "30m": 0.5, "1h": 1, "2h": 2, "3h": 3, "6h": 6, "12h": 12, "1d": 24, "3d": 72}
MOST = 0.9
"""No tier waits for a larger share of failures than that: with a low objective it could never fire."""


def factor(share: float, window: str) -> float:
    """How much faster than allowed the budget burns when `share` of it goes in one window."""
    return share * PERIOD_HOURS / _HOURS[window]


def recorded(record: str, expr: str, **labels: str) -> Rule:
    return {"record": record, "expr": expr.strip(), **({"labels": labels} if labels else {})}


def rates() -> list[Rule]:
    """Failure rate and effective samples in each window."""
    found = []
    for w in WINDOWS:
        weight = f"sum by ({BY}) (rate(ragtrace_evaluation_weight_total{{{DECIDED}}}[{w}]))"
        fails = f'sum by ({BY}) (rate(ragtrace_evaluation_weight_total{{verdict="fail"}}[{w}]))'
        found.append(recorded(RATIO + w, f"{fails}\n/ ({weight} > 0)"))
        whole = f"sum by ({BY}) (increase(ragtrace_evaluation_weight_total{{{DECIDED}}}[{w}]))"
        squares = f"sum by ({BY}) (increase(ragtrace_evaluation_weight_squared_total{{{DECIDED}}}[{w}]))"
        found.append(recorded(SAMPLES + w, f"{whole} ^ 2\n/ ({squares} > 0)"))
    return found


def bounds() -> list[Rule]:
    """Wilson's bounds (z = 1.645, one-sided 95 %) of the failure rate, where burn alerts and dashboards need them."""
    found = []
    for w in ("1h", "6h", "1d", "3d"):
        r, n = RATIO + w, SAMPLES + w
        centre = f"{r} + 2.706 / (2 * {n})"
        spread = f"1.645 * sqrt(({r} * (1 - {r}) + 2.706 / (4 * {n})) / {n})"
        for name, sign in ((LOWER, "-"), (UPPER, "+")):
            found.append(recorded(name + w, f"({centre} {sign} {spread})\n/ (1 + 2.706 / {n})"))
    return found


def comparisons() -> list[Rule]:
    """Each window beside the day before it, and last week's same hours."""
    found = []
    for w in dict.fromkeys(w for w, *_ in DROPS):
        found += [recorded(ZSCORE + w, difference(w, "1d", w)), recorded(SAME_HOURS + w, same_hours(w))]
    found.append(recorded(ZSCORE + "1d_vs_7d", difference("1d", "7d", "1d")))
    return found


def difference(window: str, before: str, offset: str) -> str:
    """Failure rates of a window and of one before it, in standard errors of Cohen's h.

    h = 2 (asin sqrt r - asin sqrt b) has the variance 1/n + 1/m whatever the rates are, and its tails are those of the
    normal distribution where few of few fail: there, the pooled difference of two proportions is far beyond five of its
    standard errors again and again (J. Cohen, Statistical Power Analysis, 1988, chapter 6).
    """
    r, n = RATIO + window, SAMPLES + window
    b, m = f"{RATIO}{before} offset {offset}", f"{SAMPLES}{before} offset {offset}"
    return f"2 * (asin(sqrt({r})) - asin(sqrt({b})))\n/ sqrt(1 / {n} + 1 / {m})"


def same_hours(window: str) -> str:
    """How far a window is above last week's same hours, in standard errors, where enough was evaluated to speak of
    them; in an application's first week, above yesterday's.

    For short windows it is the least of three: beside the hour that began now, the three hours around and the two that
    end now. A night begins sharply, and ends so.
    """

    def beside(w: str, offset: str) -> str:
        return f"{difference(window, w, offset)}\n  and {SAMPLES}{w} offset {offset} >= {4 * LEAST}"

    def least(days: int) -> str:
        if _HOURS[window] > 2:
            return f"({beside(window, f'{days}d')})"
        before = f"{days - 1}d" if days > 1 else ""
        hours = ("1h", f"{before}23h"), ("3h", f"{before}22h30m"), ("2h", f"{days}d")
        parts = [f'label_replace({beside(w, o)}, "of", "{w}", "", "")' for w, o in hours]
        return f"min by ({BY}) (\n  " + "\n  or ".join(parts) + "\n)"

    return f"{least(7)}\nor {least(1)}"


def objectives() -> list[Rule]:
    """The share of failures that each application's objective allows."""
    own = '(1 - max by (app, evaluator) (ragtrace_objective{app!=""}))'
    default = '(1 - max by (evaluator) (ragtrace_objective{app=""}))'
    there = f"(group by ({BY}) ({RATIO}3d))"
    return [
        recorded(
            ALLOWED,
            f"{there} * on (app, evaluator) group_left () {own}\n"
            f"or on ({BY}) ({there} * on (evaluator) group_left () {default})",
        )
    ]


def alert(
    name: str, expr: str, severity: str, summary: str, *, wait: str = "0m", keep: str = "", **labels: str
) -> Rule:
    """An alert with its runbook and its dashboard."""
    found: Rule = {"alert": name, "expr": expr.strip(), "for": wait}
    if keep:
        found["keep_firing_for"] = keep
    found["labels"] = {"severity": severity, **labels}
    evaluator = "&var-evaluator={{ $labels.evaluator }}" if "evaluator" in expr else ""
    found["annotations"] = {
        "summary": summary,
        "runbook_url": f"{RUNBOOKS}/{name}.md",
        "dashboard_url": "/d/ragtrace-overview?var-app={{ $labels.app }}" + evaluator,
    }
    return found


def burns() -> list[Rule]:
    """Multi-window, multi-burn-rate alerts on the objective."""
    found = []
    for long, short, share, severity, wait in TIERS:
        limit = f"clamp_max({factor(share, long):.4g} * {ALLOWED}, {MOST})"
        found.append(
            alert(
                "RagtraceQualityBudgetBurn",
                f"{RATIO}{long} > {limit}\n"
                f"and {RATIO}{short} > {limit}\n"
                f"and {SAMPLES}{long} >= {LEAST}\n"
                f"and {LOWER}{long} > {limit}",
                severity,
                "{{ $labels.app }}: {{ $labels.evaluator }} fails {{ $value | humanizePercentage }} of answers over "
                f"{long}; {share:.0%} of the week's budget went in that time",
                wait=wait,
                keep="15m",
                slo="quality",
                long_window=long,
            )
        )
    return found


def relabelled(window: str) -> str:
    """Evaluators of which more than one version ran in the window: a calibration, or another release, fails other
    answers than before, and what it fails cannot be compared with what the version before failed."""
    versions = f"count by ({BY}, version) (max_over_time(ragtrace_evaluator_info[{window}]))"
    return f"unless on ({BY}) (count by ({BY}) ({versions}) > 1)"


def drops() -> list[Rule]:
    """Falls below the application's own past: beyond chance, beyond a least difference, and not as last week."""
    found = []
    for w, z, least, severity in DROPS:
        found.append(
            alert(
                "RagtraceQualityDrop",
                f"({RATIO}{w} - {RATIO}1d offset {w} > {least})\n"
                f"and {ZSCORE}{w} > {z:g}\n"
                f"and {SAMPLES}{w} >= {LEAST}\n"
                f"and {SAMPLES}1d offset {w} >= {4 * LEAST}\n"
                f"unless {SAME_HOURS}{w} < {AS_LAST_WEEK}\n"
                f"{relabelled('2d:10m')}",
                severity,
                "{{ $labels.app }}: {{ $labels.evaluator }} fails {{ $value | humanizePercentage }} more of the answers "
                f"over {w} than in the day before",
                keep="30m",
                slo="quality",
                long_window=w,
            )
        )
    found.append(
        alert(
            "RagtraceQualityCreep",
            f"({RATIO}1d - {RATIO}7d offset 1d > 0.02)\n"
            f"and {ZSCORE}1d_vs_7d > 4\n"
            f"and {SAMPLES}7d offset 1d >= {20 * LEAST}\n"
            f"{relabelled('8d:1h')}",
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} fails {{ $value | humanizePercentage }} more of the answers today "
            "than in the week before",
            wait="1h",
            keep="1h",
            slo="quality",
        )
    )
    return found


def _share(bad: str, whole: str, by: str = "app, env") -> str:
    return f"sum by ({by}) ({bad}) / (sum by ({by}) ({whole}) > 0)"


def safety() -> list[Rule]:
    """Secrets page one by one, personal data and toxicity by their rate."""

    def rate_of(evaluator: str, window: str, offset: str = "") -> str:
        select = f'evaluator="{evaluator}"'
        return _share(
            f'rate(ragtrace_evaluation_weight_total{{{select},verdict="fail"}}[{window}]{offset})',
            f"rate(ragtrace_evaluation_weight_total{{{select},{DECIDED}}}[{window}]{offset})",
            BY,
        )

    leaked = 'ragtrace_evaluations_total{evaluator="sensitive_data_leakage",verdict="fail"}'
    found = [
        alert(
            "RagtraceSecretLeaked",
            # The first failure of a new model or prompt version comes with its series, which `increase` does not see.
            f"sum by ({BY}) (increase({leaked}[15m])) > 0\n"
            f"or sum by ({BY}) ({leaked} unless last_over_time({leaked}[1d] offset 15m)) > 0",
            "page",
            "{{ $labels.app }}: answers of the last 15 minutes that hold a secret: {{ $value | humanize }}",
            slo="safety",
        )
    ]
    for name, evaluator, page, ticket in (
        ("RagtracePersonalDataLeaked", "pii_leakage", 0.20, 0.02),
        ("RagtraceToxicitySpike", "toxicity", 0.10, 0.02),
    ):
        what = "hold personal data" if evaluator == "pii_leakage" else "are toxic"
        for severity, limit, window, wait in (("page", page, "30m", "5m"), ("ticket", ticket, "6h", "15m")):
            found.append(
                alert(
                    name,
                    f"({rate_of(evaluator, window)}) > {limit}\n"
                    f"and ({rate_of(evaluator, window)}) > 3 * ({rate_of(evaluator, '1d', f' offset {window}')} or "
                    f"0 * ({rate_of(evaluator, window)}))\n"
                    f'and {SAMPLES}{window}{{evaluator="{evaluator}"}} >= {LEAST}',
                    severity,
                    f"{{{{ $labels.app }}}}: {{{{ $value | humanizePercentage }}}} of the answers of {window} {what}, more "
                    "than three times the share of the day before",
                    wait=wait,
                    keep="30m",
                    slo="safety",
                )
            )
    return found


def silence() -> list[Rule]:
    """Blindness: what nobody would see because nothing is shown."""
    sampled = 'sum by (app, env) (increase(ragtrace_sampling_decisions_total{decision="sampled"}[30m]))'
    evaluated = "sum by (app, env) (increase(ragtrace_evaluations_total[30m]))"
    lost = "sum by (app, env, sink) (rate(ragtrace_export_failures_total[15m]))"
    sent = "sum by (app, env, sink) (rate(ragtrace_export_items_total[15m]))"
    errors = _share(
        'rate(ragtrace_evaluations_total{verdict="error"}[30m])', "rate(ragtrace_evaluations_total[30m])", BY
    )
    return [
        alert(
            "RagtraceTelemetryAbsent",
            "absent(ragtrace_build_info)",
            "page",
            "No application reports to this Prometheus: nothing is watched",
            wait="10m",
        ),
        alert(
            "RagtraceApplicationGone",
            "group by (app, env) (ragtrace_build_info offset 30m) unless on (app, env) group by (app, env) "
            "(ragtrace_build_info)",
            "ticket",
            "{{ $labels.app }}: reported half an hour ago and no longer does",
            wait="10m",
        ),
        alert(
            "RagtraceEvaluationsStalled",
            f"{sampled} > 0\nunless on (app, env) {evaluated} > 0",
            "page",
            "{{ $labels.app }}: {{ $value | humanize }} requests of 30 minutes were to be evaluated, none was",
            wait="15m",
        ),
        alert(
            "RagtraceQualityUnknown",
            "sum by (app, env) (increase(ragtrace_requests_total[1d])) > 0\n"
            f'unless on (app, env) {SAMPLES}1d{{evaluator="faithfulness"}} >= {LEAST}',
            "info",
            "{{ $labels.app }}: too few evaluations in a day to say anything of its faithfulness",
            wait="1h",
            slo="quality",
        ),
        alert(
            "RagtraceEvaluatorErrors",
            f"({errors}) > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} fails to give a score for {{ $value | humanizePercentage }} of "
            "requests",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluatorSilent",
            f"sum by ({BY}) (increase(ragtrace_evaluation_eligible_total[2h])) > {LEAST}\n"
            f'unless sum by ({BY}) (increase(ragtrace_evaluations_total{{verdict=~"pass|fail|none"}}[2h])) > 0',
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} gave no value for {{ $value | humanize }} requests of 2 hours",
            wait="15m",
        ),
        alert(
            "RagtraceEvaluationLag",
            "histogram_quantile(0.95, sum by (app, env, le) (rate(ragtrace_evaluation_lag_seconds_bucket[15m]))) > 300",
            "ticket",
            "{{ $labels.app }}: scores come {{ $value | humanizeDuration }} after the requests (p95)",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluationsDropped",
            _share(
                "rate(ragtrace_pipeline_dropped_total[30m])",
                'rate(ragtrace_sampling_decisions_total{decision="sampled"}[30m])',
            )
            + " > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the sampled requests are dropped before they are "
            "evaluated",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceJudgeBudgetGone",
            f'sum by ({BY}) (increase(ragtrace_evaluator_errors_total{{reason="judge_budget"}}[15m])) > 0',
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} went unanswered {{ $value | humanize }} times: the judge's budget "
            "is used up",
            wait="5m",
            keep="15m",
        ),
        alert(
            "RagtraceJudgeUnreadable",
            _share(
                'rate(ragtrace_evaluator_errors_total{reason="parse_failure"}[1h])',
                "rate(ragtrace_evaluations_total[1h]) and on (app, env, evaluator) ragtrace_judge_cost_usd_total",
                BY,
            )
            + " > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the judge's answers to {{ $labels.evaluator }} cannot "
            "be read",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceExportFailing",
            f"{lost} / (({sent} or 0 * {lost}) + {lost} > 0) > 0.01",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the {{ $labels.sink }} could not be exported",
            wait="10m",
            keep="15m",
        ),
    ]


def service() -> list[Rule]:
    """What users feel."""
    empty = _share("rate(ragtrace_retrieval_empty_total[30m])", "rate(ragtrace_retrieved_documents_count[30m])")
    before = _share(
        "rate(ragtrace_retrieval_empty_total[1d] offset 30m)", "rate(ragtrace_retrieved_documents_count[1d] offset 30m)"
    )
    errors = _share('rate(ragtrace_requests_total{status="error"}[15m])', "rate(ragtrace_requests_total[15m])")
    enough = "sum by (app, env) (increase(ragtrace_retrieved_documents_count[30m])) >= 30"
    return [
        alert(
            "RagtraceRetrievalEmpty",
            f"({empty}) > 0.05\nand ({empty}) > 3 * ({before} or 0 * ({empty}))\nand {enough}",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the retrievals find nothing, more than three times "
            "the share of the day before",
            wait="10m",
            keep="30m",
            slo="retrieval",
        ),
        alert(
            "RagtraceRetrievalDown",
            f"({empty}) > 0.5\nand {enough}",
            "page",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the retrievals find nothing",
            wait="5m",
            keep="15m",
            slo="retrieval",
        ),
        alert(
            "RagtraceRequestErrors",
            f"({errors}) > 0.1\nand sum by (app, env) (increase(ragtrace_requests_total[15m])) >= 30",
            "page",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the requests end in an error",
            wait="5m",
            keep="15m",
            slo="availability",
        ),
    ]


def files() -> dict[str, str]:
    """Every file's path below grafana/, and its text."""
    recording = [
        {"name": "ragtrace-rates", "interval": "1m", "rules": rates()},
        {"name": "ragtrace-comparisons", "interval": "1m", "rules": [*objectives(), *bounds(), *comparisons()]},
    ]
    alerts = [
        {"name": "ragtrace-quality", "interval": "1m", "rules": [*burns(), *drops()]},
        {"name": "ragtrace-safety", "interval": "1m", "rules": safety()},
        {"name": "ragtrace-blindness", "interval": "1m", "rules": silence()},
        {"name": "ragtrace-service", "interval": "1m", "rules": service()},
    ]
    given = [
        {
            "name": "ragtrace-objectives",
            "interval": "1m",
            "rules": [
                recorded("ragtrace_objective", f"vector({value})", evaluator=name) for name, value in OBJECTIVES.items()
            ],
        }
    ]
    head = "# Written by grafana/source/rules.py; change that, and run it.\n"
    own = (
        "# Share of answers that shall pass, by evaluator. For one application's own, add a rule with its name:\n"
        "#   - {record: ragtrace_objective, expr: vector(0.95), labels: {evaluator: faithfulness, app: my-app}}\n"
    )
    return {
        "rules/ragtrace-recording.yml": head + _yaml(recording),
        "rules/ragtrace-alerts.yml": head + _yaml(alerts),
        "rules/objectives.yml": own + _yaml(given),
    }


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(groups: list[dict[str, Any]]) -> str:
    return str(yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=True))


if __name__ == "__main__":
    sys.exit(write("rules", files()))

"""Rules on quality: failure rates, their precision, their comparison with the past, and the alerts on them.

Quality is a failure rate: evaluations that fail / evaluations that pass or fail. Each is weighted by 1/p, so that the
rate is that of all requests, at any sampling rate. Its precision follows from the effective sample size (Kish),
n = (Σw)² / Σw². An alert compares with the application's own past and fires only if the difference is larger than chance
explains.
"""

from __future__ import annotations

from collections.abc import Sequence

from rule import BY, DECIDED, LEAST, RATIO, SAMPLES, Rule, alert, recorded

WINDOWS = ("5m", "15m", "30m", "1h", "2h", "6h", "12h", "1d", "3d", "7d")
ZSCORE = "app_evaluator:ragtrace_evaluation_fail:zscore"
LOWER = "app_evaluator:ragtrace_evaluation_fail:wilson_lower"
UPPER = "app_evaluator:ragtrace_evaluation_fail:wilson_upper"
ALLOWED = "app_evaluator:ragtrace_evaluation_fail:allowed"
SAME_HOURS = "app_evaluator:ragtrace_evaluation_fail:ratio_same_hours"
SAME_HOURS_SAMPLES = "app_evaluator:ragtrace_evaluation_effective_samples:same_hours"

OBJECTIVES = {"faithfulness": 0.90}
"""The share of answers that must pass, by evaluator. An application can have its own objective: a series of
`ragtrace_objective` with its `app`, see objectives.yml."""
PERIOD_HOURS = 7 * 24
"""The period of the error budget: one week."""
TIERS = (
    # long and short window, share of the week's budget that is gone when it fires, severity, how long it must hold
    ("1h", "5m", 0.05, "page", "2m"),
    ("6h", "30m", 0.10, "page", "5m"),
    ("1d", "2h", 0.25, "ticket", "15m"),
    ("3d", "6h", 0.50, "ticket", "30m"),
)
DROPS = (
    # window, z, least difference, severity
    ("15m", 3.7, 0.10, "page"),
    ("1h", 3.7, 0.06, "page"),
    ("2h", 3.0, 0.06, "page"),
    ("6h", 3.4, 0.04, "page"),
    ("12h", 3.2, 0.04, "page"),
    ("6h", 3.0, 0.03, "ticket"),
)
"""Only z limits false alerts; a short window, which is new more often, has a larger z. Waiting until a drop has lasted
some minutes would cost more delay than it would save false pages (benchmarks/alerts)."""
WANDERING = {w: 0.0 if w == "12h" else 0.03 for w, *_ in DROPS}
"""Standard deviation, in Cohen's h, of a normal failure rate from hour to hour; over half a day it averages out."""
AS_LAST_WEEK = 3
"""A fall a week ago, within half an hour of this time of day, that was as deep and had this many standard errors makes a
fall a known pattern."""
_HOURS = {"5m": 1 / 12, "15m": 0.25, "30m": 0.5, "1h": 1, "2h": 2, "6h": 6, "12h": 12, "1d": 24, "3d": 72}
MOST = 0.9
"""The largest share of failures that a tier waits for; with a low objective it could otherwise never fire."""


def factor(share: float, window: str) -> float:
    """Returns how many times faster than allowed the budget burns when `share` of it is used in one window."""
    return share * PERIOD_HOURS / _HOURS[window]


def rates() -> list[Rule]:
    """Returns the rules for the failure rate and the effective samples in each window."""
    rules = []
    for w in WINDOWS:
        weight = f"sum by ({BY}) (rate(ragtrace_evaluation_weight_total{{{DECIDED}}}[{w}]))"
        fails = f'sum by ({BY}) (rate(ragtrace_evaluation_weight_total{{verdict="fail"}}[{w}]))'
        rules.append(recorded(RATIO + w, f"{fails}\n/ ({weight} > 0)"))
        whole = f"sum by ({BY}) (increase(ragtrace_evaluation_weight_total{{{DECIDED}}}[{w}]))"
        squares = f"sum by ({BY}) (increase(ragtrace_evaluation_weight_squared_total{{{DECIDED}}}[{w}]))"
        rules.append(recorded(SAMPLES + w, f"{whole} ^ 2\n/ ({squares} > 0)"))
    return rules


def bounds() -> list[Rule]:
    """Wilson's bounds (z = 1.645, one-sided 95 %) of the failure rate, where burn alerts and dashboards need them."""
    rules = []
    for w in ("1h", "6h", "1d", "3d"):
        r, n = RATIO + w, SAMPLES + w
        centre = f"{r} + 2.706 / (2 * {n})"
        spread = f"1.645 * sqrt(({r} * (1 - {r}) + 2.706 / (4 * {n})) / {n})"
        for name, sign in ((LOWER, "-"), (UPPER, "+")):
            rules.append(recorded(name + w, f"({centre} {sign} {spread})\n/ (1 + 2.706 / {n})"))
    return rules


def comparisons() -> list[Rule]:
    """Compares each window with the day before it, and with the same hours of the last seven days."""
    rules = []
    for w, wandering in WANDERING.items():
        rules += same_hours(w)
        day = difference(w, f"{RATIO}1d offset {w}", f"{SAMPLES}1d offset {w}", wandering)
        hours = difference(w, SAME_HOURS + w, SAME_HOURS_SAMPLES + w, wandering)
        enough = f"{SAME_HOURS_SAMPLES}{w} >= {4 * LEAST}"
        least = [labelled("of", "day", day), labelled("of", "same hours", f"({hours}) and {enough}")]
        rules.append(recorded(ZSCORE + w, f"min by ({BY}) (\n{united(least)}\n)"))
    rules.append(recorded(ZSCORE + "1d_vs_7d", difference("1d", f"{RATIO}7d offset 1d", f"{SAMPLES}7d offset 1d")))
    return rules


def difference(window: str, before: str, samples: str, wandering: float = 0.0) -> str:
    """Returns the query of the difference between two failure rates, in standard errors of Cohen's h.

    h = 2 (asin sqrt r - asin sqrt b) has the variance 1/n + 1/m whatever the rates are, and its tails are those of the
    normal distribution where few of few fail: there, the pooled difference of two proportions is far beyond five of its
    standard errors again and again (J. Cohen, Statistical Power Analysis, 1988, chapter 6).
    """
    variance = f"1 / {SAMPLES}{window} + 1 / {samples}" + (f" + {wandering**2:.4g}" if wandering else "")
    return f"2 * (asin(sqrt({RATIO}{window})) - asin(sqrt({before})))\n/ sqrt({variance})"


def same_hours(window: str) -> list[Rule]:
    """Returns failure rate and effective samples of the window one to seven days ago, as far as recorded.

    With it, a rate that is worse every night is not a fall."""
    rate, n = RATIO + window, SAMPLES + window
    samples = united([labelled("day", str(d), f"{n} offset {d}d") for d in range(1, 8)])
    fails = united([labelled("day", str(d), f"{rate} offset {d}d * {n} offset {d}d") for d in range(1, 8)])
    return [
        recorded(SAME_HOURS_SAMPLES + window, f"sum by ({BY}) (\n{samples}\n)"),
        recorded(SAME_HOURS + window, f"sum by ({BY}) (\n{fails}\n)\n/ ({SAME_HOURS_SAMPLES}{window} > 0)"),
    ]


def labelled(label: str, value: str, expr: str) -> str:
    """Adds a label to the series of an expression, so that `or` keeps them."""
    return f'label_replace({expr}, "{label}", "{value}", "", "")'


def united(exprs: Sequence[str]) -> str:
    """Joins the series of all these expressions."""
    return "  " + "\n  or ".join(exprs)


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
        )
    ]


def burns() -> list[Rule]:
    """Returns multi-window, multi-burn-rate alerts on the objective."""
    rules = []
    for long, short, share, severity, wait in TIERS:
        limit = f"clamp_max({factor(share, long):.4g} * {ALLOWED}, {MOST})"
        rules.append(
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
    return rules


def relabelled(window: str) -> str:
    """Excludes evaluators of which more than one version ran in the window.

    After a calibration or a release, an evaluator fails other answers, so its rates cannot be compared."""
    versions = f"count by ({BY}, version) (max_over_time(ragtrace_evaluator_info[{window}]))"
    return f"unless on ({BY}) (count by ({BY}) ({versions}) > 1)"


def last_week(name: str) -> str:
    """Returns the largest value at this time a week ago, within half an hour."""
    return f"max_over_time({name}[1h] offset 6d23h30m)"


def drops() -> list[Rule]:
    """Returns alerts on falls below the application's own past.

    A fall is larger than chance and than a least difference, and does not happen at these hours on other days. Only an
    evaluator with an objective pages: of thirty evaluators, one is at its worst at any time."""
    rules = []
    for w, z, least, severity in DROPS:
        objective = f"and {ALLOWED}\n" if severity == "page" else ""
        rules.append(
            alert(
                "RagtraceQualityDrop",
                f"({RATIO}{w} - {RATIO}1d offset {w} > {least})\n"
                f"and {ZSCORE}{w} > {z:g}\n"
                f"and {SAMPLES}{w} >= {LEAST}\n"
                f"and {SAMPLES}1d offset {w} >= {4 * LEAST}\n"
                f"{objective}"
                f"unless ({RATIO}{w} - {last_week(RATIO + w)} < {least}\n"
                f"  and {last_week(ZSCORE + w)} > {AS_LAST_WEEK})\n"
                f"{relabelled('2d:10m')}",
                severity,
                "{{ $labels.app }}: {{ $labels.evaluator }} fails {{ $value | humanizePercentage }} more of the answers "
                f"over {w} than in the day before",
                keep="30m",
                slo="quality",
                long_window=w,
            )
        )
    rules.append(
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
    return rules


def unknown() -> list[Rule]:
    """Returns the alert for too few evaluations to compute any of these rates."""
    return [
        alert(
            "RagtraceQualityUnknown",
            "sum by (app, env) (increase(ragtrace_requests_total[1d])) > 0\n"
            f'unless on (app, env) {SAMPLES}1d{{evaluator="faithfulness"}} >= {LEAST}',
            "info",
            "{{ $labels.app }}: too few evaluations in a day to say anything of its faithfulness",
            wait="1h",
            slo="quality",
        )
    ]

"""Rules on quality: failure rates, how sure they are, what they are beside, and the alerts on them.

Quality is a failure rate: evaluations that fail / evaluations that pass or fail, each weighted by 1/p, so that it stands
for all requests whatever was sampled. Its precision is that of the effective sample size (Kish), n = (Σw)² / Σw². An
alert compares with the application's own past, and speaks only where the difference is larger than chance explains.
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
    ("15m", 3.7, 0.10, "page"),
    ("1h", 3.7, 0.06, "page"),
    ("2h", 3.0, 0.06, "page"),
    ("6h", 3.4, 0.04, "page"),
    ("12h", 3.2, 0.04, "page"),
    ("6h", 3.0, 0.03, "ticket"),
)
"""Chance is held down by z alone, and the more so the oftener a window is a new one: to wait until a drop has held for
some minutes costs more delay than it spares false pages (benchmarks/alerts)."""
WANDERING = {w: 0.0 if w == "12h" else 0.03 for w, *_ in DROPS}
"""Standard deviation, in Cohen's h, by which a failure rate wanders from hour to hour where nothing is wrong; over half a
day that averages out."""
AS_LAST_WEEK = 3
"""Standard errors of a fall a week ago, within half an hour of now, that was as deep: this one is known."""
_HOURS = {"5m": 1 / 12, "15m": 0.25, "30m": 0.5, "1h": 1, "2h": 2, "6h": 6, "12h": 12, "1d": 24, "3d": 72}
MOST = 0.9
"""No tier waits for a larger share of failures than that: with a low objective it could never fire."""


def factor(share: float, window: str) -> float:
    """How much faster than allowed the budget burns when `share` of it goes in one window."""
    return share * PERIOD_HOURS / _HOURS[window]


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
    """Each window beside the day before it, and beside the same hours of the last seven days."""
    found = []
    for w, wandering in WANDERING.items():
        found += same_hours(w)
        day = difference(w, f"{RATIO}1d offset {w}", f"{SAMPLES}1d offset {w}", wandering)
        hours = difference(w, SAME_HOURS + w, SAME_HOURS_SAMPLES + w, wandering)
        enough = f"{SAME_HOURS_SAMPLES}{w} >= {4 * LEAST}"
        least = [labelled("of", "day", day), labelled("of", "same hours", f"({hours}) and {enough}")]
        found.append(recorded(ZSCORE + w, f"min by ({BY}) (\n{united(least)}\n)"))
    found.append(recorded(ZSCORE + "1d_vs_7d", difference("1d", f"{RATIO}7d offset 1d", f"{SAMPLES}7d offset 1d")))
    return found


def difference(window: str, before: str, samples: str, wandering: float = 0.0) -> str:
    """Failure rates of a window and of one before it, in standard errors of Cohen's h.

    h = 2 (asin sqrt r - asin sqrt b) has the variance 1/n + 1/m whatever the rates are, and its tails are those of the
    normal distribution where few of few fail: there, the pooled difference of two proportions is far beyond five of its
    standard errors again and again (J. Cohen, Statistical Power Analysis, 1988, chapter 6).
    """
    variance = f"1 / {SAMPLES}{window} + 1 / {samples}" + (f" + {wandering**2:.4g}" if wandering else "")
    return f"2 * (asin(sqrt({RATIO}{window})) - asin(sqrt({before})))\n/ sqrt({variance})"


def same_hours(window: str) -> list[Rule]:
    """Failure rate and effective samples of the window as it was one to seven days ago, as far as that is known: what is
    worse every night is no fall."""
    rate, n = RATIO + window, SAMPLES + window
    samples = united([labelled("day", str(d), f"{n} offset {d}d") for d in range(1, 8)])
    fails = united([labelled("day", str(d), f"{rate} offset {d}d * {n} offset {d}d") for d in range(1, 8)])
    return [
        recorded(SAME_HOURS_SAMPLES + window, f"sum by ({BY}) (\n{samples}\n)"),
        recorded(SAME_HOURS + window, f"sum by ({BY}) (\n{fails}\n)\n/ ({SAME_HOURS_SAMPLES}{window} > 0)"),
    ]


def labelled(label: str, value: str, expr: str) -> str:
    """An expression's series with one more label, so that `or` keeps them beside others."""
    return f'label_replace({expr}, "{label}", "{value}", "", "")'


def united(exprs: Sequence[str]) -> str:
    """The series of all these expressions."""
    return "  " + "\n  or ".join(exprs)


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


def last_week(name: str) -> str:
    """The most that was recorded at this hour a week ago, give or take half an hour."""
    return f"max_over_time({name}[1h] offset 6d23h30m)"


def drops() -> list[Rule]:
    """Falls below the application's own past: beyond chance, beyond a least difference, and not as at these hours of
    other days. Only an evaluator that has an objective wakes somebody: of thirty, one is at any time at its worst."""
    found = []
    for w, z, least, severity in DROPS:
        objective = f"and {ALLOWED}\n" if severity == "page" else ""
        found.append(
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


def unknown() -> list[Rule]:
    """Where too little is evaluated for any of this."""
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

"""Rules on failure rates and their precision.

Quality is a failure rate: evaluations that fail / evaluations that pass or fail. Each is weighted by 1/p, so that the
rate is that of all requests, at any sampling rate. Its precision follows from the effective sample size (Kish),
n = (Σw)² / Σw². Counters are read once: what they grew by in five minutes is recorded, and longer windows add that up.
"""

from __future__ import annotations

from dataclasses import dataclass

from rule import BY, DECIDED, RATIO, SAMPLES, Rule, labelled, recorded, seconds, united, wilson

LOWER = "app_evaluator:ragtrace_evaluation_fail:wilson_lower"
UPPER = "app_evaluator:ragtrace_evaluation_fail:wilson_upper"
PAGES = "app_evaluator:ragtrace_evaluation_fail:pages"
DIMENSIONS = {"prompt": ("prompt_version", ""), "model": ("model", ""), "tenant": ("tenant", "tenant_")}
"""The dimensions of groups of requests, by the word in an alert's text: the label of the counters, and the part that their
names have after `ragtrace_`."""


@dataclass(frozen=True)
class Level:
    """Who has failure rates: applications, or groups of an application's requests.

    `prefix` begins the recorded names, `by` are the labels."""

    prefix: str
    by: str
    windows: tuple[str, ...]

    def ratio(self, window: str) -> str:
        """Returns the name of the failure rate."""
        return f"{self.prefix}:ragtrace_evaluation_fail:ratio_ipw_rate{window}"

    def samples(self, window: str) -> str:
        """Returns the name of the effective samples."""
        return f"{self.prefix}:ragtrace_evaluation_effective_samples:increase{window}"

    def fact(self, name: str) -> str:
        """Returns the name of another record on failures."""
        return f"{self.prefix}:ragtrace_evaluation_fail:{name}"

    def grown(self, what: str, window: str = "5m") -> str:
        """Returns the name of what `fails`, `weight` or `squares` grew by in five or thirty minutes."""
        return f"{self.prefix}:ragtrace_evaluation_{what}:increase{window}"


SHORT = ("5m", "15m", "1h", "2h")
"""Windows that are read from the counters, because they must be as of this minute."""
APPS = Level("app_evaluator", BY, ("30m", "6h", "12h", "1d", "3d", "7d"))
PAGED = Level("app_evaluator_paging", BY, ("15m", "1h", "2h", "6h", "12h", "1d", "3d"))
"""The evaluators that wake people. What is compared often reads these few series instead of those of all evaluators."""
GROUPS = Level("app_evaluator_group", f"{BY}, dimension, group", ("15m", "1h", "6h", "1d"))


def increases() -> list[Rule]:
    """Returns the rules that are evaluated every five minutes: what the counters grew by."""
    return _grown()


def rates() -> list[Rule]:
    """Returns the rules for the failure rate and the effective samples in each window."""
    short = [rule for window in SHORT for rule in _short(window)]
    halves = [*_half_hours(APPS), *_summed(APPS)]
    return [*short, *halves, *_pages(), *_paged(), *_group_growth(), *_half_hours(GROUPS), *_summed(GROUPS)]


def _counters(window: str, more: str = "", kind: str = "") -> dict[str, str]:
    """Returns what the counters grew by, before it is summed."""
    weight, squares = (f"ragtrace_{kind}evaluation_{name}_total" for name in ("weight", "weight_squared"))
    return {
        "fails": f'increase({weight}{{verdict="fail"{more}}}[{window}])',
        "weight": f"increase({weight}{{{DECIDED}{more}}}[{window}])",
        "squares": f"increase({squares}{{{DECIDED}{more}}}[{window}])",
    }


def _grown() -> list[Rule]:
    """What applications' counters grew by in five minutes."""
    text = {
        "fails": "Requests whose answers failed in five minutes, weighted by 1/p.",
        "weight": "Requests that evaluations with a verdict stand for, in five minutes: the sum of 1/p.",
        "squares": "The sum of 1/p squared in five minutes, for the effective sample size.",
    }
    return [
        recorded(
            APPS.grown(what),
            f"sum by ({BY}) ({expr})",
            f"{text[what]} Longer windows add these values up, so that each counter is read once.",
        )
        for what, expr in _counters("5m").items()
    ]


def _short(window: str) -> list[Rule]:
    """Rate and samples of a window that must not wait for the next five minutes."""
    grown = {what: f"sum by ({BY}) ({expr})" for what, expr in _counters(window).items()}
    return [
        recorded(
            RATIO + window,
            f"{grown['fails']}\n/ ({grown['weight']} > 0)",
            f"The share of answers that fail in {window}, weighted to all traffic. It is read from the counters, because "
            "it must be as of this minute.",
        ),
        recorded(
            SAMPLES + window,
            f"{grown['weight']} ^ 2\n/ ({grown['squares']} > 0)",
            f"The effective sample size of {window} (Kish): so many equal evaluations would be as precise. Rules read a "
            "rate only where it is at least 30.",
        ),
    ]


def _half_hours(level: Level) -> list[Rule]:
    """What counters grew by in half an hour."""
    return [
        recorded(
            level.grown(what, "30m"),
            f"sum_over_time({level.grown(what)}[1799s:5m])",
            f"What five minutes recorded, added up over half an hour ({what}). Windows of half a day and more add these up.",
        )
        for what in ("fails", "weight", "squares")
    ]


def _summed(level: Level) -> list[Rule]:
    """Rates and samples of longer windows."""
    whose = "of a group of requests" if level is GROUPS else "of an application"
    rules = []
    for window in level.windows:
        step = "30m" if seconds(window) > 6 * 3_600 else "5m"
        # A second less than the window: so many steps at every moment.
        within = f"[{seconds(window) - 1}s:{step}]"
        sums = (f"sum_over_time({level.grown(what, step)}{within})" for what in ("fails", "weight", "squares"))
        fails, weight, squares = sums
        rules += [
            recorded(
                level.ratio(window),
                f"{fails}\n/ ({weight} > 0)",
                f"The share of answers {whose} that fail in {window}, weighted to all traffic. It adds up what was "
                f"recorded every {step}.",
            ),
            recorded(
                level.samples(window),
                f"{weight} ^ 2\n/ ({squares} > 0)",
                f"The effective sample size {whose} in {window} (Kish). It tells how precise the rate is.",
            ),
        ]
    return rules


def _pages() -> list[Rule]:
    """Which evaluators wake people: those of objectives.yml, and those with an objective."""
    there = f"group by ({BY}) ({SAMPLES}1d)"
    own = f'({there}) * on (app, evaluator) group_left () max by (app, evaluator) (ragtrace_pages{{app!=""}})'
    default = f'({there}) * on (evaluator) group_left () max by (evaluator) (ragtrace_pages{{app=""}})'
    objective = f'({there}) and on (evaluator) ragtrace_objective{{app=""}}'
    own_objective = f'({there}) and on (app, evaluator) ragtrace_objective{{app!=""}}'
    choices = [f"({x})" for x in (own, default, own_objective, objective)]
    return [
        recorded(
            PAGES,
            "(" + f"\nor on ({BY}) ".join(choices) + ") > 0",
            "The evaluators whose falls wake people: ragtrace_pages or ragtrace_objective in objectives.yml names them. "
            "Falls of all others become tickets.",
        )
    ]


def _paged() -> list[Rule]:
    """Rates and samples of the evaluators that wake people."""
    return [
        recorded(
            paged(window),
            f"{every(window)}\nand on ({BY}) {PAGES}",
            f"The {what} of {window}, of evaluators that wake people. Most comparisons read these few series.",
        )
        for window in PAGED.windows
        for what, paged, every in (
            ("failure rate", PAGED.ratio, APPS.ratio),
            ("effective samples", PAGED.samples, APPS.samples),
        )
    ]


def _group_growth() -> list[Rule]:
    """What the counters of groups grew by, of evaluators that wake people."""
    rules = []
    for what in ("fails", "weight", "squares"):
        parts = []
        for dimension, (label, kind) in DIMENSIONS.items():
            counters = _counters("5m", f',{label}!=""', kind)
            summed = f"sum by ({BY}, {label}) ({counters[what]})"
            with_group = f'label_replace({summed}, "group", "$1", "{label}", "(.+)")'
            parts.append(f"sum by ({GROUPS.by}) ({labelled('dimension', dimension, with_group)})")
        rules.append(
            recorded(
                GROUPS.grown(what),
                f"(\n{united(parts)}\n)\nand on ({BY}) {PAGES}",
                f"The same by prompt version, model and tenant, of evaluators that wake people ({what}). Each of these "
                "has at most twenty values in an application.",
            )
        )
    return rules


def bounds() -> list[Rule]:
    """Wilson's bounds (z = 1.645, one-sided 95 %) of the failure rate, where burn alerts and dashboards need them."""
    rules = []
    for window in ("1h", "6h", "1d", "3d"):
        level = APPS if window == "6h" else PAGED
        whose = "" if level is APPS else ", of evaluators that wake people"
        for name, sign, word in ((LOWER, "-", "lower"), (UPPER, "+", "upper")):
            rules.append(
                recorded(
                    name + window,
                    wilson(level.ratio(window), level.samples(window), sign),
                    f"Wilson's {word} bound of the failure rate of {window}{whose}: the true rate is beyond it in one of "
                    "twenty cases. Burn alerts and dashboards read it.",
                )
            )
    return rules

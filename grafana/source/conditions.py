"""Rules that decide whether an application became worse: one recorded condition for each question.

worse: is the rate above the one before, by a difference that matters? beyond_chance: is that more than chance explains?
known_rhythm: was it as bad at these hours before? ruler_changed: does the evaluator measure otherwise than before? An
incident begins where the first two hold in a window and the others do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from failure_rates import APPS, GROUPS, PAGED, Level
from rule import BY, LEAST, RATIO, SAMPLES, Rule, difference, labelled, recorded, seconds, united

ZSCORE = APPS.fact("zscore")
SAME_HOURS = APPS.fact("ratio_same_hours")
SAME_HOURS_SAMPLES = "app_evaluator:ragtrace_evaluation_effective_samples:same_hours"
VERSIONS = "app_evaluator:ragtrace_evaluator_info:versions"
CHANGED_AT = APPS.fact("ruler_change_time")
CHANGED_LAST = APPS.fact("ruler_last_change_time")
CHANGED = APPS.fact("ruler_changed")
WORSE = "worse"
BEYOND = "beyond_chance"
RHYTHM = APPS.fact("known_rhythm")
AS_BAD = APPS.fact("as_bad_before")
FALL_OPEN = APPS.fact("fallen")
RECOVERED = APPS.fact("recovery_time")
RECENT = APPS.fact("ratio_recent")
BLIND_SECONDS = 2 * 3_600
"""How long a changed evaluator, and a new application, has nothing to be compared with."""


@dataclass(frozen=True)
class Window:
    """A window that is compared with the past."""

    length: str
    z: float
    """The least difference in standard errors."""
    least: float
    """The least difference in the share that fails."""
    wandering: float = 0.03
    """The standard deviation, in Cohen's h, of a normal rate from hour to hour; over half a day it averages out."""
    every: bool = False
    """Whether it is compared for evaluators that wake nobody, too."""

    @property
    def level(self) -> Level:
        """Returns whose rates are compared."""
        return APPS if self.every else PAGED


WINDOWS = (
    Window("15m", 3.7, 0.10),
    Window("1h", 3.9, 0.06),
    Window("2h", 3.6, 0.06),
    Window("6h", 3.6, 0.04, every=True),
    Window("12h", 3.2, 0.04, wandering=0.0),
)
"""Only z limits false alerts; a short window, which is new more often, has a larger z. Waiting until a fall has lasted
some minutes would cost more delay than it would save false pages (benchmarks/alerts)."""
GROUP_WINDOWS = (Window("15m", 4.2, 0.10), Window("1h", 4.2, 0.08), Window("6h", 4.2, 0.06))
"""Groups are many, so chance has more tries: their z is larger."""
OWN_PAST = ("1d", "12h", "6h", "2h", "1h")
"""What a window is compared with: the longest of these before it in which the evaluator was the same."""


def conditions() -> list[Rule]:
    """Returns the rules of all conditions of applications, in the order in which they read each other."""
    rules = [*ruler(), *_recent()]
    for window in WINDOWS:
        rules += [*_before(window), *_same_hours(window), _zscore(window), *_answers(APPS, window)]
    return rules


def group_conditions() -> list[Rule]:
    """Returns the rules of the conditions of groups: prompt versions and models."""
    rules = []
    for window in GROUP_WINDOWS:
        rules += [*_group_before(window.length), _group_zscore(window), *_answers(GROUPS, window)]
    return rules


# --- the ruler -----------------------------------------------------------------------------------


def ruler() -> list[Rule]:
    """When an evaluator changed: its version, threshold, calibration or judge."""
    whole = f"{BY}, version, threshold, judge_model"
    others = []
    for earlier in (f"last_over_time({VERSIONS}[15m] offset 1m)", f"last_over_time({VERSIONS}[7d:10m] offset 1m)"):
        fresh = f"{VERSIONS} unless last_over_time({VERSIONS}[15m] offset 1m)"
        fresh += "" if "[15m]" in earlier else f" unless {earlier}"
        others.append(f"group by ({BY}) ({fresh})\n  and on ({BY}) group by ({BY}) ({earlier})")
    either = "\nor ".join([f"(count by ({BY}) ({VERSIONS}) > 1)", *others])
    return [
        recorded(
            VERSIONS,
            f"group by ({whole}) (ragtrace_evaluator_info)",
            "Each version of an evaluator that runs, with its threshold and its judge. Rates of different versions cannot "
            "be compared.",
        ),
        recorded(
            CHANGED_AT,
            f"time() + 0 * (\n{either}\n)",
            "The time of this minute, where an evaluator changes: two versions run at once, or one runs that did not run "
            "before. A version that runs for the first time beside no other is no change.",
        ),
        recorded(
            CHANGED_LAST,
            f"max_over_time({CHANGED_AT}[22d])",
            "When an evaluator changed last, in Unix seconds. There is no value if it did not change in three weeks.",
        ),
        recorded(
            CHANGED,
            f"{CHANGED_LAST} > bool (time() - {BLIND_SECONDS})",
            "1 in the two hours after an evaluator changed, in which falls are not seen. Afterwards its rates are compared "
            "only with those since the change.",
        ),
    ]


def since_change(length: float) -> str:
    """Returns the query of the evaluators that changed within so many seconds."""
    return f"({CHANGED_LAST} > time() - {length:.0f})"


# --- the past ------------------------------------------------------------------------------------


def _recent() -> list[Rule]:
    """The rate of the shortest windows that say something."""
    enough = [f"({RATIO}{w} and {SAMPLES}{w} >= {n})" for w, n in (("1h", LEAST), ("2h", LEAST), ("6h", LEAST))]
    return [
        recorded(
            RECENT,
            " or ".join([*enough, f"{RATIO}12h"]),
            "The failure rate of the shortest of 1, 2, 6 and 12 hours that has 30 effective samples. It tells whether what "
            "a long window finds is still so.",
        )
    ]


def _before(compared: Window) -> list[Rule]:
    """The rate and samples that a window is compared with: of the day before it, or of the time since the ruler changed."""
    rules, window = [], compared.length
    level = compared.level
    reach = seconds(window) + max(BLIND_SECONDS, seconds(window))
    # A first hour that is good by chance would otherwise be the past of an incident that never ends.
    reached = f"last_over_time({level.samples('1d')}[1h] offset {reach}s)"
    for name, past in ((f"ratio_before_{window}", level.ratio), (f"samples_before_{window}", level.samples)):
        choices = [
            f"({past(length)} offset {window} unless on ({BY}) {since_change(seconds(window) + seconds(length))})"
            for length in OWN_PAST
        ]
        what = "failure rate" if name.startswith("ratio") else "effective samples"
        rules.append(
            recorded(
                APPS.fact(name),
                f"(\n{united(choices)}\n)\nand {reached}",
                f"The {what} that {window} are compared with: of the day before them. After a change of the evaluator it "
                f"is the longest time since then. There is no value until the past is as long as the window and at least two hours.",
            )
        )
    return rules


def _same_hours(compared: Window) -> list[Rule]:
    """Rate and samples of the window one to seven days ago, as far as recorded and measured by the same evaluator."""
    window = compared.length
    rate, n = compared.level.ratio(window), compared.level.samples(window)
    samples, fails = [], []
    for d in range(1, 8):
        same = f"unless on ({BY}) {since_change(d * 86_400 + seconds(window))}"
        samples.append(labelled("day", str(d), f"{n} offset {d}d {same}"))
        fails.append(labelled("day", str(d), f"{rate} offset {d}d * {n} offset {d}d {same}"))
    return [
        recorded(
            SAME_HOURS_SAMPLES + window,
            f"sum by ({BY}) (\n{united(samples)}\n)",
            f"The effective samples of the same {window} of the last seven days. 120 of them are enough to compare with.",
        ),
        recorded(
            SAME_HOURS + window,
            f"sum by ({BY}) (\n{united(fails)}\n)\n/ ({SAME_HOURS_SAMPLES}{window} > 0)",
            f"The failure rate of the same {window} of the last seven days. A rate that is worse every night is no fall.",
        ),
    ]


def _zscore(window: Window) -> Rule:
    """The smaller of the differences from the past and from the same hours."""
    w = window.length
    rate, n = window.level.ratio(w), window.level.samples(w)
    before, samples = APPS.fact(f"ratio_before_{w}"), APPS.fact(f"samples_before_{w}")
    day = difference(rate, n, before, samples, window.wandering)
    hours = difference(rate, n, SAME_HOURS + w, SAME_HOURS_SAMPLES + w, window.wandering)
    enough = f"{SAME_HOURS_SAMPLES}{w} >= {4 * LEAST}"
    least = [labelled("of", "day", day), labelled("of", "same hours", f"({hours}) and {enough}")]
    return recorded(
        ZSCORE + w,
        f"min by ({BY}) (\n{united(least)}\n)",
        f"How far the rate of {w} is above the past, in standard errors of Cohen's h. It is the smaller of two: beside "
        "the day before, and beside the same hours of the last seven days.",
    )


# --- groups --------------------------------------------------------------------------------------


def _old(window: str) -> str:
    """Groups that had samples a day before the window, and whose evaluator has not changed since."""
    return (
        f"({GROUPS.samples('1d')} offset 1d >= {LEAST} unless on ({BY}) {since_change(2 * 86_400 + seconds(window))})"
    )


def _group_before(window: str) -> list[Rule]:
    """What a group is compared with: its own day before, or the application's if the group is new."""
    rules = []
    for name, own in (("ratio", GROUPS.ratio), ("samples", GROUPS.samples)):
        app = f"{APPS.fact(f'{name}_before_{window}')}"
        rules.append(
            recorded(
                GROUPS.fact(f"{name}_before_{window}"),
                f"({own('1d')} offset {window} and {_old(window)})\n"
                f"or 0 * {GROUPS.ratio(window)} + on ({BY}) group_left () {app}",
                f"What the {window} of a group are compared with ({name}): its own day before. A group that is new is "
                "compared with the whole application's past.",
            )
        )
    return rules


def _group_zscore(window: Window) -> Rule:
    """A group's difference from its past and from the other requests of the same time; the smaller of both."""
    w = window.length
    rate, n = GROUPS.ratio(w), GROUPS.samples(w)
    past = difference(rate, n, GROUPS.fact(f"ratio_before_{w}"), GROUPS.fact(f"samples_before_{w}"), window.wandering)
    rest_samples = f"(({SAMPLES}{w} - on ({BY}) group_right () {n}) >= {LEAST})"
    rest = f"clamp(({RATIO}{w} * {SAMPLES}{w} - on ({BY}) group_right () {rate} * {n}) / {rest_samples}, 0, 1)"
    others = difference(rate, n, rest, rest_samples)
    # With the other requests as bad, it is the application that fell, unless the group is new: then it is the likely cause.
    least = [
        labelled("of", "past", past),
        labelled("of", "others", f"(({others}) + {window.z - 3:g})"),
        labelled("of", "nobody", f"(0 * ({rate} and {_old(w)}) unless {rest_samples})"),
    ]
    return recorded(
        GROUPS.fact("zscore") + w,
        f"min by ({GROUPS.by}) (\n{united(least)}\n)",
        f"How far a group's rate of {w} is above its past, in standard errors, and 3 of them above the other requests of "
        "the same time. A group that is not new and has all the traffic cannot be distinguished from it.",
    )


# --- the answers ---------------------------------------------------------------------------------


def _answers(level: Level, window: Window) -> list[Rule]:
    """The conditions of one window: 1 where they hold, else 0."""
    w = window.length
    source = window.level if level is APPS else level
    rate, n = source.ratio(w), source.samples(w)
    before, samples = level.fact(f"ratio_before_{w}"), level.fact(f"samples_before_{w}")
    whose = "a group's" if level is GROUPS else "an application's"
    worse, still = f"({rate} - {before}) > bool {window.least}", ""
    if level is APPS and seconds(w) > 3_600:
        worse = f"({worse})\n* (({RECENT} - {before}) > bool {window.least / 2:g})"
        still = ", and the last hour by half of that"
    least_samples = LEAST if level is APPS else LEAST // 2
    return [
        recorded(
            level.fact(WORSE),
            worse,
            f"1 where {whose} rate of {w} is more than {100 * window.least:g} points above the one before{still}; else 0. "
            "With thousands of evaluations chance is no bound any more, so a difference must also matter.",
            window=w,
        ),
        recorded(
            level.fact(BEYOND),
            f"({level.fact('zscore')}{w} > bool {window.z:g})\n"
            f"* ({n} >= bool {least_samples})\n* ({samples} >= bool {4 * LEAST})",
            f"1 where the {w} are more than {window.z:g} standard errors above the past, with {least_samples} effective "
            f"samples, and {4 * LEAST} before; else 0. More than that is found by chance less than once in some months.",
            window=w,
        ),
    ]


def bad(level: Level, window: Window) -> str:
    """Returns the query of the rate before, where the window is worse beyond chance."""
    w = window.length
    both = [f'on ({level.by}) {level.fact(name)}{{window="{w}"}} == 1' for name in (WORSE, BEYOND)]
    return f"{level.fact(f'ratio_before_{w}')} and {both[0]} and {both[1]}"


def rhythms() -> list[Rule]:
    """Returns the rules that tell a rhythm of the week from an incident that comes again."""
    rules = []
    for window in WINDOWS:
        rate, before = window.level.ratio(window.length), []
        for unit, number, days in (("week", 1, 7), ("week", 2, 14), ("week", 3, 21), ("day", 1, 1), ("day", 2, 2)):
            hours = f"[7h{{}}] offset {days * 24 - 6}h"
            was_open = f"max_over_time({FALL_OPEN}{hours.format('')})"
            as_high = f"{rate} - max_over_time({rate}{hours.format(':15m')}) < {window.least}"
            before.append(labelled(unit, str(number), f"({was_open} and {as_high})"))
        rules.append(
            recorded(
                AS_BAD,
                united(before),
                f"The weeks and days ago in which an incident was open at these hours (from one before to six after) and the "
                f"rate of {window.length} was as high as now. The labels `week` and `day` say how many.",
                window=window.length,
            )
        )
    recoveries = [f"max_over_time({RECOVERED}[12h] offset {h}h)" for h in (2, 26)]
    days = " or ".join(f"max_over_time({FALL_OPEN}[7h] offset {h}h)" for h in (6 * 24 - 6, 8 * 24 - 6))
    rules.append(
        recorded(
            RHYTHM,
            f'count by ({BY}, window) ({AS_BAD}{{week!=""}}) >= 2\n'
            f'or group by ({BY}, window) ({AS_BAD}{{week="1"}}) and on ({BY}) ({days})\n'
            f'or count by ({BY}, window) ({AS_BAD}{{day!=""}}) >= 2 and on ({BY}) {recoveries[0]} and on ({BY}) {recoveries[1]}',
            "These hours are known to be bad: in two of the last three weeks, or in the last one on two days in a row, as at "
            "a weekend, or on the last two days, and good in between, as in nights. One incident a week ago is no rhythm.",
        )
    )
    return rules

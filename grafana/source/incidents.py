"""Rules on incidents: from the first window in which an application or a group fell until it is as good as before.

An incident lasts until the rate is back, also where the bad days have become the past that windows are compared with;
after seven days without a new fall the rate counts as normal. It needs no state: falls and recoveries are recorded with
their time, and an incident is a fall later than the last recovery.
"""

from __future__ import annotations

from conditions import (
    CHANGED_LAST,
    FALL_OPEN,
    GROUP_WINDOWS,
    RHYTHM,
    WINDOWS,
    bad,
    group_conditions,
    rhythms,
)
from failure_rates import APPS, GROUPS, Level
from rule import BY, LEAST, RATIO, SAMPLES, Rule, labelled, recorded, seconds, united

INCIDENT = APPS.fact("incident")
INCIDENT_FROM = APPS.fact("incident_from")
INCIDENT_TO = APPS.fact("incident_to")
INCIDENT_SAMPLES = APPS.fact("incident_samples")
GROUP_INCIDENT = GROUPS.fact("incident")
_SHORTER = {"15m": "5m", "1h": "15m", "2h": "15m", "6h": "1h", "12h": "2h"}
"""The window that tells how bad it is since an incident began within a longer one."""


def incidents() -> list[Rule]:
    """Returns the rules of incidents, in the order in which they read each other."""
    groups = [*group_conditions(), *_falls(GROUPS), *_recoveries(GROUPS), *_group_incidents()]
    return [*rhythms(), *groups, *_falls(APPS), *_recoveries(APPS), *_incidents()]


def _windows(level: Level) -> list[tuple[str, str]]:
    return [(w.length, bad(level, w)) for w in (WINDOWS if level is APPS else GROUP_WINDOWS)]


def _falls(level: Level) -> list[Rule]:
    """Falls, with the rate before them; what that rate was when the incident began."""
    fall, ranked, began = level.fact("fall"), level.fact("fall_ranked"), level.fact("fall_from")
    least = f"min_over_time({ranked}[7d])"
    any_window = united([labelled("window", w, expr) for w, expr in _windows(level)])
    return [
        recorded(
            fall,
            f"min by ({level.by}) (\n{any_window}\n)",
            "The failure rate before, where a window is worse beyond chance; a rhythm counts, too. It has a value only "
            "while there is a fall.",
        ),
        recorded(
            ranked,
            f"({fall} - on ({BY}) group_left () {CHANGED_LAST})\nor {fall}",
            "The failure rate before, less the time of the evaluator's last change. Of several days the least value is of "
            "the newest version, and there of the earliest fall.",
        ),
        recorded(
            began,
            f"(({least} < -1) + on ({BY}) group_left () max_over_time({CHANGED_LAST}[7d]))\nor {least} >= 0",
            "The failure rate before the falls of the last seven days, by the evaluator as it is now. Later days do not "
            "change it, though a bad day becomes the past of the next one.",
        ),
    ]


def _recoveries(level: Level) -> list[Rule]:
    """When a rate came back, and whether there was a fall since."""
    began, excess, recovered = level.fact("fall_from"), level.fact("excess"), level.fact("recovery_time")
    windows = ("1h", "2h", "6h", "12h") if level is APPS else ("1h", "6h", "1d")
    least = 4 * LEAST if level is APPS else LEAST
    enough = [f"({level.ratio(w)} and {level.samples(w)} >= {least})" for w in windows[:-1]]
    rate = " or ".join([*enough, level.ratio(windows[-1])])
    rules = [
        recorded(
            excess,
            f"({rate})\n- ({began} + clamp_min(0.2 * {began}, 0.03))",
            "How far the rate is above the one before the fall and 3 points (or a fifth) more. The rate is that of the "
            f"shortest window with {least} effective samples.",
        ),
        recorded(
            recovered,
            f"time() + 0 * (max_over_time({excess}[1h]) < 0 and last_over_time({excess}[15m] offset 45m))",
            "The time of this minute, where the rate was back for an hour. What is later than this is another incident.",
        ),
    ]
    if level is APPS:
        since = f"max_over_time({level.fact('fall')}_time[7d])"
        rules.insert(
            0,
            recorded(
                level.fact("fall") + "_time",
                f"time() + 0 * {level.fact('fall')}",
                "The time of this minute, where there is a fall. It is compared with the last recovery.",
            ),
        )
        rules.append(
            recorded(
                FALL_OPEN,
                f"0 * ({_later(since, recovered, level.by)}) + 1",
                "1 from a fall until the rate is back, also where the hours are known to be bad. The rules on rhythms read "
                "it one to three weeks later.",
            )
        )
    return rules  # fmt: skip


def _later(time: str, recovered: str, by: str) -> str:
    """Returns the query of the times that are not before the last recovery, and not before the last change of the ruler."""
    last = f"max_over_time({recovered}[7d])"
    return (
        f"(({time} >= {last}) or ({time} unless {last}))\n"
        f"unless on ({BY}) ({CHANGED_LAST} > on ({BY}) max by ({BY}) ({time}))"
    )


def _onset(level: Level, window: str, shorter: str, expr: str) -> str:
    """Returns the query of the time at which the rate changed within the window.

    A window of which a share f is bad has the rate b + f (r - b), where r is the rate of now and b the one before."""
    before = level.fact(f"ratio_before_{window}")
    share = f"clamp(({level.ratio(window)} - {before}) / clamp_min({level.ratio(shorter)} - {before}, 0.01), 0.1, 1)"
    if level is GROUPS and shorter != window:  # a new group has no samples before it began
        times = seconds(window) // seconds(shorter)
        share = f"{share} * clamp_max({level.samples(window)} / ({times} * {level.samples(shorter)}), 1)"
    return f"time() - {seconds(window)} * ({share} and on ({level.by}) ({expr}))"


def _group_incidents() -> list[Rule]:
    shorter = {"15m": "15m", "1h": "15m", "6h": "1h"}
    onsets = [f"({_onset(GROUPS, w, shorter[w], expr)})" for w, expr in _windows(GROUPS)]
    return _since(GROUPS, onsets, GROUP_INCIDENT, "a prompt version, a model or a tenant")


def _incidents() -> list[Rule]:
    """Incidents of applications, what began them, and what a page says of them."""
    onsets = []
    for w, expr in _windows(APPS):
        unexpected = f'({expr}) unless on ({BY}) {RHYTHM}{{window="{w}"}}'
        onsets.append(f"({_onset(APPS, w, _SHORTER[w], unexpected)})")
    own = APPS.fact("own_incident")
    rules = _since(APPS, onsets, own, "an application")
    rules.append(
        recorded(
            INCIDENT,
            f"{own}\nor on ({BY}) min by ({BY}) ({GROUP_INCIDENT})",
            "Since when answers are worse, in Unix seconds: of all requests, or of a prompt version, model or tenant. It is the one "
            "series that RagtraceQualityDrop reads, whatever window found the fall.",
        )
    )
    return [*rules, *_text()]


def _since(level: Level, onsets: list[str], name: str, whose: str) -> list[Rule]:
    """When a fall began, and the begin of the first one since the last recovery."""
    onset, recovered = level.fact("onset"), level.fact("recovery_time")
    trigger = level.fact("trigger_time")
    last = f"max_over_time({trigger}[7d])"
    recent = f"last_over_time({recovered}[7d] @ end())"
    first = f"min_over_time(({onset} and ({trigger} >= {recent} or {trigger} unless {recent}))[7d:5m])"
    return [
        recorded(
            onset,
            "\nor ".join(onsets),
            f"When the fall of {whose} began, in Unix seconds, estimated from the shortest window that shows it. Hours that "
            "are known to be bad do not count.",
        ),
        recorded(
            trigger,
            f"time() + 0 * {onset}",
            "The time of this minute, where such a fall is seen. It is compared with the last recovery.",
        ),
        recorded(
            name,
            f"({first} or {onset})\nand ({_later(last, recovered, level.by)})",
            f"Since when the answers of {whose} are worse, in Unix seconds. It has a value until the rate is back for an "
            "hour, or no window shows the fall for seven days.",
        ),
    ]  # fmt: skip


def _text() -> list[Rule]:
    """The figures of an incident."""
    short = [f"({{0}} and {SAMPLES}{w} >= {LEAST})" for w in ("15m", "1h", "2h", "6h")]
    windows = ("15m", "1h", "2h", "6h")
    now = " or ".join([*(s.format(RATIO + w) for s, w in zip(short, windows, strict=True)), f"{RATIO}12h"])
    count = " or ".join([*(s.format(SAMPLES + w) for s, w in zip(short, windows, strict=True)), f"{SAMPLES}12h"])
    return [
        recorded(
            INCIDENT_FROM,
            f"({APPS.fact('fall_from')} or {APPS.fact('ratio_before_1h')})\nand {INCIDENT}",
            "The failure rate before an incident. Alerts and dashboards print it.",
        ),
        recorded(
            INCIDENT_TO,
            f"({now})\nand {INCIDENT}",
            "The failure rate now, while there is an incident. It is of the shortest window with 30 effective samples.",
        ),
        recorded(
            INCIDENT_SAMPLES,
            f"({count})\nand {INCIDENT}",
            "The effective samples of that rate. Alerts and dashboards print them as n.",
        ),
    ]

"""What a journal says of a time: for each application and evaluator how good, how sure, and whether it became worse.
The standard library is enough."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.online.journal import Entry, Reading, read
from ragtrace.records import Score
from ragtrace.statistics import Alarm, ChangeTest, Estimate, Sums

WORST = 20
_HOUR = 3_600.0
_STEPS = 168
"""Points of a time line at most: a week by the hour; longer times have longer steps."""


@dataclass(frozen=True, slots=True)
class Part:
    """One evaluator in one stretch of time."""

    evaluated: int
    """Requests that it was put to and that it applied to, failed checks among them."""
    passes: Estimate | None
    """Weighted share of passes among passes and fails."""
    score: Estimate | None
    """Weighted mean of the values."""
    verdicts: Mapping[str, int]
    errors: Mapping[str, int]
    """Failed checks by reason."""
    failures: Mapping[str, int]
    """Failures of checks that pass or fail by kind: `retrieval`, `generation`."""
    cost: float
    """US dollars that the judge took."""


@dataclass(frozen=True, slots=True)
class Step:
    """A point of the time line."""

    start: float
    """Unix time at which the step begins."""
    passes: Estimate | None


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluator of one application."""

    app: str
    evaluator: str
    method: str
    versions: tuple[str, ...]
    lower_is_better: bool
    now: Part
    before: Part
    """The same for as long a time before."""
    coverage: float | None
    """Estimated share of the application's requests that have a verdict or a value, in [0, 1]; the rest could not be
    asked this, or the check failed."""
    change: str
    """`rise`, `steady`, or `learning` where there is too little to tell."""
    alarm: Alarm | None
    learnt: float
    """Effective evaluations that the change test compares with."""
    line: tuple[Step, ...]

    @property
    def eventful(self) -> bool:
        """Whether there is anything to tell beside figures."""
        return bool(self.now.failures or self.now.errors or self.now.cost)


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the worst: no text, the trace has it."""

    trace_id: str
    time: float
    cause: str | None
    scores: tuple[Score, ...]
    """Those that failed, worst first; the lowest ones of all, where none has a threshold."""


@dataclass(frozen=True, slots=True)
class App:
    """One application."""

    name: str
    envs: tuple[str, ...]
    models: tuple[str, ...]
    prompt_versions: tuple[str, ...]
    evaluated: int
    """Requests evaluated."""
    requests: float
    """Requests there were, estimated: the sum of 1/p."""
    dropped: Mapping[str, int]
    """Requests that were sampled and not evaluated, by reason."""
    causes: Mapping[str, int]
    rows: tuple[Row, ...]
    worst: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """A report."""

    since: float
    until: float
    """Unix times; `since` belongs to it, `until` does not."""
    apps: tuple[App, ...]
    damaged: int
    not_numbers: int
    files: tuple[str, ...]
    complete: bool
    """Whether the journal reaches back to the begin of the time before."""


def live(path: str | os.PathLike[str], since: float, until: float, app: str | None = None) -> Live:
    """The report of the journal at `path` from `since` to `until` (Unix times).

    Raises DataError if there is no such journal, nothing in it, nothing in this time, or nothing of this application;
    SettingError if the time ends before it begins.
    """
    if not since < until:
        raise SettingError(f"--since is {moment(since)}, which is not before --until, {moment(until)}")
    met = Reading()
    start = since - (until - since)
    first, last, known = math.inf, -math.inf, set()
    entries = []
    for entry in read(path, met):
        first, last = min(first, entry.time), max(last, entry.time)
        known.add(entry.app)
        if start <= entry.time < until and app in (None, entry.app):
            entries.append(entry)
    _check(Path(path), met, known, app)
    if not any(entry.time >= since for entry in entries):
        raise DataError(
            f"{path} has nothing{f' of {app}' if app else ''} from {moment(since)} to {moment(until)}; "
            f"it reaches from {moment(first)} to {moment(last)}"
        )
    entries.sort(key=lambda entry: entry.time)
    by_app: dict[str, list[Entry]] = {}
    for entry in entries:
        by_app.setdefault(entry.app, []).append(entry)
    apps = tuple(_app(name, by_app[name], since, until) for name in sorted(by_app))
    files = tuple(str(file) for file in met.files)
    return Live(since, until, apps, met.damaged, met.not_numbers, files, first <= start)


def _check(path: Path, met: Reading, known: Iterable[str], app: str | None) -> None:
    names = sorted(known)
    if not names:
        lines = f"none of its {met.damaged} lines can be read" if met.damaged else "it is empty"
        raise DataError(f"{path} has no evaluations: {lines}")
    if app is not None and app not in names:
        raise DataError(f"{path} has nothing of the application {app!r}; it has {', '.join(map(repr, names[:20]))}")


def when(text: str, now: float, option: str) -> float:
    """The Unix time that an option means: `30m`, `24h`, `7d` before `now`, or a date with or without a time (UTC where
    no other zone is given). Raises SettingError for other text and for the future."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if ago:
        found = now - float(ago[1]) * {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}[ago[2]]
    else:
        try:
            given = datetime.fromisoformat(text.strip())
            found = (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise SettingError(f"{option} is {text!r}; give 30m, 24h, 7d, or a date like 2026-01-31T12:00") from None
    if found > now:
        raise SettingError(f"{option} is {text!r}, which lies in the future")
    if found < 0:
        raise SettingError(f"{option} is {text!r}, which is before 1970")
    return found


def moment(seconds: float) -> str:
    """A Unix time for people, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"


def _app(name: str, entries: Sequence[Entry], since: float, until: float) -> App:
    now = [entry for entry in entries if entry.time >= since]
    evaluated = [entry for entry in now if entry.trace_id]
    dropped: Counter[str] = Counter()
    for entry in now:
        dropped.update(entry.dropped)
    requests = math.fsum(1.0 / entry.probability for entry in evaluated)
    tallies: dict[str, _Tally] = {}
    for entry in entries:
        for score in entry.scores:
            tally = tallies.get(score.name)
            if tally is None:
                tally = tallies[score.name] = _Tally(since, until)
            tally.add(entry, score)
    return App(
        name,
        _distinct(entry.env for entry in now),
        _distinct(entry.model for entry in now),
        _distinct(entry.prompt_version for entry in now),
        len(evaluated),
        requests,
        dict(dropped),
        dict(Counter(entry.cause for entry in evaluated if entry.cause is not None).most_common()),
        tuple(tallies[evaluator].row(name, evaluator, requests) for evaluator in sorted(tallies)),
        _worst(evaluated),
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


@dataclass(slots=True)
class _Gathered:
    rate: Sums = field(default_factory=Sums)
    value: Sums = field(default_factory=Sums)
    verdicts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0

    def add(self, score: Score) -> None:
        self.cost += score.cost
        self.failures.update(score.failures)
        if score.error is not None:
            self.verdicts["error"] += 1
            self.errors[score.error] += 1
            return
        self.verdicts[score.label or "none"] += 1
        if score.label in ("pass", "fail"):
            self.rate.add(float(score.label == "pass"), score.sampling_probability)
        if score.value is not None:
            self.value.add(score.value, score.sampling_probability)

    def part(self) -> Part:
        return Part(
            self.verdicts.total() - self.verdicts[NOT_APPLICABLE],
            self.rate.rate(),
            self.value.mean(),
            dict(self.verdicts.most_common()),
            dict(self.errors.most_common()),
            dict(self.failures.most_common()),
            self.cost,
        )


class _Tally:
    """What is gathered of one evaluator of one application, in order of time."""

    def __init__(self, since: float, until: float) -> None:
        self._since, self._until = since, until
        self._now, self._before = _Gathered(), _Gathered()
        self._said = 0.0
        self._test = ChangeTest()
        self._begun = False
        self._width = _HOUR * max(1, math.ceil((until - since) / _HOUR / _STEPS))
        self._steps: dict[int, Sums] = {}
        self._versions: set[str] = set()
        self._tested: set[str] = set()
        self._method = ""
        self._lower = False

    def add(self, entry: Entry, score: Score) -> None:
        inside = entry.time >= self._since
        (self._now if inside else self._before).add(score)
        self._lower = score.name in entry.lower_is_better
        self._method = score.method
        if inside:
            self._versions.add(score.version)
            if score.error is None and score.label != NOT_APPLICABLE:
                self._said += 1.0 / score.sampling_probability
        if score.error is None and score.label in ("pass", "fail"):
            self._judge(entry.time, score, inside)

    def _judge(self, time: float, score: Score, inside: bool) -> None:
        if score.version not in self._tested:
            # Another version, or another threshold, fails other answers: that is no change of the answers.
            if self._tested:
                self._test = ChangeTest()
            self._tested.add(score.version)
        if inside and not self._begun:
            self._begun = True
            self._test.acknowledge()  # what alarmed before is not what is asked here
        self._test.observe(score.label == "fail", 1.0 / score.sampling_probability, time)
        if inside:
            step = int(time // self._width)
            self._steps.setdefault(step, Sums()).add(float(score.label == "pass"), score.sampling_probability)

    def row(self, app: str, evaluator: str, requests: float) -> Row:
        test, reference = self._test, self._test.reference
        alarm = test.alarm if self._begun else None
        return Row(
            app,
            evaluator,
            self._method,
            tuple(sorted(self._versions)),
            self._lower,
            self._now.part(),
            self._before.part(),
            min(1.0, self._said / requests) if requests else None,
            "rise" if alarm is not None else "learning" if test.learning else "steady",
            alarm,
            reference.effective if reference is not None else 0.0,
            self._line(),
        )

    def _line(self) -> tuple[Step, ...]:
        if not self._steps:
            return ()
        first, last = int(self._since // self._width), math.ceil(self._until / self._width)
        return tuple(
            Step(i * self._width, self._steps[i].rate() if i in self._steps else None) for i in range(first, last)
        )


def _worst(entries: Sequence[Entry]) -> tuple[Answer, ...]:
    """The answers that fail most checks; among them those that score lowest."""
    ranked = sorted(entries, key=_badness, reverse=True)[:WORST]
    return tuple(Answer(e.trace_id, e.time, e.cause, _telling(e)) for e in ranked if _telling(e))


def _badness(entry: Entry) -> tuple[int, float]:
    failed = sum(score.label == "fail" for score in entry.scores)
    return failed, max((_harm(entry, score) for score in _telling(entry)), default=-math.inf)


def _telling(entry: Entry) -> tuple[Score, ...]:
    failed = [s for s in entry.scores if s.label == "fail"]
    rest = [s for s in entry.scores if s.value is not None and s.label is None]
    return tuple(sorted(failed or rest, key=lambda s: _harm(entry, s), reverse=True))[:8]


def _harm(entry: Entry, score: Score) -> float:
    """More is worse; comparable between evaluators whose scores lie in [0, 1]."""
    if score.value is None:
        return 0.5
    return score.value if score.name in entry.lower_is_better else 1.0 - score.value

"""The live report: quality, precision and change of each application and evaluator in a period of a journal. Needs the
standard library only."""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ragtrace.batch.reporting.formats import moment
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.live.journal import JournalEntry, Reading, read
from ragtrace.records import Score
from ragtrace.statistics import Estimate, Step, Sums
from ragtrace.statistics.differences import independent_difference
from ragtrace.statistics.tally import ScoreTally

WORST = 20
_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_HOUR = 3_600.0
_STEPS = 168
"""Most points of a time line: a week by the hour; longer periods have longer steps."""
LEAST, LEAST_NOW = 300, 30
"""Effective evaluations of the previous period and of this one below which no figure counts as steady."""
_RISE, _P = 1.25, 0.001
"""More fail where the share of failures is so many times that of the previous period, and by chance so rarely."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One evaluator in one period."""

    evaluated: int
    """Requests on which it was run and applicable, including failed checks."""
    passes: Estimate | None
    """Weighted share of passes among passes and fails."""
    score: Estimate | None
    """Weighted mean of the values."""
    verdicts: Mapping[str, int]
    errors: Mapping[str, int]
    """Failed checks by reason."""
    failures: Mapping[str, int]
    """Failures by kind: `retrieval`, `generation`."""
    cost: float
    """US dollars that the judge cost."""


@dataclass(frozen=True, slots=True)
class EvaluatorRow:
    """One evaluator of one application."""

    app: str
    evaluator: str
    method: str
    versions: tuple[str, ...]
    lower_is_better: bool
    now: Figures
    before: Figures
    """The previous period of the same length."""
    coverage: float | None
    """Estimated share of the application's requests that have a verdict or a value, in [0, 1]. On the rest, the
    evaluator was not applicable or failed."""
    change: str
    """`rise`, `steady`, or `learning` if a period has too few effective evaluations of the version that gave most
    of the verdicts (`LEAST`, `LEAST_NOW`)."""
    shares: tuple[Estimate, Estimate] | None
    """Of failures in the previous and in this period, by the newest version that both have; None without one."""
    line: tuple[Step, ...]

    @property
    def has_details(self) -> bool:
        """Whether there are failures, errors or costs."""
        return bool(self.now.failures or self.now.errors or self.now.cost)


@dataclass(frozen=True, slots=True)
class WorstAnswer:
    """One of the worst answers, without its text."""

    trace_id: str
    time: float
    cause: str | None
    scores: tuple[Score, ...]
    """The failed scores, worst first; without failed ones, the worst scores without a threshold."""


@dataclass(frozen=True, slots=True)
class AppReport:
    """One application."""

    name: str
    envs: tuple[str, ...]
    models: tuple[str, ...]
    prompt_versions: tuple[str, ...]
    evaluated: int
    """Requests evaluated."""
    requests: float
    """Estimated number of all requests: the sum of 1/p."""
    dropped: Mapping[str, int]
    """Requests that were sampled and not evaluated, by reason."""
    causes: Mapping[str, int]
    rows: tuple[EvaluatorRow, ...]
    worst: tuple[WorstAnswer, ...]


@dataclass(frozen=True, slots=True)
class LiveReport:
    """The whole report."""

    since: float
    until: float
    """Unix times; `since` is included, `until` is not."""
    apps: tuple[AppReport, ...]
    damaged: int
    not_numbers: int
    files: tuple[str, ...]
    complete: bool
    """Whether the journal covers the whole previous period."""
    people: tuple[str, ...] = ()
    """Sentences: which shares people would fail by the reviews in the configured store."""


def live_report(path: str | os.PathLike[str], since: float, until: float, app: str | None = None) -> LiveReport:
    """The report of the journal at `path` from `since` to `until` (Unix times).

    Raises DataError if the journal does not exist, is empty, or has nothing of this period or application; SettingError
    if the period ends before it begins."""
    if not since < until:
        raise SettingError(f"--since ({moment(since)}) must be before --until ({moment(until)})")
    reading = Reading()
    start = since - (until - since)
    first, last = math.inf, -math.inf
    names: set[str] = set()
    entries = []
    for entry in read(path, reading):
        first, last = min(first, entry.time), max(last, entry.time)
        names.add(entry.app)
        if start <= entry.time < until and app in (None, entry.app):
            entries.append(entry)
    if not names:
        reason = f"none of its {reading.damaged} lines can be read" if reading.damaged else "it has no whole line"
        raise DataError(f"{path} has no evaluations: {reason}")
    if app is not None and app not in names:
        choices = ", ".join(map(repr, sorted(names)[:20]))
        raise DataError(f"{path} has no evaluations of the application {app!r}; choose one of {choices}")
    if not any(entry.time >= since for entry in entries):
        raise DataError(
            f"{path} has no evaluations{f' of {app}' if app else ''} from {moment(since)} to {moment(until)}; "
            f"it contains {moment(first)} to {moment(last)}"
        )
    entries.sort(key=lambda entry: entry.time)
    by_app: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        by_app.setdefault(entry.app, []).append(entry)
    apps = tuple(_app(name, by_app[name], since, until) for name in sorted(by_app))
    files = tuple(str(file) for file in reading.files)
    return LiveReport(since, until, apps, reading.damaged, reading.not_numbers, files, first <= start)


def parse_time(text: str, now: float, option: str) -> float:
    """The Unix time of a command line option: `30m`, `24h`, `7d` before `now`, or a date with or without a time (in UTC
    unless it names a zone). Raises SettingError for other text and for times in the future."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if ago:
        seconds = now - float(ago[1]) * _UNITS[ago[2]]
    else:
        try:
            date = datetime.fromisoformat(text.strip())
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise SettingError(f"invalid {option} {text!r}: use 30m, 24h, 7d or a date like 2026-01-31T12:00") from None
    if seconds > now:
        raise SettingError(f"invalid {option} {text!r}: the time is in the future")
    if seconds < 0:
        raise SettingError(f"invalid {option} {text!r}: the time is before 1970")
    return seconds


def _app(name: str, entries: Sequence[JournalEntry], since: float, until: float) -> AppReport:
    now = [entry for entry in entries if entry.time >= since]
    evaluated = [entry for entry in now if entry.trace_id]
    dropped: Counter[str] = Counter()
    for entry in now:
        dropped.update(entry.dropped)
    # A dropped request has the mean weight of the evaluated ones.
    share = 1.0 + dropped.total() / max(1, len(evaluated))
    requests = share * math.fsum(1.0 / entry.probability for entry in evaluated)
    histories: defaultdict[str, _History] = defaultdict(lambda: _History(since, until))
    for entry in entries:
        for score in entry.scores:
            histories[score.name].add(entry, score)
    return AppReport(
        name, _distinct(entry.env for entry in now), _distinct(entry.model for entry in now),
        _distinct(entry.prompt_version for entry in now), sum(bool(entry.scores) for entry in evaluated), requests,
        dict(dropped), dict(Counter(entry.cause for entry in evaluated if entry.cause is not None).most_common()),
        tuple(histories[evaluator].row(name, evaluator, requests) for evaluator in sorted(histories)),
        _worst(evaluated),
    )  # fmt: skip


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


def _figures(tally: ScoreTally) -> Figures:
    return Figures(
        tally.evaluated, tally.passes.rate(), tally.mean(), dict(tally.verdicts.most_common()),
        dict(tally.errors.most_common()), dict(tally.failures.most_common()), tally.cost,
    )  # fmt: skip


class _History:
    """The scores of one evaluator of one application, in order of time."""

    def __init__(self, since: float, until: float) -> None:
        self._since, self._until = since, until
        self._now, self._before = ScoreTally(), ScoreTally()
        self._covered = 0.0
        self._fails: defaultdict[str, tuple[Sums, Sums]] = defaultdict(lambda: (Sums(), Sums()))
        """Failures of the previous and of this period, by version: another version fails other answers, which does not
        mean that the answers changed."""
        self._width = _HOUR * max(1, math.ceil((until - since) / _HOUR / _STEPS))
        self._steps: dict[int, Sums] = {}
        self._versions: set[str] = set()
        self._method = ""
        self._lower = False

    def add(self, entry: JournalEntry, score: Score) -> None:
        inside = entry.time >= self._since
        (self._now if inside else self._before).add(score)
        self._lower = score.name in entry.lower_is_better
        self._method = score.method
        if inside:
            self._versions.add(score.version)
            if score.error is None and score.label != NOT_APPLICABLE:
                self._covered += 1.0 / score.sampling_probability
        if score.error is None and score.label in ("pass", "fail"):
            self._fails[score.version][inside].add(float(score.label == "fail"), score.sampling_probability)
            if inside:
                sums = self._steps.setdefault(int(entry.time // self._width), Sums())
                sums.add(float(score.label == "pass"), score.sampling_probability)

    def row(self, app: str, evaluator: str, requests: float) -> EvaluatorRow:
        pairs = [pair for pair in self._fails.values() if pair[0].count and pair[1].count]
        newest = pairs[-1] if pairs else (Sums(), Sums())
        if 2 * newest[1].count < sum(now.count for _, now in self._fails.values()):
            newest = (Sums(), Sums())  # most answers have a version that has nothing to compare with
        before, now = newest[0].rate(), newest[1].rate()
        shares = None if before is None or now is None else (before, now)
        return EvaluatorRow(
            app, evaluator, self._method, tuple(sorted(self._versions)), self._lower, _figures(self._now),
            _figures(self._before), min(1.0, self._covered / requests) if requests else None, _change(shares), shares,
            self._line(),
        )  # fmt: skip

    def _line(self) -> tuple[Step, ...]:
        if not self._steps:
            return ()
        first, last = int(self._since // self._width), math.ceil(self._until / self._width)
        return tuple(
            Step(i * self._width, self._steps[i].rate() if i in self._steps else None) for i in range(first, last)
        )


def _change(shares: tuple[Estimate, Estimate] | None) -> str:
    if shares is None or shares[0].effective < LEAST:
        return "learning"
    before, now = shares
    if now.value >= _RISE * before.value and independent_difference(*shares).p < _P:
        return "rise"
    return "steady" if now.effective >= LEAST_NOW else "learning"


def _worst(entries: Sequence[JournalEntry]) -> tuple[WorstAnswer, ...]:
    """The answers that fail most checks; among them, those with the lowest scores."""
    ranked = sorted(entries, key=_badness, reverse=True)[:WORST]
    return tuple(WorstAnswer(e.trace_id, e.time, e.cause, _worst_scores(e)) for e in ranked if _worst_scores(e))


def _badness(entry: JournalEntry) -> tuple[int, float]:
    failed = sum(score.label == "fail" for score in entry.scores)
    return failed, max((_harm(entry, score) for score in _worst_scores(entry)), default=-math.inf)


def _worst_scores(entry: JournalEntry) -> tuple[Score, ...]:
    failed = [s for s in entry.scores if s.label == "fail"]
    rest = [s for s in entry.scores if s.value is not None and s.label is None]
    return tuple(sorted(failed or rest, key=lambda s: _harm(entry, s), reverse=True))[:8]


def _harm(entry: JournalEntry, score: Score) -> float:
    """How bad a score is: more is worse. Comparable between evaluators with scores in [0, 1]."""
    if score.value is None:
        return 0.5
    return score.value if score.name in entry.lower_is_better else 1.0 - score.value

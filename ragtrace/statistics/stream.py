"""Running statistics of the live evaluations: the last hour, day and week of each application and evaluator, the worst
recent answers, and a change test. Memory is bounded; no text is kept."""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

from ragtrace.errors import DataError
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator
from ragtrace.records import Evaluation, Score
from ragtrace.statistics.change import Alarm, ChangeTest
from ragtrace.statistics.estimates import Estimate, Sums, weight_of
from ragtrace.statistics.tally import ScoreTally

HOUR, DAY, WEEK = 3_600, 86_400, 604_800
WORST = 20
"""Number of answers that are kept as the worst of a day."""
SERIES = 1_000
"""Most pairs of application and evaluator; further ones count for the application `other`. One pair takes 80 KB."""
_FINE, _COARSE = 300, 3_600
_REASONS = 32
"""Most error reasons counted separately in an hour; further ones count as `other`."""
VERDICTS = ("pass", "fail", "none", NOT_APPLICABLE, "error")
_NONE = VERDICTS.index("none")
# Columns of a bucket: the counts of the verdicts, the sums of passes and fails, the sums of values.
_PASSES = len(VERDICTS)
_VALUES = _PASSES + len(fields(Sums))
_COLUMNS = _VALUES + len(fields(Sums))


@dataclass(frozen=True, slots=True)
class Window:
    """Counts and estimates of the last hour, day or week."""

    seconds: int
    verdicts: Mapping[str, int]
    """Number of evaluations by verdict (one of `VERDICTS`); `none`: a value or another label, without a threshold."""
    errors: Mapping[str, int]
    """Failed evaluations by reason. Counted by the hour: a window of an hour starts at the beginning of the hour."""
    passes: Estimate | None
    """Weighted share of passes among passes and fails; None without either."""
    score: Estimate | None
    """Weighted mean of the values; None without values."""


@dataclass(frozen=True, slots=True)
class Worst:
    """One of the worst recent answers, without its text."""

    trace_id: str
    """32 hexadecimal digits."""
    score: float
    time: float
    """Unix time of the evaluation."""


class _Ring:
    """Sums in buckets of `width` seconds; the last `count` buckets are kept. Each bucket stores its time, so that old
    buckets are recognised and skipped after the clock jumped."""

    def __init__(self, width: int, count: int) -> None:
        self.width, self.count = width, count
        self._stamps = array("q", [-1]) * count
        self._sums = array("d", [0.0]) * (count * _COLUMNS)

    def add(self, time: float, sums: Sequence[float]) -> None:
        """Add sums to the bucket that contains this Unix time."""
        stamp = int(time // self.width)
        place = stamp % self.count
        start = place * _COLUMNS
        if self._stamps[place] != stamp:
            self._stamps[place] = stamp
            self._sums[start : start + _COLUMNS] = array("d", sums)
            return
        for i, value in enumerate(sums, start):
            self._sums[i] += value

    def total(self, now: float, seconds: int) -> list[float]:
        """The sums of the last buckets, including the current one: they cover `seconds`, less up to one bucket."""
        last = int(now // self.width)
        first = last - seconds // self.width
        sums = [0.0] * _COLUMNS
        for place, stamp in enumerate(self._stamps):
            if first < stamp <= last:
                start = place * _COLUMNS
                for i in range(_COLUMNS):
                    sums[i] += self._sums[start + i]
        return sums


class _Series:
    def __init__(self, lower_is_better: bool) -> None:
        self._fine, self._coarse = _Ring(_FINE, DAY // _FINE), _Ring(_COARSE, WEEK // _COARSE)
        # The current bucket is separate until the next one starts: most scores change one tally only.
        self._current, self._stamp = ScoreTally(), -1
        self.errors: dict[int, Counter[str]] = {}
        self.worst: list[Worst] = []
        self.lower_is_better = lower_is_better
        self.change = ChangeTest()

    def add(self, score: Score, trace_id: int, now: float) -> bool:
        """Count a score. Returns True if it raises the alarm."""
        if now // _FINE != self._stamp:
            self._fold()
            self._stamp = int(now // _FINE)
        self._current.add(score)
        if score.error is not None:
            self._count_error(score.error, now)
            return False
        if score.value is not None:
            self._keep_worst(trace_id, score.value, now)
        if score.label not in ("pass", "fail"):
            return False
        weight, _ = weight_of(score.sampling_probability)
        return self.change.observe(score.label == "fail", weight, now)

    def total(self, now: float, seconds: int) -> list[float]:
        """The sums of the last hour, day or week."""
        self._fold()
        return (self._coarse if seconds == WEEK else self._fine).total(now, seconds)

    def _fold(self) -> None:
        if self._stamp >= 0:
            columns = _columns(self._current)
            for ring in (self._fine, self._coarse):
                ring.add(self._stamp * _FINE, columns)
            self._current = ScoreTally()

    def _count_error(self, reason: str, now: float) -> None:
        hour = int(now // _COARSE)
        if hour not in self.errors:
            hours = range(hour - WEEK // _COARSE + 1, hour)
            self.errors = {h: counts for h, counts in self.errors.items() if h in hours}
        counts = self.errors.setdefault(hour, Counter())
        counts[reason if reason in counts or len(counts) < _REASONS else "other"] += 1

    def _keep_worst(self, trace_id: int, value: float, now: float) -> None:
        worst = self.worst
        if (
            len(worst) >= WORST
            and self._badness(value) <= self._badness(worst[-1].score)
            and worst[-1].time > now - DAY
        ):
            return
        worst.append(Worst(f"{trace_id:032x}", value, now))
        # Entries dated in the future (the clock jumped) would never expire.
        self.worst = sorted(
            (w for w in worst if now - DAY < w.time <= now), key=lambda w: self._badness(w.score), reverse=True
        )[:WORST]

    def _badness(self, value: float) -> float:
        return value if self.lower_is_better else -value


def _columns(tally: ScoreTally) -> list[float]:
    """A tally as the columns of a bucket; labels other than `VERDICTS` count as `none`."""
    counts: list[float] = [tally.verdicts[verdict] for verdict in VERDICTS]
    counts[_NONE] += tally.verdicts.total() - sum(counts)
    return [*counts, *astuple(tally.passes), *astuple(tally.values)]


class Stream:
    """A sink that keeps running statistics. Thread-safe.

    Pass it to `ragtrace.init(sinks=[stream])`. `on_alarm` is called in a thread of ragtrace with the application, the
    evaluator and the alarm.
    """

    def __init__(
        self,
        app: str = "rag",
        evaluators: Iterable[Evaluator] = (),
        *,
        clock: Callable[[], float] = time.time,
        on_alarm: Callable[[str, str, Alarm], None] | None = None,
    ) -> None:
        """`app` is the application of traces that name none. `evaluators` tell which direction is worse; for other
        evaluators lower values are."""
        self._app = app
        self._lower = frozenset(check.name for check in evaluators if check.direction == "lower")
        self._clock = clock
        self._on_alarm = on_alarm
        self._lock = threading.Lock()
        self._series: dict[tuple[str, str], _Series] = {}

    def __call__(self, evaluation: Evaluation) -> None:
        """Count the scores of an evaluation; takes a few microseconds for each."""
        if not evaluation.scores:
            return
        app = evaluation.trace.facts.app or self._app
        now = self._clock()
        alarms = []
        with self._lock:
            for score in evaluation.scores:
                series = self._of(app, score.name)
                if series.add(score, evaluation.trace.trace_id, now) and series.change.alarm is not None:
                    alarms.append((app, score.name, series.change.alarm))
        if self._on_alarm is not None:
            for alarm in alarms:
                self._on_alarm(*alarm)

    def _of(self, app: str, evaluator: str) -> _Series:
        series = self._series.get((app, evaluator))
        if series is None:
            key = (
                (app, evaluator) if len(self._series) < SERIES else ("other", evaluator if app == "other" else "other")
            )
            series = self._series.setdefault(key, _Series(evaluator in self._lower))
        return series

    def series(self) -> list[tuple[str, str]]:
        """The pairs of application and evaluator that have statistics."""
        with self._lock:
            return sorted(self._series)

    def window(self, app: str, evaluator: str, seconds: int = HOUR) -> Window:
        """The last `HOUR`, `DAY` or `WEEK`, in buckets of five minutes (one hour for the week). The current bucket is
        the last one, so that the window covers up to one bucket less than `seconds`. Raises KeyError for an unknown
        pair, ValueError for another length."""
        if seconds not in (HOUR, DAY, WEEK):
            raise ValueError(f"there is no window of {seconds!r} seconds: choose HOUR, DAY or WEEK")
        now = self._clock()
        with self._lock:
            series = self._series[app, evaluator]
            sums = series.total(now, seconds)
            first, last = int((now - seconds) // _COARSE), int(now // _COARSE)
            errors: Counter[str] = Counter()
            for hour, counts in series.errors.items():
                if first < hour <= last:
                    errors.update(counts)
        return Window(
            seconds,
            {verdict: int(count) for verdict, count in zip(VERDICTS, sums, strict=False)},
            dict(errors),
            Sums(*sums[_PASSES:_VALUES]).rate(),
            Sums(*sums[_VALUES:]).mean(),
        )

    def worst(self, app: str, evaluator: str) -> list[Worst]:
        """The 20 worst answers of the last day, worst first. Raises KeyError for an unknown pair."""
        now = self._clock()
        with self._lock:
            return [w for w in self._series[app, evaluator].worst if now - DAY < w.time <= now]

    def alarms(self) -> dict[tuple[str, str], Alarm]:
        """The alarms that are not acknowledged, by application and evaluator."""
        with self._lock:
            return {key: s.change.alarm for key, s in self._series.items() if s.change.alarm is not None}

    def acknowledge(self, app: str, evaluator: str, *, accept: bool = False) -> None:
        """See `ChangeTest.acknowledge`. Raises KeyError for an unknown pair."""
        with self._lock:
            self._series[app, evaluator].change.acknowledge(accept=accept)

    def to_json(self) -> str:
        """The state of the change tests as a JSON array, for `restore` after a restart. The windows are not
        included."""
        with self._lock:
            return json.dumps([[*key, series.change.to_json()] for key, series in sorted(self._series.items())])

    def restore(self, text: str) -> None:
        """Load the change tests from what `to_json` returned. Raises DataError for other text."""
        try:
            tests = [(str(app), str(name), ChangeTest.from_json(test)) for app, name, test in json.loads(text)]
        except (ValueError, TypeError) as error:
            raise DataError(f"invalid saved state of change tests: {error}") from error
        with self._lock:
            for app, name, test in tests:
                self._of(app, name).change = test

"""Have failures become more frequent? A sequential test that looks at every evaluation as it comes.

It is the Bernoulli CUSUM (M. R. Reynolds, Z. G. Stoumbos, 1999) on a log likelihood ratio: a failure moves the
statistic up by ln(p1 / p0), a pass down by ln((1 - p0) / (1 - p1)), and it never falls below 0. It alarms at h. p0 is
the rate of the reference, p1 lies one unit of log odds above it (0.04 -> 0.10, 0.20 -> 0.40): the rise that the test is
quickest at.

h = ln(evaluations in 30 days) - 2: e^h evaluations are what a false alarm takes at least on average (G. Lorden, 1971)
were p0 known, and e^(h + 3) to e^(h + 4) in truth, for the statistic starts anew from 0 again and again; what is left
pays for a p0 that is estimated. docs/statistics.md has the error rates as simulated.

Weights: with Kish's idea, an evaluation of weight w counts as w m1 / m2 evaluations, m1 and m2 being the running means
of w and w^2. These shares add up to the effective sample size, so that uneven weights make the test slower, not louder.
None counts more than `CAP`.

Time is only used to learn how many evaluations there are in 30 days, in steps of an hour at most; a clock that jumps, a
long gap or a restart moves h by next to nothing, and never the statistic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ragtrace.errors import DataError
from ragtrace.statistics.estimates import bounds

CAP = 4.0
"""The most evaluations that one of a great weight counts for. What is cut is missing in the reference as in the test:
the test then compares rates that lean towards what is sampled often, and has its error rates for these."""
LEARN = 300.0
"""Effective evaluations before the test begins."""
FULL = 5_000.0
"""Effective evaluations after which the reference is no longer refined: one that always was could be led astray by a
rise that is slow enough."""
_LEAST, _MOST = 0.01, 0.9
"""Bounds of p0: below, a handful of failures would be an alarm; above, nothing can become worse."""
_MEMORY = 1_000
"""Evaluations over which the weights' means run."""
_LIGHTEST = 1e-6
"""Weights below it, or above its inverse, count as the mean."""
_MONTH = 30 * 86_400.0
_QUIET = 20 * 720.0
"""The fewest evaluations in 30 days that h is made for: 20 an hour."""
_RELIEF = 2.0
_GAP = 3_600.0
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """What the test compares with."""

    rate: float
    """Share of failures, in [0, 1]."""
    effective: float
    """Kish's effective number of the evaluations that it comes from."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Failures have become more frequent."""

    time: float
    """Unix time of the evaluation at which the test alarmed."""
    since: float
    """Unix time from which on failures are estimated to be more frequent: when the statistic last was 0."""
    before: float
    """Share of failures in the reference."""
    after: float
    """Weighted share of failures from `since` to `time`. Chosen by its height, it overstates the lasting one."""


@dataclass(slots=True)
class _State:
    """All that a restart must not forget."""

    statistic: float = 0.0
    failed: float = 0.0
    """Effective failures of the reference."""
    seen: float = 0.0
    """Effective evaluations of the reference."""
    run_failed: float = 0.0
    run_seen: float = 0.0
    """The same since the statistic was last 0; they join the reference once it is again."""
    since: float = 0.0
    weights: float = 0.0
    """How many evaluations the running means of the weights stand for."""
    m1: float = 1.0
    m2: float = 1.0
    paced: float = 0.0
    elapsed: float = 0.0
    """Evaluations, and the seconds in which they came, both fading."""
    last: float | None = None
    p0: float = 0.0
    tuned: float = 0.0
    """The rate that the steps are made for, and `seen` when they were."""
    limit: float = 0.0
    next: float = 0.0
    """h, and the value of `paced` at which it is set anew."""


class ChangeTest:
    """The test for one series of passes and failures. Not locked: its owner is."""

    def __init__(self, reference: Reference | None = None) -> None:
        """Without a reference, the first 300 effective evaluations are it, and it is refined up to 5,000."""
        self._state = _State()
        self.alarm: Alarm | None = None
        if reference is not None:
            self._state.seen = max(1.0, reference.effective)
            self._state.failed = min(1.0, max(0.0, reference.rate)) * self._state.seen
        self._tune()
        self._pace()

    @property
    def reference(self) -> Reference | None:
        """What is compared with; None while there is nothing."""
        seen = self._state.seen
        return Reference(self._state.failed / seen, seen) if seen else None

    @property
    def learning(self) -> bool:
        """Whether the reference is still too small for the test to begin."""
        return self._state.seen < LEARN

    @property
    def limit(self) -> float:
        """h: the log likelihood ratio at which it alarms."""
        return self._state.limit

    @property
    def statistic(self) -> float:
        """How much speaks for a rise, as a share of `limit`: 0 for nothing, 1 for an alarm."""
        return self._state.statistic / self._state.limit

    def observe(self, failed: bool, weight: float = 1.0, time: float = 0.0) -> bool:
        """Take one evaluation; True if it raises the alarm, which then stands until it is acknowledged.

        `weight` is 1/p, from 1e-6 to 1e6; `time` is Unix time. What is neither counts as the mean weight, and as
        the time of the evaluation before.
        """
        state = self._state
        share = self._share(weight)
        if not math.isfinite(time):
            time = state.last or 0.0
        self._clock(time)
        if state.seen < LEARN:
            state.seen += share
            state.failed += share * failed
            if state.seen >= LEARN:
                self._tune()
                state.since = time
            return False
        state.run_seen += share
        if failed:
            state.run_failed += share
            state.statistic += share * self._up
            if state.statistic >= self._state.limit:
                return self._raise(time)
        else:
            state.statistic -= share * self._down
            if state.statistic <= 0.0:
                self._settle(time)
        return False

    def acknowledge(self, *, accept: bool = False) -> None:
        """Begin anew after an alarm (or at any time); with `accept` what follows becomes the reference."""
        state = self._state
        self.alarm = None
        state.statistic = state.run_seen = state.run_failed = 0.0
        state.since = state.last or 0.0
        if accept:
            state.seen = state.failed = 0.0
            self._tune()

    # --- how it moves ------------------------------------------------------------------------------------

    def _share(self, weight: float) -> float:
        """As how many evaluations one of this weight counts."""
        state = self._state
        if not _LIGHTEST <= weight <= 1.0 / _LIGHTEST:
            weight = state.m1
        state.weights = min(_MEMORY, state.weights + 1.0)
        if state.weights > 10:  # a single one of a million would silence all others by its square
            weight = min(weight, 10.0 * state.m1)
        step = 1.0 / state.weights
        state.m1 += step * (weight - state.m1)
        state.m2 += step * (weight * weight - state.m2)
        return min(CAP, weight * state.m1 / state.m2)

    def _clock(self, time: float) -> None:
        state = self._state
        if state.last is not None:
            state.elapsed += min(_GAP, max(0.0, time - state.last))
            state.paced += 1.0
            if state.paced >= state.next:
                self._pace()
        state.last = time

    def _pace(self) -> None:
        """Set the limit by how many evaluations there are in 30 days."""
        state = self._state
        if state.paced > 4_096:
            state.paced /= 2
            state.elapsed /= 2
        # Before there is much to go by, the limit is that of 2,000 an hour.
        month = _MONTH * state.paced / state.elapsed if state.paced >= 100 and state.elapsed else 2_000 * 720.0
        state.limit = math.log(max(_QUIET, month)) - _RELIEF
        state.next = state.paced + 64

    def _tune(self) -> None:
        """Set the steps by the reference, which is taken a little higher than it is as long as it is small."""
        state = self._state
        rate = bounds(state.failed / state.seen, state.seen, 1.0)[1] if state.seen else 0.0
        state.p0, state.tuned = min(_MOST, max(_LEAST, rate)), state.seen
        self._step()

    def _step(self) -> None:
        p0 = self._state.p0
        odds = math.e * p0 / (1.0 - p0)
        p1 = odds / (1.0 + odds)
        self._up = math.log(p1 / p0)
        self._down = math.log((1.0 - p0) / (1.0 - p1))

    def _settle(self, time: float) -> None:
        """The statistic is back at 0: what it has gone through is no rise, and belongs to the reference."""
        state = self._state
        state.statistic = 0.0
        if state.seen < FULL and self.alarm is None:
            state.seen += state.run_seen
            state.failed += state.run_failed
            if state.seen > 1.05 * state.tuned:
                self._tune()
        if self.alarm is None:
            state.since = time
            state.run_seen = state.run_failed = 0.0

    def _raise(self, time: float) -> bool:
        state = self._state
        state.statistic = state.limit
        if self.alarm is not None:
            return False
        self.alarm = Alarm(time, state.since, state.failed / state.seen, state.run_failed / state.run_seen)
        return True

    # --- over a restart ----------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The whole state as a JSON object."""
        alarm = None if self.alarm is None else asdict(self.alarm)
        return json.dumps({"version": _VERSION, **asdict(self._state), "alarm": alarm}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ChangeTest:
        """The test as it was saved. Raises DataError for what `to_json` did not write."""
        try:
            given = json.loads(text)
            if given.pop("version") != _VERSION:
                raise ValueError("it has another version")
            alarm = given.pop("alarm")
            made = cls()
            made._state = _state(given)
            made._step()
            made.alarm = None if alarm is None else Alarm(**{name: float(v) for name, v in alarm.items()})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise DataError(f"this is no state of a change test: {error}") from error
        return made


def _state(given: Mapping[str, object]) -> _State:
    numbers = {name: _number(value) for name, value in given.items() if value is not None or name != "last"}
    state = _State(**numbers)
    if not (_LEAST <= state.p0 <= _MOST and state.limit > 0 and state.m1 > 0 and state.m2 > 0 and state.seen >= 0):
        raise ValueError("its numbers do not fit together")
    return state


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number of it")
    return float(value)

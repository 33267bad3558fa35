"""A sequential test that detects when failures become more frequent. It reads each evaluation once, as it arrives.

It is the Bernoulli CUSUM (M. R. Reynolds, Z. G. Stoumbos, 1999) on a log likelihood ratio: a failure moves the
statistic up by ln(p1 / p0), a pass down by ln((1 - p0) / (1 - p1)), and it never falls below 0. It alarms at h. p0 is
the failure rate of the reference; p1 is one unit of log odds above it (0.04 -> 0.10, 0.20 -> 0.40). The test detects a
rise of this size fastest.

h = ln(evaluations in 30 days) - 2. With an exact p0, a false alarm takes at least e^h evaluations on average (G.
Lorden, 1971); in practice e^(h + 3) to e^(h + 4), because the statistic returns to 0 again and again. The margin covers
the error of an estimated p0. docs/statistics.md lists the simulated error rates.

Weights (after Kish): an evaluation of weight w counts as w m1 / m2 evaluations, where m1 and m2 are the running means
of w and w^2. These shares add up to the effective sample size, so that unequal weights delay alarms and do not cause
them. No evaluation counts for more than `CAP`.

Time is only used to estimate the number of evaluations in 30 days, in steps of at most an hour. A clock that jumps, a
long gap or a restart hardly moves h, and never moves the statistic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragtrace.statistics.intervals import wilson_bounds

CAP = 4.0
"""An evaluation with a large weight counts for at most so many. The rest is missing from the reference and from the
test alike: the test then compares rates that are biased towards what is sampled often, and its error rates hold for
these."""
LEARN = 300.0
"""Effective evaluations before the test begins."""
FULL = 5_000.0
"""Effective evaluations after which the reference is no longer updated: otherwise it would follow a rise that is slow
enough."""
_LEAST, _MOST = 0.01, 0.9
"""Bounds of p0: below, a handful of failures would raise an alarm; above, hardly anything can become worse."""
_MEMORY = 1_000
"""Number of evaluations over which the means of the weights run."""
_LIGHTEST = 1e-6
"""Weights below this, or above its inverse, count as the mean weight."""
_MONTH = 30 * 86_400.0
_QUIET = 20 * 720.0
"""The smallest number of evaluations in 30 days from which h is computed: 20 an hour."""
_RELIEF = 2.0
_GAP = 3_600.0


@dataclass(frozen=True, slots=True)
class Reference:
    """The failure rate with which the test compares."""

    rate: float
    """Share of failures, in [0, 1]."""
    effective: float
    """Kish's effective number of evaluations behind the rate."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Notice that failures became more frequent."""

    time: float
    """Unix time of the evaluation that raised the alarm."""
    since: float
    """Unix time since which failures are estimated to be more frequent: when the statistic was last 0."""
    before: float
    """Share of failures in the reference."""
    after: float
    """Weighted share of failures from `since` to `time`. It overstates the lasting share, because a high one raised the
    alarm."""


@dataclass(slots=True)
class _State:
    """The numbers of a test."""

    statistic: float = 0.0
    failures: float = 0.0
    """Effective failures of the reference."""
    count: float = 0.0
    """Effective evaluations of the reference."""
    run_failures: float = 0.0
    run_count: float = 0.0
    """The same since the statistic was last 0; they are added to the reference when it is 0 again."""
    since: float = 0.0
    weights: float = 0.0
    """Number of evaluations in the running means of the weights."""
    m1: float = 1.0
    m2: float = 1.0
    intervals: float = 0.0
    elapsed: float = 0.0
    """Number of evaluations and the seconds in which they arrived; both decay."""
    last: float | None = None
    p0: float = 0.0
    step_count: float = 0.0
    """`p0` is the rate from which the steps were computed, `step_count` the value of `count` at that time."""
    limit: float = 0.0
    next: float = 0.0
    """`limit` is h, `next` the value of `intervals` at which h is computed again."""


class ChangeTest:
    """The test for one series of passes and failures. Not thread-safe: the owner holds a lock."""

    def __init__(self, reference: Reference | None = None) -> None:
        """Without `reference`, the first 300 effective evaluations become the reference; it is updated until it has
        5,000."""
        self._state = _State()
        self.alarm: Alarm | None = None
        if reference is not None:
            self._state.count = max(1.0, reference.effective)
            self._state.failures = min(1.0, max(0.0, reference.rate)) * self._state.count
        self._tune()
        self._pace()

    @property
    def reference(self) -> Reference | None:
        """The failure rate with which the test compares; None before the first evaluation."""
        count = self._state.count
        return Reference(self._state.failures / count, count) if count else None

    @property
    def learning(self) -> bool:
        """Whether the reference is still too small for the test to begin."""
        return self._state.count < LEARN

    @property
    def limit(self) -> float:
        """h: the log likelihood ratio that raises the alarm."""
        return self._state.limit

    @property
    def statistic(self) -> float:
        """The evidence for a rise as a share of `limit`, in [0, 1]: 1 raises the alarm."""
        return self._state.statistic / self._state.limit

    def observe(self, failed: bool, weight: float = 1.0, time: float = 0.0) -> bool:
        """Add one evaluation. Returns True if it raises the alarm, which remains until it is acknowledged.

        `weight` is 1/p, from 1e-6 to 1e6, and `time` is Unix time. An invalid weight counts as the mean weight, an
        invalid time as that of the previous evaluation.
        """
        state = self._state
        share = self._share(weight)
        if not math.isfinite(time):
            time = state.last or 0.0
        self._clock(time)
        if state.count < LEARN:
            state.count += share
            state.failures += share * failed
            if state.count >= LEARN:
                self._tune()
                state.since = time
            return False
        state.run_count += share
        if failed:
            state.run_failures += share
            state.statistic += share * self._up
            if state.statistic >= self._state.limit:
                return self._raise(time)
        else:
            state.statistic -= share * self._down
            if state.statistic <= 0.0:
                self._settle(time)
        return False

    def acknowledge(self) -> None:
        """Start again after an alarm (or at any time)."""
        state = self._state
        self.alarm = None
        state.statistic = state.run_count = state.run_failures = 0.0
        state.since = state.last or 0.0

    # --- updates ------------------------------------------------------------------------------------

    def _share(self, weight: float) -> float:
        """For how many evaluations one of this weight counts."""
        state = self._state
        if not _LIGHTEST <= weight <= 1.0 / _LIGHTEST:
            weight = state.m1
        state.weights = min(_MEMORY, state.weights + 1.0)
        if state.weights > 10:  # the square of one huge weight would hide all others
            weight = min(weight, 10.0 * state.m1)
        step = 1.0 / state.weights
        state.m1 += step * (weight - state.m1)
        state.m2 += step * (weight * weight - state.m2)
        return min(CAP, weight * state.m1 / state.m2)

    def _clock(self, time: float) -> None:
        state = self._state
        if state.last is not None:
            state.elapsed += min(_GAP, max(0.0, time - state.last))
            state.intervals += 1.0
            if state.intervals >= state.next:
                self._pace()
        state.last = time

    def _pace(self) -> None:
        """Set the limit from the number of evaluations in 30 days."""
        state = self._state
        if state.intervals > 4_096:
            state.intervals /= 2
            state.elapsed /= 2
        # With too few evaluations for an estimate, assume 2,000 an hour.
        month = _MONTH * state.intervals / state.elapsed if state.intervals >= 100 and state.elapsed else 2_000 * 720.0
        state.limit = math.log(max(_QUIET, month)) - _RELIEF
        state.next = state.intervals + 64

    def _tune(self) -> None:
        """Set the steps from the reference rate, taken one standard deviation higher because it is estimated."""
        state = self._state
        rate = wilson_bounds(state.failures / state.count, state.count, 1.0)[1] if state.count else 0.0
        state.p0, state.step_count = min(_MOST, max(_LEAST, rate)), state.count
        self._step()

    def _step(self) -> None:
        p0 = self._state.p0
        odds = math.e * p0 / (1.0 - p0)
        p1 = odds / (1.0 + odds)
        self._up = math.log(p1 / p0)
        self._down = math.log((1.0 - p0) / (1.0 - p1))

    def _settle(self, time: float) -> None:
        """The statistic is 0 again: the evaluations since it was last 0 show no rise and belong to the reference."""
        state = self._state
        state.statistic = 0.0
        if state.count < FULL and self.alarm is None:
            state.count += state.run_count
            state.failures += state.run_failures
            if state.count > 1.05 * state.step_count:
                self._tune()
        if self.alarm is None:
            state.since = time
            state.run_count = state.run_failures = 0.0

    def _raise(self, time: float) -> bool:
        state = self._state
        state.statistic = state.limit
        if self.alarm is not None:
            return False
        self.alarm = Alarm(time, state.since, state.failures / state.count, state.run_failures / state.run_count)
        return True

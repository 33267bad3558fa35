"""Statistics of sampled evaluations: weighted estimates for all requests, burn rates, running windows, and a test that
detects when failures become more frequent. Needs the standard library only; the resampling functions in `intervals` and
`significance` need numpy."""

from __future__ import annotations

from ragtrace.statistics.burn import burn_rate, threshold
from ragtrace.statistics.change import Alarm, ChangeTest, Reference
from ragtrace.statistics.estimates import MAX_WEIGHT, Estimate, Step, Sums, weight_of, weighted
from ragtrace.statistics.intervals import wilson
from ragtrace.statistics.stream import DAY, HOUR, WEEK, Stream, Window, Worst

__all__ = [
    "DAY",
    "HOUR",
    "MAX_WEIGHT",
    "WEEK",
    "Alarm",
    "ChangeTest",
    "Estimate",
    "Reference",
    "Step",
    "Stream",
    "Sums",
    "Window",
    "Worst",
    "burn_rate",
    "threshold",
    "weight_of",
    "weighted",
    "wilson",
]

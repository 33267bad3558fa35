"""Statistics of sampled evaluations: weighted estimates for all requests, the share that people would fail, and a test
that detects when failures become more frequent. Needs the standard library only; the resampling functions in
`intervals` and `significance` need numpy."""

from __future__ import annotations

from ragtrace.statistics.change import Alarm, ChangeTest, Reference
from ragtrace.statistics.estimates import MAX_WEIGHT, Estimate, Step, Sums, weight_of, weighted
from ragtrace.statistics.intervals import wilson

__all__ = [
    "MAX_WEIGHT",
    "Alarm",
    "ChangeTest",
    "Estimate",
    "Reference",
    "Step",
    "Sums",
    "weight_of",
    "weighted",
    "wilson",
]

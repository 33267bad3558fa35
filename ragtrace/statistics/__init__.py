"""What the sampled evaluations say of the whole traffic: weighted estimates, burn rates, running windows, and a test
that tells when failures have become more frequent. The standard library is enough for all of it."""

from __future__ import annotations

from ragtrace.statistics.burn import burn_rate, threshold
from ragtrace.statistics.change import Alarm, ChangeTest, Reference
from ragtrace.statistics.estimates import MAX_WEIGHT, Estimate, Sums, weighted, wilson
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
    "Stream",
    "Sums",
    "Window",
    "Worst",
    "burn_rate",
    "threshold",
    "weighted",
    "wilson",
]

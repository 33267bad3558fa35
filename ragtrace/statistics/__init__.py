"""Statistics of sampled evaluations: weighted estimates for all requests, and the share that people would fail. Needs
the standard library only; the resampling functions in `intervals` and `significance` need numpy."""

from ragtrace.statistics.estimates import MAX_WEIGHT, Estimate, Step, Sums, weight_of, weighted
from ragtrace.statistics.intervals import wilson

__all__ = [
    "MAX_WEIGHT", "Estimate", "Step", "Sums", "weight_of", "weighted", "wilson",
]  # fmt: skip

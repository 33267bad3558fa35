"""SummaC-Conv: how a summary's claim is supported by each sentence of its source, read as a histogram.

Laban et al. 2022, SummaC: Re-Visiting NLI-based Models for Inconsistency Detection in Summarization. The pairwise
support is the embedded groundedness model's; the layer over the histogram is trained by `training/train_summac.py`."""

import math
from collections.abc import Sequence
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.evaluate.models import model_file

BINS = 10


def histogram(probabilities: Sequence[float]) -> list[float]:
    """(BINS,) log(1 + count) of the probabilities in ten equal bins of [0, 1]."""
    counts = [0] * BINS
    for p in probabilities:
        counts[min(BINS - 1, int(p * BINS))] += 1
    return [math.log1p(c) for c in counts]


def _load() -> Any:
    import numpy as np

    with np.load(model_file("summac")) as saved:
        return saved["weights"]


_weights = Lazy(_load)


def consistency(probabilities: Sequence[float]) -> float:
    """Probability that a claim with such support is consistent with its source."""
    weights = _weights.get()
    z = float(sum(w * h for w, h in zip(weights, histogram(probabilities), strict=False)) + weights[-1])
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))

"""A small toxicity classifier: logistic regression over a sentence's embedding and its hashed character n-grams.

Trained by `training/train_toxicity.py`; what it is good for and what not stands in docs/models/toxicity.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragtrace.models import model_file
from ragtrace.models.embedding import Lazy, OnnxEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUCKETS = 1 << 15
_SIZES = (3, 4, 5)
_MAX_CHARS = 600


def ngram_buckets(text: str) -> list[int]:
    """The distinct hash buckets of a text's character n-grams; its first 600 characters, lower case, single spaces."""
    clean = f" {' '.join(text[:_MAX_CHARS].lower().split())} ".encode("utf-8", "replace")
    crc = zlib.crc32
    return list({crc(clean[i : i + n]) % BUCKETS for n in _SIZES for i in range(len(clean) - n + 1)})


class ToxicityHead:
    """The classifier's weights. `probabilities` is calibrated; see the model card for how well."""

    def __init__(self) -> None:
        """Raises ModelError if the weights are missing or altered."""
        import numpy as np

        with np.load(model_file("toxicity")) as weights:
            self._dense = weights["dense"].astype(np.float32)
            self._sparse = weights["sparse"].astype(np.float32)
            self._bias = float(weights["bias"])
            self._slope, self._shift = (float(x) for x in weights["platt"])

    def probabilities(self, texts: Sequence[str], vectors: Any) -> NDArray[np.float64]:
        """(n,) probabilities in [0, 1] that a text is toxic, from the texts and their (n, 384) embeddings."""
        import numpy as np

        logits = vectors @ self._dense + self._bias
        for i, text in enumerate(texts):
            buckets = ngram_buckets(text)
            if buckets:
                logits[i] += self._sparse[buckets].sum() / len(buckets) ** 0.5
        raised: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-(self._slope * logits + self._shift)))
        return raised


_head = Lazy(ToxicityHead)
_embedder = Lazy(OnnxEmbedder)


def head() -> ToxicityHead:
    """The process's classifier, loaded on first use."""
    loaded: ToxicityHead = _head.get()
    return loaded


def toxicity(texts: Sequence[str]) -> list[float]:
    """Per text the probability in [0, 1] that it is toxic."""
    from ragtrace.models.embedding import get_embedder

    embedder = get_embedder()
    # The classifier knows the embedded model's space alone.
    own = embedder if embedder.name == OnnxEmbedder.name else _embedder.get()
    return [float(p) for p in head().probabilities(texts, own.embed(texts))]

"""Small text classifiers: logistic regressions over a text's embedding, its hashed character and word n-grams and its
length. One file holds one head with one or more labels.

Trained by `training/train_heads.py`; docs/models/ says what they are good for and what not.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ragtrace.base.lazy import Lazy
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.embedding import OnnxEmbedder, get_embedder
from ragtrace.evaluate.models.products import product

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUCKETS = 1 << 15
_SIZES = (3, 4, 5)
_MAX_CHARS = 600
_WORD = re.compile(r"[\w'*@$!]+")
NGRAM_CHARS = 400
"""Characters of an answer that tell a refusal: a refusal comes at the beginning."""


def char_buckets(text: str) -> list[int]:
    """The distinct hash buckets of a text's character n-grams; its first 600 characters, lower case, single spaces."""
    clean = f" {' '.join(text[:_MAX_CHARS].lower().split())} ".encode("utf-8", "replace")
    crc = zlib.crc32
    return list({crc(clean[i : i + n]) % BUCKETS for n in _SIZES for i in range(len(clean) - n + 1)})


def word_buckets(text: str) -> list[int]:
    """The distinct hash buckets of the words, word pairs and triples of a text's first 600 characters."""
    words = _WORD.findall(text[:_MAX_CHARS].lower())
    runs = [*words, *map(" ".join, pairwise(words))]
    runs.extend(map(" ".join, zip(words, words[1:], words[2:], strict=False)))
    return list({zlib.crc32(run.encode("utf-8", "replace")) % BUCKETS for run in runs})


class Head:
    """A head's weights: (k, ·) for k labels."""

    def __init__(self, name: str) -> None:
        """`name` is that of its file in `ragtrace.evaluate.models.FILES`. Raises ModelError if it is missing or
        altered."""
        import numpy as np

        with np.load(model_file(name)) as weights:
            self.labels = [str(label) for label in weights["labels"]]
            self._dense = weights["dense"].astype(np.float32)
            self._chars = weights["chars"].astype(np.float32)
            self._words = weights["words"].astype(np.float32)
            self._rest = weights["rest"].astype(np.float32)  # of the length's logarithm, and the bias

    def logits(self, texts: Sequence[str], vectors: Any) -> NDArray[np.float64]:
        """(n, k) log-odds, from the texts and their (n, 384) embeddings, where the head has weights for them."""
        import numpy as np

        odds = np.tile(self._rest[:, 1].astype(np.float64), (len(texts), 1))
        if vectors is not None:
            odds += product(np.asarray(vectors, np.float64), self._dense.T)
        for i, text in enumerate(texts):
            odds[i] += self._rest[:, 0] * np.log1p(min(len(text), 4_000))
            for weights, buckets in ((self._chars, char_buckets(text)), (self._words, word_buckets(text))):
                if buckets:
                    odds[i] += weights[:, buckets].sum(1) / len(buckets) ** 0.5
        raised: NDArray[np.float64] = odds
        return raised


_heads: Lazy[Head] = Lazy(Head)
_embedder = Lazy(OnnxEmbedder)


def embeddings(texts: Sequence[str]) -> Any:
    """Embeddings by the embedded model: the heads are trained on its vectors."""
    embedder = get_embedder()
    own = embedder if embedder.name == OnnxEmbedder.name else _embedder.get()
    return own.embed(texts)


def refusal(texts: Sequence[str]) -> list[float]:
    """Per text the probability in [0, 1] that it declines to do what was asked: of a statement, or of the opening of an
    answer. From n-grams alone: the embedding model knows English, refusals come in all languages."""
    import numpy as np

    logits = _heads.get("refusal").logits([t[:NGRAM_CHARS] for t in texts], None)[:, 0]
    return [float(p) for p in 1 / (1 + np.exp(-logits))]

"""The classifier of refusals: a logistic regression over a text's hashed character and word n-grams and its length.

Trained by `training/train_refusals.py`; docs/models/refusal.md says what it is good for and what not."""

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.evaluate.models import model_file

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


def _load() -> Any:
    import numpy as np

    with np.load(model_file("refusal")) as saved:
        # The last are the weight of the length's logarithm, and the bias.
        return [saved[name].astype(np.float32) for name in ("chars", "words", "rest")]


_weights = Lazy(_load)


def refusal(texts: Sequence[str]) -> list[float]:
    """Per text the probability in [0, 1] that it declines to do what was asked: of a statement, or of the opening of an
    answer. From n-grams alone: the embedding model knows English, refusals come in all languages."""
    import numpy as np

    of_chars, of_words, rest = _weights.get()
    odds = np.tile(rest[:, 1].astype(np.float64), (len(texts), 1))
    for i, text in enumerate(text[:NGRAM_CHARS] for text in texts):
        odds[i] += rest[:, 0] * np.log1p(len(text))
        for weights, buckets in ((of_chars, char_buckets(text)), (of_words, word_buckets(text))):
            if buckets:
                odds[i] += weights[:, buckets].sum(1) / len(buckets) ** 0.5
    return [float(p) for p in 1 / (1 + np.exp(-odds[:, 0]))]

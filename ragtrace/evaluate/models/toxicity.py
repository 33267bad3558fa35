"""The embedded classifier of toxic sentences: seven labels, from a sentence's embedding and its hashed n-grams.

Trained by `training/train_heads.py`; docs/models/toxicity.md says what it is good for and what not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragtrace.base.lazy import Lazy
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.embedding import OnnxEmbedder, get_embedder
from ragtrace.evaluate.models.heads import char_buckets, word_buckets
from ragtrace.evaluate.models.products import product

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_CHARS = 600
_TOKEN = re.compile(r"[\w'*@$!]+")
_LETTER = re.compile(r"[^\W\d_]")
_LOOKS_LIKE = str.maketrans("@4310$57!", "aaeiossti")
_APART = re.compile(r"(?<!\w)(?:[^\W\d_][ .\-_]){2,}[^\W\d_](?!\w)")
_REPEATED = re.compile(r"(.)\1{2,}")


def undisguised(text: str) -> str:
    """The first 600 characters in lower case, with signs that stand for letters read as these ("b!tch"), single letters
    that are apart joined ("i d i o t"), and more than two equal signs in a row as two."""
    joined = _APART.sub(lambda m: re.sub(r"[ .\-_]", "", m.group()), text[:_MAX_CHARS].lower())
    return " ".join(_TOKEN.sub(_read_token, joined).split())


def _read_token(match: re.Match[str]) -> str:
    token = match.group()
    core = token.rstrip("!'")
    digits = sum(c.isdigit() for c in core)
    word = len(core) > 2 and not core[0].isdigit() and digits <= max(1, len(core) // 3) and _LETTER.search(core)
    read = core.translate(_LOOKS_LIKE) if word and not core.isalpha() else core
    return _REPEATED.sub(r"\1\1", read) + token[len(core) :][:1]


class Toxicity:
    """The classifier's weights, for k labels."""

    def __init__(self, name: str) -> None:
        """`name` is that of its file in `ragtrace.evaluate.models.FILES`. Raises ModelError without it as it was."""
        import numpy as np

        with np.load(model_file(name)) as file:
            weights = {key: file[key] for key in file.files}
        self.labels = [str(label) for label in weights["labels"]]
        # A row for each bucket, so that a text reads whole rows.
        self._chars, self._words = (weights[key].astype(np.float32) * weights[f"{key}_scale"] for key in _HASHED)
        self._hidden, self._output = (weights[key].astype(np.float32) for key in _DENSE)
        self._calibration = weights["calibration"].astype(np.float64)

    def logits(self, texts: Sequence[str], vectors: Any) -> NDArray[np.float64]:
        """(n, k) calibrated log-odds, from the texts and their (n, 384) embeddings."""
        import numpy as np

        hidden = np.maximum(product(np.asarray(vectors, np.float32), self._hidden[:-1]) + self._hidden[-1], 0)
        odds = (product(hidden, self._output[:-1]) + self._output[-1]).astype(np.float64)
        for row, text in enumerate(texts):
            read = undisguised(text)
            for weights, buckets in ((self._chars, char_buckets(read)), (self._words, word_buckets(read))):
                if buckets:
                    odds[row] += weights[buckets].sum(0) / len(buckets) ** 0.5
        calibrated: NDArray[np.float64] = odds * self._calibration[0] + self._calibration[1]
        return calibrated


_HASHED = ("chars", "words")
_DENSE = ("hidden", "output")
"""Layers whose last row is the bias."""
_models: Lazy[Toxicity] = Lazy(Toxicity)
_embedder = Lazy(OnnxEmbedder)


def toxicity(texts: Sequence[str]) -> list[dict[str, float]]:
    """Per text the probability in [0, 1] of each label: `toxicity`, `severe`, `obscene`, `threat`, `insult`,
    `identity_attack`, `bias`."""
    import numpy as np

    model, embedder = _models.get("toxicity"), get_embedder()
    if embedder.name != OnnxEmbedder.name:  # the classifier is trained on the vectors of the embedded model
        embedder = _embedder.get()
    probabilities = 1 / (1 + np.exp(-model.logits(texts, embedder.embed(texts))))
    return [{label: float(p) for label, p in zip(model.labels, row, strict=True)} for row in probabilities]

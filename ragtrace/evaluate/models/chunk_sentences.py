"""The vectors of a chunk's sentences, each encoded with the text around it: a chunk that recurs is encoded once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ragtrace.base.lazy import Lazy, Recent
from ragtrace.evaluate.models.embedding import open_tokenizer, unit_rows
from ragtrace.evaluate.models.encoder import encode, load_encoder
from ragtrace.text.sentences import split

if TYPE_CHECKING:
    from ragtrace.evaluate.models.embedding import Vectors

_WINDOW = 180
"""Word pieces that are encoded together. Windows end where sentences do; a longer sentence is cut."""
_CLS, _SEP = 101, 102
_REMEMBERED, _LONG = 512, 20_000
"""Chunks that are remembered, and the characters from which one is not: 64 MiB where all are that long."""
_PIECES = 1_000_000
"""More word pieces than any chunk has."""


class SentenceVectors:
    """Vectors of sentences in their place, by the embedded encoder. Remembers the latest short chunks. Thread-safe."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where the encoder cannot be loaded."""
        load_encoder()
        self._tokenizer = open_tokenizer(_PIECES)
        self._recent: Recent[Vectors] = Recent(_REMEMBERED)

    def of(self, text: str, limit: int) -> Vectors:
        """A row of unit length, (s, 384), for each of the first `limit` sentences that has a word piece: the mean of
        its pieces' embeddings."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) > _LONG:
            return self._encoded(text, limit)
        return self._recent.get([text, str(limit)], lambda: self._encoded(text, limit))

    def _encoded(self, text: str, limit: int) -> Vectors:
        import numpy as np

        sentences = split(text, limit)
        begins = [s.start for s in sentences]
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        ids, numbers = [], []
        for piece, (start, _) in zip(encoding.ids, encoding.offsets, strict=True):
            at = bisect_right(begins, start) - 1
            if at >= 0 and start < sentences[at].end:
                ids.append(piece)
                numbers.append(at)
        if not ids:
            return np.zeros((0, 384), np.float32)
        hidden = encode([(_CLS, *ids[a:b], _SEP) for a, b in _windows(numbers)])
        rows = np.concatenate([h[1:-1] for h in hidden])
        number = np.array(numbers)
        return unit_rows(np.stack([rows[number == k].mean(0) for k in sorted(set(numbers))]))


def _windows(sentence: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of pieces, at most _WINDOW long, that end where a sentence ends if one does; `sentence` has the number of
    each piece's."""
    ends = [i + 1 for i, (a, b) in enumerate(pairwise(sentence)) if a != b]
    windows: list[tuple[int, int]] = []
    start = last = 0
    for end in (*ends, len(sentence)):
        while end - start > _WINDOW:
            cut = last if last > start else start + _WINDOW
            windows.append((start, cut))
            start = last = cut
        last = end
    return [*windows, (start, last)] if last > start else windows


_vectors = Lazy(SentenceVectors)


def sentence_vectors(text: str, limit: int) -> Vectors:
    """See `SentenceVectors.of`; by the object that the process shares."""
    return _vectors.get().of(text, limit)

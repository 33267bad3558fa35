"""An answer laid beside its context: word pieces, their embeddings, and what the surface of the words tells.

What the groundedness model reads, in training and in production alike. Chunks are encoded on their own, so that a
chunk that recurs is encoded once.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.encoder import encode, load_encoder, open_encoder
from ragtrace.text.sentences import Span, split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 180
"""Word pieces that are encoded together. Windows end where sentences do; a longer sentence is cut."""
BLOCK = 400
"""Word pieces of the answer that are assessed together."""
_LONGEST = 500
"""Word pieces of a longer statement, e.g. of JSON without an end, that are assessed together. Memory grows with their
square."""
_CLS, _SEP = 101, 102
_CACHE_BYTES = 96 * 1024 * 1024
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text's word pieces."""

    text: str
    ids: tuple[int, ...]
    starts: tuple[int, ...]
    """Piece i is text[starts[i]:ends[i]]."""
    ends: tuple[int, ...]
    words: tuple[int, ...]
    """Piece i belongs to word words[i]; words count from 0."""
    sentences: tuple[Span, ...]
    sentence: tuple[int, ...]
    """Piece i belongs to sentences[sentence[i]]."""
    windows: tuple[tuple[int, int], ...]
    """Pieces a to b are encoded together."""


class Reader:
    """Cuts texts into pieces and encodes them; what recurs is encoded once. Safe to use from threads."""

    def __init__(self, threads: int = 1) -> None:
        """Raises MissingExtraError or ModelError where the encoder cannot be loaded."""
        from tokenizers import BertWordPieceTokenizer

        self._tokenizer = BertWordPieceTokenizer(str(model_file("vocabulary")), lowercase=True)
        self._session = open_encoder(threads) if threads > 1 else None
        if self._session is None:
            load_encoder()
        self._cache: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, text: str, limit: int = 2_000) -> Pieces:
        """The pieces of a text, in at most `limit` sentences."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates: the tokenizer raises on them
        cuts = [m.start() for m in _CAMEL.finditer(text)]
        separated = _CAMEL.sub(" ", text)
        shifted = [c + i + 1 for i, c in enumerate(cuts)]
        encoding = self._tokenizer.encode(separated, add_special_tokens=False)
        sentences = split(text, limit)
        begins = [s.start for s in sentences]
        ids, starts, ends, words, sentence = [], [], [], [], []
        for piece, (a, b), word in zip(encoding.ids, encoding.offsets, encoding.word_ids, strict=True):
            start, end = a - bisect_right(shifted, a), b - bisect_right(shifted, b - 1)
            at = bisect_right(begins, start) - 1
            if at < 0 or start >= sentences[at].end:
                continue  # beyond the limit
            ids.append(piece)
            starts.append(start)
            ends.append(end)
            words.append(word)
            sentence.append(at)
        return Pieces(
            text,
            tuple(ids),
            tuple(starts),
            tuple(ends),
            tuple(words),
            tuple(sentences),
            tuple(sentence),
            tuple(_windows(sentence)),
        )

    def encode(self, texts: Sequence[Pieces]) -> list[NDArray[np.float32]]:
        """Per text its pieces' contextual embeddings, (n, 384) float32."""
        import numpy as np

        embeddings = [np.zeros((len(t.ids), 384), np.float32) for t in texts]
        jobs = [(i, a, b) for i, t in enumerate(texts) for a, b in t.windows]
        encoded = encode([(_CLS, *texts[i].ids[a:b], _SEP) for i, a, b in jobs], self._session)
        for (i, a, b), hidden in zip(jobs, encoded, strict=True):
            embeddings[i][a:b] = hidden[1:-1]
        return embeddings

    def cached(self, windows: Sequence[Pieces]) -> list[NDArray[np.float32]]:
        """The windows' embeddings, from memory where they were seen before; bounded by bytes, least recently used first
        out."""
        import numpy as np

        embeddings: dict[tuple[int, ...], Any] = {}
        with self._lock:
            for window in windows:
                if window.ids in self._cache:
                    self._cache.move_to_end(window.ids)
                    embeddings[window.ids] = self._cache[window.ids]
        missing = {w.ids: w for w in windows if w.ids not in embeddings}
        encoded = self.encode(list(missing.values()))
        with self._lock:
            for ids, hidden in zip(missing, encoded, strict=True):
                embeddings[ids] = small = hidden.astype(np.float16)
                if ids not in self._cache:
                    self._cache[ids] = small
                    self._bytes += small.nbytes + 8 * len(ids) + 300
            while self._bytes > _CACHE_BYTES and self._cache:
                ids, small = self._cache.popitem(last=False)
                self._bytes -= small.nbytes + 8 * len(ids) + 300
        return [embeddings[w.ids].astype(np.float32) for w in windows]


def _windows(sentence: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of pieces, at most WINDOW long, that end where a sentence ends if one does."""
    ends = [i + 1 for i, (a, b) in enumerate(pairwise(sentence)) if a != b]
    ends.append(len(sentence))
    windows: list[tuple[int, int]] = []
    start = last = 0
    for end in ends:
        while end - start > WINDOW:
            cut = last if last > start else start + WINDOW
            windows.append((start, cut))
            start = last = cut
        last = end
    if last > start:
        windows.append((start, last))
    return windows


def part(text: Pieces, a: int, b: int) -> Pieces:
    """Pieces a to b as a text of their own, with the sentences that they touch."""
    sentences = sorted(set(text.sentence[a:b]))
    number = {old: new for new, old in enumerate(sentences)}
    return Pieces(
        text.text,
        text.ids[a:b],
        text.starts[a:b],
        text.ends[a:b],
        text.words[a:b],
        tuple(text.sentences[k] for k in sentences),
        tuple(number[k] for k in text.sentence[a:b]),
        tuple((max(x, a) - a, min(y, b) - a) for x, y in text.windows if x < b and y > a),
    )


_reader = Lazy(Reader)


def reader() -> Reader:
    """The process's reader: evaluators that look at the same chunks share their encodings."""
    shared: Reader = _reader.get()
    return shared


def sentence_vectors(text: str, limit: int = 2_000) -> tuple[Pieces, NDArray[np.float32]]:
    """A text's pieces and a row of unit length, (s, 384), for each of its sentences that has a piece: the mean of its
    pieces' embeddings, which know the sentences around them. `sentences` of what is returned are those."""
    import numpy as np

    read = reader().read(text, limit)
    whole = part(read, 0, len(read.ids))
    if not whole.ids:
        return whole, np.zeros((0, 384), np.float32)
    hidden = np.concatenate(reader().cached([part(read, a, b) for a, b in read.windows]))
    number = np.asarray(whole.sentence)
    means = np.stack([hidden[number == k].mean(0) for k in range(len(whole.sentences))])
    unit: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    return whole, unit


def blocks(answer: Pieces) -> list[tuple[int, int]]:
    """Runs of whole statements, at most BLOCK pieces where statements allow it; a statement of more than _LONGEST
    pieces is in several."""
    cuts, start, last = [], 0, 0
    for i in range(1, len(answer.ids) + 1):
        if i == len(answer.ids) or answer.sentence[i] != answer.sentence[i - 1]:
            if i - start > BLOCK and last > start:
                cuts.append((start, last))
                start = last
            last = i
    cuts.append((start, len(answer.ids)))
    return [(a, min(a + _LONGEST, end)) for begin, end in cuts for a in range(begin, end, _LONGEST)]


def shared_weights(windows: Sequence[tuple[Pieces, int]], answer: Pieces) -> list[float]:
    """Per window the share of the answer's pieces that it holds, rare ones weighing more; in [0, 1]."""
    mine = set(answer.ids)
    sets = [mine.intersection(w.ids) for w, _ in windows]
    count = Counter(i for s in sets for i in s)
    weight = {i: math.log(1 + len(windows) / n) for i, n in count.items()}
    total = sum(weight.values()) or 1.0
    return [sum(weight[i] for i in s) / total for s in sets]


def fitting(
    windows: Sequence[tuple[Pieces, int]], worth: Sequence[float], room: int
) -> tuple[list[tuple[Pieces, int]], list[float]]:
    """The windows of most worth that fit into `room` pieces, in their order, with their worth."""
    pieces_that_fit = []
    for i in sorted(range(len(windows)), key=lambda i: -worth[i]):
        size = len(windows[i][0].ids)
        if size <= room:
            pieces_that_fit.append(i)
            room -= size
    pieces_that_fit.sort()
    return [windows[i] for i in pieces_that_fit], [worth[i] for i in pieces_that_fit]
